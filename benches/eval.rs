//! How long the evaluator takes on the MLP and GPT examples. (`tests/xla/run evaluate` compares with XLA.)

#[path = "../tests/common/mod.rs"]
mod common;

use common::{examples, program};
use criterion::{Criterion, criterion_group, criterion_main};
use phzc_ir::eval::{Options, inputs, run};

fn eval(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("eval");
    group.sample_size(20);
    for name in ["mlp", "gpt", "gpt_scan"] {
        let files = examples();
        let path = files.iter().find(|path| path.ends_with(format!("{name}.ir"))).expect("it is an example");
        let module = phzc_ir::parse(&program(path)).expect("examples parse");
        let inputs = inputs(&module, 1).expect("fixed shapes");
        group.bench_function(name, |bench| bench.iter(|| run(&module, &inputs, &Options::default())));
    }
    group.finish();
}

criterion_group!(benches, eval);
criterion_main!(benches);
