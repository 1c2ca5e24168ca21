//! `phzc sweep` on ten types of devices, 4,096 in all, and 96 layers.

use crate::common::{cpu_secs, phzc, scratch};
use serde_json::Value;
use std::fs;
use std::time::Instant;

/// 512 nodes of 8 of ten types, each 35 % of the fastest's time slower than the one before.
fn fleet() -> String {
    let slowness = |index: usize| 1.0 + 0.35 * index as f64;
    let mut text = "price_basis = \"made up\"\nper_node = 8\n".to_owned();
    for index in 0..10 {
        let (slow, count) = (slowness(index), if index < 2 { 52 } else { 51 });
        let gib = if index < 5 { 80 } else { 40 };
        text += &format!("[[nodes]]\ndevice = \"d{index}\"\ncount = {count}\nmemory_gib = {gib}\n");
        text += &format!("between_bits_per_sec = {}\n", 400e9 / slow);
        text += &format!("inside_bits_per_sec = {}\nusd_per_hour = {}\n", 2000e9 / slow, 40.0 / slow);
    }
    text += "[model]\nhidden = 8192\nseq = 2048\nvocab = 50304\nheads = 64\nbatch = 4096\n";
    text += "layers = [\"embedding\", \"96 x layer\", \"head\"]\nshares_embedding = true\n";
    for index in 0..10 {
        text += &format!("[times.d{index}]\n");
        for tensor in [1, 2, 4, 8] {
            let [slow, shared] = [slowness(index), slowness(index) / f64::from(tensor)];
            let layer = 0.02 * shared * (1.0 + 0.05 * f64::from(tensor - 1));
            text += &format!("{tensor} = [{}, {layer}, {}]\n", 0.0001 * slow, 0.01 * shared);
        }
    }
    text
}

#[test]
fn ten_types_of_devices_have_a_plan_with_a_bound() {
    let path = scratch("long_sweep").join("fleet.toml");
    fs::write(&path, fleet()).expect("writable");
    let (start, cpu) = (Instant::now(), cpu_secs());
    let outcome = phzc(&["sweep", &path.to_string_lossy(), "--objective", "time", "--json"], b"");
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let point: Value = serde_json::from_str(&outcome.stdout).expect("one object");
    let secs = |value: &Value| value.as_f64().expect("a number");
    let [step, bound, any] =
        [&point["plan"]["step_secs"], &point["bound_secs"], &point["any_order_secs"]].map(secs);
    let cut = point["plan"]["cut"].as_array().expect("a list");
    assert_eq!(cut.iter().filter_map(Value::as_u64).sum::<u64>(), 98, "{point}");
    assert_eq!(point["plan"]["order"].as_array().map(Vec::len), Some(512));
    assert!(any <= bound && bound <= step && any > 0.0, "{any} {bound} {step}");
    eprintln!(
        "step {step:.2} s, gap {:.2} % of the orders searched, {:.1} % of all; {:.1} s on the clock, {:.1} CPU s",
        100.0 * (1.0 - bound / step),
        100.0 * (1.0 - any / step),
        start.elapsed().as_secs_f64(),
        cpu_secs() - cpu
    );
}
