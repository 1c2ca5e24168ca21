//! Pins: layouts that the user fixes by the names of instructions, `^w1$=[x,-]; bias=[-]`.

use super::forbid::Forbid;
use super::model::Model;
use super::pinned::Pinned;
use super::strategies::Strategy;
use indexmap::IndexMap;
use phzc_analysis::blocks::{BlockId, Blocks};
use phzc_analysis::classes::ClassMap;
use phzc_analysis::graph::Graph;
use phzc_ir::{
    CompId, Diagnostic, Instr, InstrId, Layout, LayoutText, MAX_AXES, Mesh, Module, Result, Span, counted,
    nearest,
};
use phzc_opt::unshard;
use phzc_plan::derive::planned_comps;
use regex::Regex;

/// A pattern of names, and the layout of what is called like that.
#[derive(Debug)]
pub struct Pin {
    /// As it was written.
    text: String,
    pattern: Regex,
    layout: LayoutText,
}

/// An instruction whose layout is pinned.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fixed {
    pub comp: CompId,
    pub instr: InstrId,
    pub layout: Layout,
}

/// Reads pins with `;` between them.
///
/// # Errors
/// The first that is none; the span is in `text`.
pub fn parse(text: &str) -> Result<Vec<Pin>> {
    let (mut pins, mut at) = (Vec::new(), 0);
    for part in text.split(';') {
        let start = at + part.len() - part.trim_start().len();
        at += part.len() + 1;
        if !part.trim().is_empty() {
            pins.push(pin(part.trim(), start)?);
        }
    }
    Ok(pins)
}

/// Reads one pin that stands at `start`.
fn pin(text: &str, start: usize) -> Result<Pin> {
    let span = |from: usize, to: usize| Span::new(start + from, start + to);
    let Some(split) = text.find("=[") else {
        let error = Diagnostic::error(format!("`{text}` is no pin")).at(span(0, text.len()));
        return Err(error.help("write a pattern of names and a layout: `^w1$=[x,-]`"));
    };
    let (pattern, layout) = (&text[..split], &text[split + 1..]);
    let layout = LayoutText::parse(layout).map_err(|error| {
        let own = error.span.unwrap_or_default();
        error.at(span(split + 1 + own.start as usize, split + 1 + own.end as usize))
    })?;
    let pattern = unshard::pattern(pattern).map_err(|error| error.at(span(0, split)))?;
    Ok(Pin { text: text.to_owned(), pattern, layout })
}

/// What the pins fix on one mesh.
///
/// # Errors
/// A pin without an instruction; one whose layout the mesh or an instruction does not allow; two that differ.
pub(super) fn resolve(pins: &[Pin], module: &Module, mesh: &Mesh) -> Result<Vec<Fixed>> {
    let mut found: Vec<(Fixed, &Pin)> = Vec::new();
    for pin in pins {
        let layout =
            pin.layout.on(mesh).map_err(|error| error.note(None, format!("in the pin `{}`", pin.text)))?;
        let named = arrays(module).filter(|(_, _, instr)| pin.pattern.is_match(&instr.name));
        let n_before = found.len();
        for (comp, id, instr) in named {
            check(pin, layout, instr, mesh)?;
            let earlier = found.iter().find(|(it, _)| (it.comp, it.instr) == (comp, id));
            match earlier {
                Some((it, other)) if it.layout != layout => return Err(contradiction(pin, other, instr)),
                _ => found.push((Fixed { comp, instr: id, layout }, pin)),
            }
        }
        if found.len() == n_before {
            return Err(without_instruction(pin, module));
        }
    }
    Ok(found.into_iter().map(|(it, _)| it).collect())
}

/// The instructions whose value is an array.
fn arrays(module: &Module) -> impl Iterator<Item = (CompId, InstrId, &Instr)> {
    let comps = planned_comps(module).into_iter().rev();
    let all = comps.flat_map(|comp| module.comp(comp).iter().map(move |(id, instr)| (comp, id, instr)));
    all.filter(|(_, _, instr)| instr.shape.as_array().is_some())
}

/// Whether an instruction can lie as the pin says.
fn check(pin: &Pin, layout: Layout, instr: &Instr, mesh: &Mesh) -> Result<()> {
    let dims = instr.shape.as_array().map(|array| array.dims.clone()).unwrap_or_default();
    let (rank, wanted) = (dims.len(), pin.layout.dims.len());
    if rank != wanted {
        let (rank, wanted) = (counted(rank, "dimension"), counted(wanted, "dimension"));
        let message = format!("the pin `{}` has {wanted}, `{}` has {rank}", pin.text, instr.name);
        let help = "give each dimension an entry, or narrow the pattern: `^name$` matches one name";
        return Err(Diagnostic::error(message).at(instr.span).help(help));
    }
    match (0..rank).find(|&dim| dims[dim] % layout.tiles(dim, mesh) != 0) {
        Some(dim) => {
            let (size, tiles) = (dims[dim], layout.tiles(dim, mesh));
            let message = format!(
                "the pin `{}` splits dimension {dim} of `{}`, {size}, into {tiles} parts on the mesh `{mesh}`",
                pin.text, instr.name
            );
            let help = "split a dimension whose size the axes divide, or name a mesh by `shard{mesh=…}`";
            Err(Diagnostic::error(message).at(instr.span).help(help))
        }
        None => Ok(()),
    }
}

fn contradiction(pin: &Pin, other: &Pin, instr: &Instr) -> Diagnostic {
    let message =
        format!("the pins `{}` and `{}` give `{}` different layouts", other.text, pin.text, instr.name);
    Diagnostic::error(message).at(instr.span).help("narrow one of the patterns: `^name$` matches one name")
}

fn without_instruction(pin: &Pin, module: &Module) -> Diagnostic {
    let error = Diagnostic::error(format!("the pin `{}` matches no instruction", pin.text));
    let word = pin.pattern.as_str().trim_matches(['^', '$']);
    match nearest(word, arrays(module).map(|(_, _, instr)| &*instr.name)) {
        Some(near) => error.help(format!("did you mean `{near}`?")),
        None => error.help("a pattern is searched for in the names of the program after `inline`"),
    }
}

/// Pins the tensors behind the instructions, which a program may have given a layout already.
///
/// # Errors
/// When it gave them another.
pub(super) fn fix(
    fixed: &[Fixed],
    module: &Module,
    graph: &Graph,
    pinned: &mut [Option<Pinned>],
) -> Result<()> {
    for it in fixed {
        let Some(&tensor) = graph.values[it.comp.index()][it.instr.index()].first() else { continue };
        let instr = module.comp(it.comp).instr(it.instr);
        match pinned[tensor as usize] {
            Some(given) if given.of(it.layout) != it.layout => {
                let message = format!("a pin gives `{}` another layout than it has already", instr.name);
                let help = "drop the pin, or the `sharding={…}`: two names of one value have one layout";
                return Err(Diagnostic::error(message).at(instr.span).help(help));
            }
            _ => pinned[tensor as usize] = Some(it.layout.into()),
        }
    }
    Ok(())
}

/// Per tensor: whether it stands alone, as its layout came with the program, or as it is pinned to one that
/// its block cannot have together with those pinned before it.
pub(super) fn stand_alone(
    given: &[Option<Pinned>],
    pinned: &[Option<Pinned>],
    graph: &Graph,
    blocks: &Blocks,
) -> Vec<bool> {
    let mut alone: Vec<bool> = given.iter().map(Option::is_some).collect();
    let mut known: IndexMap<BlockId, Vec<(&ClassMap, Layout)>> = IndexMap::new();
    for (tensor, layout) in (0..).zip(pinned).filter_map(|(tensor, it)| Some((tensor, (*it)?.layout))) {
        let def = graph.tensors[tensor as usize].def as usize;
        let Some(block) = blocks.block_of[def].filter(|_| !alone[tensor as usize]) else { continue };
        let (own, others) = ((blocks.def_map(tensor), layout), known.entry(block).or_default());
        match others.iter().all(|&other| fits(own, other) && fits(other, own)) {
            true => others.push(own),
            false => alone[tensor as usize] = true,
        }
    }
    alone
}

/// Whether a tensor of the same block can lie so where another one does: each axis splits the same loop.
fn fits((map, layout): (&ClassMap, Layout), other: (&ClassMap, Layout)) -> bool {
    let class = |map: &ClassMap, layout: Layout, axis: usize| {
        layout.dim_of(axis).and_then(|dim| map.get(dim)?.first().copied())
    };
    (0..MAX_AXES).all(|axis| match (class(other.0, other.1, axis), class(map, layout, axis)) {
        (None, _) => true,
        (split, Some(own)) => split == Some(own),
        (split, None) => !map.iter().any(|dim| dim.first().copied() == split),
    })
}

impl Model<'_> {
    /// Per tensor: whether its block has to make it in the layout given for it. A movement right after its
    /// instruction stands nowhere in the text: a partitioner moves the operands instead, and knows of nothing
    /// forbidden. Of tensors that a block cannot make as given all together, the first ones count.
    pub(super) fn made_as_given(&self) -> Vec<bool> {
        let (graph, blocks) = (self.input.graph, self.input.blocks);
        let mut found = vec![self.input.forbid != Forbid::default(); graph.tensors.len()];
        let mut left: IndexMap<BlockId, Vec<Strategy>> = IndexMap::new();
        for (tensor, given) in (0..).zip(self.input.pinned) {
            let def = graph.tensors[tensor as usize].def as usize;
            let (Some(given), Some(block), 1) = (given, blocks.block_of[def], graph.nodes[def].results.len())
            else {
                continue;
            };
            let left = left.entry(block).or_insert_with(|| self.menus[block as usize].strategies.clone());
            let mut so = left.clone();
            so.retain(|strategy| {
                let made = self.made(tensor, strategy).layout;
                given.of(made) == made
            });
            if !so.is_empty() {
                found[tensor as usize] = true;
                *left = so;
            }
        }
        found
    }
}

/// Warnings about values that depend on constants only: they lie as their readers want, whatever a pin says.
pub(super) fn idle(fixed: &[Fixed], module: &Module, graph: &Graph) -> Vec<Diagnostic> {
    let is_free = |it: &&Fixed| {
        let tensor = graph.values[it.comp.index()][it.instr.index()].first();
        tensor.is_some_and(|&id| graph.tensors[id as usize].is_free) && !it.layout.is_replicated()
    };
    let warn = |it: &Fixed| {
        let instr = module.comp(it.comp).instr(it.instr);
        let text =
            format!("`{}` depends on constants only: it lies as its readers want, not as pinned", instr.name);
        Diagnostic::warning(text).at(instr.span)
    };
    fixed.iter().filter(is_free).map(warn).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::check;

    const PROGRAM: &str = "ENTRY e {
        x = f32[64,32] parameter(0)
        w1 = f32[32,64] parameter(1)
        h = f32[64,64] dot(x, w1), lhs_contracting_dims={1}, rhs_contracting_dims={0}
        ROOT y = f32[64,64] tanh(h)
    }";

    /// The line of an instruction in the plan on a mesh, its sharding only; or the error.
    fn planned(mesh: &str, pin: &str, name: &str) -> String {
        let out = check(&format!("shard{{mesh={mesh},pin={{{pin}}}}}"), PROGRAM);
        let line = out.lines().find(|line| line.trim_start().trim_start_matches("ROOT ").starts_with(name));
        match line.and_then(|line| line.split_once("sharding=")) {
            Some((_, rest)) => rest.split_once(", frontend").map_or(rest, |(found, _)| found).to_owned(),
            None => out,
        }
    }

    #[test]
    fn what_a_pin_matches_lies_as_it_says() {
        assert_eq!(
            planned("2x4", "^w1$=[y,-]", "w1 ="),
            "{devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}"
        );
        assert_eq!(planned("2x4", "^h$=[-,xy]; y=[x,y]", "h ="), "{devices=[1,8]<=[8]}");
        assert_eq!(planned("2x4", "^h$=[-,xy]; y=[x,y]", "y ="), "{devices=[2,4]<=[8]}");
        // Of all meshes, only those with two axes can be meant.
        assert_eq!(planned("auto", "h=[x,y]", "h =").matches("devices=").count(), 1);
    }

    #[test]
    fn what_cannot_be_pinned_is_said() {
        assert!(planned("2x4", "w1=[x]", "error").contains("has 1 dimension, `w1` has 2 dimensions"));
        assert!(planned("2x4", "w1=[-,z]", "error").contains("no axis of the mesh `x=2,y=4` is called `z`"));
        assert!(planned("2x4", "w2=[-,x]", "error").contains("did you mean `w1`?"));
        assert!(planned("2x4", "w1=[x,-]; w=[-,x]", "error").contains("give `w1` different layouts"));
        let odd = PROGRAM.replace("[32,64]", "[31,64]").replace("[64,32]", "[64,31]");
        let said = check("shard{mesh=8,pin={w1=[x,-]}}", &odd);
        assert!(said.contains("splits dimension 0 of `w1`, 31, into 8 parts on the mesh `x=8`"), "{said}");
        let given = PROGRAM.replace("parameter(1)", "parameter(1), sharding={replicated}");
        assert!(check("shard{mesh=8,pin={w1=[x,-]}}", &given).contains("another layout than it has already"));
    }

    #[test]
    fn a_pin_that_is_none_is_shown() {
        let spans =
            |text: &str| parse(text).err().and_then(|error| error.span).map(|span| (span.start, span.end));
        assert_eq!(spans("a=[x]; b"), Some((7, 8)));
        assert_eq!(spans("a=[x]; (=[x]"), Some((7, 8)));
        assert_eq!(spans("a=[x,?]"), Some((5, 6)));
        assert!(parse("a[0-9]=[x]").is_ok());
    }
}
