//! What the user forbids: kinds of communication, and kinds of strategies.

use super::model::Input;
use super::strategies::{Menu, Strategy, axes_on, least_tiles};
use phzc_analysis::blocks::BlockId;
use phzc_analysis::graph::NodeKind;
use phzc_analysis::roles::{Role, roles};
use phzc_cost::Collective;
use phzc_ir::{Diagnostic, Result, Span, nearest};
use smallvec::SmallVec;

/// What a word of the option forbids.
#[derive(Clone, Copy, Debug, PartialEq)]
enum What {
    /// Layouts never change by this collective, and nothing is reduced by it.
    Move(Collective),
    /// The loops of this role in a block's first contraction are whole.
    Role(Role),
    /// Parameters that do not run over the batch are stored whole.
    Weights,
    /// Nothing is made again where another layout of it is needed.
    Remake,
    /// What replaces such a parameter is not gathered (1), or what it is made of where it is read (3):
    /// [`super::zero`].
    Zero(u8),
}

/// The words of the option, each a bit of [`Forbid`].
const WORDS: [(&str, What); 13] = [
    ("all-gather", What::Move(Collective::AllGather)),
    ("all-reduce", What::Move(Collective::AllReduce)),
    ("reduce-scatter", What::Move(Collective::ReduceScatter)),
    ("all-to-all", What::Move(Collective::AllToAll)),
    ("collective-permute", What::Move(Collective::Permute)),
    ("batch", What::Role(Role::Batch)),
    ("lhs", What::Role(Role::Left)),
    ("rhs", What::Role(Role::Right)),
    ("contract", What::Role(Role::Contracted)),
    ("weights", What::Weights),
    ("zero1", What::Zero(1)),
    ("zero3", What::Zero(3)),
    ("remake", What::Remake),
];

/// What is forbidden; nothing by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Forbid(u16);

impl Forbid {
    /// Reads words with commas, spaces or `+` between them.
    ///
    /// # Errors
    /// The first word that is unknown; the span is in `text`.
    pub fn parse(text: &str) -> Result<Forbid> {
        let (mut found, mut at) = (Forbid::default(), 0);
        for word in text.split([',', ' ', '+']) {
            let span = Span::new(at, at + word.len());
            at += word.len() + 1;
            match WORDS.iter().position(|(known, _)| *known == word) {
                Some(bit) => found.0 |= 1 << bit,
                None if word.is_empty() => {}
                None => return Err(unknown(word).at(span)),
            }
        }
        Ok(found)
    }

    /// Whether a collective is forbidden.
    pub fn forbids(self, kind: Collective) -> bool {
        self.words().any(|(_, what)| what == What::Move(kind))
    }

    /// Whether a stage of ZeRO is forbidden: 1 (and with it 2), or 3.
    pub(super) fn forbids_zero(self, stage: u8) -> bool {
        self.words().any(|(_, what)| what == What::Zero(stage))
    }

    /// Whether nothing may be made again in another layout.
    pub(super) fn forbids_remaking(self) -> bool {
        self.words().any(|(_, what)| what == What::Remake)
    }

    /// The forbidden words.
    fn words(self) -> impl Iterator<Item = (&'static str, What)> {
        (0..WORDS.len()).filter(move |bit| self.0 >> bit & 1 == 1).map(|bit| WORDS[bit])
    }

    /// The words as the option takes them.
    pub fn text(self) -> String {
        self.words().map(|(word, _)| word).collect::<Vec<_>>().join("+")
    }

    /// The menu without the strategies that are forbidden.
    pub(super) fn filter(self, input: &Input, block: BlockId, mut menu: Menu) -> Menu {
        if self != Forbid::default() {
            let masks = self.masks(input, block, &menu);
            menu.strategies.retain(|strategy| word_of(strategy, &masks).is_none());
        }
        menu
    }

    /// The word that forbids a strategy of a block, if one does.
    pub(super) fn word(
        self,
        input: &Input,
        block: BlockId,
        menu: &Menu,
        strategy: &Strategy,
    ) -> Option<&'static str> {
        word_of(strategy, &self.masks(input, block, menu))
    }

    /// Per word: the loops of the block's menu (a bit each) that have to be whole.
    fn masks(self, input: &Input, block: BlockId, menu: &Menu) -> Vec<(&'static str, u8)> {
        let mask = |what: What| match what {
            What::Move(Collective::Permute) => stencil_mask(input, block, menu),
            What::Move(_) | What::Zero(_) | What::Remake => 0,
            What::Role(role) => role_mask(input, block, menu, role),
            What::Weights => weight_mask(input, block, menu),
        };
        self.words().map(|(word, what)| (word, mask(what))).collect()
    }
}

fn word_of(strategy: &Strategy, masks: &[(&'static str, u8)]) -> Option<&'static str> {
    masks.iter().find(|(_, mask)| axes_on(strategy, *mask) != 0).map(|(word, _)| *word)
}

/// The loops along which a node reads its neighbours' edges.
fn stencil_mask(input: &Input, block: BlockId, menu: &Menu) -> u8 {
    let least = least_tiles(input.graph, input.blocks, block, &menu.loops);
    least.iter().enumerate().map(|(at, &least)| u8::from(least > 0) << at).sum()
}

/// The loops that have a role in the block's first contraction, which is the forward one.
fn role_mask(input: &Input, block: BlockId, menu: &Menu, wanted: Role) -> u8 {
    let (graph, blocks) = (input.graph, input.blocks);
    let mut members = blocks.members[block as usize].iter().copied();
    let Some(first) = members.find(|&node| graph.nodes[node as usize].is_contraction) else { return 0 };
    let mut classes = SmallVec::new();
    for (factor, _) in roles(&graph.nodes[first as usize]).into_iter().filter(|(_, role)| *role == wanted) {
        blocks.classes.leaves(blocks.node_classes[first as usize][factor], &mut classes);
    }
    menu.mask(&classes)
}

/// The loops that split a parameter of the block which does not run over the batch.
fn weight_mask(input: &Input, block: BlockId, menu: &Menu) -> u8 {
    let (graph, blocks) = (input.graph, input.blocks);
    let mut mask = 0;
    for &id in &blocks.members[block as usize] {
        let node = &graph.nodes[id as usize];
        let Some(&made) = node.results.first().filter(|_| node.kind == NodeKind::Source) else { continue };
        let map = blocks.def_map(made);
        let has_batch = map.iter().flatten().any(|class| input.batch.contains(class));
        if graph.tensors[made as usize].param.is_some() && !has_batch {
            map.iter().for_each(|classes| mask |= menu.mask(classes));
        }
    }
    mask
}

fn unknown(word: &str) -> Diagnostic {
    let known = WORDS.map(|(word, _)| word);
    let near = nearest(word, known).map(|near| format!("did you mean `{near}`? ")).unwrap_or_default();
    Diagnostic::error(format!("`{word}` cannot be forbidden"))
        .help(format!("{near}known: {}", known.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{artifact, check};

    const PROGRAM: &str = "ENTRY e {
        x = f32[16,64] parameter(0)
        w1 = f32[64,2048] parameter(1)
        w2 = f32[2048,64] parameter(2)
        h = f32[16,2048] dot(x, w1), lhs_contracting_dims={1}, rhs_contracting_dims={0}
        a = f32[16,2048] tanh(h)
        ROOT y = f32[16,64] dot(a, w2), lhs_contracting_dims={1}, rhs_contracting_dims={0}
    }";

    #[test]
    fn words_are_read_back_and_others_shown() {
        assert_eq!(Forbid::parse("rhs, all-to-all+rhs").map(Forbid::text), Ok("all-to-all+rhs".to_owned()));
        let error = Forbid::parse("rhs, all-to-al").expect_err("a word that is unknown");
        assert_eq!(error.span, Some(Span::new(5, 14)));
        assert!(error.to_string().contains("did you mean `all-to-all`?"), "{error}");
    }

    #[test]
    fn a_role_that_is_forbidden_is_in_no_menu() {
        let map =
            |forbid: &str| artifact(&format!("shard{{mesh=8,forbid={forbid}}}"), PROGRAM, "strategy_map.txt");
        assert!(map("weights").contains("allreduce"));
        assert!(!map("contract").contains("allreduce"));
        assert!(!map("rhs").contains("SS = SR x RS @ {0,1}"));
        assert!(!map("lhs").contains("SS = SR x RS @ {1,0}"));
    }

    #[test]
    fn a_collective_that_is_forbidden_is_avoided() {
        // Rows to columns: an all-to-all, or else a gather.
        let plan = |forbid: &str| {
            check(
                &format!("shard{{mesh=8,pin={{^x$=[x,-]; z=[-,x]}}{forbid}}}"),
                "ENTRY e {
            x = f32[64,64] parameter(0)
            ROOT z = f32[64,64] tanh(x)
        }",
            )
        };
        assert!(!plan("").contains("all-gather"), "{}", plan(""));
        let without = plan(",forbid=all-to-all");
        assert!(!without.contains("all-to-all") && without.contains("all-gather"), "{without}");
        let neither = plan(",forbid=all-to-all+all-gather");
        assert!(
            neither.contains("no layout of this program is legal") && neither.contains("forbid"),
            "{neither}"
        );
    }
}
