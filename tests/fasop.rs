//! FASOP's cost model against every row that FASOP itself wrote (../shared/data/fasop).

use crate::common::fasop::{Row, fleet, rows, transformer};
use phzc_cost::fasop::{Placement, Variant};

/// The files, with model and preset.
const FILES: [(&str, &str, &str); 7] = [
    ("fasop_output_lab/bert.csv.gz", "bert", "lab"),
    ("fasop_output_lab/bert_heterogeneous.csv.gz", "bert", "lab"),
    ("fasop_output_lab/gpt2.csv.gz", "gpt2XL", "lab"),
    ("fasop_output_lab/gpt2_heterogeneous.csv.gz", "gpt2XL", "lab"),
    ("fasop_output_lab/T5.csv.gz", "T5", "lab"),
    ("fasop_output_lab/T5_heterogeneous.csv.gz", "T5", "lab"),
    ("fasop_output_pareto_gpt2XL.csv.gz", "gpt2XL", "aws"),
];

/// Whether the row's times are those of a cut with one entry moved: FASOP's partitioner takes a move back and
/// keeps its times (reference/fasop.md, section 4).
fn is_rolled_back(row: &Row, placement: &Placement) -> bool {
    let n = row.cut.len();
    let pairs = (0..n).flat_map(|from| (0..n).map(move |to| (from, to)));
    let moved = pairs.filter(|(from, to)| from != to && row.cut[*from] > 1).map(|(from, to)| {
        let mut cut = row.cut.clone();
        cut[from] -= 1;
        cut[to] += 1;
        cut
    });
    moved.into_iter().any(|cut| is_near(placement.cost(&cut).pipeline_secs, row.pipeline_secs))
}

/// FASOP computes in 32 bits.
fn is_near(own: f64, its: f64) -> bool {
    (own - its).abs() <= 1e-5 * its.abs().max(1e-9)
}

#[test]
fn every_row_that_fasop_wrote_costs_as_much() {
    let (mut n_all, mut n_all_rolled_back) = (0, 0);
    for (file, name, preset) in FILES {
        let (Some(model), Some(fleet)) = (transformer(name), fleet(preset)) else { return };
        let (mut n_rows, mut n_rolled_back) = (0, 0);
        for row in rows(file) {
            let placement = Placement {
                fleet: &fleet,
                model: &model,
                variant: Variant::Faithful,
                order: row.order.clone(),
                degrees: row.degrees,
            };
            let cost = placement.cost(&row.cut);
            n_rows += 1;
            let figures = [
                (cost.step_secs, row.step_secs),
                (cost.pipeline_secs, row.pipeline_secs),
                (cost.embedding_secs, row.embedding_secs),
                (cost.usd, row.usd),
            ];
            let is_equal = figures.iter().all(|(own, its)| is_near(*own, *its));
            assert_eq!(!cost.fits, row.is_too_large, "{file}: {:?} {:?}", row.degrees, row.cut);
            if !is_equal {
                let told = is_rolled_back(&row, &placement);
                assert!(told, "{file}: {:?} {:?} {:?}: {figures:?}", row.order, row.degrees, row.cut);
                n_rolled_back += 1;
            }
        }
        eprintln!("{file}: {n_rows} rows, {n_rolled_back} with times of another cut");
        (n_all, n_all_rolled_back) = (n_all + n_rows, n_all_rolled_back + n_rolled_back);
    }
    assert_eq!([n_all, n_all_rolled_back], [33_274, 819]);
}
