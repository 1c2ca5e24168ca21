//! Mappings that were found once, as text.
//!
//! The first line is `phzc-arch-mappings 1`, the format's name and version. Every other line is one
//! mapping: `QUESTION = ANSWER`, lines in rising order. A question has, separated by spaces: the objective
//! (`cycles`, `latency` or `edp`); the machine's array, grid, register words, core words, `each` or `all`
//! (operands), global words, words per cycle, `core` or `chip` (feed), picojoules of reads and writes by
//! level and of a multiply-accumulate; the nest's sizes in the order `bnckpqrs`, strides, roles (`i`, `w`,
//! `o`). An answer has the factors by level, innermost first, separated by `/` (of loops that are padded,
//! larger ones), then the three orders: the stationary tensor and, where a window slides, its loop. Numbers
//! of one field are separated by commas.
//!
//! What a mapping takes is not stored: it is priced when it is looked up, and a line that does not fit its
//! machine is as if it were absent.

use super::cost::{HBM, Mapping, N_LEVELS, Order};
use super::machine::Machine;
use super::nest::{Loops, NAMES, Nest, Tensor};
use super::objective::Objective;
use super::pad::Padded;
use phzc_ir::{Diagnostic, Result, Span};
use std::collections::BTreeMap;
use std::fmt::Display;

const HEADER: &str = "phzc-arch-mappings 1";
/// Letters of [`Tensor::ALL`].
const TENSORS: [char; 3] = ['i', 'w', 'o'];

/// Mappings by what they answer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cache {
    mappings: BTreeMap<String, Mapping>,
}

impl Cache {
    /// A mapping, with its padded sizes and what it takes, if it is known.
    pub fn get(&self, nest: &Nest, machine: &Machine, objective: Objective) -> Option<Padded> {
        let mapping = *self.mappings.get(&question(nest, machine, objective))?;
        let padded = Nest { sizes: mapping.tile(HBM), ..*nest };
        let is_larger = padded.sizes.iter().zip(&nest.sizes).all(|(padded, size)| padded >= size);
        let is_sound = is_larger && padded.check().is_ok() && mapping.check(&padded, machine).is_ok();
        is_sound.then(|| Padded { nest: padded, mapping, cost: mapping.price(&padded, machine) })
    }

    /// Remembers a mapping.
    pub fn insert(&mut self, nest: &Nest, machine: &Machine, objective: Objective, mapping: Mapping) {
        self.mappings.insert(question(nest, machine, objective), mapping);
    }

    /// Takes in what another one knows.
    pub fn merge(&mut self, other: Cache) {
        self.mappings.extend(other.mappings);
    }

    /// Mappings that are known.
    pub fn len(&self) -> usize {
        self.mappings.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.mappings.is_empty()
    }

    /// The text of all mappings.
    pub fn to_text(&self) -> String {
        let lines =
            self.mappings.iter().map(|(question, mapping)| format!("{question} = {}\n", answer(mapping)));
        format!("{HEADER}\n{}", lines.collect::<String>())
    }

    /// Reads what [`Self::to_text`] wrote.
    ///
    /// # Errors
    /// For another format or version, and for the first line that is none.
    pub fn from_text(text: &str) -> Result<Cache> {
        let mut cache = Cache::default();
        let mut start = 0;
        for (at, line) in text.split_inclusive('\n').enumerate() {
            let span = Span::new(start, start + line.trim_end().len());
            start += line.len();
            let line = line.trim_end();
            if at == 0 && line != HEADER {
                return Err(Diagnostic::error(format!("expected `{HEADER}`, found `{line}`")).at(span));
            }
            if at > 0 {
                let entry = line.split_once(" = ").and_then(|(question, it)| Some((question, mapping(it)?)));
                let wrong = || Diagnostic::error("expected a mapping, `QUESTION = ANSWER`").at(span);
                let (question, mapping) = entry.ok_or_else(wrong)?;
                cache.mappings.insert(question.to_owned(), mapping);
            }
        }
        match start {
            0 => Err(Diagnostic::error(format!("expected `{HEADER}`, found nothing"))),
            _ => Ok(cache),
        }
    }
}

fn name(objective: Objective) -> &'static str {
    match objective {
        Objective::Cycles => "cycles",
        Objective::Latency => "latency",
        Objective::Edp => "edp",
    }
}

fn question(nest: &Nest, machine: &Machine, objective: Objective) -> String {
    let access = machine.access.iter().flat_map(|access| [access.read_pj, access.write_pj]);
    let roles: String = nest.roles.iter().map(|tensor| TENSORS[*tensor as usize]).collect();
    [
        name(objective).to_owned(),
        joined(machine.array),
        joined(machine.grid),
        machine.register_words.to_string(),
        machine.core_words.to_string(),
        if machine.is_per_operand { "each".to_owned() } else { "all".to_owned() },
        machine.global_words.to_string(),
        joined(machine.words_per_cycle),
        if machine.is_fed_per_core { "core".to_owned() } else { "chip".to_owned() },
        joined(access.chain([machine.mac_pj])),
        joined(nest.sizes),
        joined(nest.strides),
        roles,
    ]
    .join(" ")
}

fn joined<T: Display>(numbers: impl IntoIterator<Item = T>) -> String {
    numbers.into_iter().map(|number| number.to_string()).collect::<Vec<_>>().join(",")
}

fn answer(mapping: &Mapping) -> String {
    let factors = mapping.factors.map(joined).join("/");
    let orders = mapping.orders.map(|order| {
        let slide = order.slide.map(|at| NAMES[at]);
        TENSORS[order.stationary as usize].to_string() + &slide.map(String::from).unwrap_or_default()
    });
    format!("{factors} {}", orders.join(","))
}

fn mapping(text: &str) -> Option<Mapping> {
    let (factors, orders) = text.split_once(' ')?;
    let factors: Vec<Loops> = factors.split('/').map(loops).collect::<Option<_>>()?;
    let orders: Vec<Order> = orders.split(',').map(order).collect::<Option<_>>()?;
    let factors: [Loops; N_LEVELS] = factors.try_into().ok()?;
    let all = factors.iter().flatten().try_fold(1_u64, |product, factor| product.checked_mul(*factor));
    all.filter(|product| (1..=1 << 53).contains(product))?;
    Some(Mapping { factors, orders: orders.try_into().ok()? })
}

fn loops(text: &str) -> Option<Loops> {
    let numbers: Vec<u64> = text.split(',').map(|number| number.parse().ok()).collect::<Option<_>>()?;
    numbers.try_into().ok()
}

fn order(text: &str) -> Option<Order> {
    let mut letters = text.chars();
    let tensor = letters.next()?;
    let stationary = Tensor::ALL[TENSORS.iter().position(|known| *known == tensor)?];
    let slide = match letters.next() {
        Some(letter) => Some(NAMES.iter().position(|known| *known == letter)?),
        None => None,
    };
    letters.next().is_none().then_some(Order { stationary, slide })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mapping::mapper::best;
    use crate::mapping::tests::machine;

    fn filled() -> (Cache, Nest, Machine) {
        let (nest, machine) = (Nest::convolution(2, [4, 8], [6, 1], [3, 1]), machine(2, 8, 8, 2));
        let mut cache = Cache::default();
        for objective in [Objective::Edp, Objective::Latency, Objective::Cycles] {
            let (mapping, _) = best(&nest, &machine, objective).expect("it fits");
            cache.insert(&nest, &machine, objective, mapping);
        }
        (cache, nest, machine)
    }

    #[test]
    fn text_reads_back_as_it_was() {
        let (cache, nest, machine) = filled();
        let again = Cache::from_text(&cache.to_text()).expect("it is ours");
        assert_eq!(again, cache);
        let known = again.get(&nest, &machine, Objective::Edp).expect("it is there");
        let (mapping, cost) = best(&nest, &machine, Objective::Edp).expect("it fits");
        assert_eq!(known, Padded { nest, mapping, cost });
    }

    #[test]
    fn another_version_is_an_error() {
        let text = filled().0.to_text().replace("mappings 1", "mappings 2");
        let error = Cache::from_text(&text).expect_err("another version");
        assert_eq!(error.message, "expected `phzc-arch-mappings 1`, found `phzc-arch-mappings 2`");
        assert!(Cache::from_text("").is_err());
    }

    #[test]
    fn a_broken_line_is_an_error_at_its_place() {
        let text = filled().0.to_text() + "edp = 1,2\n";
        let error = Cache::from_text(&text).expect_err("a broken line");
        assert_eq!(error.span.map(|span| &text[span.start as usize..span.end as usize]), Some("edp = 1,2"));
    }

    #[test]
    fn a_mapping_that_does_not_fit_is_as_if_absent() {
        let (mut cache, nest, machine) = filled();
        let mut mapping = cache.get(&nest, &machine, Objective::Edp).expect("it is there").mapping;
        mapping.factors[0][1] *= 1024;
        cache.insert(&nest, &machine, Objective::Edp, mapping);
        assert_eq!(cache.get(&nest, &machine, Objective::Edp), None);
    }
}
