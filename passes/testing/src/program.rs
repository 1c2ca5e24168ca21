//! Random small programs (dots, elementwise ops, reductions, transposes, reshapes) and a cluster to split
//! them on.

use crate::Random;
use phzc_cost::Cluster;
use std::fmt::Write;

/// A value: its name and sizes.
type Value = (String, Vec<i64>);

struct Writer {
    random: Random,
    params: String,
    body: String,
    values: Vec<Value>,
    inputs: Vec<Value>,
}

/// A program of `n_ops` instructions besides parameters; now and then an output reuses a parameter's buffer.
pub fn program(seed: u64, n_ops: usize) -> String {
    let (params, body) = (String::new(), String::new());
    let mut writer = Writer { random: Random(seed), params, body, values: Vec::new(), inputs: Vec::new() };
    writer.start();
    (0..n_ops).for_each(|_| writer.op());
    writer.finish()
}

fn shape(dims: &[i64]) -> String {
    let sizes: Vec<String> = dims.iter().map(i64::to_string).collect();
    format!("f32[{}]", sizes.join(","))
}

impl Writer {
    fn size(&mut self) -> i64 {
        self.random.pick(&[2, 3, 4, 8, 8, 16, 32])
    }

    fn start(&mut self) {
        for _ in 0..1 + self.random.below(2) {
            let dims = (0..2 + self.random.below(2)).map(|_| self.size()).collect();
            self.parameter(dims);
        }
    }

    fn parameter(&mut self, dims: Vec<i64>) -> Value {
        let number = self.inputs.len();
        let value = (format!("p{number}"), dims);
        let _ = writeln!(self.params, "  p{number} = {} parameter({number})", shape(&value.1));
        self.inputs.push(value.clone());
        self.values.push(value.clone());
        value
    }

    fn push(&mut self, dims: Vec<i64>, op: &str) {
        let name = format!("v{}", self.values.len());
        let _ = writeln!(self.body, "  {name} = {} {op}", shape(&dims));
        self.values.push((name, dims));
    }

    fn op(&mut self) {
        let (name, dims) = self.random.pick(&self.values.clone());
        match self.random.below(8) {
            0..=2 if dims.len() >= 2 => self.dot(&name, &dims),
            3 => {
                let op = self.random.pick(&["tanh", "negate"]);
                self.push(dims, &format!("{op}({name})"));
            }
            4 if dims.len() >= 2 => self.transpose(&name, &dims),
            5 if dims.len() >= 2 => {
                let dim = self.random.below(dims.len());
                let mut kept = dims.clone();
                kept.remove(dim);
                self.push(kept, &format!("reduce({name}, zero), dimensions={{{dim}}}, to_apply=add"));
            }
            6 => self.reshape(&name, &dims),
            _ => {
                let equal: Vec<Value> =
                    self.values.iter().filter(|(_, other)| *other == dims).cloned().collect();
                let (other, _) = self.random.pick(&equal);
                self.push(dims, &format!("add({name}, {other})"));
            }
        }
    }

    /// With an earlier value that has a dimension of the right size, or with a new parameter.
    fn dot(&mut self, name: &str, dims: &[i64]) {
        let at = self.random.below(dims.len());
        let fits = |(_, other): &&Value| other.len() == 2 && other.contains(&dims[at]);
        let fitting: Vec<Value> = self.values.iter().filter(fits).cloned().collect();
        let (other, sizes) = if fitting.is_empty() || self.random.below(3) == 0 {
            let n = self.size();
            self.parameter(vec![dims[at], n])
        } else {
            self.random.pick(&fitting)
        };
        let to = sizes.iter().position(|&size| size == dims[at]).unwrap_or(0);
        let free = |sizes: &[i64], at: usize| {
            sizes
                .iter()
                .copied()
                .enumerate()
                .filter(move |&(dim, _)| dim != at)
                .map(|(_, size)| size)
                .collect()
        };
        let rows: Vec<i64> = free(dims, at);
        let columns: Vec<i64> = free(&sizes, to);
        let contracting = format!("lhs_contracting_dims={{{at}}}, rhs_contracting_dims={{{to}}}");
        self.push([rows, columns].concat(), &format!("dot({name}, {other}), {contracting}"));
    }

    fn transpose(&mut self, name: &str, dims: &[i64]) {
        let mut order: Vec<usize> = (0..dims.len()).collect();
        order.rotate_left(1 + self.random.below(dims.len() - 1));
        let text: Vec<String> = order.iter().map(usize::to_string).collect();
        let turned = order.iter().map(|&dim| dims[dim]).collect();
        self.push(turned, &format!("transpose({name}), dimensions={{{}}}", text.join(",")));
    }

    /// Two neighbours merge, or one dimension splits.
    fn reshape(&mut self, name: &str, dims: &[i64]) {
        let mut made = dims.to_vec();
        let at = self.random.below(dims.len());
        if at + 1 < dims.len() {
            let minor = made.remove(at + 1);
            made[at] *= minor;
        } else if dims.len() < 4 && made[at] % 2 == 0 {
            made[at] /= 2;
            made.insert(at + self.random.below(2), 2);
        }
        self.push(made, &format!("reshape({name})"));
    }

    fn finish(mut self) -> String {
        let last = self.values.last().expect("there is a parameter").clone();
        let mut outputs = vec![last];
        if self.random.below(2) == 0 {
            outputs.push(self.random.pick(&self.values.clone()));
        }
        let reused = self.inputs.iter().position(|(_, dims)| *dims == outputs[0].1);
        let alias = match reused.filter(|_| self.random.below(2) == 0) {
            Some(param) => format!(", input_output_alias={{ {{0}}: ({param}, {{}}, may-alias) }}"),
            None => String::new(),
        };
        let shapes: Vec<String> = outputs.iter().map(|(_, dims)| shape(dims)).collect();
        let names: Vec<&str> = outputs.iter().map(|(name, _)| name.as_str()).collect();
        let root = format!("  ROOT out = ({}) tuple({})", shapes.join(", "), names.join(", "));
        let add = "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }";
        let (params, body) = (self.params, self.body);
        format!(
            "HloModule m{alias}\n{add}\nENTRY e {{\n{params}  zero = f32[] constant(0)\n{body}{root}\n}}\n"
        )
    }
}

/// A device that computes slowly and talks fast, so that small programs are worth splitting.
pub fn cluster(n_devices: usize, hbm_bytes: f64, link_bytes_per_sec: f64) -> Cluster {
    let text = format!(
        "name = \"test\"\nper_node = {n_devices}\n[accelerator]\nname = \"slow\"\ndescription = \"made up\"\n\
         source = \"made up\"\npeak_flops_per_sec = {{ f32 = 1e9, tf32 = 1e9 }}\nmatmul_efficiency = 1.0\n\
         vector_efficiency = 1.0\nhbm_bytes = {hbm_bytes}\nusable = 1.0\nhbm_bytes_per_sec = 1e9\nhbm_efficiency = 1.0\n\
         launch_secs = 1e-9\ncollective_launch_secs = 1e-9\n[[levels]]\nname = \"link\"\nbytes_per_sec = {link_bytes_per_sec}\n\
         efficiency = 1.0\nlatency_secs = 1e-8\ntopology = \"switch\"\nsource = \"made up\"\n"
    );
    Cluster::from_toml(&text).expect("a legal cluster")
}

/// Checks a property on many programs and says which one breaks it.
pub fn for_programs(n_programs: u64, n_ops: usize, property: impl Fn(&str, &[i64], &mut Random)) {
    const MESHES: &[&[i64]] = &[&[2], &[4], &[2, 2], &[8], &[2, 4], &[4, 2]];
    for seed in 0..n_programs {
        let mut random = Random(seed ^ 0xabcd);
        let text = program(seed, 1 + random.below(n_ops));
        let mesh = random.pick(MESHES);
        let shown = std::panic::AssertUnwindSafe(|| property(&text, mesh, &mut random));
        if let Err(panic) = std::panic::catch_unwind(shown) {
            eprintln!("program {seed} on mesh {mesh:?}:\n{text}");
            std::panic::resume_unwind(panic);
        }
    }
}

/// `2x4`
pub fn mesh_text(mesh: &[i64]) -> String {
    mesh.iter().map(i64::to_string).collect::<Vec<_>>().join("x")
}

/// Of the whole mesh.
pub fn n_devices(mesh: &[i64]) -> usize {
    mesh.iter().product::<i64>() as usize
}
