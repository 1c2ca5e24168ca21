//! `--explain`: why a tensor lies as it does, why a collective is there, why so many stages and this mesh, as
//! tables.

mod flip;
pub(crate) mod meshes;
pub(crate) mod movement;
pub(crate) mod stages;

use crate::summary::table;
use phzc_io::units::{bytes, secs};
use phzc_passes::explanation::{Considered, Explanation, LoopFact, Movement, Term, Verdict};

/// The explanations, one after the other.
pub(crate) fn text(all: &[Explanation]) -> String {
    all.iter().map(one).collect::<Vec<_>>().join("\n")
}

fn one(it: &Explanation) -> String {
    let others = match it.n_others {
        0 => "its block has no other instruction".to_owned(),
        1 => "its block lays out 1 other instruction with it".to_owned(),
        n_others => format!("its block lays out {n_others} other instructions with it"),
    };
    let title = format!("why `{}` lies as it does on the mesh {}; {others}\n\n", it.name, it.mesh);
    let rows = it.strategies.iter().enumerate().map(|(position, row)| row_of(position, row, it)).collect();
    let header = ["#", "strategy", "operands", "result", "time", "memory", "more", "verdict"];
    let mut out = title + &table(&header, [0, 4, 5, 6], rows);
    for (position, row) in it.strategies.iter().enumerate().filter(|(_, row)| !row.terms.is_empty()) {
        out += &format!(
            "\n#{position}\n{}",
            table(&["part", "collective", "axes", "bytes", "time"], [3, 4], terms(row))
        );
    }
    out + &flips(it) + &loops(&it.loops)
}

/// At which speed of communication other strategies are as good, their neighbours being as they are.
fn flips(it: &Explanation) -> String {
    let chosen = flip::Cost::of_strategy(&it.strategies[0]);
    let may_win = |row: &Considered| matches!(row.verdict, Verdict::Dearer(more) if more.is_finite());
    let others = it.strategies.iter().enumerate().filter(|(_, row)| may_win(row));
    let flips = others.filter_map(|(position, row)| {
        let factor = flip::speed(chosen, flip::Cost::of_strategy(row))?;
        Some(format!("#{position}: as fast {}, the neighbours being as they are\n", flip::text(factor)))
    });
    let text: String = flips.collect();
    if text.is_empty() { text } else { format!("\n{text}") }
}

fn row_of(position: usize, row: &Considered, it: &Explanation) -> Vec<String> {
    let is_priced = !matches!(row.verdict, Verdict::Forbidden(_));
    let known = |text: String| if is_priced { text } else { "-".to_owned() };
    vec![
        position.to_string(),
        row.name.clone().unwrap_or_else(|| "-".to_owned()),
        row.operands.join(" "),
        row.result.clone(),
        known(time(row.secs())),
        known(bytes(row.memory_bytes)),
        known(time(row.secs() - it.strategies[0].secs())),
        verdict(&row.verdict),
    ]
}

/// What cannot be done takes forever.
fn time(value: f64) -> String {
    if value.is_finite() { secs(value) } else { "never".to_owned() }
}

fn verdict(verdict: &Verdict) -> String {
    match *verdict {
        Verdict::Chosen => "chosen".to_owned(),
        Verdict::Dominated(other) => {
            format!("dominated by #{other}: the same at its borders, no better inside")
        }
        Verdict::Dearer(more) if !more.is_finite() => {
            "illegal: no way to the layouts that it needs".to_owned()
        }
        Verdict::Dearer(0.0) => "as fast, the neighbours being as they are".to_owned(),
        Verdict::Dearer(more) => format!("dearer by {}, the neighbours being as they are", secs(more)),
        Verdict::TooLarge(less, more) if more > 0.0 => {
            format!("faster by {}, but needs {} more memory", secs(less), bytes(more))
        }
        Verdict::TooLarge(less, _) => {
            format!("faster by {}: the search ended before it (`stop`)", secs(less))
        }
        Verdict::Forbidden(word) => format!("forbidden: `{word}`"),
    }
}

/// One line per part, and one more for each further collective of it.
fn terms(row: &Considered) -> Vec<Vec<String>> {
    let lines = |term: &Term| -> Vec<Vec<String>> {
        match term.moves.as_slice() {
            [only] if only.secs > 0.0 => {
                let mut line = movement(&term.what, only);
                line[4] = time(term.secs);
                vec![line]
            }
            moves => {
                let mut total = vec![String::new(); 5];
                (total[0], total[4]) = (term.what.clone(), time(term.secs));
                std::iter::once(total).chain(moves.iter().map(|it| movement("  once", it))).collect()
            }
        }
    };
    row.terms.iter().flat_map(lines).collect()
}

fn movement(what: &str, it: &Movement) -> Vec<String> {
    vec![what.to_owned(), it.kind.to_owned(), it.axes.join(","), bytes(it.bytes), secs(it.secs)]
}

fn loops(all: &[LoopFact]) -> String {
    let mut rows = Vec::new();
    for it in all {
        for (axis, why) in &it.refused {
            rows.push(vec![it.place.clone(), it.size.to_string(), axis.clone(), why.clone()]);
        }
    }
    let found = table(&["loop", "size", "not over", "why"], [1], rows);
    if found.is_empty() { found } else { format!("\n{found}") }
}
