//! Figures of planned programs against measurements, as a table and as JSON.

use super::stage::Step;
use super::{Row, Table};
use indexmap::IndexMap;
use phzc_io::units::{bytes, secs};
use serde::Serialize;

/// The figures of one file, all in per cent.
#[derive(Debug, Serialize)]
struct Score {
    file: String,
    /// Runs with a measured time.
    rows: usize,
    /// Those that a program was planned for.
    planned: usize,
    /// Mean absolute error of the report's time.
    mape: Option<f64>,
    /// Mean signed error of it.
    bias: Option<f64>,
    /// Mean absolute error of the list of operators on the same rows.
    listed_mape: Option<f64>,
    /// Mean and largest distance of the report from the list, of the list.
    from_list: Option<f64>,
    most_from_list: Option<f64>,
    /// Mean absolute error of the memory.
    memory_mape: Option<f64>,
    /// Rows without a program, by reason.
    unplanned: IndexMap<String, usize>,
    /// Rows that are no run, by reason: their names.
    no_run: IndexMap<String, Vec<String>>,
}

/// One object per file and line.
pub(super) fn json(tables: &[Table]) -> String {
    let line = |one: &Table| serde_json::to_string(&score(one)).expect("its keys are strings") + "\n";
    tables.iter().map(line).collect()
}

/// A line per file, with the reasons of what is not planned; of each row too if `is_long`.
pub(super) fn text(tables: &[Table], is_long: bool) -> String {
    let mut text = format!(
        "{:32}{:>6}{:>9}{:>8}{:>8}{:>8}{:>11}{:>7}{:>8}\n",
        "file", "rows", "planned", "MAPE", "bias", "list", "from list", "most", "memory"
    );
    let figure = |it: Option<f64>| it.map_or("-".to_owned(), |it| format!("{it:.1}"));
    for one in tables {
        let Score {
            file,
            rows,
            planned,
            mape,
            bias,
            listed_mape,
            from_list,
            most_from_list,
            memory_mape,
            unplanned,
            no_run,
        } = score(one);
        let [mape, bias, list, mean, most, memory] =
            [mape, bias, listed_mape, from_list, most_from_list, memory_mape].map(figure);
        text += &format!(
            "{file:32}{rows:6}{planned:9}{mape:>8}{bias:>8}{list:>8}{mean:>11}{most:>7}{memory:>8}\n"
        );
        text += &unplanned.iter().map(|(why, n)| format!("  not planned: {n}, {why}\n")).collect::<String>();
        let others = no_run.iter().map(|(why, rows)| format!("  no run: {}, {why}\n", rows.join(" ")));
        text += &others.collect::<String>();
        if is_long {
            text += &one.rows.iter().filter_map(long).collect::<String>();
        }
    }
    text + "(errors in per cent of the measured value; `list`: of the list of operators on the same rows)\n"
}

fn long(row: &Row) -> Option<String> {
    let Step { secs: program, memory_bytes } = *row.reported.as_ref().ok()?;
    let memory = row.job.measured_bytes.zip(memory_bytes).map(|(measured, reported)| {
        let error = relative(measured, reported);
        format!("; memory {}, program {} ({error:+.1} %)", bytes(measured), bytes(reported))
    });
    let (measured, listed) = (row.job.measured_secs, row.job.listed_secs);
    let error = relative(measured, program);
    let [measured, program, listed] = [measured, program, listed].map(secs);
    let name = &row.job.name;
    Some(format!(
        "  {name}: measured {measured}, program {program} ({error:+.1} %), list {listed}{}\n",
        memory.unwrap_or_default()
    ))
}

fn relative(measured: f64, predicted: f64) -> f64 {
    100.0 * (predicted / measured - 1.0)
}

fn score(table: &Table) -> Score {
    let planned: Vec<(&Row, Step)> =
        table.rows.iter().filter_map(|row| Some((row, *row.reported.as_ref().ok()?))).collect();
    let errors = |of: &dyn Fn(&Row, Step) -> Option<f64>| -> Vec<f64> {
        planned.iter().filter_map(|(row, reported)| of(row, *reported)).collect()
    };
    let time = errors(&|row, it| Some(relative(row.job.measured_secs, it.secs)));
    let list = errors(&|row, _| Some(relative(row.job.measured_secs, row.job.listed_secs)));
    let from_list = errors(&|row, it| Some(relative(row.job.listed_secs, it.secs).abs()));
    let memory = errors(&|row, it| Some(relative(row.job.measured_bytes?, it.memory_bytes?)));
    let mut unplanned = IndexMap::new();
    for reason in table.rows.iter().filter_map(|row| row.reported.as_ref().err()) {
        *unplanned.entry(reason.clone()).or_insert(0) += 1;
    }
    let mut no_run: IndexMap<String, Vec<String>> = IndexMap::new();
    for (name, reason) in &table.others {
        no_run.entry(reason.clone()).or_default().push(name.clone());
    }
    Score {
        file: table.file.clone(),
        rows: table.rows.len(),
        planned: planned.len(),
        mape: mean(time.iter().map(|it| it.abs())),
        bias: mean(time.iter().copied()),
        listed_mape: mean(list.iter().map(|it| it.abs())),
        from_list: mean(from_list.iter().copied()),
        most_from_list: from_list.iter().copied().reduce(f64::max),
        memory_mape: mean(memory.iter().map(|it| it.abs())),
        unplanned,
        no_run,
    }
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values.fold((0.0, 0usize), |(sum, count), value| (sum + value, count + 1));
    (count > 0).then(|| sum / count as f64)
}
