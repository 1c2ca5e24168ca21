//! `phzc validate --programs`: measured runs as programs that `gen` writes, planned in their published
//! degrees; the report's time and memory beside the measurement and the list of operators.
//!
//! What is planned is one microbatch (two, where copies sum up gradients) on the devices of one stage. A step
//! is so many of them one after the other and what comes once; of several stages, the replay of their
//! schedule.

mod degrees;
mod stage;
mod table;

use degrees::Reason;
use phzc_io::{Failure, Io, files, write_stdout};
use phzc_lab::validate::{MeasuredJob, MeasuredJobs, ValidateArgs, jobs};
use stage::Step;
use std::path::Path;

/// What became of one run.
struct Row {
    job: MeasuredJob,
    /// What the reports of its programs say, or why there are none.
    reported: Result<Step, Reason>,
}

/// A file of runs.
struct Table {
    file: String,
    rows: Vec<Row>,
    /// Rows that are no run: their names, and why.
    others: Vec<(String, Reason)>,
}

/// Does what the command line says.
pub(crate) fn run(args: &ValidateArgs, io: &mut Io) -> Result<(), Failure> {
    let (mut tables, mut failures) = (Vec::new(), Vec::new());
    for path in &args.data {
        let found = files::listed(path, "csv")?;
        for table in &found {
            match jobs(table, io) {
                Ok(jobs) => tables.push(planned(table, jobs, io)),
                Err(failure) => failures.push((failure, *table == *path)),
            }
        }
    }
    (io.progress)("");
    let is_none = tables.is_empty();
    if !is_none {
        let text = if args.json { table::json(&tables) } else { table::text(&tables, args.rows) };
        write_stdout(io, &text)?;
    }
    // Of a folder, tables of other things are passed over.
    let mut named = failures.into_iter().filter(|(_, is_named)| *is_named || is_none);
    named.next_back().map_or(Ok(()), |(failure, _)| Err(failure))
}

/// All runs of a file; equal ones are planned once.
fn planned(path: &Path, found: MeasuredJobs, io: &mut Io) -> Table {
    let file = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let (n_jobs, mut rows) = (found.jobs.len(), Vec::<Row>::new());
    for job in found.jobs {
        (io.progress)(&format!("{file}: {} of {n_jobs} programs", rows.len()));
        let is_same = |row: &&Row| row.job.job == job.job && row.job.cluster == job.cluster;
        let known = rows.iter().find(is_same).map(|row| row.reported.clone());
        let reported = known.unwrap_or_else(|| stage::step(&job, io));
        rows.push(Row { job, reported });
    }
    Table { file, rows, others: found.others }
}
