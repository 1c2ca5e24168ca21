//! Attention of cuDNN and Transformer Engine, with every order of operands that JAX writes.

use super::tests::call;
use crate::ops::check::{rule, work};

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

const QUERIES: &str = "bf16[2,64,8,16]";
const KEYS: &str = "bf16[2,32,4,16]";
const SUMS: &str = "f32[2,8,64]";
const LENGTHS: &str = "s32[2]";
const GRADIENTS: &str = "bf16[2,8,64,16], bf16[2,4,32,16], bf16[2,4,32,16]";

/// cuDNN's call with 8 query heads of 4 heads of keys, layout BTNH.
fn cudnn(form: &str, operands: &[&str], results: &str) -> String {
    let config = "{\"rhs_batch_dimensions\":[\"0\",\"2\"]}";
    let target = format!("\"__cudnn$fmha{form}\", backend_config={config}");
    call(operands, &format!("({results}, u8[0])"), &target)
}

/// The rule without the sizes.
fn maps(body: &str) -> String {
    rule(body).split(" {").next().unwrap_or_default().to_owned()
}

/// Whether nothing of a call is split.
fn is_whole(body: &str) -> bool {
    let rule = rule(body);
    rule.matches('=').count() == rule.matches('!').count()
}

#[test]
fn forward_attention_splits_bias_and_lengths_as_sequences_and_heads() {
    let made = "bf16[2,8,64,16], f32[2,8,64]";
    let forward = |form: &str, rest: &[&str]| cudnn(form, &[&[QUERIES, KEYS, KEYS], rest].concat(), made);
    assert_eq!(
        maps(&forward("Softmax", &[LENGTHS, LENGTHS])),
        "([a,f,ed,b],[a,g,e,b],[a,g,e,c],[a],[a])->([a,ed,f,c],[a,ed,f],[h])"
    );
    assert_eq!(
        maps(&forward("ScaleBiasSoftmax", &["bf16[2,8,64,32]", LENGTHS, LENGTHS])),
        "([a,f,ed,b],[a,g,e,b],[a,g,e,c],[a,ed,f,g],[a],[a])->([a,ed,f,c],[a,ed,f],[h])"
    );
    assert_eq!(
        maps(&forward("ScaleBiasSoftmaxDropout", &["bf16[1,8,64,32]"])),
        "([a,f,ed,b],[a,g,e,b],[a,g,e,c],[h,ed,f,g])->([a,ed,f,c],[a,ed,f],[i])"
    );
    // Offsets of packed sequences are one more than sequences.
    let packed = forward("Softmax", &[LENGTHS, LENGTHS, "s32[3]", "s32[3]"]);
    assert!(is_whole(&packed), "{}", rule(&packed));
    assert_eq!(work(&packed), work(&forward("Softmax", &[])));
}

#[test]
fn backward_attention_splits_the_output_of_the_forward_one() {
    let start = [QUERIES, KEYS, KEYS, SUMS, QUERIES];
    let backward = |form: &str, rest: &[&str], made: &str| cudnn(form, &[&start, rest].concat(), made);
    let read = "([a,f,ed,b],[a,g,e,b],[a,g,e,c],[a,ed,f],[a,f,ed,c]";
    let made = "([a,ed,f,b],[a,e,g,b],[a,e,g,c]";
    assert_eq!(
        maps(&backward("SoftmaxBackward", &[QUERIES], GRADIENTS)),
        format!("{read},[a,f,ed,c])->{made},[h])")
    );
    let bias = ["bf16[2,8,64,32]", QUERIES, LENGTHS, LENGTHS];
    assert_eq!(
        maps(&backward("ScaleBiasSoftmaxBackward", &bias, GRADIENTS)),
        format!("{read},[a,ed,f,g],[a,f,ed,c],[a],[a])->{made},[h])")
    );
    // A gradient of what all sequences share adds over them: heads are split only.
    let with_bias = format!("{GRADIENTS}, bf16[1,8,64,32]");
    let body = backward("ScaleBiasSoftmaxBackward", &["bf16[1,8,64,32]", QUERIES], &with_bias);
    assert!(rule(&body).contains("{a=2!, b=16!, c=16!, d=2!, e=4, f=64!"), "{}", rule(&body));
    assert!(maps(&body).ends_with("[i,ed,f,g],[j])"), "{}", rule(&body));
    // The forward output is missing; scalars of F8.
    for rest in [&[][..], &[QUERIES, "f32[1,1,1,1]"]] {
        let body = backward("SoftmaxBackward", rest, GRADIENTS);
        assert!(is_whole(&body) && work(&body).products > 0.0, "{}", rule(&body));
    }
}

#[test]
fn attention_of_the_other_layout_splits_the_same_loops() {
    let [q, k] = ["bf16[2,8,64,16]", "bf16[2,4,32,16]"];
    let config = "{\"rhs_batch_dimensions\":[\"0\",\"1\"]}";
    let target = format!("\"__cudnn$fmhaSoftmaxBackward\", backend_config={config}");
    let body = call(&[q, k, k, SUMS, q, q], &format!("({GRADIENTS}, u8[0])"), &target);
    assert_eq!(
        maps(&body),
        "([a,ed,f,b],[a,e,g,b],[a,e,g,c],[a,ed,f],[a,ed,f,c],[a,ed,f,c])\
         ->([a,ed,f,b],[a,e,g,b],[a,e,g,c],[h])"
    );
}

#[test]
fn running_lengths_keep_sequences_whole() {
    let tail = ["u32[1,4]", "s32[3]", "s32[3]", "s32[0]", "s32[0]", "s32[0]", "s32[0]", "s32[0]", "s32[0]"];
    let te = |bias: &str, end: &[&str]| {
        let operands = [&[QUERIES, KEYS, KEYS, bias], &tail[..], end].concat();
        let results = "(bf16[2,64,8,16], f32[2,8,64,1], u32[1,4], u8[48])";
        let config = "{mask_type = 0:i64, qkv_layout = 9:i64}";
        call(&operands, results, &format!("\"te_fused_attn_forward_ffi\", backend_config={config}"))
    };
    for bias in ["bf16[0]", "bf16[1,8,64,32]"] {
        let rule = rule(&te(bias, &[]));
        assert!(rule.contains("{a=2!, b=16!, c=16!, d=2, e=4, f=64!, g=32!"), "{rule}");
    }
    assert!(maps(&te("bf16[1,8,64,32]", &[])).contains("[h,ed,f,g]"));
    let other = te("bf16[0]", &["bf16[1,8,1,1]"]);
    assert!(is_whole(&other) && work(&other).products > 0.0, "{}", rule(&other));
}

#[test]
fn backward_attention_of_transformer_engine_splits_heads() {
    let tail = ["s32[3]", "s32[3]", "s32[0]", "s32[0]", "s32[0]", "s32[0]", "s32[0]", "s32[0]"];
    let te = |bias: &str| {
        let start = [QUERIES, KEYS, KEYS, bias, "f32[2,8,64,1]", "u32[1,4]", QUERIES, QUERIES];
        let results = format!("({QUERIES}, {KEYS}, {KEYS}, {bias}, u8[48])");
        let config = "{mask_type = 0:i64, qkv_layout = 9:i64}";
        let target = format!("\"te_fused_attn_backward_ffi\", backend_config={config}");
        call(&[&start[..], &tail].concat(), &results, &target)
    };
    for bias in ["bf16[0]", "bf16[1,8,64,32]"] {
        let rule = rule(&te(bias));
        assert!(rule.contains("{a=2!, b=16!, c=16!, d=2!, e=4, f=64!, g=32!"), "{rule}");
    }
    // The gradient of a bias that heads share adds over them.
    assert!(is_whole(&te("bf16[1,1,64,32]")), "{}", rule(&te("bf16[1,1,64,32]")));
}
