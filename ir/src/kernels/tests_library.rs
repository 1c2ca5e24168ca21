//! Products of cuBLAS and convolutions of cuDNN, and what else they read and make.

use super::tests::call;
use crate::ops::check::{rule, work};

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
fn what_is_added_to_a_product_is_split_as_the_product() {
    let gemm = |operands: &[&str], results: &str, epilogue: &str| {
        let config = format!("{{{DIMENSIONS},\"epilogue\":\"{epilogue}\"}}");
        rule(&call(operands, results, &format!("\"__cublas$lt$matmul\", backend_config={config}")))
    };
    let [a, b] = ["bf16[8,16]", "bf16[16,4]"];
    assert_eq!(
        gemm(&[a, b, "bf16[8,4]", "bf16[4]"], "(bf16[8,4], s8[4])", "BIAS"),
        "([a,b],[b,c],[a,c],[c])->([a,c],[d]) {a=8, b=16!, c=4, d=4!}"
    );
    assert_eq!(
        gemm(&[a, b, "f32[]"], "(bf16[8,4], bf16[8,4], s8[64])", "GELU_AUX"),
        "([a,b],[b,c],[])->([a,c],[a,c],[d]) {a=8, b=16!, c=4, d=64!}"
    );
    // Neither of the product's shape nor a vector of its columns; the largest element.
    let whole = "([a,b],[c,d],[e])->([f,g],[h]) {a=8!, b=16!, c=16!, d=4!, e=8!, f=8!, g=4!, h=64!}";
    assert_eq!(gemm(&[a, b, "bf16[8]"], "(bf16[8,4], s8[64])", "DEFAULT"), whole);
    let whole = "([a,b],[c,d])->([e,f],[]) {a=8!, b=16!, c=16!, d=4!, e=8!, f=4!}";
    assert_eq!(gemm(&[a, b], "(bf16[8,4], f32[])", "DEFAULT"), whole);
}

#[test]
fn what_is_added_to_a_convolution_is_split_as_its_output() {
    let conv = |target: &str, rest: &[&str]| {
        let attrs = format!("\"{target}\", window={{size=3 pad=1_1}}, dim_labels=b0f_0io->b0f");
        let operands = [&["f32[8,32,3]", "f32[3,3,16]"], rest].concat();
        rule(&call(&operands, "(f32[8,32,16], u8[0])", &attrs))
    };
    assert_eq!(
        conv("__cudnn$convBiasActivationForward", &["f32[16]", "f32[8,32,16]"]),
        "([a,d,b],[e,b,c],[c],[a,f,c])->([a,f,c],[g]) {a=8, b=3!, c=16, d=32!, e=3!, f=32!, g=0!}"
    );
    assert!(conv("__cudnn$convBiasActivationForward", &["f32[32]"]).contains("{a=8!, b=32!, c=3!"));
    assert!(conv("__cudnn$convForwardGraph", &[]).contains("{a=8, b=3!, c=16"));
}
