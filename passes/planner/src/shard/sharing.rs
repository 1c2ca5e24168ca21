//! Values that several readers want alike are moved once: stars of the problem.
//!
//! A value that is made partial has its sum done at home; where all readings want one layout it is done on
//! the way there, as by a reduce-scatter.

use super::edges::{FxMap, Target};
use super::model::Model;
use super::reshard_cost::Source;
use indexmap::IndexSet;
use phzc_analysis::blocks::BlockId;
use phzc_analysis::graph::TensorId;
use phzc_analysis::phase::Phase;
use phzc_solver::choose::{Form, MAX_READERS, Star};
use rustc_hash::FxBuildHasher;
use std::rc::Rc;
use std::sync::Arc;

/// Readings of one tensor in phases of equal weight, by different blocks.
pub(super) struct Shared {
    pub tensor: TensorId,
    /// The maker's block.
    pub from: BlockId,
    /// Where the value lies once it is reduced, under each strategy of the maker.
    pub sources: Rc<[Source]>,
    /// The value as it is made, likewise, and the weighted seconds of doing its sum at home, if that may be
    /// done elsewhere.
    pub made: Option<(Rc<[Source]>, Vec<f64>)>,
    /// Per reading: its block, and what it wants under each of that block's strategies.
    pub readings: Vec<(BlockId, Rc<[Target]>)>,
    /// Weighted executions per step.
    pub trips: f64,
    /// The same for equal tensors with equal ends.
    pub key: Vec<u64>,
}

/// The readings of one tensor (positions in `Model::uses`) that share its movements: in phases of equal
/// weight, as many as a star holds.
pub(super) fn groups(model: &Model, uses: &[usize]) -> Vec<Vec<usize>> {
    let mut groups: FxMap<(u64, Option<Phase>), Vec<usize>> = FxMap::default();
    for &index in uses {
        let it = &model.uses[index];
        let phase = model.input.moves_again.then(|| model.phase(it));
        groups.entry((model.weighted_trips(it).to_bits(), phase)).or_default().push(index);
    }
    groups.values().flat_map(|group| group.chunks(MAX_READERS)).map(<[usize]>::to_vec).collect()
}

/// The stars found so far; equal tensors get the same form.
#[derive(Default)]
pub(super) struct Sharing {
    forms: FxMap<Vec<u64>, Arc<Form>>,
    pub stars: Vec<Star>,
}

impl Sharing {
    /// Adds the star of some readings.
    pub(super) fn add(&mut self, model: &mut Model, it: &Shared) {
        let form = self.forms.entry(it.key.clone()).or_insert_with(|| Arc::new(form(model, it)));
        if [&form.home, &form.each, &form.only].iter().any(|costs| costs.iter().any(|&cost| cost != 0.0)) {
            let members = [it.from].into_iter().chain(it.readings.iter().map(|(block, _)| *block)).collect();
            self.stars.push(Star { members, form: form.clone() });
        }
    }
}

fn form(model: &mut Model, it: &Shared) -> Form {
    let made = |at: usize| it.made.as_ref().map(|(made, secs)| (made[at], secs[at].to_bits()));
    let mut sources: IndexSet<(Source, Option<(Source, u64)>), FxBuildHasher> = IndexSet::default();
    let own =
        (0..it.sources.len()).map(|at| sources.insert_full((it.sources[at], made(at))).0 as u16).collect();
    let mut targets: IndexSet<Target, FxBuildHasher> = IndexSet::default();
    let wanted = |(_, wanted): &(BlockId, Rc<[Target]>)| {
        wanted.iter().map(|&target| targets.insert_full(target).0 as u16).collect()
    };
    let place: Vec<Vec<u16>> = [own].into_iter().chain(it.readings.iter().map(wanted)).collect();
    let home: Vec<f64> =
        sources.iter().map(|(_, made)| made.map_or(0.0, |(_, secs)| f64::from_bits(secs))).collect();
    let (mut each, mut only) = (Vec::new(), Vec::new());
    for (&(source, made), home) in sources.iter().zip(&home) {
        for &target in &targets {
            let apart = model.moves_secs(it.trips, it.tensor, source, target);
            let shared = made.map(|(made, _)| model.moves_secs(it.trips, it.tensor, made, target));
            each.push(apart);
            only.push(shared.map_or(apart, |shared| shared.min(home + apart)));
        }
    }
    Form { place, n_wanted: targets.len(), home, each, only }
}
