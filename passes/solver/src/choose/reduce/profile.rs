//! Options side by side: which of them another beats whatever the other nodes take.

use super::{Link, Work, pick};

/// A node's options side by side: own cost, memory, and the cost of every edge for every option at its other
/// end.
pub(super) struct Profile {
    cost: Vec<f64>,
    /// Per usage, what each option needs; none where no limit makes memory matter.
    memory: Vec<Vec<f64>>,
    rows: Vec<f64>,
    width: usize,
    /// Where in a row each edge begins and ends.
    spans: Vec<(usize, usize)>,
    /// Per option and edge, where the option is at its cheapest.
    cheapest: Vec<usize>,
    /// Per star: each option's place, and what it may add at most (`Form::most_added`).
    stars: Vec<Vec<(u16, [f64; 2])>>,
}

impl Profile {
    pub(super) fn new(work: &Work, node: usize) -> Self {
        let kept = &work.kept[node];
        let links: Vec<&Link> = work.links_of[node].iter().map(|&link| &work.links[link as usize]).collect();
        let ends = links.iter().scan(0, |end, link| {
            let start = *end;
            *end += work.kept[link.other(node)].len();
            Some((start, *end))
        });
        let spans: Vec<(usize, usize)> = ends.collect();
        let width = spans.last().map_or(0, |span| span.1);
        let mut rows = Vec::with_capacity(kept.len() * width);
        for &option in kept {
            for link in &links {
                link.append(node, option, &work.kept[link.other(node)], &mut rows);
            }
        }
        let limited = work.problem.memory_limit.is_some();
        let usages = if limited { work.problem.nodes[node].usages.as_slice() } else { &[] };
        let memory = usages.iter().map(|usage| pick(&usage.bytes, kept)).collect();
        let cost = pick(&work.cost[node], kept);
        let cheapest = cheapest(&rows, width, &spans);
        let star = |&(star, member): &(u32, usize)| {
            let form = &work.problem.stars[star as usize].form;
            let most = form.most_added(member);
            kept.iter().map(|&o| (form.place[member][o as usize], most[o as usize])).collect()
        };
        let stars = work.stars_of[node].iter().map(star).collect();
        Self { cost, memory, rows, width, spans, cheapest, stars }
    }

    /// What stars may cost more with `j` than with `i`, at most.
    fn most_added(&self, j: usize, i: usize) -> f64 {
        let added = |star: &Vec<(u16, [f64; 2])>| {
            if star[i].0 == star[j].0 { 0.0 } else { star[i].1[0] + star[j].1[1] }
        };
        self.stars.iter().map(added).sum()
    }

    fn row(&self, option: usize) -> &[f64] {
        &self.rows[option * self.width..][..self.width]
    }

    /// Whether every edge leaves the option some finite cost.
    pub(super) fn possible(&self, i: usize) -> bool {
        let row = self.row(i);
        self.spans.iter().all(|&(start, end)| row[start..end].iter().any(|&cost| cost < f64::INFINITY))
    }

    /// Whether `j` costs no more than `i` whatever the other nodes take (dead-end elimination).
    pub(super) fn beats(&self, j: usize, i: usize) -> bool {
        let own = self.cost[i] - self.cost[j] - self.most_added(j, i);
        let (mine, other) = (self.row(i), self.row(j));
        let spots = &self.cheapest[i * self.spans.len()..][..self.spans.len()];
        // Where `i` is at its best it usually wins, and this settles the question without the whole row.
        let at_best: f64 = spots.iter().map(|&at| saving(mine[at], other[at])).sum();
        if own + at_best < 0.0 || self.memory.iter().any(|bytes| bytes[j] > bytes[i]) {
            return false;
        }
        let worst = |&(start, end): &(usize, usize)| {
            mine[start..end].iter().zip(&other[start..end]).fold(f64::INFINITY, |least, (&m, &o)| {
                let saved = saving(m, o);
                if saved < least { saved } else { least }
            })
        };
        own + self.spans.iter().map(worst).sum::<f64>() >= 0.0
    }
}

/// What taking `other` instead of `mine` saves.
fn saving(mine: f64, other: f64) -> f64 {
    if mine == f64::INFINITY { f64::INFINITY } else { mine - other }
}

fn cheapest(rows: &[f64], width: usize, spans: &[(usize, usize)]) -> Vec<usize> {
    let mut spots = Vec::new();
    for row in rows.chunks_exact(width.max(1)) {
        spots.extend(
            spans.iter().map(|&(start, end)| {
                (start..end).min_by(|&p, &q| row[p].total_cmp(&row[q])).unwrap_or(start)
            }),
        );
    }
    spots
}
