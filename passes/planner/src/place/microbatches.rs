//! The numbers of microbatches that are worth trying.

use super::Problem;
use crate::shard::forbid::Forbid;
use crate::shard::illegal::illegal;
use phzc_analysis::batch::batch_size;
use phzc_analysis::graph::Graph;
use phzc_ir::{Diagnostic, Module, Result};
use phzc_pass::pass::Options;
use phzc_plan::derive::{Facts, derive};
use phzc_plan::microbatch::{after_all, most_parts, on_time_axis_alone, on_time_axis_of};
use phzc_plan::plan_note;

/// The microbatch counts to try: one, where the program cannot run in several however it is laid out.
///
/// # Errors
/// When the count that the user wants does not divide the batch.
pub fn counts(module: &Module, graph: &Graph, options: &Options) -> Result<Vec<usize>> {
    let (batch, wanted) = (batch_size(graph), options.int("microbatches") as usize);
    if wanted > 0 && !batch.is_multiple_of(wanted) {
        let error = Diagnostic::error(format!("{wanted} microbatches do not divide a batch of {batch}"));
        return Err(match batch {
            1 => error.help(
                "a batch is the leading size of all inputs that are not donated (`input_output_alias`)",
            ),
            _ => error.help(format!("ask for a divisor of {batch}")),
        });
    }
    let powers = std::iter::successors(Some(1), |count| Some(count * 2))
        .take_while(|count| *count <= batch && batch.is_multiple_of(*count));
    let is_open = wanted == 0 && batch.is_multiple_of(2) && can_run_in(module, 2);
    Ok(if is_open { powers.collect() } else { vec![wanted.max(1)] })
}

/// Whether no microbatch needs a sum over all of them, such as a norm's over the batch or a random stream's
/// state.
fn can_run_in(module: &Module, n_microbatches: usize) -> bool {
    let mut cut = module.clone();
    plan_note::set(&mut cut, &[("n_microbatches", n_microbatches.into())]);
    on_time_axis_alone(&cut).and_then(|timed| after_all(&timed, &derive(&timed)?)).is_ok()
}

impl Problem<'_> {
    /// Why no number of microbatches is possible with the layouts of a text.
    pub(super) fn refusal(&self, text: &Module) -> Diagnostic {
        let counts = derive(text).and_then(|facts| self.counts_for(text, &facts));
        counts.err().unwrap_or_else(|| illegal(text, "this cluster", Forbid::default()))
    }

    /// The microbatch counts that leave every device a whole sample of each; more than one only if the
    /// program can run in microbatches.
    pub(super) fn counts_for(&self, text: &Module, facts: &Facts) -> Result<Vec<usize>> {
        let most = if self.counts == [1] { 1 } else { most_parts(text, facts) };
        let fits = |count: &&usize| **count == 1 || (most > 0 && most % **count as i64 == 0);
        let counts: Vec<usize> = self.counts.iter().filter(fits).copied().collect();
        let Some(&largest) = counts.last() else {
            let wanted = self.counts[0];
            let message =
                format!("a device's part of the batch, {most}, cannot be cut into {wanted} microbatches");
            return Err(
                Diagnostic::error(message).help("ask for fewer microbatches, or split the batch less")
            );
        };
        if largest == 1 {
            return Ok(counts);
        }
        let mut cut = facts.clone();
        cut.header.n_microbatches = largest;
        let judged = on_time_axis_of(text, &cut).and_then(|timed| after_all(&timed, &derive(&timed)?));
        match judged {
            Ok(_) => Ok(counts),
            Err(error) if !counts.contains(&1) => Err(error),
            Err(_) => Ok(vec![1]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::can_run_in;

    /// Whether a step can run in two microbatches whose values are shifted by `shift`.
    fn can_be_split(shift: &str) -> bool {
        let text = format!(
            "HloModule m, input_output_alias={{ {{0}}: (1, {{}}, may-alias) }}
            add {{ p = f32[] parameter(0) q = f32[] parameter(1) ROOT r = f32[] add(p, q) }}
            ENTRY e {{
            x = f32[64,32] parameter(0)
            w = f32[32,16] parameter(1)
            zero = f32[] constant(0)
            h = f32[64,16] dot(x, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
            {shift}
            y = f32[64,16] add(h, b)
            dw = f32[32,16] dot(x, y), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}
            new = f32[32,16] subtract(w, dw)
            ROOT out = (f32[32,16]) tuple(new)
            }}"
        );
        can_run_in(&phzc_ir::parse(&text).expect("legal"), 2)
    }

    #[test]
    fn a_sum_over_the_batch_that_each_sample_needs_forbids_microbatches() {
        assert!(can_be_split("b = f32[64,16] tanh(h)"));
        let summed = "s = f32[16] reduce(h, zero), dimensions={0}, to_apply=add
            b = f32[64,16] broadcast(s), dimensions={1}";
        assert!(!can_be_split(summed));
    }

    #[test]
    fn powers_of_two_that_divide_the_batch_are_tried_or_what_is_asked_for() {
        use phzc_analysis::graph::Graph;
        use phzc_pass::pass::Options;
        let counts = |batch: i64, wanted: usize| {
            let text = format!(
                "HloModule m, input_output_alias={{ {{0}}: (1, {{}}, may-alias) }}
                ENTRY e {{
                x = f32[{batch},32] parameter(0)
                w = f32[32,16] parameter(1)
                y = f32[{batch},16] dot(x, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
                dw = f32[32,16] dot(x, y), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}
                new = f32[32,16] subtract(w, dw)
                ROOT out = (f32[32,16]) tuple(new)
                }}"
            );
            let module = phzc_ir::parse(&text).expect("legal");
            let options = Options { values: [("microbatches", wanted.to_string())].into_iter().collect() };
            super::counts(&module, &Graph::build(&module), &options).map_err(|error| error.message)
        };
        assert_eq!(counts(8, 0), Ok(vec![1, 2, 4, 8]));
        assert_eq!(counts(12, 0), Ok(vec![1, 2, 4]));
        assert_eq!(counts(7, 0), Ok(vec![1]));
        assert_eq!(counts(12, 3), Ok(vec![3]));
        assert_eq!(counts(12, 5), Err("5 microbatches do not divide a batch of 12".to_owned()));
    }
}
