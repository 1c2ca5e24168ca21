//! `simplify` on real programs: smaller, no more work, the same values; and how long it takes.
//!
//! `cargo test --release --test all simplify:: -- --nocapture` prints the tables.

use crate::common::{corpus, examples, program};
use phzc_cost::{Cluster, DEFAULT_CLUSTER};
use phzc_ir::eval::{self, Options};
use phzc_ir::flops::totals;
use phzc_ir::{Module, parse, print, verify};
use phzc_passes::registry::REGISTRY;
use phzc_passes::{Changed, Context};
use std::fmt::Write;
use std::path::Path;
use std::time::Instant;

/// Instructions of the program that is timed.
const N_TIMED: usize = 100_000;

fn simplify(module: &mut Module) -> Changed {
    let cluster = Cluster::named(DEFAULT_CLUSTER).expect("the default exists");
    let pass = REGISTRY.find("simplify").expect("it is a pass");
    (pass.run)(module, &Default::default(), &mut Context::new(&cluster)).expect("it refuses nothing")
}

fn name(path: &Path) -> String {
    path.file_name().expect("a file has a name").to_string_lossy().into_owned()
}

/// The program, inlined, before and after; inlining alone adds instructions and is not what is measured.
fn before_and_after(path: &Path) -> [Module; 2] {
    let mut before = parse(&program(path)).expect("the corpus parses");
    phzc_passes::inline::flatten(&mut before).expect("real programs stay small");
    let mut after = before.clone();
    simplify(&mut after);
    [before, after]
}

#[test]
fn real_programs_get_smaller_and_stay_legal() {
    let paths = [corpus(), examples()].concat();
    println!("{:32} {:>8} {:>8} {:>6} {:>9} {:>7}", "program", "before", "after", "", "flops", "ms");
    for path in &paths {
        let start = Instant::now();
        let [before, after] = before_and_after(path);
        let (millis, name) = (1e3 * start.elapsed().as_secs_f64(), name(path));
        assert_eq!(verify(&after), [], "{name}");
        assert_eq!(simplify(&mut after.clone()), Changed::No, "{name}");
        let [old, new] = [&before, &after].map(totals);
        assert!(new.with_trips.flops <= old.with_trips.flops, "{name}: more work");
        assert_eq!(new.dot_conv_with_trips, old.dot_conv_with_trips, "{name}: other products");
        assert_eq!(new.unknown_trips.len(), old.unknown_trips.len(), "{name}: a loop lost its trip count");
        let (n, m) = (before.n_instrs(), after.n_instrs());
        let kept = new.with_trips.flops / old.with_trips.flops.max(1.0);
        println!("{name:32} {n:8} {m:8} {:5.1}% {kept:9.5} {millis:7.1}", 100.0 * m as f64 / n as f64);
        assert!(m <= n, "{name}: {n} instructions became {m}");
    }
}

#[test]
fn small_real_programs_compute_the_same() {
    let paths = [corpus(), examples()].concat();
    let mut n_same = 0;
    for path in paths.iter().filter(|path| name(path).contains("tiny") || path.ends_with("mlp.ir")) {
        let [before, after] = before_and_after(path);
        let options = Options { max_array_bytes: 1e7, fill_elided: Some(1), ..Options::default() };
        let Ok(inputs) = eval::inputs(&before, 1) else { continue };
        // Programs for several devices, and of optimised CPU kernels, are not for one evaluator.
        let Ok(wanted) = eval::run(&before, &inputs, &options) else { continue };
        let found = eval::run(&after, &inputs, &options).expect("it still runs");
        for (index, (a, b)) in wanted.leaves().into_iter().zip(found.leaves()).enumerate() {
            let (a, b) = (a.to_f64_vec(), b.to_f64_vec());
            let scale = a.iter().fold(0f64, |most, x| most.max(x.abs()));
            let worst = a.iter().zip(&b).fold(0f64, |most, (x, y)| most.max((x - y).abs()));
            assert!(worst <= 1e-6 * scale, "{} output {index}: {worst} of {scale}", name(path));
        }
        n_same += 1;
    }
    println!("{n_same} small programs compute the same");
    assert!(n_same >= 1);
}

#[test]
fn a_large_program_takes_no_time() {
    let mut text = "ENTRY e {\n  x0 = f32[8,8] parameter(0)\n  z = f32[] constant(0)\n".to_owned();
    for n in (1..N_TIMED / 5).map(|n| 5 * n) {
        let _ = writeln!(text, "  b{n} = f32[8,8] broadcast(z), dimensions={{}}");
        let _ = writeln!(text, "  s{n} = f32[8,8] add(x{}, b{n})", n - 5);
        let _ = writeln!(text, "  t{n} = f32[8,8] transpose(s{n}), dimensions={{1,0}}");
        let _ = writeln!(
            text,
            "  d{n} = f32[8,8] dot(s{n}, t{n}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}"
        );
        let _ = writeln!(text, "  x{n} = f32[8,8] tanh(d{n})");
    }
    let _ = writeln!(text, "  ROOT r = f32[8,8] negate(x{})\n}}", 5 * (N_TIMED / 5 - 1));
    let mut module = parse(&text).expect("a legal program");
    let (n, start) = (module.n_instrs(), Instant::now());
    simplify(&mut module);
    let millis = 1e3 * start.elapsed().as_secs_f64();
    println!("{n} instructions become {} in {millis:.0} ms", module.n_instrs());
    assert_eq!(verify(&module), []);
    assert_eq!(print(&module).lines().filter(|line| line.contains("= f32")).count(), 2 * (n / 5) + 2);
    // It takes 0.1 s; only work that grows with the square of the size takes as long as this.
    assert!(cfg!(debug_assertions) || millis < 10_000.0, "{millis} ms");
}
