//! Layers that repeat: what of a chain's structure makes many stages equal.

use super::super::Twin;
use super::patterns::Edge;
use indexmap::IndexMap;
use phzc_cost::aceso::{Machine, OpChain};
use phzc_cost::profile::OpProfile;
use std::ops::Range;

/// A chain's layers and their classes.
pub struct Layers {
    /// Per operator: its layer.
    pub layer_of: Vec<usize>,
    /// Per layer its first operator, and the number of operators at the end.
    pub starts: Vec<usize>,
    /// Per layer: its class; layers of one class have the same rows.
    pub class: Vec<usize>,
    /// Per layer: the first and the last one of those around it that are of its class.
    alike: Vec<[usize; 2]>,
    /// Per class: a layer of it.
    first_of: Vec<usize>,
    /// Per class: what follows its layers.
    pub edges: Vec<Edge>,
    /// Per class and layer: how many layers of the class lie before.
    before: Vec<Vec<usize>>,
    /// Per operator: the kind of the cut before it, its class, place in the layer and the row before.
    pub kind: Vec<usize>,
    /// Per kind: an operator.
    pub example: Vec<usize>,
}

/// Longer layers are taken apart: patterns of recomputation are bits of a word.
const MAX_OPS: usize = 48;

impl Layers {
    /// The layers of a model's chain; operators that were measured alike are alike.
    pub fn of(machine: &Machine) -> Layers {
        Layers::new(&machine.chain, &measured_alike(machine))
    }

    /// The layers of a chain of which operators of one name in `ids` are alike.
    fn new(chain: &OpChain, ids: &[usize]) -> Layers {
        let (mut starts, mut layer_of) = (Vec::new(), Vec::new());
        for op in 0..chain.len() {
            if op == 0 || chain.starts_layer[op] || op - starts.last().unwrap_or(&0) >= MAX_OPS {
                starts.push(op);
            }
            layer_of.push(starts.len() - 1);
        }
        starts.push(chain.len());
        let (class, first_of) = classes(chain, ids, &starts);
        let before = (0..first_of.len()).map(|wanted| counts(&class, wanted)).collect();
        let edge = |&layer: &usize| match starts[layer + 1] {
            end if end == chain.len() => Edge::Stage,
            end if chain.ends_runs[end] => Edge::Cut,
            _ => Edge::Open,
        };
        let edges = first_of.iter().map(edge).collect();
        let mut kinds: IndexMap<(usize, usize, Option<usize>), usize> = IndexMap::new();
        let mut kind = Vec::new();
        for (op, &layer) in layer_of.iter().enumerate() {
            let next = kinds.len();
            let before = op.checked_sub(1).map(|before| ids[before]);
            let key = (class[layer], op - starts[layer], before);
            kinds.entry(key).or_insert(op);
            kind.push(kinds.get_index_of(&key).unwrap_or(next));
        }
        let example = kinds.into_values().collect();
        Layers { layer_of, starts, alike: alike(&class), class, first_of, edges, before, kind, example }
    }

    /// How many layers of a class lie in `first..end`.
    pub fn count(&self, class: usize, first: usize, end: usize) -> usize {
        self.before[class][end] - self.before[class][first]
    }

    /// Stages that end at an operator and begin in layers of one class are like those that end in the last of
    /// these.
    pub fn twin(&self, end: usize) -> Twin {
        let layer = self.layer_of[end - 1];
        let [first, last] = self.alike[layer];
        Twin { from: self.starts[first], end: end + self.starts[last] - self.starts[layer] }
    }

    /// Classes.
    pub fn n_classes(&self) -> usize {
        self.first_of.len()
    }

    /// The operators of the layer that stands for a class.
    pub fn ops_of(&self, class: usize) -> Range<usize> {
        let layer = self.first_of[class];
        self.starts[layer]..self.starts[layer + 1]
    }
}

/// Per position the first and the last one of the equal neighbours around it.
fn alike(class: &[usize]) -> Vec<[usize; 2]> {
    let run = |run: &[usize], end: usize| std::iter::repeat_n([end - run.len(), end - 1], run.len());
    let mut end = 0;
    let runs = class.chunk_by(|a, b| a == b);
    runs.flat_map(|own| {
        end += own.len();
        run(own, end)
    })
    .collect()
}

fn counts(class: &[usize], wanted: usize) -> Vec<usize> {
    let mut n = 0;
    let mut counts = vec![0];
    counts.extend(class.iter().map(|&class| {
        n += usize::from(class == wanted);
        n
    }));
    counts
}

/// Per operator the first one that was measured the same under every split, keeps as much of it, is laid out
/// alike and shares no parameter with others.
fn measured_alike(machine: &Machine) -> Vec<usize> {
    let (chain, tied) = (&machine.chain, machine.own.iter().flat_map(|own| &own.tied).collect::<Vec<_>>());
    let mut rows = IndexMap::new();
    let row_ids: Vec<usize> = (0..machine.tables.names.len())
        .map(|row| {
            let next = rows.len();
            let measured = machine.tables.rows.values().flat_map(|rows| bits(&rows[row]));
            *rows.entry(measured.collect::<Vec<_>>()).or_insert(next)
        })
        .collect();
    let mut known = IndexMap::new();
    let id = |op: usize| {
        let is_tied = tied.contains(&&op);
        let key = (
            row_ids[chain.rows[op]],
            chain.kept[op].to_bits(),
            chain.ends_runs[op],
            chain.forms[op],
            is_tied,
        );
        *known.entry(key).or_insert(op)
    };
    (0..chain.len()).map(id).collect()
}

fn bits(it: &OpProfile) -> impl Iterator<Item = u64> {
    let times = [it.forward_ms, it.backward_ms, it.input_mib, it.output_mib];
    let sizes = [it.weight_mib, it.activation_mib, it.forward_reserved_mib, it.backward_reserved_mib];
    times.into_iter().chain(sizes).map(f64::to_bits)
}

/// Per layer its class, and per class a layer. The first and the last layer are not recomputed in full: they
/// have their own.
fn classes(chain: &OpChain, ids: &[usize], starts: &[usize]) -> (Vec<usize>, Vec<usize>) {
    let n_layers = starts.len() - 1;
    let mut known = IndexMap::new();
    let class = (0..n_layers)
        .map(|layer| {
            let ops = starts[layer]..starts[layer + 1];
            let is_cut = ops.end < chain.len() && chain.ends_runs[ops.end];
            let key = (&ids[ops], is_cut, layer == 0, layer + 1 == n_layers);
            let entry = known.entry(key);
            let class = entry.index();
            entry.or_insert(layer);
            class
        })
        .collect();
    (class, known.into_values().collect())
}

/// Whether what crosses the cut before `a` is sent no slower than what crosses that before `b`, on any link,
/// and no more is kept there.
pub fn ends_cheaper(machine: &Machine, profiles: &[OpProfile], a: usize, b: usize) -> bool {
    let ms = |op: usize, is_far: bool| {
        op.checked_sub(1).map_or(0.0, |last| machine.send_after_ms(last, profiles[last].output_mib, is_far))
    };
    // The last operator of a stage keeps its result whatever is recomputed.
    let kept = |op: usize| {
        op.checked_sub(1).map_or(0.0, |last| profiles[last].activation_mib * machine.chain.kept[last])
    };
    [false, true].iter().all(|&is_far| ms(a, is_far) <= ms(b, is_far)) && kept(a) <= kept(b)
}

#[cfg(test)]
mod tests {
    use super::*;
    use phzc_cost::aceso::Repeat;

    #[test]
    fn stages_in_alike_layers_are_like_those_that_end_in_the_last_of_them() {
        let names = ["in", "enc-1st-layernorm", "b", "out"].map(String::from);
        let layers = {
            let chain = OpChain::new(&names, &[Repeat { first: 1, end: 3, n_layers: 3 }]);
            Layers::new(&chain, &chain.rows)
        };
        let twins: Vec<(usize, usize)> = (1..=8)
            .map(|end| {
                let twin = layers.twin(end);
                (twin.from, twin.end)
            })
            .collect();
        assert_eq!(twins, [(0, 1), (1, 4), (1, 5), (1, 4), (1, 5), (5, 6), (5, 7), (7, 8)]);
    }
}
