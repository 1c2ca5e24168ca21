//! A program of equal layers.

use phzc_ir::Module;
use std::fmt::Write;

/// A step of a perceptron with so many layers, forward, backward and update.
pub fn perceptron(n_layers: usize) -> Module {
    let mut text = String::from("  x0 = f32[64,256] parameter(0)\n  dy = f32[64,256] parameter(1)\n");
    let shape = "f32[64,256]";
    for at in 1..=n_layers {
        let (before, number) = (at - 1, at + 1);
        let _ = writeln!(text, "  w{at} = f32[256,256] parameter({number})");
        let _ = writeln!(
            text,
            "  h{at} = {shape} dot(x{before}, w{at}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}"
        );
        let _ = writeln!(text, "  a{at} = {shape} tanh(h{at})");
        let _ = writeln!(text, "  x{at} = {shape} add(a{at}, x{before})");
    }
    let _ = writeln!(text, "  g{n_layers} = {shape} subtract(x{n_layers}, dy)");
    for at in (1..=n_layers).rev() {
        let before = at - 1;
        let _ = writeln!(text, "  t{at} = {shape} multiply(g{at}, a{at})");
        let _ = writeln!(
            text,
            "  dw{at} = f32[256,256] dot(x{before}, t{at}), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}"
        );
        let _ = writeln!(
            text,
            "  dx{at} = {shape} dot(t{at}, w{at}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{1}}"
        );
        let _ = writeln!(text, "  g{before} = {shape} add(dx{at}, g{at})");
    }
    let mut outputs = vec![format!("x{n_layers}")];
    for at in 1..=n_layers {
        let _ = writeln!(text, "  v{at} = f32[256,256] subtract(w{at}, dw{at})");
        outputs.push(format!("v{at}"));
    }
    let shapes = std::iter::once(shape.to_owned()).chain((0..n_layers).map(|_| "f32[256,256]".to_owned()));
    let (shapes, outputs) = (shapes.collect::<Vec<_>>().join(", "), outputs.join(", "));
    let aliases: Vec<String> =
        (1..=n_layers).map(|at| format!("{{{at}}}: ({}, {{}}, may-alias)", at + 1)).collect();
    let header = format!("HloModule m, input_output_alias={{ {} }}\n\nENTRY main {{\n", aliases.join(", "));
    let text = format!("{header}{text}  ROOT out = ({shapes}) tuple({outputs})\n}}\n");
    phzc_ir::parse(&text).expect("legal")
}
