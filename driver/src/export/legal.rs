//! The nearest configuration that a stack can run: each stage has a layer, each copy of the model a sample.

use super::run::Run;
use phzc_cost::Schedule;
use phzc_ir::counted;
use phzc_passes::report::columns_rows;

impl Run<'_> {
    /// Fewer stages, each with as many layers as the others or one more, where there are too few layers for
    /// all. The first stage may have the embedding alone, and the last the head.
    pub(super) fn stages_of_layers(&mut self) {
        let Some(layers) = &self.layers else { return };
        let (n_layers, n_stages) = (layers.iter().sum::<usize>(), layers.len());
        if n_stages > 1 && n_layers + 2 < n_stages {
            self.fewer_stages(|pipeline| pipeline <= n_layers.max(1));
        }
    }

    /// The most device groups in a row of which something holds, without virtual stages; what is left of the
    /// devices is data parallel.
    pub(super) fn fewer_stages(&mut self, is_legal: impl Fn(usize) -> bool) {
        let n_layers = self.layers.iter().flatten().sum::<usize>();
        let fits = |n: &usize| self.pipeline.is_multiple_of(*n) && is_legal(*n);
        let pipeline = (1..=self.pipeline).rev().find(fits).unwrap_or(1);
        self.lost.push(format!(
            "{} in {}; {} written, and more data parallelism",
            counted(n_layers, "layer"),
            counted(self.pipeline * self.n_chunks, "stage"),
            if pipeline == 1 { "one stage is".to_owned() } else { format!("{pipeline} stages are") }
        ));
        self.degrees.data *= (self.pipeline / pipeline) as i64;
        (self.pipeline, self.n_chunks) = (pipeline, 1);
        if pipeline == 1 || matches!(self.schedule, Schedule::Interleaved(_)) {
            self.schedule = Schedule::OneFOneB;
        }
        let each = |stage| n_layers / pipeline + usize::from(stage < n_layers % pipeline);
        self.layers = Some((0..pipeline).map(each).collect());
    }

    /// Tensor or context parallelism in place of copies of the model that would have no sample.
    pub(super) fn samples_of_copies(&mut self) {
        let data = self.degrees.data.max(1);
        let copies = gcd(data, self.batch as i64);
        let left = data / copies;
        if left == 1 || copies % self.degrees.expert.max(1) != 0 {
            return;
        }
        let tensor = self.degrees.tensor * left;
        let is_split = || !columns_rows(self.module, self.facts, tensor).weights.is_empty();
        let is_context = |seq: i64| seq % (2 * self.degrees.context * left) == 0;
        let instead = if is_split() {
            self.degrees.sequence = if self.degrees.sequence > 1 { tensor } else { 1 };
            self.degrees.tensor = tensor;
            format!("tensor {tensor}")
        } else if self.seq.is_some_and(is_context) {
            self.degrees.context *= left;
            format!("context {}", self.degrees.context)
        } else {
            return;
        };
        self.degrees.data = copies;
        self.lost.push(format!(
            "{} in data {data}, more parts than the samples have; data {copies} and {instead} are written",
            counted(self.batch, "sample")
        ));
    }
}

fn gcd(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Layers of stages that are whole numbers, with one at least in each between the first and the last, as far
/// as the stage that has most can give one.
pub(super) fn filled(mut layers: Vec<usize>) -> Vec<usize> {
    for stage in 1..layers.len().saturating_sub(1) {
        if layers[stage] > 0 {
            continue;
        }
        let is_end = |at: usize| at == 0 || at + 1 == layers.len();
        // From the nearest of those that have most; an end can give its last.
        let spare = |at: usize| layers[at] + usize::from(is_end(at));
        let from = (0..layers.len()).filter(|&at| spare(at) > 1);
        if let Some(from) = from.max_by_key(|&at| (spare(at), usize::MAX - at.abs_diff(stage))) {
            layers[from] -= 1;
            layers[stage] += 1;
        }
    }
    layers
}

#[cfg(test)]
mod tests {
    use super::filled;

    #[test]
    fn stages_between_the_ends_have_a_layer_each() {
        assert_eq!(filled(vec![0, 1, 1, 0]), [0, 1, 1, 0]);
        assert_eq!(filled(vec![1, 0, 0, 1]), [0, 1, 1, 0]);
        assert_eq!(filled(vec![2, 0, 3, 1]), [2, 1, 2, 1]);
    }
}
