//! The memory that the report says of a stage, and that plans are chosen by, is what `check`'s own replay of
//! its tasks needs, or little more.

use crate::common::{phzc, scratch};
use serde_json::Value;
use std::fs;
use std::path::Path;

/// A cluster of eight devices with so many bytes each.
fn cluster(path: &Path, hbm_bytes: f64) -> String {
    let text = format!(
        "name = \"small\"\nper_node = 8\nnodes = 1\n[accelerator]\nname = \"small\"\nbase = \"a100\"\n\
         usable = 1.0\nhbm_bytes = {hbm_bytes}\n[accelerator.sources]\nhbm_bytes = \"this test\"\n\
         usable = \"this test\"\n"
    );
    fs::write(path, text).expect("writable");
    path.to_string_lossy().into_owned()
}

/// Stages share arrays of constants, which each makes for itself.
#[test]
fn a_pipeline_does_not_fit_where_a_fifth_less_is_there_than_the_report_says() {
    let dir = scratch("memory");
    let path = |name: &str| dir.join(name).to_string_lossy().into_owned();
    for model in ["gpt --dtype f16", "opt", "t5", "mixtral"] {
        let sizes = " --size tiny --layers 4 --seq 128 --global-batch 64 -o ";
        let words = format!("gen {model}{sizes}{}", path("model.ir"));
        phzc(&words.split(' ').collect::<Vec<_>>(), b"");
        let passes = "fuse,shard,place{stages=4,microbatches=8,schedule=1f1b}";
        let files = ["-q", "--plan", &path("plan.json"), "-o", &path("plan.ir")];
        let made = phzc(&[&[&*path("model.ir"), "--passes", passes], &files[..]].concat(), b"");
        assert_eq!(made.code, 0, "{model}: {}", made.stderr);
        let figures = fs::read_to_string(path("plan.json")).expect("written");
        let figures: Value = serde_json::from_str(&figures).expect("an object");
        let stages = figures["stages"].as_array().expect("stages").iter();
        let most = stages.filter_map(|it| it["memory_bytes"].as_f64()).fold(0.0, f64::max);
        let fits = |share: f64| {
            let small = cluster(&dir.join("small.toml"), share * most);
            phzc(&[&*path("plan.ir"), "--passes", "check", "--cluster", &small, "-o", "/dev/null"], b"").code
        };
        assert_eq!([1.001, 0.8].map(fits), [0, 1], "{model}: {most} bytes");
    }
}
