//! Programs of equal layers.

use phzc_ir::Module;
use std::fmt::Write;

/// A step of a perceptron with so many layers, forward, backward and update.
pub fn perceptron(n_layers: usize) -> Module {
    towers(&[(n_layers, 256)])
}

/// The same of rows of layers, each so many of a width; where widths differ a layer leads from one row to the
/// next.
pub fn towers(rows: &[(usize, usize)]) -> Module {
    let mut widths = vec![rows[0].1];
    rows.iter().for_each(|&(n_layers, width)| widths.extend(std::iter::repeat_n(width, n_layers)));
    let (n_layers, shape) = (widths.len() - 1, |at: usize| format!("f32[64,{}]", widths[at]));
    let weight = |at: usize| format!("f32[{},{}]", widths[at - 1], widths[at]);
    let is_residual = |at: usize| widths[at - 1] == widths[at];
    let mut text = format!("  x0 = {} parameter(0)\n  dy = {} parameter(1)\n", shape(0), shape(n_layers));
    for at in 1..=n_layers {
        let (before, number, own) = (at - 1, at + 1, shape(at));
        let _ = writeln!(text, "  w{at} = {} parameter({number})", weight(at));
        let dims = "lhs_contracting_dims={1}, rhs_contracting_dims={0}";
        let _ = writeln!(text, "  h{at} = {own} dot(x{before}, w{at}), {dims}");
        let _ = writeln!(text, "  a{at} = {own} tanh(h{at})");
        let sum = if is_residual(at) { format!("add(a{at}, x{before})") } else { format!("negate(a{at})") };
        let _ = writeln!(text, "  x{at} = {own} {sum}");
    }
    let _ = writeln!(text, "  g{n_layers} = {} subtract(x{n_layers}, dy)", shape(n_layers));
    for at in (1..=n_layers).rev() {
        let before = at - 1;
        let _ = writeln!(text, "  t{at} = {} multiply(g{at}, a{at})", shape(at));
        let dims = "lhs_contracting_dims={0}, rhs_contracting_dims={0}";
        let _ = writeln!(text, "  dw{at} = {} dot(x{before}, t{at}), {dims}", weight(at));
        let dims = "lhs_contracting_dims={1}, rhs_contracting_dims={1}";
        let _ = writeln!(text, "  dx{at} = {} dot(t{at}, w{at}), {dims}", shape(before));
        let sum = if is_residual(at) { format!("add(dx{at}, g{at})") } else { format!("negate(dx{at})") };
        let _ = writeln!(text, "  g{before} = {} {sum}", shape(before));
    }
    let mut outputs = vec![format!("x{n_layers}")];
    for at in 1..=n_layers {
        let _ = writeln!(text, "  v{at} = {} subtract(w{at}, dw{at})", weight(at));
        outputs.push(format!("v{at}"));
    }
    let shapes = std::iter::once(shape(n_layers)).chain((1..=n_layers).map(weight));
    let (shapes, outputs) = (shapes.collect::<Vec<_>>().join(", "), outputs.join(", "));
    let aliases: Vec<String> =
        (1..=n_layers).map(|at| format!("{{{at}}}: ({}, {{}}, may-alias)", at + 1)).collect();
    let header = format!("HloModule m, input_output_alias={{ {} }}\n\nENTRY main {{\n", aliases.join(", "));
    let text = format!("{header}{text}  ROOT out = ({shapes}) tuple({outputs})\n}}\n");
    phzc_ir::parse(&text).expect("legal")
}
