//! Why a tensor lies as it does: every strategy of an instruction's block, what it costs, and why it lost.

mod loops;
mod terms;
mod totals;

pub(super) use totals::totals;

use super::model::Model;
use super::splits::Splitter;
use super::strategies::{Menu, Strategy, layout};
use super::strategy_map;
use phzc_analysis::blocks::BlockId;
use phzc_analysis::graph::NodeId;
use phzc_ir::{Diagnostic, InstrId, Layout, Module, Result, nearest};
use phzc_pass::explanation::{Considered, Explanation, Verdict};
use phzc_plan::derive::planned_comps;

/// Explains the instructions of these names.
///
/// # Errors
/// A name that the program does not have, or whose value no block lays out.
pub fn explain(
    module: &Module,
    model: &mut Model,
    option: &[u32],
    names: &[String],
) -> Result<Vec<Explanation>> {
    names.iter().map(|name| explain_one(module, model, option, name)).collect()
}

/// Refuses to explain a plan that was made before: what it was chosen from is not in the text.
///
/// # Errors
/// When some name is asked for.
pub(super) fn nothing_to_explain(names: &[String]) -> Result<()> {
    match names.first() {
        None => Ok(()),
        Some(name) => {
            let message = format!("`{name}` cannot be explained: the program has its plan already");
            Err(Diagnostic::error(message).help("plan the original program"))
        }
    }
}

fn explain_one(module: &Module, model: &mut Model, option: &[u32], name: &str) -> Result<Explanation> {
    let node = find(module, model, name)?;
    let Some(block) = model.input.blocks.block_of[node as usize] else {
        let error = Diagnostic::error(format!("there is nothing to choose about `{name}`"));
        return Err(error.help("scalars and what depends on constants only lie as their readers want"));
    };
    let n_options = model.menus[block as usize].strategies.len();
    let (mut own, chosen) = (option.to_vec(), option[block as usize]);
    let mut rows: Vec<(u32, Considered)> = Vec::with_capacity(n_options);
    for choice in 0..n_options as u32 {
        own[block as usize] = choice;
        rows.push((choice, considered(module, model, node, block, &own)));
    }
    rows.sort_by(|(a, x), (b, y)| {
        (*a != chosen, x.secs()).partial_cmp(&(*b != chosen, y.secs())).unwrap_or(a.cmp(b))
    });
    judge(model, block, &mut rows);
    let mut strategies: Vec<Considered> = rows.into_iter().map(|(_, row)| row).collect();
    let (menu, forbidden) = all_strategies(model, block);
    strategies
        .extend(forbidden.iter().map(|(strategy, word)| forbidden_row(model, node, &menu, strategy, word)));
    Ok(Explanation {
        name: name.to_owned(),
        mesh: model.mesh.to_string(),
        n_others: model.input.blocks.members[block as usize].len() - 1,
        strategies,
        loops: loops::facts(module, model, node, block, &menu),
    })
}

/// The node of an instruction.
fn find(module: &Module, model: &Model, name: &str) -> Result<NodeId> {
    let graph = model.input.graph;
    let comps = planned_comps(module).into_iter().rev();
    let instrs =
        || comps.clone().flat_map(|comp| module.comp(comp).iter().map(move |(id, it)| (comp, id, it)));
    let found: Vec<(_, InstrId)> =
        instrs().filter(|(.., it)| &*it.name == name).map(|(comp, id, _)| (comp, id)).collect();
    // Of what only renames a value, the value.
    let tensor = found.iter().find_map(|(comp, id)| graph.values[comp.index()][id.index()].first());
    match tensor {
        Some(&tensor) => Ok(graph.tensors[tensor as usize].def),
        None => {
            let error = Diagnostic::error(format!("the program has no instruction `{name}`"));
            match nearest(name, instrs().map(|(.., it)| &*it.name)) {
                Some(near) => Err(error.help(format!("did you mean `{near}`?"))),
                None => {
                    Err(error.help("names are those of the program after `inline`: see the dump of `fuse`"))
                }
            }
        }
    }
}

fn considered(module: &Module, model: &mut Model, node: NodeId, block: BlockId, own: &[u32]) -> Considered {
    let strategy = model.menus[block as usize].strategies[own[block as usize] as usize];
    // The sum of nothing is -0.0.
    let memory_bytes = 0.0 + model.memory(&model.input.blocks.members[block as usize], &[strategy])[0];
    let paid = model.paid(own);
    let terms = terms::of(module, model, block, own, &paid);
    let menu = model.menus[block as usize].clone();
    Considered { terms, memory_bytes, ..shape(model, node, &menu, &strategy) }
}

fn forbidden_row(
    model: &Model,
    node: NodeId,
    menu: &Menu,
    strategy: &Strategy,
    word: &'static str,
) -> Considered {
    Considered { verdict: Verdict::Forbidden(word), ..shape(model, node, menu, strategy) }
}

/// The layouts that a strategy of a menu means for a node, without its costs.
fn shape(model: &Model, node: NodeId, menu: &Menu, strategy: &Strategy) -> Considered {
    let (graph, blocks) = (model.input.graph, model.input.blocks);
    let it = &graph.nodes[node as usize];
    let text =
        |tensor: u32, layout: Layout| layout.named(graph.tensors[tensor as usize].dims.len(), &model.mesh);
    let read =
        |slot: usize| text(it.operands[slot], layout(strategy, &menu.view(blocks.use_map(node, slot))));
    let made = it.results.first();
    let made = made.map(|&tensor| text(tensor, layout(strategy, &menu.view(blocks.def_map(tensor)))));
    Considered {
        name: it.is_contraction.then(|| strategy_map::name(model, node, strategy)),
        operands: (0..it.operands.len()).map(read).collect(),
        result: made.unwrap_or_default(),
        terms: Vec::new(),
        memory_bytes: 0.0,
        verdict: Verdict::Chosen,
    }
}

/// The menu that there would be if nothing were forbidden, and what of it is, with the word that forbids it.
fn all_strategies(model: &Model, block: BlockId) -> (Menu, Vec<(Strategy, &'static str)>) {
    let input = &model.input;
    let size = |class| input.blocks.classes.size(class);
    let menu = Splitter::asked(|splitter| {
        Menu::build((input.graph, input.blocks), block, &model.mesh, &size, splitter)
    });
    let word =
        |strategy: &Strategy| input.forbid.word(input, block, &menu, strategy).map(|word| (*strategy, word));
    let forbidden = menu.strategies.iter().filter_map(word).collect();
    (menu, forbidden)
}

/// Says of every strategy but the first, which is chosen, why it is not.
fn judge(model: &Model, block: BlockId, rows: &mut [(u32, Considered)]) {
    let fixed: Vec<terms::Fixed> =
        rows.iter().map(|(choice, row)| terms::fixed(model, block, *choice, row)).collect();
    let (chosen_secs, chosen_bytes) = (rows[0].1.secs(), rows[0].1.memory_bytes);
    for index in 1..rows.len() {
        let dominator =
            (0..rows.len()).find(|&other| other != index && fixed[other].dominates(&fixed[index]));
        let (more, bytes) = (rows[index].1.secs() - chosen_secs, rows[index].1.memory_bytes - chosen_bytes);
        rows[index].1.verdict = match dominator {
            Some(other) => Verdict::Dominated(other),
            None if more < 0.0 => Verdict::TooLarge(-more, bytes),
            None => Verdict::Dearer(more),
        };
    }
}
