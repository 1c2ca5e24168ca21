//! The mesh whose axes the groups of a program's collectives span.
//!
//! Groups that step through the devices evenly are axes: `{0,4},{1,5},…` of 8 devices steps by 4 twice, so
//! it cuts the devices into 2 times 4. The cuts of all groups together make the mesh, as long as they divide
//! each other and make no more axes than a mesh has.

use phzc_ir::{MAX_AXES, Mesh};
use std::collections::BTreeSet;

/// The mesh of `n` devices that the groups lie on, the first of them before later ones that do not fit.
pub fn mesh_of(groups: &[Vec<Vec<usize>>], n: usize) -> Mesh {
    let mut cuts = BTreeSet::from([1, n]);
    for steps in groups.iter().filter_map(|groups| steps(groups)) {
        let mut more = cuts.clone();
        more.extend(steps.iter().flat_map(|&(stride, size)| [stride, stride * size]));
        let sorted: Vec<usize> = more.iter().copied().collect();
        let is_chain =
            sorted.windows(2).all(|pair| pair[1].is_multiple_of(pair[0])) && sorted.last() == Some(&n);
        if is_chain && sorted.len() <= MAX_AXES + 1 {
            cuts = more;
        }
    }
    let cuts: Vec<i64> = cuts.into_iter().map(|cut| cut as i64).collect();
    let sizes: Vec<i64> = cuts.windows(2).rev().map(|pair| pair[1] / pair[0]).collect();
    Mesh::new(&sizes)
}

/// How all groups step through the devices: strides with how often each is taken; none where they do not
/// step alike.
fn steps(groups: &[Vec<usize>]) -> Option<Vec<(usize, usize)>> {
    let first = offsets(groups.first()?)?;
    let is_alike = groups.iter().all(|group| offsets(group).as_ref() == Some(&first));
    is_alike.then(|| steps_of(&first)).flatten()
}

/// The distances of a group's devices from its lowest.
fn offsets(group: &[usize]) -> Option<Vec<usize>> {
    let mut sorted = group.to_vec();
    sorted.sort_unstable();
    let &lowest = sorted.first()?;
    Some(sorted.into_iter().map(|device| device - lowest).collect())
}

fn steps_of(offsets: &[usize]) -> Option<Vec<(usize, usize)>> {
    let (mut found, mut block) = (Vec::new(), 1);
    while block < offsets.len() {
        let stride = offsets[block];
        let is_next = |times: usize| {
            let next = offsets.get(times * block..(times + 1) * block);
            next.is_some_and(|next| next.iter().zip(offsets).all(|(at, from)| *at == from + times * stride))
        };
        let size = (1..).take_while(|&times| is_next(times)).count() + 1;
        if size == 1 || !offsets.len().is_multiple_of(size * block) {
            return None;
        }
        found.push((stride, size));
        block *= size;
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mesh(groups: &[&[&[usize]]], n: usize) -> String {
        let owned: Vec<Vec<Vec<usize>>> =
            groups.iter().map(|groups| groups.iter().map(|group| group.to_vec()).collect()).collect();
        mesh_of(&owned, n).to_string()
    }

    #[test]
    fn groups_that_step_evenly_are_axes() {
        assert_eq!(mesh(&[&[&[0, 1, 2, 3], &[4, 5, 6, 7]]], 8), "x=2,y=4");
        assert_eq!(mesh(&[&[&[0, 4], &[1, 5], &[2, 6], &[3, 7]]], 8), "x=2,y=4");
        assert_eq!(mesh(&[&[&[0, 2], &[1, 3], &[4, 6], &[5, 7]]], 8), "x=2,y=2,z=2");
        // The outer two of three axes together.
        assert_eq!(mesh(&[&[&[4, 0, 6, 2], &[1, 3, 5, 7]]], 8), "x=4,y=2");
        assert_eq!(mesh(&[&[&[0, 1, 4, 5], &[2, 3, 6, 7]]], 8), "x=2,y=2,z=2");
        assert_eq!(mesh(&[], 8), "x=8");
    }

    #[test]
    fn what_lies_on_no_mesh_with_what_came_before_is_left_out() {
        assert_eq!(mesh(&[&[&[0, 3], &[1, 2]]], 4), "x=4");
        let (twos, threes): (&[&[usize]], &[&[usize]]) =
            (&[&[0, 1], &[2, 3], &[4, 5]], &[&[0, 1, 2], &[3, 4, 5]]);
        assert_eq!(mesh(&[twos, threes], 6), "x=3,y=2");
        assert_eq!(mesh(&[threes, twos], 6), "x=2,y=3");
    }
}
