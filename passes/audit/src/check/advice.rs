//! What is legal and yet probably not meant: floats that the device has no units for, inputs that nothing
//! reads, products that every device of a stage computes whole.

use phzc_cost::Cluster;
use phzc_ir::effects::has_side_effect;
use phzc_ir::flops::is_contraction;
use phzc_ir::{CompId, Diagnostic, Instr, Module, Opcode, counted};
use phzc_plan::derive::{Facts, InstrFacts, known, planned_comps};

/// A product of the program, and what is known of it.
type Product<'a> = (&'a Instr, &'a InstrFacts);

/// Of more inputs than these, only the number is said.
const MAX_NAMED: usize = 4;

/// The warnings, none twice.
pub(super) fn advice(module: &Module, facts: &Facts, cluster: &Cluster) -> Vec<Diagnostic> {
    let products: Vec<Product> =
        planned_comps(module).into_iter().flat_map(|comp| products(module, facts, comp)).collect();
    let n_stages = facts.header.meshes.len();
    let whole = (0..n_stages).filter_map(|stage| whole(facts, &products, stage));
    missing_units(&products, cluster).into_iter().chain(unread(module)).chain(whole).collect()
}

fn products<'a>(
    module: &'a Module,
    facts: &'a Facts,
    comp: CompId,
) -> impl Iterator<Item = Product<'a>> + use<'a> {
    let all = module.comp(comp).instrs.iter().zip(&facts.comps[comp.index()]);
    all.filter(|(instr, _)| is_contraction(instr.op))
}

/// Products in floats that the device computes as wider ones.
fn missing_units(products: &[Product], cluster: &Cluster) -> Option<Diagnostic> {
    let device = &cluster.accelerator;
    let key = |instr: &Instr| instr.shape.as_array().map_or("f32", |array| array.dtype.as_str());
    let lacking = |it: &&Product| !device.peak_flops_per_sec.is_native(key(it.0));
    let all: Vec<&Product> = products.iter().filter(lacking).collect();
    let (first, _) = all.first()?;
    let dtype = key(first);
    let message = format!(
        "`{}` has no units for {dtype}: {} priced in wider floats",
        device.name,
        are(all.len(), "product")
    );
    let help = "lower the program in floats that the device has units for";
    Some(warning(message, first, help))
}

/// Inputs that nothing reads: they take memory all the same.
fn unread(module: &Module) -> Option<Diagnostic> {
    let comp = module.entry();
    let mut is_read = vec![false; comp.instrs.len()];
    comp.instrs.iter().flat_map(|instr| &instr.operands).for_each(|it| is_read[it.index()] = true);
    is_read[comp.root.index()] = true;
    let unread = comp.iter().filter(|(id, it)| it.op == Opcode::Parameter && !is_read[id.index()]);
    let all: Vec<&Instr> = unread.map(|(_, instr)| instr).filter(|it| !has_side_effect(it)).collect();
    let mut names: Vec<String> = all.iter().take(MAX_NAMED).map(|it| format!("`{}`", it.name)).collect();
    names.extend(all.get(MAX_NAMED).map(|_| format!("and {} more", all.len() - MAX_NAMED)));
    let message = format!("{} never read: {}", are(all.len(), "input"), names.join(", "));
    let help = "lower the program without what it does not use (`keep_unused=False` in JAX)";
    Some(warning(message, all.first()?, help))
}

/// A stage on several devices that splits none of its products.
fn whole(facts: &Facts, products: &[Product], stage: usize) -> Option<Diagnostic> {
    let n_devices = facts.header.meshes[stage].n_devices();
    let mut own = products.iter().filter(|(_, it)| it.stage == stage).peekable();
    let (first, _) = **own.peek()?;
    let is_split = own.any(|(_, it)| it.split.iter().any(Option::is_some));
    if n_devices == 1 || is_split || facts.header.is_local {
        return None;
    }
    let message = format!("all {n_devices} devices of stage {stage} compute the same products");
    let help = "choose a batch, or widths, that the number of devices divides; or fewer devices";
    Some(warning(message, first, help))
}

fn are(n: usize, noun: &str) -> String {
    format!("{} {}", counted(n, noun), if n == 1 { "is" } else { "are" })
}

fn warning(message: String, at: &Instr, help: &str) -> Diagnostic {
    Diagnostic { span: known(at.span), ..Diagnostic::warning(message).help(help) }
}
