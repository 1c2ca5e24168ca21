//! Segments: stretches of blocks, equal ones counted once, as CFP lists them.

use crate::blocks::{BlockId, Blocks};
use crate::graph::Graph;
use crate::merged::{self, Joined};
use crate::phase::Phase;
use crate::repeats::repeats;
use std::ops::Range;

/// The blocks with contractions, and what joined them.
pub struct Listed<'a> {
    /// The program.
    pub graph: &'a Graph,
    /// All its blocks.
    pub blocks: &'a Blocks,
    /// Those with contractions, as a reader meets them.
    pub order: &'a [BlockId],
    /// Per block: those that joined it.
    pub joined: &'a [Vec<Joined>],
}

/// Cuts a sequence at its repeats: per segment its stretch and the number of its kind.
fn segments(hashes: &[u64]) -> Vec<(Range<usize>, usize)> {
    let copies = repeats(hashes);
    let Some((_, first)) = copies.first().cloned() else { return vec![(0..hashes.len(), 0)] };
    let end = copies.last().map_or(first.end, |(copy, _)| copy.end);
    let repeated = usize::from(first.start > 0);
    let mut found = vec![(0..first.start, 0), (first, repeated)];
    found.extend(copies.into_iter().map(|(copy, _)| (copy, repeated)));
    found.push((end..hashes.len(), repeated + 1));
    found.retain(|(stretch, _)| !stretch.is_empty());
    found
}

/// `segment_mapping`: one line per segment, the number of its kind and of its forward products.
pub fn mapping(listed: &Listed, hashes: &[u64]) -> String {
    let line = |(stretch, kind): (Range<usize>, usize)| {
        let blocks = listed.order[stretch].iter();
        let n_forward: usize = blocks.map(|&block| n_forward(listed, block)).sum();
        format!("{kind},{n_forward}\n")
    };
    segments(hashes).into_iter().map(line).collect()
}

fn n_forward(listed: &Listed, block: BlockId) -> usize {
    let members = merged::contractions(listed.graph, listed.blocks, block);
    members.filter(|&node| listed.blocks.phases[node as usize] == Phase::Forward).count()
}

/// The blocks of the segment that repeats, each with its counterparts in the copies, those that joined
/// another left out; all blocks where nothing repeats.
pub fn repeated(listed: &Listed, hashes: &[u64]) -> Vec<Vec<BlockId>> {
    let all = segments(hashes);
    let copies =
        |kind: usize| all.iter().filter(move |(_, other)| *other == kind).map(|(stretch, _)| stretch);
    let kind =
        (0..all.len()).max_by_key(|&kind| (copies(kind).count(), std::cmp::Reverse(kind))).unwrap_or(0);
    let n_blocks = copies(kind).next().map_or(0, ExactSizeIterator::len);
    let groups = (0..n_blocks).map(|position| {
        copies(kind).map(|stretch| listed.order[stretch.start + position]).collect::<Vec<_>>()
    });
    let is_gone = |block: BlockId| listed.joined.iter().flatten().any(|it| it.block == block);
    groups.filter(|blocks| !is_gone(blocks[0])).collect()
}

/// Per kind of segment: how many strategies each of its blocks has, those that joined another left out.
pub fn search_spaces(listed: &Listed, hashes: &[u64]) -> String {
    let is_gone = |block: BlockId| listed.joined.iter().flatten().any(|it| it.block == block);
    let (mut out, mut n_kinds) = (String::new(), 0);
    for (stretch, kind) in segments(hashes) {
        if kind == n_kinds {
            let blocks = listed.order[stretch].iter().filter(|&&block| !is_gone(block));
            let counts: Vec<usize> =
                blocks.map(|&block| merged::n_strategies(listed.graph, listed.blocks, block)).collect();
            out += &format!("segment PB search space: {counts:?}\n");
            n_kinds += 1;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_before_and_after_the_repeats_is_of_its_own_kind() {
        assert_eq!(segments(&[9, 1, 2, 1, 2, 8]), [(0..1, 0), (1..3, 1), (3..5, 1), (5..6, 2)]);
        assert_eq!(segments(&[1, 2, 1, 2]), [(0..2, 0), (2..4, 0)]);
        assert_eq!(segments(&[1, 2, 3]), [(0..3, 0)]);
    }
}
