//! A cost that one maker and several readers share: the maker's value is brought once to each place that a
//! reader wants.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The most readers of one star: sets of readers are enumerated.
pub const MAX_READERS: usize = 5;

/// One maker's value and its readers.
#[derive(Clone, Debug)]
pub struct Star {
    /// The maker, then the readers; a node may read in two ways, and read what it makes.
    pub members: Vec<u32>,
    /// What it costs; equal stars share one form.
    pub form: Arc<Form>,
}

/// What a star costs, by where the value is and where it is wanted.
#[derive(Clone, Debug, PartialEq)]
pub struct Form {
    /// Per member and option: where the maker has the value, or where a reader wants it.
    pub place: Vec<Vec<u16>>,
    /// Places where it may be wanted.
    pub n_wanted: usize,
    /// Per place of the maker: the cost of being read in different places.
    pub home: Vec<f64>,
    /// Per place of the maker and place wanted: the cost of bringing it there.
    pub each: Vec<f64>,
    /// The same where all readers want that one place; no more than `home` and `each` together.
    pub only: Vec<f64>,
}

impl Form {
    /// The cost when the members take these options.
    pub fn cost(&self, option: impl Fn(usize) -> u32) -> f64 {
        let place = |member: usize| usize::from(self.place[member][option(member) as usize]);
        let row = place(0) * self.n_wanted;
        let mut wanted: [usize; MAX_READERS] = [0; MAX_READERS];
        let n_readers = self.place.len() - 1;
        (0..n_readers).for_each(|reader| wanted[reader] = place(reader + 1));
        let wanted = &wanted[..n_readers];
        if wanted.iter().all(|&other| other == wanted[0]) {
            return self.only[row + wanted[0]];
        }
        let is_new = |at: &usize| !wanted[..*at].contains(&wanted[*at]);
        let moves: f64 = (0..n_readers).filter(is_new).map(|at| self.each[row + wanted[at]]).sum();
        self.home[place(0)] + moves
    }

    /// Per option of a member: the least cost, when every option of another member costs what `own` says as
    /// well.
    pub(super) fn least(&self, member: usize, own: &[&[f64]]) -> Vec<f64> {
        let sources = self.least_by_place(0, own[0], self.home.len());
        let others: Vec<usize> = (1..self.place.len()).filter(|&other| other != member).collect();
        let sums = self.sums(&others, own);
        let by_place = match member {
            0 => (0..self.home.len()).map(|source| self.least_at(source, &sums)).collect(),
            _ => self.least_wanted(&sources, &sums),
        };
        self.place[member].iter().map(|&place| by_place[usize::from(place)]).collect()
    }

    /// Per place: the least of what a member's options there cost; infinite where it has none.
    fn least_by_place(&self, member: usize, own: &[f64], n_places: usize) -> Vec<f64> {
        let mut least = vec![f64::INFINITY; n_places];
        for (&place, &cost) in self.place[member].iter().zip(own) {
            let least = &mut least[usize::from(place)];
            *least = if cost < *least { cost } else { *least };
        }
        least
    }

    /// Per set of readers (a bit each) and place: what their options there cost together, set after set.
    fn sums(&self, readers: &[usize], own: &[&[f64]]) -> Vec<f64> {
        let mut sums = Vec::with_capacity(self.n_wanted << readers.len());
        sums.resize(self.n_wanted, 0.0);
        for &reader in readers {
            let least = self.least_by_place(reader, own[reader], self.n_wanted);
            for at in 0..sums.len() {
                sums.push(sums[at] + least[at % self.n_wanted]);
            }
        }
        sums
    }

    fn row<'f>(&self, costs: &'f [f64], source: usize) -> &'f [f64] {
        &costs[source * self.n_wanted..][..self.n_wanted]
    }

    /// Per set of readers: the least cost of bringing the value from one place to wherever they want it.
    fn parts(&self, source: usize, sums: &[f64]) -> Vec<f64> {
        let each = self.row(&self.each, source);
        let together: Vec<f64> = self.sets(sums).map(|sums| least_sum(each, sums)).collect();
        let mut parts = vec![0.0; together.len()];
        for set in 1..together.len() {
            let first = set & set.wrapping_neg();
            let mut least = f64::INFINITY;
            // The set that shares a place with the first reader, over all subsets of the others.
            let mut others = set ^ first;
            loop {
                let cost = together[others | first] + parts[set ^ others ^ first];
                least = if cost < least { cost } else { least };
                if others == 0 {
                    break;
                }
                others = (others - 1) & (set ^ first);
            }
            parts[set] = least;
        }
        parts
    }

    /// What `sums` says of every set of readers; of all readers last.
    fn sets<'s>(&self, sums: &'s [f64]) -> impl DoubleEndedIterator<Item = &'s [f64]> + use<'s> {
        sums.chunks_exact(self.n_wanted)
    }

    fn least_at(&self, source: usize, sums: &[f64]) -> f64 {
        let parts = self.parts(source, sums);
        let apart = self.home[source] + parts[parts.len() - 1];
        self.sets(sums)
            .next_back()
            .map_or(apart, |all| apart.min(least_sum(self.row(&self.only, source), all)))
    }

    /// Per place that one more reader wants: the least cost.
    fn least_wanted(&self, sources: &[f64], sums: &[f64]) -> Vec<f64> {
        let mut least = vec![f64::INFINITY; self.n_wanted];
        for (source, own) in sources.iter().enumerate().filter(|(_, own)| **own < f64::INFINITY) {
            let parts = self.parts(source, sums);
            let [each, only] = [&self.each, &self.only].map(|costs| self.row(costs, source));
            self.sets(sums).next_back().iter().for_each(|all| lower(&mut least, only, all, *own));
            // The readers that are not in the set want other places.
            for (sums, others) in self.sets(sums).zip(parts.iter().rev()) {
                lower(&mut least, each, sums, own + self.home[source] + others);
            }
        }
        least
    }

    /// Per option of a member, two costs: taking the second of one option instead of the first of another
    /// adds no more than both together, whatever the others take.
    pub(super) fn most_added(&self, member: usize) -> Vec<[f64; 2]> {
        match member {
            0 => self.place[0].iter().map(|&source| [0.0, self.most_apart(usize::from(source))]).collect(),
            _ => self.place[member].iter().map(|&place| self.most_for(usize::from(place))).collect(),
        }
    }

    /// No more is ever paid for a value at one place.
    fn most_apart(&self, source: usize) -> f64 {
        let dearest = |reader: &Vec<u16>| {
            let each = self.row(&self.each, source);
            reader.iter().map(|&place| each[usize::from(place)]).fold(0.0, f64::max)
        };
        self.home[source] + self.place[1..].iter().map(dearest).sum::<f64>()
    }

    /// What a reader loses at most that is no longer one of all that want a place, and what wanting it costs
    /// at most.
    fn most_for(&self, wanted: usize) -> [f64; 2] {
        let mut most = [0.0f64; 2];
        for source in 0..self.home.len() {
            let (each, only) = (self.row(&self.each, source)[wanted], self.row(&self.only, source)[wanted]);
            most[0] = if only < f64::INFINITY { most[0].max(each - only) } else { most[0] };
            most[1] = most[1].max(self.home[source] + each);
        }
        most
    }

    /// The form on some options only, per member.
    fn part(&self, kept: &[&[u32]]) -> Form {
        let pick = |(place, kept): (&Vec<u16>, &&[u32])| kept.iter().map(|&at| place[at as usize]).collect();
        self.at(self.place.iter().zip(kept).map(pick).collect())
    }

    /// The form with its members at some of its places, and no others.
    fn at(&self, mut place: Vec<Vec<u16>>) -> Form {
        let homes = numbered(&mut place[..1]);
        let wanted = numbered(&mut place[1..]);
        Form {
            n_wanted: wanted.len(),
            home: homes.iter().map(|&home| self.home[home]).collect(),
            each: self.among(&self.each, &homes, &wanted),
            only: self.among(&self.only, &homes, &wanted),
            place,
        }
    }

    /// What bringing the value from some places to some costs, place after place.
    fn among(&self, costs: &[f64], homes: &[usize], wanted: &[usize]) -> Vec<f64> {
        let row = |&home: &usize| wanted.iter().map(move |&at| costs[home * self.n_wanted + at]);
        homes.iter().flat_map(row).collect()
    }

    /// The form with other costs.
    pub(super) fn with(&self, cost: impl Fn(f64) -> f64) -> Form {
        let map = |costs: &[f64]| costs.iter().map(|&value| cost(value)).collect();
        Form { home: map(&self.home), each: map(&self.each), only: map(&self.only), ..self.clone() }
    }

    /// The form where costs from `most` on count as `most`, without places where no option is.
    pub(super) fn at_most(&self, most: f64) -> Form {
        self.at(self.place.clone()).with(|cost| if cost < most { cost } else { most })
    }

    /// All costs over axes of these sizes, the last varying fastest; a member's option is the index along its
    /// axis.
    pub(super) fn dense(&self, sizes: &[usize], axis: &[usize]) -> Vec<f64> {
        let mut index = vec![0u32; sizes.len()];
        let entry = |at: usize| {
            let mut rest = at;
            for (index, &size) in index.iter_mut().zip(sizes).rev() {
                *index = (rest % size) as u32;
                rest /= size;
            }
            self.cost(|member| index[axis[member]])
        };
        (0..sizes.iter().product()).map(entry).collect()
    }
}

/// Forms made of forms, one per distinct combination.
#[derive(Default)]
pub(super) struct Parts {
    made: BTreeMap<(*const Form, Vec<Vec<u32>>), Arc<Form>>,
}

impl Parts {
    /// The form on some options only; the same for the same options of the same form.
    pub(super) fn part(&mut self, form: &Arc<Form>, kept: &[&[u32]]) -> Arc<Form> {
        if kept.iter().zip(&form.place).all(|(kept, place)| kept.len() == place.len()) {
            return form.clone();
        }
        let key = (Arc::as_ptr(form), kept.iter().map(|kept| kept.to_vec()).collect());
        self.made.entry(key).or_insert_with(|| Arc::new(form.part(kept))).clone()
    }
}

/// Numbers the places of some members anew, without gaps; returns what they were called.
fn numbered(place: &mut [Vec<u16>]) -> Vec<usize> {
    let used: BTreeSet<u16> = place.iter().flatten().copied().collect();
    let used: Vec<u16> = used.into_iter().collect();
    for place in place.iter_mut().flatten() {
        *place = used.partition_point(|used| used < place) as u16;
    }
    used.into_iter().map(usize::from).collect()
}

/// How many minima are taken side by side: as many as a vector of the processor holds, twice.
const LANES: usize = 4;

fn least_sum(a: &[f64], b: &[f64]) -> f64 {
    let mut lanes = [f64::INFINITY; LANES];
    let (a, b) = (a.chunks_exact(LANES), b.chunks_exact(LANES));
    let rest = a.remainder().iter().zip(b.remainder()).map(|(a, b)| a + b).fold(f64::INFINITY, f64::min);
    for (a, b) in a.zip(b) {
        for lane in 0..LANES {
            let sum = a[lane] + b[lane];
            lanes[lane] = if sum < lanes[lane] { sum } else { lanes[lane] };
        }
    }
    lanes.into_iter().fold(rest, f64::min)
}

fn lower(least: &mut [f64], a: &[f64], b: &[f64], base: f64) {
    for ((least, a), b) in least.iter_mut().zip(a).zip(b) {
        let cost = a + b + base;
        *least = if cost < *least { cost } else { *least };
    }
}
