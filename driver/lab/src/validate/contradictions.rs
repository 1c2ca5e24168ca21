//! Numbers of a row that cannot all be true: such a row is not predicted, and is named with what to do.

use super::csv::{Record, Table};
use super::job::Numbers;
use phzc_ir::Diagnostic;

/// What is wrong with a row: the column, the sentence, the remedy.
pub(super) struct Contradiction {
    pub column: &'static str,
    pub reason: String,
    remedy: &'static str,
}

/// The first contradiction among the numbers of a row.
pub(super) fn of(numbers: &Numbers) -> Option<Contradiction> {
    let found = fraction(numbers).or_else(|| beyond(numbers)).or_else(|| parts(numbers));
    found.or_else(|| samples(numbers)).or_else(|| batch(numbers))
}

/// Warnings about the rows of a table that contradict themselves.
pub(super) fn of_runs(table: &Table) -> Vec<Diagnostic> {
    let warning = |row: Record| {
        // A cell that is no number is an error of its own.
        let found = of(&Numbers::read(row).ok()?)?;
        let message = format!("{}: row `{}` is not predicted", found.reason, row.text("row_id"));
        Some(row.warning(found.column, &message).help(found.remedy))
    };
    table.records().filter_map(warning).collect()
}

/// Counts that are none.
fn fraction(numbers: &Numbers) -> Option<Contradiction> {
    let counts = [
        ("tp", numbers.tp),
        ("pp", numbers.pp),
        ("cp", numbers.cp),
        ("ep", numbers.ep),
        ("dp", numbers.dp),
        ("mbs", numbers.mbs),
        ("vpp", numbers.vpp),
        ("gbs", numbers.gbs),
        ("gpus", numbers.gpus),
        ("gpus_per_node", numbers.gpus_per_node),
        ("layers", numbers.layers),
        ("hidden", numbers.hidden),
        ("heads", numbers.heads),
        ("kv_heads", numbers.kv_heads),
        ("head_dim", numbers.head_dim),
        ("ffn", numbers.ffn),
        ("seq", numbers.seq),
        ("vocab", numbers.vocab),
        ("experts", numbers.experts),
    ];
    let is_odd = |(_, value): &(&str, Option<f64>)| value.is_some_and(|n| n.fract() != 0.0);
    let (column, value) = counts.into_iter().find(is_odd)?;
    let reason = format!("`{column}` is {}", value.unwrap_or_default());
    Some(Contradiction { column, reason, remedy: "write a whole number, or leave the cell blank" })
}

/// A part that is larger than the whole.
fn beyond(numbers: &Numbers) -> Option<Contradiction> {
    let (experts, top_k) = (numbers.experts.unwrap_or(1.0).max(1.0), numbers.top_k.unwrap_or(1.0));
    if top_k > experts {
        let reason = format!("a token visits {top_k} of {experts} experts");
        let remedy = "correct `topk` or `experts`, or leave both blank for a dense model";
        return Some(Contradiction { column: "topk", reason, remedy });
    }
    if numbers.ep.unwrap_or(1.0) > experts {
        let reason = format!("{} devices share {experts} experts", numbers.ep.unwrap_or_default());
        let remedy = "state `experts`, or write 1 in `ep` for a dense model";
        return Some(Contradiction { column: "ep", reason, remedy });
    }
    let (heads, kv_heads) = (numbers.heads?, numbers.kv_heads?);
    (kv_heads > heads).then(|| Contradiction {
        column: "kv_heads",
        reason: format!("{kv_heads} heads of keys and values for {heads} of queries"),
        remedy: "correct `kv_heads`, or leave it blank where every head has its own",
    })
}

/// Parts that do not make up the whole: heads a width, stages the layers.
fn parts(numbers: &Numbers) -> Option<Contradiction> {
    let is_odd = |[hidden, heads]: &[f64; 2]| *heads > 0.0 && hidden % heads != 0.0;
    let widths = numbers.hidden.zip(numbers.heads).map(<[f64; 2]>::from).filter(is_odd);
    if let Some([hidden, heads]) = widths.filter(|_| numbers.head_dim.is_none()) {
        let reason = format!("{heads} heads do not divide a width of {hidden}");
        let remedy = "correct `heads` or `hidden`, or state the width of a head in `head_dim`";
        return Some(Contradiction { column: "heads", reason, remedy });
    }
    let (layers, stages, chunks) = (numbers.layers?, numbers.pp?, numbers.vpp.unwrap_or(1.0).max(1.0));
    let is_more = layers > 0.0 && stages * chunks > layers;
    is_more.then(|| Contradiction {
        column: if stages > layers { "pp" } else { "vpp" },
        reason: format!("{} stages for {layers} layers", stages * chunks),
        remedy: "a stage holds a layer at least: correct `pp`, `vpp` or `layers`",
    })
}

/// Copies of the model that the batch has too few samples for.
fn samples(numbers: &Numbers) -> Option<Contradiction> {
    let [tensor, stages, context] = [numbers.tp, numbers.pp, numbers.cp].map(|it| it.unwrap_or(1.0).max(1.0));
    let copies = numbers.dp.or(numbers.gpus.map(|gpus| (gpus / (tensor * stages * context)).floor()))?;
    let (batch, size) = (numbers.gbs.filter(|batch| *batch > 0.0)?, numbers.mbs?);
    (size * copies > batch).then(|| Contradiction {
        column: "gbs",
        reason: format!("a batch of {batch} has less than {size} for each of {copies} copies"),
        remedy: "`gbs` is at least `mbs` x `dp`: correct one of them",
    })
}

/// Warnings about collectives that move nothing: one device has nobody to talk to.
pub(super) fn of_collectives(table: &Table) -> Vec<Diagnostic> {
    let is_alone = |row: &Record| table.has("collective") && matches!(row.number("ranks"), Ok(Some(1.0)));
    let warning = |row: Record| {
        let message = format!("{ALONE}: `{}` is not predicted", row.text("collective"));
        row.warning("ranks", &message).help("state all ranks, those of all nodes together")
    };
    table.records().filter(is_alone).map(warning).collect()
}

/// Why a collective is none.
pub(super) const ALONE: &str = "a collective of one rank moves nothing";

/// A batch that its parts do not make up.
fn batch(numbers: &Numbers) -> Option<Contradiction> {
    let (batch, size, count, copies) = (numbers.gbs?, numbers.mbs?, numbers.n_microbatches?, numbers.dp?);
    let made = size * count * copies;
    (made != batch).then(|| Contradiction {
        column: "gbs",
        reason: format!("a batch of {batch} is not {size} x {count} x {copies} sequences"),
        remedy: "`gbs` is `mbs` x `n_microbatches` x `dp`: correct one of them, or leave it blank",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(row: &str, expected: Option<(&str, &str)>) {
        let header = "experts,topk,ep,heads,kv_heads,tp,dp,mbs,n_microbatches,gbs,hidden,layers,pp,vpp,gpus";
        let blank = |n: usize| ",".repeat(14 - n);
        let row = &format!("{row}{}", blank(row.matches(',').count()));
        let table = Table::parse(&format!("{header}\n{row}\n")).expect("a table");
        let numbers = Numbers::read(table.records().next().expect("a row")).expect("numbers");
        let found = of(&numbers);
        assert_eq!(found.as_ref().map(|it| (it.column, it.reason.as_str())), expected, "{row}");
        assert_eq!(of_runs(&table).len(), usize::from(found.is_some()));
    }

    #[test]
    fn numbers_that_cannot_all_be_true_are_named_by_their_column() {
        check("8,2,4,32,8,2,4,1,2,8", None);
        check(",,,,,,,,,", None);
        check(",,,,,0.5,,,,", Some(("tp", "`tp` is 0.5")));
        check("4,8,,,,,,,,", Some(("topk", "a token visits 8 of 4 experts")));
        check(",,4,,,,,,,", Some(("ep", "4 devices share 1 experts")));
        check(",,,8,16,,,,,", Some(("kv_heads", "16 heads of keys and values for 8 of queries")));
        check(",,,8,8,,4,2,3,20", Some(("gbs", "a batch of 20 is not 2 x 3 x 4 sequences")));
        check(",,,7,,,,,,,512", Some(("heads", "7 heads do not divide a width of 512")));
        check(",,,,,,,,,,,4,8", Some(("pp", "8 stages for 4 layers")));
        check(",,,,,,,,,,,4,2,4", Some(("vpp", "8 stages for 4 layers")));
        check(",,,,,,,,,,,4.5", Some(("layers", "`layers` is 4.5")));
        let few = "a batch of 8 has less than 2 for each of 8 copies";
        check(",,,,,,8,2,,8", Some(("gbs", few)));
        check(",,,,,2,,2,,8,,,1,1,16", Some(("gbs", few)));
    }
}
