//! Which loops and which work the table gives to calls.

use super::*;
use crate::ops::check::{module, rule, work};

/// A call of these operands and this result.
pub(super) fn call(operands: &[&str], result: &str, rest: &str) -> String {
    let lines: Vec<String> =
        operands.iter().enumerate().map(|(at, shape)| format!("p{at}: {shape}")).collect();
    let names: Vec<String> = (0..operands.len()).map(|at| format!("p{at}")).collect();
    let (lines, names) = (lines.join("; "), names.join(", "));
    format!("{lines}; ROOT y = {result} custom-call({names}), custom_call_target={rest}")
}

#[test]
fn copies_pass_everywhere() {
    let body = call(&["u32[8,2]", "u32[8,2]"], "u64[8,2]", "\"X64Combine\"");
    assert_eq!(rule(&body), "([a,b],[a,b])->([a,b]) {a=8, b=2}");
}

#[test]
fn matrices_are_whole_and_batches_pass() {
    let body = call(&["f32[5,8,3]"], "(f32[5,8,3], f32[5,3])", "\"lapack_sgeqrf_ffi\"");
    assert_eq!(rule(&body), "([a,c,d])->([a,c,d],[a,b]) {a=5, b=3!, c=8!, d=3!}");
    assert_eq!(work(&body).flops, 5.0 * (2.0 * 72.0 - 18.0));
    let body = call(&["f32[4,4]"], "(f32[4,4], f32[4], s32[])", "\"cusolver_syevd_ffi\"");
    assert_eq!(rule(&body), "([a,a])->([a,a],[a],[]) {a=4!}");
}

#[test]
fn the_largest_elements_are_found_row_by_row() {
    let body = call(&["bf16[64,8]"], "(bf16[64,2], s32[64,2])", "\"TopK\"");
    assert_eq!(rule(&body), "([a,c])->([a,b],[a,b]) {a=64, b=2!, c=8!}");
}

#[test]
fn a_kernel_of_one_s_own_is_whole_and_does_what_its_author_says() {
    let rest = "\"tpu_custom_call\", backend_config=\"{\\\"cost_estimate\\\":{\\\"flops\\\":123}}\"";
    let body = call(&["f32[8,2]"], "f32[8,2]", rest);
    assert_eq!(rule(&body), "([a,b])->([c,d]) {a=8!, b=2!, c=8!, d=2!}");
    assert_eq!(work(&body).flops, 123.0);
}

#[test]
fn a_table_of_one_s_own_comes_first_and_stays_in_the_text() {
    let table =
        read("[[kernel]]\ntarget = \"mine*\"\nrule = \"(b n) -> (b n)\"\nflops = \"7*b\"").expect("legal");
    let mut module = module(&call(&["f32[8,2]"], "f32[8,2]", "\"mine.v2\""));
    assert_eq!(describe(&mut module, &table), 1);
    let again = crate::parse(&crate::print(&module)).expect("what is printed parses");
    let view = View::new(&again, again.entry, again.entry().root);
    assert_eq!(super::rule(&view).expect("noted").to_string(), "([a,b])->([a,b]) {a=8, b=2}");
    assert_eq!(super::work(&view).flops, 56.0);
}

#[test]
fn a_call_may_bring_shardy_s_rule() {
    let text = "#sdy.op_sharding_rule<([i, kj])->([j, i], [i, l]) {i=4, j=2, k=3, l=5} reduction={k} need_replication={l}, custom>";
    let rest = format!("\"foo\", frontend_attributes={{xla.sdy.sharding_rule=\"{text}\"}}");
    let body = call(&["f32[4,6]"], "(f32[2,4], f32[4,5])", &rest);
    assert_eq!(rule(&body), "([a,cb])->([b,a],[a,d]) {a=4, b=2, c=3+, d=5!}");
}

#[test]
fn shapes_that_no_line_fits_leave_a_call_whole() {
    let body = call(&["f32[4,6]"], "f32[4,6]", "\"lapack_sgeqrf_ffi\"");
    assert_eq!(rule(&body), "([a,b])->([c,d]) {a=4!, b=6!, c=4!, d=6!}");
}

#[test]
fn says_what_is_wrong_with_a_table() {
    let wrong = |line: &str| {
        let text = format!("[[kernel]]\ntarget = \"t\"\n{line}");
        let error = read(&text).expect_err("wrong");
        let span = error.span.unwrap_or_default();
        (error.message, text[span.start as usize..span.end as usize].to_owned())
    };
    let of = |message: &str, place: &str| (message.to_owned(), place.to_owned());
    assert_eq!(wrong("rule = \"(b t) -> (b)\""), of("no result has the loop `t`", "\"(b t) -> (b)\""));
    assert_eq!(
        wrong("rule = \"(b t -> (b)\""),
        of("expected a name, a size, `_` or `)` at ``", "\"(b t -> (b)\"")
    );
    assert_eq!(wrong("rule = \"(b) -> (b)\"\nflops = \"2*c\""), of("`c` is no loop of the rule", "\"2*c\""));
    assert_eq!(wrong("rule = \"(b) -> (b)\"\nwhole = [\"c\"]"), of("`c` is no loop of the rule", "\"c\""));
    assert_eq!(
        wrong("rule = \"(b) -> (b)\"\nsums = [\"b\"]"),
        of("`b` is summed, but a result has it", "\"b\"")
    );
    assert_eq!(wrong("like = \"gemm\""), of("`like` is `dot` or `convolution`, not `gemm`", "\"gemm\""));
}

#[test]
fn every_line_of_the_table_has_targets() {
    assert!(known_targets().count() > 50);
    assert!(BUILTIN.iter().all(|kernel| !kernel.targets.is_empty()));
}

#[test]
fn a_line_of_one_s_own_that_does_not_fit_leaves_phzc_s() {
    let table = "[[kernel]]\ntarget = \"TopK\"\nconfig = \"never\"\nrule = \"... -> ...\"\n\
                 [[kernel]]\ntarget = \"TopK\"\nrule = \"(b) -> (b)\"";
    let body = call(&["bf16[64,8]"], "(bf16[64,2], s32[64,2])", "\"TopK\"");
    let mut module = module(&body);
    assert_eq!(describe(&mut module, &read(table).expect("legal")), 1);
    let view = View::new(&module, module.entry, module.entry().root);
    assert_eq!(super::rule(&view).map(|rule| rule.to_string()), Some(rule(&body)));
    assert_eq!(super::work(&view).flops, 512.0);
}

#[test]
fn a_line_may_have_several_rules() {
    let table =
        read("[[kernel]]\ntarget = \"f\"\nrule = \"(b) -> (b)\"\nor = [\"(b c) -> (b c)\"]").expect("legal");
    let mut module = module(&call(&["f32[8,2]"], "f32[8,2]", "\"f\""));
    assert_eq!((table.len(), describe(&mut module, &table)), (2, 1));
    let view = View::new(&module, module.entry, module.entry().root);
    assert_eq!(super::rule(&view).expect("noted").to_string(), "([a,b])->([a,b]) {a=8, b=2}");
}

#[test]
fn loops_that_cannot_be_split_are_whole() {
    let error = |line: &str| {
        let error = read(&format!("[[kernel]]\ntarget = \"t\"\n{line}")).expect_err("wrong");
        (error.message, error.help.unwrap_or_default())
    };
    let of = |message: &str, help: &str| (message.to_owned(), help.to_owned());
    assert_eq!(
        error("rule = \"(n n) -> (n n)\""),
        of("two dimensions of one tensor have the loop `n`", "say whole = [\"n\"]")
    );
    assert_eq!(
        error("rule = \"(b (n m) m) -> (b n m)\"\nwhole = [\"n\"]").0,
        "two dimensions of one tensor have the loop `m`"
    );
    assert_eq!(
        error("rule = \"(b d) -> (b n d)\""),
        of("no operand has the loop `n`", "say whole = [\"n\"]")
    );
    assert_eq!(error("rule = \"(... d) -> (d)\"").0, "the leading dimensions `...` are on one side only");
    assert!(read("[[kernel]]\ntarget = \"t\"\nrule = \"(n n) -> (n p)\"\nwhole = [\"n\", \"p\"]").is_ok());
}

#[test]
fn shares_of_the_work_are_counts() {
    let scale = |times: &str| {
        let text = format!("[[kernel]]\ntarget = \"t\"\nrule = \"(b) -> (b)\"\nscale = {{ a = {times} }}");
        read(&text).map(|kernels| kernels.len()).map_err(|error| error.message)
    };
    assert_eq!(scale("0.0"), Ok(1));
    for (times, shown) in [("nan", "NaN"), ("inf", "inf"), ("-0.5", "-0.5")] {
        assert_eq!(scale(times), Err(format!("`{shown}` is no share of the work")));
    }
}

#[test]
fn what_shardy_s_rule_has_once_is_whole() {
    let text = "#sdy.op_sharding_rule<([i, j, j])->([i, k]) {i=4, j=2, k=3}, custom>";
    let rest = format!("\"foo\", frontend_attributes={{xla.sdy.sharding_rule=\"{text}\"}}");
    let body = call(&["f32[4,2,2]"], "f32[4,3]", &rest);
    assert_eq!(rule(&body), "([a,b,b])->([a,c]) {a=4, b=2!, c=3!}");
}
