//! Cycles of contractions that are known from elsewhere: a table of Phaze's own estimates, as CSV.
//!
//! Columns `mbs`, `op` (the node of Phaze's graph, then its name), `num_tc`, `width`, `depth`, `glb_mib`,
//! `fwd_cycles`, `bwd_dx_cycles`; others are skipped. Cycles hold what is fused behind the contraction.

use phzc_arch::estimate::{Estimator, Work};
use phzc_arch::mapping::vector::latency;
use phzc_arch::mapping::{Machine, Mode, Nest};
use phzc_arch::{Cores, Technology, Template};
use phzc_ir::{Diagnostic, Result, Span};

/// One estimate of a contraction on one accelerator.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Estimate {
    cores: Cores,
    nest: Nest,
    cycles: f64,
}

const COLUMNS: [&str; 8] =
    ["mbs", "op", "num_tc", "width", "depth", "glb_mib", "fwd_cycles", "bwd_dx_cycles"];

/// Reads a table; `contraction` gives the work of a node of the graph at a size of the microbatch.
///
/// # Errors
/// For a missing column, a cell that is no number, and a node that is no contraction of the graph.
pub(super) fn read(text: &str, contraction: impl Fn(u64, usize) -> Option<Work>) -> Result<Vec<Estimate>> {
    let mut lines = text.split_inclusive('\n');
    let header = lines.next().unwrap_or_default();
    let columns = columns(header)?;
    let (mut start, mut estimates) = (header.len(), Vec::new());
    for line in lines {
        let span = Span::new(start, start + line.trim_end().len());
        start += line.len();
        let cells: Vec<&str> = line.trim_end().split(',').collect();
        let cells: Option<Vec<&str>> = columns.iter().map(|at| cells.get(*at).copied()).collect();
        let row = cells.and_then(|cells| row(&cells, &contraction));
        let wrong = || Diagnostic::error("expected an estimate of a contraction of the graph").at(span);
        estimates.extend(row.ok_or_else(wrong)?);
    }
    Ok(estimates)
}

/// Where the columns stand, by the first line.
fn columns(header: &str) -> Result<Vec<usize>> {
    let names: Vec<&str> = header.trim_end().split(',').collect();
    let column = |name: &&str| {
        let missing = || Diagnostic::error(format!("the estimates have no column `{name}`"));
        names.iter().position(|known| known == name).ok_or_else(missing)
    };
    COLUMNS.iter().map(column).collect()
}

/// The two passes of one line.
fn row(cells: &[&str], contraction: &impl Fn(u64, usize) -> Option<Work>) -> Option<[Estimate; 2]> {
    let number = |at: usize| cells[at].parse::<u64>().ok();
    let node = cells[1].split(' ').next()?.parse().ok()?;
    let Some(Work::Contraction { nest, fused, .. }) = contraction(number(0)?, node) else { return None };
    let [n_tensor, width, depth] = [number(2)?, number(3)?, number(4)?];
    let global_bytes = number(5)?.checked_mul(1 << 20)?;
    let cores = Cores { n_tensor, n_vector: 1, width, depth, global_bytes };
    let behind = latency(&fused);
    let of = |nest: Nest, at: usize, latency: f64| {
        let cycles = cells[at].parse::<f64>().ok().filter(|cycles| cycles.is_finite())? - latency;
        (cycles >= 0.0).then_some(Estimate { cores, nest, cycles })
    };
    Some([of(nest, 6, behind.forward)?, of(nest.backward()[0], 7, behind.backward)?])
}

/// Takes estimates instead of mappings of our own.
///
/// # Errors
/// For accelerators with buffers that the technology lacks.
pub(super) fn teach(
    estimator: &Estimator,
    estimates: &[Estimate],
    base: &Template,
    technology: &Technology,
) -> Result<()> {
    for estimate in estimates {
        let template = Template { cores: estimate.cores, ..base.clone() };
        let machine = Machine::new(&template, technology, Mode::Phaze)?;
        estimator.learn(&estimate.nest, &machine, estimate.cycles);
    }
    Ok(())
}
