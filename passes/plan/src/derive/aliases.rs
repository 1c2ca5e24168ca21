//! What the header says about buffers: outputs that reuse those of parameters (`input_output_alias`), and
//! parameters whose buffers may be used for anything (`buffer_donor`). XLA's verifier has the same rules but
//! for layouts and stages, which it does not know.

use super::agree::describe;
use super::{Facts, Leaf, Problem};
use phzc_ir::text::shape_text;
use phzc_ir::{Aliased, InstrId, Module, Shape, alias_entries, donor_entries};
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet};

const ALIAS: &str = "input_output_alias";
const DONOR: &str = "buffer_donor";

/// Everything that is wrong about them.
pub fn problems(module: &Module, facts: &Facts) -> Vec<Problem> {
    let (mut outputs, mut params) = (BTreeSet::new(), BTreeSet::new());
    let mut found: Vec<(bool, String)> = Vec::new();
    let mut leaves = Leaves::new();
    for pair in alias_entries(module) {
        match pair {
            Err(message) => found.push((true, message)),
            Ok(alias) => {
                let (output, reused) = (alias.output, part(module, alias.leaf, alias.param));
                if !outputs.insert(output) {
                    let message = format!(
                        "output {output} reuses the buffer of {reused} and that of another parameter"
                    );
                    found.push((true, format!("{message}: leave one of them out of `{ALIAS}`")));
                }
                if !params.insert((alias.param, alias.leaf)) {
                    let message =
                        format!("output {output} reuses the buffer of {reused}, as another output does");
                    found.push((true, format!("{message}: leave one of them out of `{ALIAS}`")));
                }
                found.extend(unlike(module, facts, &mut leaves, alias, &reused));
            }
        }
    }
    for donor in donor_entries(module) {
        match donor {
            Err(message) => found.push((true, message)),
            Ok((param, leaf)) if !params.insert((param, leaf)) => {
                let given = part(module, leaf, param);
                found.push((
                    true,
                    format!("`{DONOR}` gives away {given}, which is given away already: leave it out"),
                ));
            }
            Ok(_) => {}
        }
    }
    let problem =
        |(is_fatal, message)| Problem { comp: module.entry, instr: module.entry().root, is_fatal, message };
    found.into_iter().map(problem).collect()
}

/// A parameter, or a part of one.
fn part(module: &Module, leaf: usize, param: InstrId) -> String {
    let param = module.entry().instr(param);
    match param.shape {
        Shape::Tuple(_) => format!("part {leaf} of `{}`", param.name),
        _ => format!("`{}`", param.name),
    }
}

/// The leaves of instructions' shapes, kept: those of a step's results are asked for once per parameter.
type Leaves<'m> = BTreeMap<InstrId, SmallVec<[&'m Shape; 2]>>;

/// Why an output does not fit the buffer that it reuses, and whether XLA would say so too.
fn unlike<'m>(
    module: &'m Module,
    facts: &Facts,
    leaves: &mut Leaves<'m>,
    alias: Aliased,
    reused: &str,
) -> Option<(bool, String)> {
    let mut of = |id: InstrId, leaf: usize| {
        let own = &facts.comps[module.entry.index()][id.index()];
        let shapes = leaves.entry(id).or_insert_with(|| module.entry().instr(id).shape.leaves());
        (shapes[leaf], own.leaves[leaf], own.bytes[leaf])
    };
    let ((output, made, made_bytes), (param, held, held_bytes)) =
        (of(module.entry().root, alias.output), of(alias.param, alias.leaf));
    if output.bytes() != param.bytes() {
        let (made, held) = (shape_text(output), shape_text(param));
        let message = format!(
            "output {} reuses the buffer of {reused}, which is `{held}`, but is `{made}`",
            alias.output
        );
        return Some((true, message));
    }
    let (header, is_alike) = (&facts.header, output.same_type(param));
    let is_here = |leaf: &Leaf| (header.group(leaf.stage), leaf.layout, leaf.partial);
    let is_same = match is_alike {
        true => is_here(&made) == is_here(&held) && header.meshes[made.stage] == header.meshes[held.stage],
        false => header.group(made.stage) == header.group(held.stage) && made_bytes == held_bytes,
    };
    let (made, held) = (describe(made, &header.meshes), describe(held, &header.meshes));
    let message =
        format!("output {} reuses the buffer of {reused}, which is {held}, but is {made}", alias.output);
    (!is_same).then_some((false, message))
}
