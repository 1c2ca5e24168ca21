//! Writes a GPT-like training step of any depth as HLO text: attention, MLP, backward, one update per weight.

use std::fmt::Write;

const BATCH: usize = 8;
const SEQ: usize = 1024;
const HEADS: usize = 16;
const HEAD: usize = 64;
const HIDDEN: usize = HEADS * HEAD;
const FFN: usize = 4 * HIDDEN;

/// The step of a model with that many layers.
pub fn gpt(n_layers: usize) -> String {
    let mut step = Step { text: String::new(), n_params: 0, results: Vec::new() };
    step.parameter("x0", &data());
    for layer in 0..n_layers {
        step.weights(layer);
    }
    step.line("zero", "f32[]", "constant(0)");
    step.line("one", "f32[]", "constant(1)");
    step.line("ones", &ffn(), "broadcast(one), dimensions={}");
    step.line("low", "f32[]", "constant(-inf)");
    for layer in 0..n_layers {
        step.forward(layer);
    }
    step.line(&format!("d{n_layers}"), &data(), &format!("copy(x{n_layers})"));
    for layer in (0..n_layers).rev() {
        step.backward(layer);
    }
    step.finish()
}

struct Step {
    text: String,
    n_params: usize,
    /// Name and shape of each updated weight.
    results: Vec<(String, String)>,
}

fn data() -> String {
    format!("f32[{BATCH},{SEQ},{HIDDEN}]")
}

fn ffn() -> String {
    format!("f32[{BATCH},{SEQ},{FFN}]")
}

fn by_head() -> String {
    format!("f32[{BATCH},{SEQ},{HEADS},{HEAD}]")
}

fn head_first() -> String {
    format!("f32[{BATCH},{HEADS},{SEQ},{HEAD}]")
}

fn scores() -> String {
    format!("f32[{BATCH},{HEADS},{SEQ},{SEQ}]")
}

/// Attributes of a dot: batch and contracting dimensions of both sides.
fn dims(batch: [&str; 2], contracting: [&str; 2]) -> String {
    let contracted =
        format!("lhs_contracting_dims={{{}}}, rhs_contracting_dims={{{}}}", contracting[0], contracting[1]);
    match batch {
        ["", ""] => contracted,
        [lhs, rhs] => format!("lhs_batch_dims={{{lhs}}}, rhs_batch_dims={{{rhs}}}, {contracted}"),
    }
}

impl Step {
    fn line(&mut self, name: &str, shape: &str, what: &str) {
        writeln!(self.text, "  {name} = {shape} {what}").expect("a string takes everything");
    }

    fn parameter(&mut self, name: &str, shape: &str) {
        self.line(name, shape, &format!("parameter({})", self.n_params));
        self.n_params += 1;
    }

    fn dot(&mut self, name: &str, shape: &str, sides: [&str; 2], batch: [&str; 2], contracting: [&str; 2]) {
        let [lhs, rhs] = sides;
        self.line(name, shape, &format!("dot({lhs}, {rhs}), {}", dims(batch, contracting)));
    }

    fn weights(&mut self, l: usize) {
        let projection = format!("f32[{HIDDEN},{HEADS},{HEAD}]");
        for name in ["q", "k", "v"] {
            self.parameter(&format!("w{name}{l}"), &projection);
        }
        self.parameter(&format!("wo{l}"), &format!("f32[{HEADS},{HEAD},{HIDDEN}]"));
        self.parameter(&format!("wu{l}"), &format!("f32[{HIDDEN},{FFN}]"));
        self.parameter(&format!("wd{l}"), &format!("f32[{FFN},{HIDDEN}]"));
    }

    /// `x{l}` to `x{l+1}`.
    fn forward(&mut self, l: usize) {
        for name in ["q", "k", "v"] {
            self.dot(
                &format!("{name}{l}"),
                &by_head(),
                [&format!("x{l}"), &format!("w{name}{l}")],
                ["", ""],
                ["2", "0"],
            );
        }
        self.dot(
            &format!("s{l}"),
            &scores(),
            [&format!("q{l}"), &format!("k{l}")],
            ["0,2", "0,2"],
            ["3", "3"],
        );
        self.softmax(l);
        self.dot(
            &format!("o{l}"),
            &head_first(),
            [&format!("p{l}"), &format!("v{l}")],
            ["0,1", "0,2"],
            ["3", "1"],
        );
        self.dot(&format!("y{l}"), &data(), [&format!("o{l}"), &format!("wo{l}")], ["", ""], ["1,3", "0,1"]);
        self.line(&format!("m{l}"), &data(), &format!("add(x{l}, y{l})"));
        self.dot(&format!("h{l}"), &ffn(), [&format!("m{l}"), &format!("wu{l}")], ["", ""], ["2", "0"]);
        self.line(&format!("g{l}"), &ffn(), &format!("tanh(h{l})"));
        self.dot(&format!("z{l}"), &data(), [&format!("g{l}"), &format!("wd{l}")], ["", ""], ["2", "0"]);
        self.line(&format!("x{}", l + 1), &data(), &format!("add(m{l}, z{l})"));
    }

    fn softmax(&mut self, l: usize) {
        self.rows(&format!("sm{l}"), &format!("s{l}"), "low", "max");
        self.line(&format!("sc{l}"), &scores(), &format!("subtract(s{l}, sm{l}.b)"));
        self.line(&format!("se{l}"), &scores(), &format!("exponential(sc{l})"));
        self.rows(&format!("ss{l}"), &format!("se{l}"), "zero", "sum");
        self.line(&format!("p{l}"), &scores(), &format!("divide(se{l}, ss{l}.b)"));
    }

    /// A reduction of each row of the scores, and the same broadcast back.
    fn rows(&mut self, name: &str, of: &str, start: &str, reducer: &str) {
        let shape = format!("f32[{BATCH},{HEADS},{SEQ}]");
        self.line(name, &shape, &format!("reduce({of}, {start}), dimensions={{3}}, to_apply={reducer}"));
        self.line(&format!("{name}.b"), &scores(), &format!("broadcast({name}), dimensions={{0,1,2}}"));
    }

    /// `d{l+1}` to `d{l}`, and the layer's updates.
    fn backward(&mut self, l: usize) {
        let (up, own) = (format!("d{}", l + 1), format!("dm{l}"));
        self.dot(&format!("dg{l}"), &ffn(), [&up, &format!("wd{l}")], ["", ""], ["2", "1"]);
        self.dot(
            &format!("dwd{l}"),
            &format!("f32[{FFN},{HIDDEN}]"),
            [&format!("g{l}"), &up],
            ["", ""],
            ["0,1", "0,1"],
        );
        self.line(&format!("gg{l}"), &ffn(), &format!("multiply(g{l}, g{l})"));
        self.line(&format!("gt{l}"), &ffn(), &format!("subtract(ones, gg{l})"));
        self.line(&format!("dh{l}"), &ffn(), &format!("multiply(dg{l}, gt{l})"));
        let sides = [&*format!("m{l}"), &*format!("dh{l}")];
        self.dot(&format!("dwu{l}"), &format!("f32[{HIDDEN},{FFN}]"), sides, ["", ""], ["0,1", "0,1"]);
        self.dot(&format!("da{l}"), &data(), [&format!("dh{l}"), &format!("wu{l}")], ["", ""], ["2", "1"]);
        self.line(&own, &data(), &format!("add({up}, da{l})"));
        self.attention_backward(l);
        for (name, shape) in self.shapes() {
            self.update(&format!("{name}{l}"), &shape);
        }
    }

    fn attention_backward(&mut self, l: usize) {
        let own = format!("dm{l}");
        let sides = [&*format!("o{l}"), &*own];
        self.dot(
            &format!("dwo{l}"),
            &format!("f32[{HEADS},{HEAD},{HIDDEN}]"),
            sides,
            ["", ""],
            ["0,2", "0,1"],
        );
        self.dot(&format!("do{l}"), &by_head(), [&own, &format!("wo{l}")], ["", ""], ["2", "2"]);
        self.dot(
            &format!("dp{l}"),
            &scores(),
            [&format!("do{l}"), &format!("v{l}")],
            ["0,2", "0,2"],
            ["3", "3"],
        );
        self.line(&format!("pd{l}"), &scores(), &format!("multiply(p{l}, dp{l})"));
        self.rows(&format!("pr{l}"), &format!("pd{l}"), "zero", "sum");
        self.line(&format!("dc{l}"), &scores(), &format!("subtract(dp{l}, pr{l}.b)"));
        self.line(&format!("ds{l}"), &scores(), &format!("multiply(p{l}, dc{l})"));
        self.projection_backward(l, "q", [&format!("ds{l}"), &format!("k{l}")], ["3", "1"]);
        self.projection_backward(l, "k", [&format!("ds{l}"), &format!("q{l}")], ["2", "1"]);
        self.projection_backward(l, "v", [&format!("p{l}"), &format!("do{l}")], ["2", "1"]);
        self.line(&format!("dqk{l}"), &data(), &format!("add(dxq{l}, dxk{l})"));
        self.line(&format!("dqkv{l}"), &data(), &format!("add(dqk{l}, dxv{l})"));
        self.line(&format!("d{l}"), &data(), &format!("add({own}, dqkv{l})"));
    }

    fn projection_backward(&mut self, l: usize, name: &str, sides: [&str; 2], contracting: [&str; 2]) {
        self.dot(&format!("dh{name}{l}"), &head_first(), sides, ["0,1", "0,2"], contracting);
        self.line(
            &format!("d{name}{l}"),
            &by_head(),
            &format!("transpose(dh{name}{l}), dimensions={{0,2,1,3}}"),
        );
        let (own, weight) = (format!("d{name}{l}"), format!("w{name}{l}"));
        let shape = format!("f32[{HIDDEN},{HEADS},{HEAD}]");
        self.dot(&format!("dw{name}{l}"), &shape, [&format!("x{l}"), &own], ["", ""], ["0,1", "0,1"]);
        self.dot(&format!("dx{name}{l}"), &data(), [&own, &weight], ["", ""], ["2,3", "1,2"]);
    }

    /// The weights of one layer.
    fn shapes(&self) -> [(&'static str, String); 6] {
        let projection = format!("f32[{HIDDEN},{HEADS},{HEAD}]");
        let out = format!("f32[{HEADS},{HEAD},{HIDDEN}]");
        let (up, down) = (format!("f32[{HIDDEN},{FFN}]"), format!("f32[{FFN},{HIDDEN}]"));
        [
            ("wq", projection.clone()),
            ("wk", projection.clone()),
            ("wv", projection),
            ("wo", out),
            ("wu", up),
            ("wd", down),
        ]
    }

    fn update(&mut self, name: &str, shape: &str) {
        self.line(&format!("{name}.new"), shape, &format!("subtract({name}, d{name})"));
        self.results.push((format!("{name}.new"), shape.to_owned()));
    }

    fn finish(mut self) -> String {
        let (names, shapes): (Vec<String>, Vec<String>) =
            std::mem::take(&mut self.results).into_iter().unzip();
        let tuple = format!("tuple({})", names.join(", "));
        self.line("ROOT out", &format!("({})", shapes.join(", ")), &tuple);
        let reducer = |name: &str, op: &str| {
            format!(
                "{name} {{\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT c = f32[] {op}(a, b)\n}}\n\n"
            )
        };
        format!(
            "HloModule gpt\n\n{}{}ENTRY main {{\n{}}}\n",
            reducer("max", "maximum"),
            reducer("sum", "add"),
            self.text
        )
    }
}
