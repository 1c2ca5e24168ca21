//! Which loops and which work the table gives to calls.

use super::*;
use crate::ops::check::{module, rule, work};

/// A call of these operands and this result.
fn call(operands: &[&str], result: &str, rest: &str) -> String {
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

/// Transformer Engine's call with 8 query heads of 2 heads of keys.
fn fused_attention(mask: i64) -> String {
    call(
        &["bf16[2,64,8,16]", "bf16[2,64,2,16]", "bf16[2,64,2,16]", "bf16[0]", "u32[2]"],
        "(bf16[2,64,8,16], f32[2,8,64,1], u8[48])",
        &format!(
            "\"te_fused_attn_forward_ffi\", backend_config={{mask_type = {mask}:i64, qkv_layout = 9:i64}}"
        ),
    )
}

#[test]
fn attention_splits_sequences_and_heads() {
    assert_eq!(
        rule(&fused_attention(0)),
        "([a,f,ed,b],[a,g,e,b],[a,g,e,c],[h],[i])->([a,f,ed,c],[a,ed,f,j],[k]) \
         {a=2, b=16!, c=16!, d=4, e=2, f=64!, g=64!, h=0!, i=2!, j=1!, k=48!}"
    );
}

#[test]
fn a_causal_kernel_does_half_of_the_work_on_the_matrix_units() {
    let all = 4.0 * 2.0 * 8.0 * 64.0 * 64.0 * 16.0;
    assert_eq!([work(&fused_attention(0)).products, work(&fused_attention(3)).products], [all, all / 2.0]);
    assert_eq!(work(&fused_attention(0)).flops, all);
    assert_eq!(work(&fused_attention(0)).transcendentals, 2.0 * 8.0 * 64.0 * 64.0);
}

#[test]
fn the_layout_of_cudnn_s_attention_is_in_its_configuration() {
    let attention = |q: &str, batch: &str| {
        let config = format!("{{\"rhs_batch_dimensions\":[{batch}], \"mask_type\":\"NO_MASK\"}}");
        let result = "(bf16[2,8,64,16], u8[0])";
        rule(&call(&[q, q, q], result, &format!("\"__cudnn$fmhaSoftmax\", backend_config={config}")))
    };
    let [a, b] = [attention("bf16[2,64,8,16]", "\"0\",\"2\""), attention("bf16[2,8,64,16]", "\"0\",\"1\"")];
    assert!(a.starts_with("([a,f,ed,b],[a,g,e,b],[a,g,e,c])->([a,ed,f,c],"), "{a}");
    assert!(b.starts_with("([a,ed,f,b],[a,e,g,b],[a,e,g,c])->([a,ed,f,c],"), "{b}");
}

const DIMENSIONS: &str = "\"dot_dimension_numbers\":{\"lhs_contracting_dimensions\":[\"1\"],\
    \"rhs_contracting_dimensions\":[\"0\"],\"lhs_batch_dimensions\":[],\"rhs_batch_dimensions\":[]}";

#[test]
fn products_of_cublas_are_products() {
    let gemm = |epilogue: &str| {
        let rest =
            format!("\"__cublas$lt$matmul\", backend_config={{{DIMENSIONS},\"epilogue\":\"{epilogue}\"}}");
        call(&["bf16[8,16]", "bf16[16,4]"], "(bf16[8,4], s8[64])", &rest)
    };
    assert_eq!(rule(&gemm("DEFAULT")), "([a,b],[b,c])->([a,c],[d]) {a=8, b=16+, c=4, d=64!}");
    assert_eq!(work(&gemm("DEFAULT")).products, 2.0 * 8.0 * 16.0 * 4.0);
    // What is done with the sum waits for all of it.
    assert_eq!(rule(&gemm("GELU")), "([a,b],[b,c])->([a,c],[d]) {a=8, b=16!, c=4, d=64!}");
}

#[test]
fn convolutions_of_cudnn_add_up_what_their_direction_adds_up() {
    let conv = |target: &str, operands: [&str; 2], result: &str| {
        let rest = format!("\"{target}\", window={{size=3 pad=1_1}}, dim_labels=b0f_0io->b0f");
        call(&operands, &format!("(f32[{result}], u8[0])"), &rest)
    };
    let forward = conv("__cudnn$convForward", ["f32[8,32,3]", "f32[3,3,16]"], "8,32,16");
    assert_eq!(
        rule(&forward),
        "([a,d,b],[e,b,c])->([a,f,c],[g]) {a=8, b=3+, c=16, d=32!, e=3!, f=32!, g=0!}"
    );
    assert_eq!(work(&forward).products, 2.0 * 8.0 * 3.0 * 16.0 * 94.0);
    let of_kernel = conv("__cudnn$convBackwardFilter", ["f32[8,32,3]", "f32[8,32,16]"], "3,3,16");
    assert!(rule(&of_kernel).starts_with("([a,d,b],[a,e,c])->([f,b,c],[g]) {a=8+, b=3, c=16"));
    assert_eq!(work(&of_kernel).products, work(&forward).products);
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
