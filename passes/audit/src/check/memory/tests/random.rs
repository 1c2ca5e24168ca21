//! Random placed programs: steps of several stages that read one another in every way that check allows.

use crate::testing::{Random, staged_with};
use phzc_ir::Module;

/// A program under way: lines with phase and stage.
struct Writer {
    random: Random,
    n_stages: usize,
    lines: Vec<(String, &'static str, usize)>,
    /// Square matrices that forward and backward parts can read, with the stages that make them.
    forward: Vec<(String, usize)>,
    backward: Vec<(String, usize)>,
    weights: Vec<(String, usize)>,
    n: usize,
}

const COMPS: &str = "body { p = (f32[16,16], f32[16,16]) parameter(0)
    a = f32[16,16] get-tuple-element(p), index=0
    b = f32[16,16] get-tuple-element(p), index=1
    d = f32[16,16] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
    s = f32[16,16] dot(d, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
    ROOT r = (f32[16,16], f32[16,16]) tuple(s, b) }
    cond { q = (f32[16,16], f32[16,16]) parameter(0) ROOT k = pred[] constant(false) }
    yes { y = f32[16,16] parameter(0)
    d = f32[16,16] dot(y, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
    ROOT n = f32[16,16] tanh(d) }
    no { y = f32[16,16] parameter(0) ROOT n = f32[16,16] sine(y) }";

/// A step of `n_stages` stages with so many microbatches.
pub fn placed(seed: u64, n_stages: usize, n_microbatches: usize, schedule: &str) -> Module {
    let (lines, forward, backward, weights) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut writer = Writer { random: Random(seed), n_stages, lines, forward, backward, weights, n: 0 };
    let aliases = writer.step();
    let meshes: Vec<String> = (0..n_stages).map(|stage| format!("{stage}:")).collect();
    let plan = format!("{{\"n_microbatches\":{n_microbatches},\"schedule\":\"{schedule}\"}}");
    let lines: Vec<(&str, &str, usize)> = writer.lines.iter().map(|it| (&*it.0, it.1, it.2)).collect();
    staged_with(COMPS, &aliases, &meshes.join(";"), &plan, &lines)
}

impl Writer {
    /// Writes the step; its aliases.
    fn step(&mut self) -> String {
        self.push("x", "f32[16,16] parameter(0)", "fwd", 0);
        self.forward.push(("x".to_owned(), 0));
        let n_weights = self.n_stages + self.random.below(3);
        for index in 0..n_weights {
            let (name, stage) = (format!("w{index}"), index % self.n_stages);
            self.push(&name, &format!("f32[16,16] parameter({})", index + 1), "fwd", stage);
            self.weights.push((name, stage));
        }
        for stage in 0..self.n_stages {
            (0..1 + self.random.below(5)).for_each(|_| self.op("fwd", stage));
        }
        for stage in (0..self.n_stages).rev() {
            (0..1 + self.random.below(5)).for_each(|_| self.op("bwd", stage));
        }
        self.updates(n_weights)
    }

    fn push(&mut self, name: &str, text: &str, phase: &'static str, stage: usize) {
        self.lines.push((format!("{name} = {text}"), phase, stage));
    }

    /// A value that a part of a stage can read.
    fn readable(&mut self, phase: &str, stage: usize) -> String {
        let own: Vec<String> = match self.random.below(4) {
            0 => self.weights.iter().filter(|it| it.1 == stage || it.1 == 0).map(|it| it.0.clone()).collect(),
            1 | 2 if phase == "bwd" => self.backward.iter().map(|it| it.0.clone()).collect(),
            _ => self
                .forward
                .iter()
                .filter(|it| phase == "bwd" || it.1 <= stage)
                .map(|it| it.0.clone())
                .collect(),
        };
        // Most read what is near.
        match (own.len(), self.random.below(3)) {
            (0, _) => "x".to_owned(),
            (n, 0) => own[self.random.below(n)].clone(),
            (n, _) => own[n - 1].clone(),
        }
    }

    fn op(&mut self, phase: &'static str, stage: usize) {
        let (a, b) = (self.readable(phase, stage), self.readable(phase, stage));
        self.n += 1;
        let name = format!("v{}", self.n);
        match self.random.below(12) {
            0..=4 => {
                let dot = "lhs_contracting_dims={1}, rhs_contracting_dims={0}";
                self.push(&name, &format!("f32[16,16] dot({a}, {b}), {dot}"), phase, stage);
            }
            5 => self.push(&name, &format!("f32[16,16] tanh({a})"), phase, stage),
            6 => self.push(&name, &format!("f32[16,16] add({a}, {b})"), phase, stage),
            7 => {
                self.push(&format!("{name}r"), &format!("f32[256] reshape({a})"), phase, stage);
                self.push(&name, &format!("f32[16,16] reshape({name}r)"), phase, stage);
            }
            8 => {
                let whole = "sharding={{replicated}, {replicated}}";
                let shape = "(f32[16,16], f32[16,16])";
                self.push(&format!("{name}t"), &format!("{shape} tuple({a}, {b}), {whole}"), phase, stage);
                let text = format!("{shape} while({name}t), condition=cond, body=body, {whole}");
                self.push(&format!("{name}w"), &text, phase, stage);
                self.push(&name, &format!("f32[16,16] get-tuple-element({name}w), index=0"), phase, stage);
            }
            9 => {
                self.push(&format!("{name}k"), "pred[] constant(true)", phase, stage);
                let text =
                    format!("conditional({name}k, {a}, {b}), true_computation=yes, false_computation=no");
                self.push(&name, &format!("f32[16,16] {text}"), phase, stage);
            }
            10 => {
                self.push(&format!("{name}c"), "f32[] constant(2)", phase, stage);
                let text = format!("f32[16,16] broadcast({name}c), dimensions={{}}");
                self.push(&format!("{name}b"), &text, phase, stage);
                self.push(&name, &format!("f32[16,16] multiply({a}, {name}b)"), phase, stage);
            }
            _ => {
                let dot = "lhs_contracting_dims={1}, rhs_contracting_dims={0}";
                self.push(
                    &format!("{name}l"),
                    &format!("f32[16,64] concatenate({a}, {b}, {a}, {b}), dimensions={{1}}"),
                    phase,
                    stage,
                );
                self.push(&format!("{name}m"), &format!("f32[64,16] reshape({name}l)"), phase, stage);
                self.push(&name, &format!("f32[16,16] dot({name}l, {name}m), {dot}"), phase, stage);
            }
        }
        let made = if phase == "fwd" { &mut self.forward } else { &mut self.backward };
        made.push((name, stage));
    }

    /// Every weight is updated by a gradient of its own; the outputs.
    fn updates(&mut self, n_weights: usize) -> String {
        let mut updates = Vec::new();
        for (index, (weight, stage)) in self.weights.clone().into_iter().enumerate() {
            let (a, b) = (self.readable("bwd", stage), self.readable("bwd", stage));
            // A gradient waits for the backward parts of later stages alone.
            let is_late = |name: &String| !self.backward.iter().any(|(made, of)| made == name && *of < stage);
            let [a, b] = [a, b].map(|name| if is_late(&name) { name } else { "x".to_owned() });
            let dot = "lhs_contracting_dims={0}, rhs_contracting_dims={0}";
            let gradient = (format!("g{index} = f32[16,16] dot({a}, {b}), {dot}"), "bwd", stage);
            let update = (format!("n{index} = f32[16,16] subtract({weight}, g{index})"), "upd", stage);
            self.lines.push(gradient);
            match self.random.below(2) {
                0 => self.lines.push(update),
                _ => updates.push(update),
            }
        }
        self.lines.extend(updates);
        let list = |of: &dyn Fn(usize) -> String| (0..n_weights).map(of).collect::<Vec<_>>().join(", ");
        let (shapes, names) = (list(&|_| "f32[16,16]".to_owned()), list(&|at| format!("n{at}")));
        let whole = list(&|_| "{replicated}".to_owned());
        let text = format!("ROOT out = ({shapes}) tuple({names}), sharding={{{whole}}}");
        self.lines.push((text, "upd", 0));
        let n_reused = self.random.below(n_weights + 1);
        (0..n_reused)
            .map(|at| format!("{{{at}}}: ({}, {{}}, may-alias)", at + 1))
            .collect::<Vec<_>>()
            .join(", ")
    }
}
