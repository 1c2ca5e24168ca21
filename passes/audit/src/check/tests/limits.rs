//! What just fits, what is listed where it does not, and where problems are said to be.

use super::*;
use crate::testing::one_byte_a_second;
use phzc_ir::Diagnostic;

/// What the pass says of a plan on a cluster.
fn judged(cluster: &Cluster, module: &mut Module) -> std::result::Result<(), Diagnostic> {
    let options = Options { values: [("strict", "auto".to_owned())].into_iter().collect() };
    run(module, &options, &mut Context::new(cluster)).map(|_| ())
}

fn planned(header: &str, body: &str) -> Module {
    parse(&format!("HloModule m, frontend_attributes={{{header}phzc.plan=\"{{}}\"}}\nENTRY e {{\n{body}\n}}"))
        .expect("legal")
}

#[test]
fn a_plan_may_need_all_devices_and_all_memory() {
    // Two values of as many bytes as half of what a device may use, and one more element each.
    let body = |n: usize| {
        format!(
            "a = f32[{n}] parameter(0), sharding={{replicated}}
            ROOT b = f32[{n}] negate(a), sharding={{replicated}}"
        )
    };
    let cluster = one_byte_a_second();
    let fits = |header: &str, n: usize| {
        judged(&cluster, &mut planned(header, &body(n))).map_err(|error| error.message)
    };
    assert_eq!(fits("phzc.mesh=\"x=8\",", 256), Ok(()));
    assert_eq!(
        fits("phzc.mesh=\"x=8\",", 257),
        Err("the plan needs 2.1 kB on each device, slow has 2.0 kB to use".to_owned())
    );
    let error = "the plan is for 16 devices, `test` has 8".to_owned();
    assert_eq!(fits("phzc.mesh=\"x=16\",", 256), Err(error));
}

/// The largest values at the peak of a plan that reads so many parameters.
fn largest(n: usize) -> String {
    let param =
        |at: usize| format!("p{at} = f32[{}] parameter({at}), sharding={{replicated}}\n", 100 * (at + 1));
    let params: String = (0..n).map(param).collect();
    let names: Vec<String> = (0..n).map(|at| format!("p{at}")).collect();
    let (all, size) = (names.join(", "), 50 * n * (n + 1));
    let root = format!("ROOT c = f32[{size}] concatenate({all}), dimensions={{0}}, sharding={{replicated}}");
    let module = planned("", &format!("{params}{root}"));
    let facts = derive(&module).expect("a legal header");
    largest_at_peak(&module, &facts, 0).expect("something is there")
}

#[test]
fn five_values_of_a_peak_are_listed() {
    assert_snapshot!(largest(4), @"at its peak there are `c` 4.0 kB, `p3` 1.6 kB, `p2` 1.2 kB, `p1` 800.0 bytes, `p0` 400.0 bytes");
    assert_snapshot!(largest(7), @"at its peak there are `c` 11.2 kB, `p6` 2.8 kB, `p5` 2.4 kB, `p4` 2.0 kB, `p3` 1.6 kB and 3 more");
}

#[test]
fn a_problem_is_where_its_instruction_stands_in_the_text() {
    let text = "a = f32[7] parameter(0), sharding={devices=[2]<=[2]}\nROOT b = f32[7] negate(a), sharding={replicated}";
    let mut module = planned("phzc.mesh=\"x=2\",", text);
    let span = module.entry().instrs[0].span;
    let error = |module: &mut Module| judged(&one_byte_a_second(), module).expect_err("7 is odd");
    assert_eq!(error(&mut module).span, Some(span));
    // What passes made stands nowhere.
    let entry = module.entry.index();
    module.comps[entry].instrs.iter_mut().for_each(|instr| instr.span = phzc_ir::Span::default());
    assert_eq!(error(&mut module).span, None);
}
