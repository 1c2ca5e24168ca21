//! Counts of a partitioned program's collectives from its text alone: nothing of phzc's reader is used.

use std::collections::BTreeMap;

/// A text's computations, with what each line says.
pub struct Text<'t> {
    comps: BTreeMap<&'t str, Vec<&'t str>>,
    entry: &'t str,
}

const KINDS: [&str; 5] = ["all-gather", "all-reduce", "all-to-all", "collective-permute", "reduce-scatter"];

impl<'t> Text<'t> {
    /// Splits a program into its computations.
    pub fn new(text: &'t str) -> Text<'t> {
        let (mut comps, mut entry, mut name) = (BTreeMap::new(), "", "");
        for line in text.lines().skip(1) {
            if line.ends_with('{') && !line.starts_with(' ') {
                let head = line.strip_prefix("ENTRY ").unwrap_or(line);
                name = head.split([' ', '(']).next().unwrap_or_default();
                entry = if line.starts_with("ENTRY ") { name } else { entry };
            }
            comps.entry(name).or_insert_with(Vec::new).push(line);
        }
        Text { comps, entry }
    }

    /// Devices, by the header or the first collective's groups.
    pub fn n_devices(&self) -> usize {
        let groups = self.comps.values().flatten().filter_map(|line| after(line, "replica_groups="));
        let first = groups.into_iter().next().expect("a partitioned program has collectives");
        let sizes = first.trim_start_matches("mesh").trim_start_matches('[').split(']').next().unwrap_or("");
        sizes.split(',').filter_map(|size| size.rsplit('=').next()?.parse::<usize>().ok()).product()
    }

    /// Message bytes of one step on one device, by kind.
    pub fn bytes(&self) -> BTreeMap<&'static str, f64> {
        self.bytes_of(self.entry)
    }

    fn bytes_of(&self, comp: &str) -> BTreeMap<&'static str, f64> {
        let mut found = BTreeMap::new();
        for line in &self.comps[comp] {
            for kind in KINDS.into_iter().filter(|kind| line.contains(&format!(" {kind}("))) {
                *found.entry(kind).or_insert(0.0) += message_bytes(line, kind);
            }
            let (callee, times) = self.called(line);
            for (kind, bytes) in callee.map(|callee| self.bytes_of(callee)).unwrap_or_default() {
                *found.entry(kind).or_insert(0.0) += times * bytes;
            }
        }
        found
    }

    /// What a line runs, and how often: a loop as often as the largest number of its condition.
    fn called(&self, line: &'t str) -> (Option<&'t str>, f64) {
        let word = |key| after(line, key).map(|rest| rest.split([',', ' ']).next().unwrap_or_default());
        if line.contains(" while(") {
            let condition = word("condition=").expect("a loop has a condition");
            let numbers = self.comps[condition].iter().filter_map(|line| after(line, " constant("));
            let most =
                numbers.filter_map(|rest| rest.split(')').next()?.parse::<f64>().ok()).fold(1.0, f64::max);
            return (word("body="), most);
        }
        let is_call = line.contains(" call(") || line.contains(" fusion(");
        (word("to_apply=").or(word("calls=")).filter(|_| is_call), 1.0)
    }
}

fn after<'l>(line: &'l str, key: &str) -> Option<&'l str> {
    line.split_once(key).map(|(_, rest)| rest)
}

/// NCCL's convention: what is whole, before or after.
fn message_bytes(line: &str, kind: &str) -> f64 {
    let (_, rest) = line.split_once(" = ").expect("an instruction");
    let result = rest.split(&format!(" {kind}(")).next().unwrap_or_default();
    let arrays = result.trim_matches(['(', ')']).split("], ").flat_map(|part| part.split("}, "));
    let bytes: f64 = arrays.map(array_bytes).sum();
    if kind == "reduce-scatter" { bytes * group_size(line) } else { bytes }
}

/// `bf16[8192,64,128]{2,1,0}`.
fn array_bytes(shape: &str) -> f64 {
    let plain = shape.split("*/").last().unwrap_or_default();
    let (dtype, dims) = plain.trim().split_once('[').expect("an array");
    let dims = dims.split(']').next().unwrap_or_default();
    let n: f64 = dims.split(',').filter_map(|dim| dim.parse::<f64>().ok()).product();
    let digits: f64 = dtype.trim_start_matches(|c: char| c.is_ascii_alphabetic()).parse().unwrap_or(8.0);
    n * digits / 8.0
}

fn group_size(line: &str) -> f64 {
    let sizes = after(line, "replica_groups=[").and_then(|rest| rest.split(']').next()).expect("an iota");
    sizes.split(',').next_back().and_then(|size| size.parse().ok()).expect("a size")
}
