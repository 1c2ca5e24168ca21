//! Interleaved forms of plans of two groups, against all cuts.

use super::super::tests::{machine, space};
use super::*;

/// Five kinds of operators: milliseconds, and mebibytes that backward reads.
const SIZES: [(u8, u8); 5] = [(1, 8), (2, 1), (4, 2), (8, 30), (1, 1)];

/// Two groups of a device each, with so many operators in the first.
fn plan(machine: &Machine, cut: usize) -> PipelinePlan {
    let op = OpChoice { tensor: 1, data: 1, algo: 0, recompute: false, zero: 0 };
    let stage =
        |(start, end): (usize, usize)| StageChoice { start, n_devices: 1, ops: vec![op; end - start] };
    let stages = [(0, cut), (cut, machine.chain.len())].map(stage).to_vec();
    PipelinePlan { microbatch: 1, schedule: PlanSchedule::OneFOneB, stages }
}

/// Milliseconds of the slowest of four stages that end here.
fn slowest_ms(groups: &Groups, ends: &[usize]) -> f64 {
    let starts = std::iter::once(0).chain(ends.iter().copied());
    let stages = starts.zip(ends).enumerate();
    let ms = stages.map(|(at, (start, &end))| {
        (start..end).map(|op| groups.ms(at % 2, op).expect("it is profiled")).sum::<f64>()
    });
    ms.fold(0.0, f64::max)
}

#[test]
fn ends_make_the_slowest_stage_as_fast_as_it_can_be() {
    for (turn, cut) in (0..5).flat_map(|turn| [(turn, 3), (turn, 6), (turn, 9)]) {
        let mut sizes = SIZES;
        sizes.rotate_left(turn);
        let machine = machine(&sizes, 3, 1e9);
        let plan = plan(&machine, cut);
        let choices = plan.stages.iter().map(|stage| stage.ops[0]).collect();
        let groups = Groups { machine: &machine, plan: &plan, choices };
        let n = machine.chain.len();
        let mut least = f64::INFINITY;
        for (a, b, c) in (1..n).flat_map(|a| (a + 1..n).flat_map(move |b| (b + 1..n).map(move |c| (a, b, c))))
        {
            least = least.min(slowest_ms(&groups, &[a, b, c, n]));
        }
        let ends = groups.ends(4).expect("four stages");
        assert!(ends.is_sorted_by(|a, b| a < b) && ends[3] == n, "{ends:?}");
        assert!((slowest_ms(&groups, &ends) - least).abs() < 1e-6, "{turn}, {cut}: {ends:?}, {least}");
    }
}

#[test]
fn operators_are_recomputed_in_the_order_of_milliseconds_per_mebibyte() {
    let order = |sizes: &[(u8, u8)]| {
        let machine = machine(sizes, 3, 1e9);
        by_ratio(&machine, &plan(&machine, 5), 0)
    };
    // With the one after it: 3.5 ms for 8, 6.5 for 1, 12.5 for 2 and 9.5 for 30.
    assert_eq!(order(&SIZES), [3, 0, 2, 1]);
    // What saves nothing is not recomputed.
    assert_eq!(order(&[(1, 8), (2, 0), (4, 2), (8, 30), (1, 1)]), [3, 0, 2]);
}

#[test]
fn the_first_operators_of_a_row_in_a_group_are_marked_with_the_one_after_each() {
    let machine = machine(&SIZES, 3, 1e9);
    let made = interleaved(&machine, &space(false), &plan(&machine, 5), 2).expect("it fits");
    let marked = |group: usize, row: usize, most: usize| {
        let mut it = made.clone();
        mark(&machine, &mut it, group, row, most);
        let ops = it.stages.iter().flat_map(|stage| &stage.ops).enumerate();
        ops.filter(|(_, op)| op.recompute).map(|(at, _)| at).collect::<Vec<_>>()
    };
    let group_of = |op: usize| made.stages.iter().rposition(|stage| stage.start <= op).expect("a stage") % 2;
    let end_of = |op: usize| made.stages.iter().map(|stage| stage.start).find(|&start| start > op);
    for (group, row) in [(0, 1), (1, 1), (0, 2), (1, 2), (0, 3), (1, 3), (0, 0), (1, 4)] {
        // Neither the first operator nor the last, nor one whose successor is in another stage.
        let is_one = |&op: &usize| {
            machine.chain.rows[op] == row && group_of(op) == group && end_of(op) != Some(op + 1)
        };
        let all: Vec<usize> = (1..machine.chain.len() - 2).filter(is_one).collect();
        let mut wanted: Vec<usize> = all.iter().flat_map(|&op| [op, op + 1]).collect();
        wanted.dedup();
        assert_eq!(marked(group, row, usize::MAX), wanted, "{group}, {row}");
        assert_eq!(marked(group, row, 1), wanted[..wanted.len().min(2)], "{group}, {row}");
        assert!(marked(group, row, 0).is_empty());
    }
}

#[test]
fn some_plans_have_no_interleaved_form() {
    let it = machine(&SIZES, 3, 1e9);
    let one = PipelinePlan { stages: plan(&it, 11).stages[..1].to_vec(), ..plan(&it, 5) };
    assert!(interleaved(&it, &space(false), &one, 2).is_none());
    // Eleven operators are no twelve stages; fifteen microbatches are not divided among two groups.
    assert!(interleaved(&it, &space(false), &plan(&it, 5), 6).is_none());
    assert!(interleaved(&it, &space(false), &plan(&it, 5), 5).is_some());
    let odd = Machine { global_batch: 15, ..it };
    assert!(interleaved(&odd, &space(false), &plan(&odd, 5), 2).is_none());
}
