//! What `check` refuses, and what it only warns of.

mod accumulate;
mod limits;

use super::*;
use insta::assert_snapshot;
use phzc_ir::parse;

const PLANNED: &str = "frontend_attributes={phzc.mesh=\"x=2\",phzc.plan=\"{}\"}";

/// Runs the pass; its error, its warnings, or `ok`.
fn run_on(strict: &str, header: &str, text: &str) -> String {
    let mut module = parse(&format!("HloModule m, {header}\n{text}")).expect("legal");
    let cluster = Cluster::named("a100-8").expect("a known cluster");
    let mut cx = Context::new(&cluster);
    let options = Options { values: [("strict", strict.to_owned())].into_iter().collect() };
    match (run(&mut module, &options, &mut cx), cx.warnings.first()) {
        (Err(error), _) => format!("error: {error}"),
        (Ok(_), Some(warning)) => format!("warning: {warning}"),
        (Ok(_), None) => "ok".to_owned(),
    }
}

const MOVES: &str = "ENTRY e {
    a = f32[8,8] parameter(0), sharding={devices=[2,1]<=[2]}
    b = f32[8,8] negate(a), sharding={devices=[1,2]<=[2]}
    ROOT c = f32[8,8] negate(b), sharding={devices=[2,1]<=[2]}
    }";

#[test]
fn what_a_plan_does_not_mention_is_an_error_in_a_plan_and_a_warning_elsewhere() {
    assert_snapshot!(run_on("auto", PLANNED, MOVES), @"error: `b` needs operand 0 moved along `x`; `c` needs operand 0 moved along `x`");
    assert_snapshot!(run_on("false", PLANNED, MOVES), @"warning: `b` needs operand 0 moved along `x`; `c` needs operand 0 moved along `x`");
    assert!(run_on("auto", "frontend_attributes={phzc.mesh=\"x=2\"}", MOVES).starts_with("warning"));
    assert!(run_on("true", "num_partitions=2", MOVES).starts_with("error"));
}

#[test]
fn an_uneven_parameter_is_an_error_everywhere() {
    let text = "ENTRY e { ROOT a = f32[7] parameter(0), sharding={devices=[2]<=[2]} }";
    assert_snapshot!(run_on("false", PLANNED, text), @"error: `a` is split unevenly: {devices=[2]<=[2]} of [7]");
}

#[test]
fn every_device_has_its_part_of_every_microbatch() {
    let header = |n| {
        format!(
            "input_output_alias={{ {{}}: (1, {{}}, may-alias) }}, \
             frontend_attributes={{phzc.mesh=\"x=2\",phzc.plan=\"{{\\\"n_microbatches\\\":{n}}}\"}}"
        )
    };
    let text = "ENTRY e {
        x = f32[4,8] parameter(0), sharding={devices=[2,1]<=[2]}
        w = f32[8,8] parameter(1), sharding={replicated}
        h = f32[4,8] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}, sharding={devices=[2,1]<=[2]}
        g = f32[8,8] dot(x, h), lhs_contracting_dims={0}, rhs_contracting_dims={0}, sharding={replicated}
        ROOT r = f32[8,8] add(w, g), sharding={replicated}
        }";
    assert_snapshot!(run_on("auto", &header(2), text), @"ok");
    assert_snapshot!(run_on("auto", &header(4), text), @"error: `x` splits a batch dimension of 4 over 2 devices, each of 4 microbatches cannot be split so; `h` splits a batch dimension of 4 over 2 devices, each of 4 microbatches cannot be split so");
}

#[test]
fn a_long_list_is_cut() {
    let chain = |index: usize| {
        format!(
            "n{} = f32[8] negate(n{index}), sharding={{{}}}\n",
            index + 1,
            ["devices=[2]<=[2]", "replicated"][index % 2]
        )
    };
    let body: String = (0..60).map(chain).collect();
    let text = format!(
        "ENTRY e {{ n0 = f32[8] parameter(0), sharding={{replicated}}\n{body} ROOT r = f32[8] negate(n60), sharding={{replicated}} }}"
    );
    assert!(
        run_on("auto", PLANNED, &text).ends_with("`n20` needs operand 0 gathered along `x`; and 20 more")
    );
}

#[test]
fn a_program_that_does_not_fit_says_by_how_much() {
    let text = "ENTRY e {
        a = f32[100000,400000] parameter(0), sharding={devices=[2,1]<=[2]}
        ROOT b = f32[100000,400000] negate(a), sharding={devices=[2,1]<=[2]}
        }";
    assert_snapshot!(run_on("auto", PLANNED, text), @"error: the plan needs 160.0 GB on each device, a100-80 has 77.3 GB to use; 80.0 GB of it are parameters; most is in use at `b`; at its peak there are `a` 80.0 GB, `b` 80.0 GB; use more devices (were all of it split evenly, 5 of `a100-80` could hold it), devices with more memory, a smaller batch, more microbatches (`place{microbatches=N}`) or recomputation (`place{recompute=all}`)");
    assert_snapshot!(run_on("auto", "frontend_attributes={phzc.mesh=\"x=16\"}", "ENTRY e { ROOT a = f32[] parameter(0), sharding={replicated} }"), @"error: the plan is for 16 devices, `a100-8` has 8; plan again for this cluster");
}

#[test]
fn what_is_probably_not_meant_is_a_warning() {
    let said = |layout: &str, read: &str| {
        let text = format!(
            "ENTRY e {{
             x = f32[6,8] parameter(0), sharding={{replicated}}
             w = f32[8,8] parameter(1), sharding={{{layout}}}
             bias = f32[4] parameter(2), sharding={{replicated}}
             read = f32[4] {read}, sharding={{replicated}}
             h = f32[6,8] dot(x, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}, sharding={{{layout}}}
             ROOT out = (f32[4], f32[6,8]) tuple(read, h), sharding={{{{replicated}}, {{{layout}}}}}
             }}"
        );
        run_on("auto", PLANNED, &text)
    };
    let columns = "devices=[1,2]<=[2]";
    assert_snapshot!(said(columns, "negate(bias)"), @"ok");
    assert_snapshot!(said(columns, "constant({1,2,3,4})"), @"warning: 1 input is never read: `bias`; lower the program without what it does not use (`keep_unused=False` in JAX)");
    assert_snapshot!(said("replicated", "negate(bias)"), @"warning: all 2 devices of stage 0 compute the same products; fewer devices do as well; to use them all, choose a larger batch or larger widths, that their number divides");
}

#[test]
fn products_in_floats_that_the_device_lacks_are_a_warning() {
    let said = |cluster: &str| {
        let text = "ENTRY e { x = bf16[8,8] parameter(0)
            ROOT h = bf16[8,8] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0} }";
        let (module, cluster) = (parse(text).expect("legal"), Cluster::named(cluster).expect("known"));
        let found = advice::advice(&module, &derive(&module).expect("legal"), &cluster);
        found.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
    };
    assert_snapshot!(said("v100-16-8"), @"`v100-16` has no units for bf16: 1 product is priced in wider floats; lower the program in floats that the device has units for");
    assert_snapshot!(said("a100-8"), @"");
}
