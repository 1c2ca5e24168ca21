//! Acceptance vectors of CFP (reference/cfp-alpa.md, appendix B): what its blocks and plans are follows from factor rules alone.

mod common;

use common::{phzc, scratch};
use phzc_ir::ops::reshape::factorize;
use phzc_ir::{Layout, Mesh, parse};
use std::fmt::Write;
use std::fs;

/// A program that is written line by line; `@` is the number of the next parameter.
#[derive(Default)]
struct Text {
    body: String,
    n_params: usize,
}

impl Text {
    fn line(&mut self, line: &str) {
        let numbered = line.replacen('@', &self.n_params.to_string(), 1);
        self.n_params += usize::from(numbered != line);
        let _ = writeln!(self.body, "  {numbered}");
    }

    fn dot(&mut self, name: &str, shape: &str, operands: &str, batch: [&str; 2], contracted: [&str; 2]) {
        let batch = match batch {
            ["", _] => String::new(),
            [lhs, rhs] => format!("lhs_batch_dims={{{lhs}}}, rhs_batch_dims={{{rhs}}}, "),
        };
        let [lhs, rhs] = contracted;
        self.line(&format!(
            "{name} = f32[{shape}] dot({operands}), {batch}lhs_contracting_dims={{{lhs}}}, rhs_contracting_dims={{{rhs}}}"
        ));
    }

    /// `name = x · w`, both matrices.
    fn matmul(&mut self, name: &str, x: &str, [m, k, n]: [i64; 3]) {
        self.line(&format!("{name}w = f32[{k},{n}] parameter(@)"));
        self.dot(name, &format!("{m},{n}"), &format!("{x}, {name}w"), ["", ""], ["1", "0"]);
    }

    /// Softmax attention over rows of 4 x 8 positions, 2 heads of 8, with one matrix for query, key and value or three.
    fn attention(&mut self, p: &str, x: &str, is_fused: bool) -> String {
        self.line(&format!("{p}n = f32[32,16] tanh({x})"));
        if is_fused {
            self.matmul(&format!("{p}qkv"), &format!("{p}n"), [32, 16, 48]);
            self.line(&format!("{p}r = f32[4,8,2,24] reshape({p}qkv)"));
        }
        for (index, part) in ["q", "k", "v"].into_iter().enumerate() {
            let (low, high) = (8 * index, 8 * index + 8);
            if is_fused {
                let ranges = format!("[0:4],[0:8],[0:2],[{low}:{high}]");
                self.line(&format!("{p}{part} = f32[4,8,2,8] slice({p}r), slice={{{ranges}}}"));
            } else {
                self.matmul(&format!("{p}{part}p"), &format!("{p}n"), [32, 16, 16]);
                self.line(&format!("{p}{part} = f32[4,8,2,8] reshape({p}{part}p)"));
            }
        }
        self.dot(&format!("{p}s"), "4,2,8,8", &format!("{p}q, {p}k"), ["0,2", "0,2"], ["3", "3"]);
        self.line(&format!("{p}e = f32[4,2,8,8] exponential({p}s)"));
        self.line(&format!("{p}z = f32[4,2,8] reduce({p}e, zero), dimensions={{3}}, to_apply=sum"));
        self.line(&format!("{p}b = f32[4,2,8,8] broadcast({p}z), dimensions={{0,1,2}}"));
        self.line(&format!("{p}p = f32[4,2,8,8] divide({p}e, {p}b)"));
        self.dot(&format!("{p}a"), "4,2,8,8", &format!("{p}p, {p}v"), ["0,1", "0,2"], ["3", "1"]);
        self.line(&format!("{p}t = f32[4,8,2,8] transpose({p}a), dimensions={{0,2,1,3}}"));
        self.line(&format!("{p}u = f32[32,16] reshape({p}t)"));
        self.matmul(&format!("{p}o"), &format!("{p}u"), [32, 16, 16]);
        self.line(&format!("{p}x = f32[32,16] add({x}, {p}o)"));
        format!("{p}x")
    }

    /// Two layers, with a gate beside the first or not.
    fn mlp(&mut self, p: &str, x: &str, is_gated: bool) -> String {
        self.line(&format!("{p}n = f32[32,16] tanh({x})"));
        self.matmul(&format!("{p}h"), &format!("{p}n"), [32, 16, 64]);
        let mut wide = format!("{p}h");
        if is_gated {
            self.matmul(&format!("{p}g"), &format!("{p}n"), [32, 16, 64]);
            self.line(&format!("{p}m = f32[32,64] multiply({p}h, {p}g)"));
            wide = format!("{p}m");
        }
        self.line(&format!("{p}f = f32[32,64] tanh({wide})"));
        self.matmul(&format!("{p}d"), &format!("{p}f"), [32, 64, 16]);
        self.line(&format!("{p}y = f32[32,16] add({x}, {p}d)"));
        format!("{p}y")
    }

    /// Four experts behind a gate that spreads 8 rows of each of 4 groups over 2 places per expert.
    fn experts(&mut self, p: &str, x: &str) -> String {
        self.line(&format!("{p}n = f32[32,16] tanh({x})"));
        self.matmul(&format!("{p}l"), &format!("{p}n"), [32, 16, 4]);
        self.line(&format!("{p}g = f32[4,8,4] reshape({p}l)"));
        self.line(&format!("{p}k = f32[4,8,4,2] broadcast({p}g), dimensions={{0,1,2}}"));
        self.line(&format!("{p}r = f32[4,8,16] reshape({p}n)"));
        self.dot(&format!("{p}i"), "4,4,2,16", &format!("{p}k, {p}r"), ["0", "0"], ["1", "1"]);
        self.line(&format!("{p}t = f32[4,4,2,16] transpose({p}i), dimensions={{1,0,2,3}}"));
        self.line(&format!("{p}e = f32[4,8,16] reshape({p}t)"));
        self.line(&format!("{p}w = f32[4,16,64] parameter(@)"));
        self.dot(&format!("{p}h"), "4,8,64", &format!("{p}e, {p}w"), ["0", "0"], ["2", "1"]);
        self.line(&format!("{p}f = f32[4,8,64] tanh({p}h)"));
        self.line(&format!("{p}v = f32[4,64,16] parameter(@)"));
        self.dot(&format!("{p}o"), "4,8,16", &format!("{p}f, {p}v"), ["0", "0"], ["2", "1"]);
        self.line(&format!("{p}s = f32[4,4,2,16] reshape({p}o)"));
        self.line(&format!("{p}b = f32[4,4,2,16] transpose({p}s), dimensions={{1,0,2,3}}"));
        self.dot(&format!("{p}c"), "4,8,16", &format!("{p}k, {p}b"), ["0", "0"], ["2,3", "1,2"]);
        self.line(&format!("{p}q = f32[32,16] reshape({p}c)"));
        self.line(&format!("{p}y = f32[32,16] add({x}, {p}q)"));
        format!("{p}y")
    }
}

/// Two layers of a model; each appends to the text and names what it made.
fn model(layers: [&dyn Fn(&mut Text, &str, &str) -> String; 2]) -> String {
    let mut text = Text::default();
    text.line("x = f32[32,16] parameter(@)");
    text.line("zero = f32[] constant(0)");
    let mut x = "x".to_owned();
    for (number, layer) in layers.iter().enumerate() {
        x = layer(&mut text, &format!("l{number}"), &x);
    }
    text.line(&format!("ROOT out = f32[32,16] tanh({x})"));
    let sum = "sum {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT c = f32[] add(a, b)\n}";
    format!("HloModule m\n\n{sum}\n\nENTRY main {{\n{}}}\n", text.body)
}

fn gpt(text: &mut Text, p: &str, x: &str) -> String {
    let x = text.attention(&format!("{p}a"), x, true);
    text.mlp(&format!("{p}m"), &x, false)
}

fn llama(text: &mut Text, p: &str, x: &str) -> String {
    let x = text.attention(&format!("{p}a"), x, false);
    text.mlp(&format!("{p}m"), &x, true)
}

fn moe(text: &mut Text, p: &str, x: &str) -> String {
    let x = text.attention(&format!("{p}a"), x, true);
    text.experts(&format!("{p}m"), &x)
}

/// What a pipeline says of a program in one of its dumps.
fn dump(test: &str, passes: &str, program: &str, file: &str) -> String {
    let dir = scratch(&format!("vectors_{test}"));
    let dumps = dir.to_string_lossy();
    let args = ["-", "--passes", passes, "--dump-dir", &*dumps, "-q", "-o", &format!("{dumps}/o.ir")];
    let outcome = phzc(&args, program.as_bytes());
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    fs::read_to_string(dir.join(file)).expect("the pass writes it")
}

/// `h: 0, 1, 2, ` per contraction, blocks apart: the plans of `blocks.txt`; what is left of it as it stands.
fn plans(blocks: &str) -> Vec<String> {
    let (mut found, mut name) = (Vec::new(), "");
    for line in blocks.lines() {
        match (line.strip_prefix("    Plan: "), line.trim_start().split_once(" = ")) {
            (Some(plan), _) => found.push(format!("{name}: {}", plan.trim_end())),
            (None, Some((start, _))) => name = start.rsplit(' ').next().unwrap_or(start),
            _ if line.starts_with("Parallel Block") => found.push("--".to_owned()),
            _ => found.push(line.to_owned()),
        }
    }
    found
}

#[test]
fn b1_a_product_and_its_backward_products() {
    let program = "ENTRY main {
        x = f32[64,32] parameter(0)
        w = f32[32,128] parameter(1)
        dy = f32[64,128] parameter(2)
        y = f32[64,128] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
        dw = f32[32,128] dot(x, dy), lhs_contracting_dims={0}, rhs_contracting_dims={0}
        dx = f32[64,32] dot(dy, w), lhs_contracting_dims={1}, rhs_contracting_dims={1}
        ROOT out = (f32[64,128], f32[32,128], f32[64,32]) tuple(y, dw, dx)
    }";
    let found = plans(&dump("b1", "fuse", program, "blocks.txt"));
    assert_eq!(found[..4], ["--", "y: 0, 1, 2,", "dw: 0, 2, 1,", "dx: 2, 1, 0,"]);
}

#[test]
fn b2_query_key_value_and_what_reads_them() {
    let found = plans(&dump("b2", "fuse", &model([&gpt, &gpt]), "blocks.txt"));
    // Columns are heads, rows are batch; the third entry is free: any split of whole operands will do.
    assert_eq!(found[..4], ["--", "l0aqkv: 0, 1, 2,", "l0as: 4, 3, 4,", "l0aa: 4, 3, 4,"]);
    let found = plans(&dump("b2_siblings", "fuse", &model([&llama, &llama]), "blocks.txt"));
    assert_eq!(found[1..4], ["l0aqp: 0, 1, 2,", "l0akp: 0, 1, 2,", "l0avp: 0, 1, 2,"]);
    assert_eq!(found[4..6], ["l0as: 4, 3, 4,", "l0aa: 4, 3, 4,"]);
}

#[test]
fn b3_blocks_per_layer() {
    let spaces = |test: &str, program: &str| -> Vec<String> {
        let blocks = dump(test, "fuse", program, "blocks.txt");
        blocks.lines().filter(|line| line.starts_with("segment")).map(str::to_owned).collect()
    };
    assert_eq!(spaces("b3_gpt", &model([&gpt, &gpt])), ["segment PB search space: [3, 3, 3, 3]"]);
    assert_eq!(spaces("b3_llama", &model([&llama, &llama])), ["segment PB search space: [3, 3, 3, 3]"]);
    // CFP joins the experts' two products by a constant, although a split of columns arrives there as a sum; by the
    // rules they stay apart, as the two products of an MLP do. With that [4, 4] it is [3, 3, 3, 4] + [3, 3, 3, 3].
    assert_eq!(
        spaces("b3_moe", &model([&moe, &gpt])),
        ["segment PB search space: [3, 3, 3, 4, 4, 3, 3, 3, 3]"]
    );
}

#[test]
fn b3_segments_and_their_forward_products() {
    let mapping = |test: &str, program: &str| dump(test, "fuse", program, "segment_mapping");
    assert_eq!(mapping("b3_gpt_map", &model([&gpt, &gpt])), "0,6\n0,6\n");
    assert_eq!(mapping("b3_llama_map", &model([&llama, &llama])), "0,9\n0,9\n");
    assert_eq!(mapping("b3_moe_map", &model([&moe, &gpt])), "0,15\n");
}

#[test]
fn b4_factors_of_reshapes() {
    let factors = |from: &[i64], to: &[i64]| -> Vec<(i64, Option<usize>, Option<usize>)> {
        factorize(from, to).iter().map(|piece| (piece.size, piece.input, piece.output)).collect()
    };
    let both = |size, from, to| (size, Some(from), Some(to));
    assert_eq!(factors(&[8, 4], &[2, 16]), [both(2, 0, 0), both(4, 0, 1), both(4, 1, 1)]);
    let split = factors(&[65536, 1280], &[64, 1024, 1280]);
    assert_eq!(split, [both(64, 0, 0), both(1024, 0, 1), both(1280, 1, 2)]);
}

#[test]
fn b4_the_sharding_table_by_either_spelling() {
    let mesh = Mesh::new(&[2, 4]);
    // Layout, the V2 text, the same as a list of devices.
    let table = [
        ("[x,y]", "{devices=[2,4]<=[8]}", "{devices=[2,4]0,1,2,3,4,5,6,7}"),
        ("[y,x]", "{devices=[4,2]<=[2,4]T(1,0)}", "{devices=[4,2]0,4,1,5,2,6,3,7}"),
        (
            "[y,-]",
            "{devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}",
            "{devices=[4,1,2]0,4,1,5,2,6,3,7 last_tile_dim_replicate}",
        ),
        (
            "[x,-]",
            "{devices=[2,1,4]<=[8] last_tile_dim_replicate}",
            "{devices=[2,1,4]0,1,2,3,4,5,6,7 last_tile_dim_replicate}",
        ),
        ("[xy,-]", "{devices=[8,1]<=[8]}", "{devices=[8,1]0,1,2,3,4,5,6,7}"),
        ("[-,-]", "{replicated}", "{replicated}"),
    ];
    for (layout, iota, list) in table {
        for text in [iota, list] {
            let program = format!("ENTRY e {{ ROOT x = f32[8,8] parameter(0), sharding={text} }}");
            let module = parse(&program).expect("a legal sharding");
            let tilings = module.entry().instrs[0].sharding().expect("it has one").leaves(1);
            let found = Layout::from_tiling(tilings[0], 2, &mesh).expect("a layout of the mesh");
            assert_eq!(found.named(2, &mesh), layout, "{text}");
            assert_eq!(found.to_tiling(2, &mesh).to_string(), iota);
        }
    }
}
