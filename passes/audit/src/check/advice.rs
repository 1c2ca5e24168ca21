//! What is legal and yet probably not meant: floats that the device has no units for, inputs that nothing
//! reads, products that every device of a stage computes whole.

use phzc_cost::Cluster;
use phzc_ir::flops::is_contraction;
use phzc_ir::{CompId, Diagnostic, Instr, Module, Opcode, counted};
use phzc_plan::derive::{Facts, InstrFacts, is_planned, known, planned_comps};
use std::collections::BTreeMap;

/// A product of the program.
struct Product<'a> {
    instr: &'a Instr,
    own: &'a InstrFacts,
    /// What it multiplies.
    dtype: &'static str,
}

/// Of more inputs than these, only the number is said.
const MAX_NAMED: usize = 4;

/// The warnings.
pub(super) fn advice(module: &Module, facts: &Facts, cluster: &Cluster) -> Vec<Diagnostic> {
    let products: Vec<Product> =
        planned_comps(module).into_iter().flat_map(|comp| products(module, facts, comp)).collect();
    let planned_stages = if is_planned(module) { facts.header.meshes.len() } else { 0 };
    let whole = (0..planned_stages).filter_map(|stage| whole(facts, &products, stage));
    missing_units(&products, cluster).into_iter().chain(unread(module)).chain(whole).collect()
}

fn products<'a>(
    module: &'a Module,
    facts: &'a Facts,
    comp: CompId,
) -> impl Iterator<Item = Product<'a>> + use<'a> {
    let all = module.comp(comp).instrs.iter().zip(&facts.comps[comp.index()]);
    let product = move |(instr, own): (&'a Instr, &'a InstrFacts)| {
        let first = module.comp(comp).instr(*instr.operands.first()?).shape.as_array()?;
        is_contraction(instr.op).then_some(Product { instr, own, dtype: first.dtype.as_str() })
    };
    all.filter_map(product)
}

/// Products in floats that the device computes as wider ones, by their type.
fn missing_units(products: &[Product], cluster: &Cluster) -> Vec<Diagnostic> {
    let device = &cluster.accelerator;
    let mut lacking: BTreeMap<&str, Vec<&Product>> = BTreeMap::new();
    for it in products.iter().filter(|it| !device.peak_flops_per_sec.is_native(it.dtype)) {
        lacking.entry(it.dtype).or_default().push(it);
    }
    let said = |(dtype, all): (&str, Vec<&Product>)| {
        let all_are = are(all.len(), "product");
        let message = format!("`{}` has no units for {dtype}: {all_are} priced in wider floats", device.name);
        warning(message, all[0].instr, "lower the program in floats that the device has units for")
    };
    lacking.into_iter().map(said).collect()
}

/// Inputs that nothing reads: they take memory all the same.
fn unread(module: &Module) -> Option<Diagnostic> {
    let comp = module.entry();
    let mut is_read = vec![false; comp.instrs.len()];
    comp.instrs.iter().flat_map(|instr| &instr.operands).for_each(|it| is_read[it.index()] = true);
    is_read[comp.root.index()] = true;
    let unread = comp.iter().filter(|(id, it)| it.op == Opcode::Parameter && !is_read[id.index()]);
    let all: Vec<&Instr> = unread.map(|(_, instr)| instr).collect();
    let mut names: Vec<String> = all.iter().take(MAX_NAMED).map(|it| format!("`{}`", it.name)).collect();
    names.extend(all.get(MAX_NAMED).map(|_| format!("and {} more", all.len() - MAX_NAMED)));
    let message = format!("{} never read: {}", are(all.len(), "input"), names.join(", "));
    let help = "lower the program without what it does not use (`keep_unused=False` in JAX)";
    Some(warning(message, all.first()?, help))
}

/// A stage on several devices that splits none of its products.
fn whole(facts: &Facts, products: &[Product], stage: usize) -> Option<Diagnostic> {
    let n_devices = facts.header.meshes[stage].n_devices();
    let own: Vec<&Product> = products.iter().filter(|it| it.own.stage == stage).collect();
    let is_split = own.iter().any(|it| it.own.split.iter().any(Option::is_some));
    if n_devices == 1 || is_split {
        return None;
    }
    let message = format!("all {n_devices} devices of stage {stage} compute the same products");
    let help = "fewer devices do as well; to use them all, choose a larger batch or larger widths, that their number divides";
    Some(warning(message, own.first()?.instr, help))
}

fn are(n: usize, noun: &str) -> String {
    format!("{} {}", counted(n, noun), if n == 1 { "is" } else { "are" })
}

fn warning(message: String, at: &Instr, help: &str) -> Diagnostic {
    Diagnostic { span: known(at.span), ..Diagnostic::warning(message).help(help) }
}
