//! Which dimension each operator of a stage is split along, where all have the same degrees.

use super::patterns::Use;
use super::{Degrees, Setting};
use phzc_cost::aceso::OpChoice;
use phzc_cost::profile::OpProfile;

/// Per operator, the dimension and what it takes; `None` where the degrees were not measured.
///
/// Of a plan the fastest among those that leave the layouts as the first one has them: nothing has to be
/// changed between operators then. Of a bound the least of each figure, whatever the dimension.
pub(super) fn along(of: &Setting, degrees: Degrees, purpose: Use) -> Option<Vec<(u32, OpProfile)>> {
    let (machine, microbatch) = (of.machine, of.microbatch);
    let batch = microbatch.is_multiple_of(degrees.data).then_some(microbatch / degrees.data)?;
    let splits: Vec<(OpChoice, &Vec<OpProfile>)> = machine
        .tables
        .splits(batch, degrees.tensor)
        .map(|(algo, rows)| (degrees.choice(algo), rows))
        .collect();
    let (first, _) = splits.first()?;
    let of_op = |(op, &row): (usize, &usize)| {
        let all =
            splits.iter().map(|(choice, rows)| (choice, machine.adjusted(op, &rows[row], choice, &of.step)));
        match purpose {
            Use::Plan => all
                .filter(|(choice, _)| machine.is_laid_out_alike(op, first, choice))
                .min_by(|a, b| a.1.both_ms().total_cmp(&b.1.both_ms()))
                .map(|(choice, profile)| (choice.algo, profile)),
            Use::Bound => all.map(|(_, profile)| profile).reduce(least).map(|profile| (first.algo, profile)),
        }
    };
    machine.chain.rows.iter().enumerate().map(of_op).collect()
}

/// The least of each figure of two; both parts together take no less than the faster one does.
fn least(a: OpProfile, b: OpProfile) -> OpProfile {
    let forward_ms = a.forward_ms.min(b.forward_ms);
    OpProfile {
        forward_ms,
        backward_ms: a.both_ms().min(b.both_ms()) - forward_ms,
        input_mib: a.input_mib.min(b.input_mib),
        output_mib: a.output_mib.min(b.output_mib),
        weight_mib: a.weight_mib.min(b.weight_mib),
        state_mib: a.state_mib.min(b.state_mib),
        activation_mib: a.activation_mib.min(b.activation_mib),
        forward_reserved_mib: a.forward_reserved_mib.min(b.forward_reserved_mib),
        backward_reserved_mib: a.backward_reserved_mib.min(b.backward_reserved_mib),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_of_two_takes_no_less_than_the_faster_one() {
        let of = |forward_ms, backward_ms, mib: f64| OpProfile {
            forward_ms,
            backward_ms,
            input_mib: mib,
            output_mib: 10.0 - mib,
            weight_mib: mib,
            state_mib: 10.0 - mib,
            activation_mib: mib,
            forward_reserved_mib: 10.0 - mib,
            backward_reserved_mib: mib,
        };
        let (a, b) = (of(1.0, 5.0, 2.0), of(2.0, 3.0, 3.0));
        let wanted = OpProfile {
            forward_ms: 1.0,
            backward_ms: 4.0,
            input_mib: 2.0,
            output_mib: 7.0,
            weight_mib: 2.0,
            state_mib: 7.0,
            activation_mib: 2.0,
            forward_reserved_mib: 7.0,
            backward_reserved_mib: 2.0,
        };
        assert_eq!(format!("{:?}", least(a, b)), format!("{wanted:?}"));
        assert_eq!(format!("{:?}", least(b, a)), format!("{wanted:?}"));
    }
}
