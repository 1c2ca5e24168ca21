//! Parameters and results that are stacks of layers in a program, and one per layer in its unrolled form:
//! the note [`notes::UNSTACKED`], and what the rest of the header says then.

use crate::alias::{aliased, donor_entries};
use crate::module::Module;
use crate::notes;
use std::fmt;
use std::ops::Range;

/// A parameter or a result that has become several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Split {
    /// Its number before.
    pub number: usize,
    /// Layers: as many parameters or results.
    pub n_parts: usize,
}

/// All of a program that have, by number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unstacked {
    /// Its parameters.
    pub parameters: Vec<Split>,
    /// Elements of its result.
    pub results: Vec<Split>,
}

impl Unstacked {
    /// What a module's note says, if it has one; an error quotes a note that says nothing.
    pub fn of(module: &Module) -> Result<Option<Unstacked>, String> {
        let Some(text) = module.note(notes::UNSTACKED) else { return Ok(None) };
        let parsed = text.split_once(';').and_then(|(parameters, results)| {
            let parameters = splits(parameters.strip_prefix("parameters=")?)?;
            Some(Unstacked { parameters, results: splits(results.strip_prefix("results=")?)? })
        });
        parsed.map(Some).ok_or_else(|| format!("the note `{}=\"{text}\"` names no layers", notes::UNSTACKED))
    }

    /// The numbers that a parameter has now.
    pub fn params_of(&self, number: usize) -> Range<usize> {
        numbers(&self.parameters, number)
    }

    /// The numbers that a result has now.
    pub fn results_of(&self, number: usize) -> Range<usize> {
        numbers(&self.results, number)
    }

    /// Rewrites the header of `module`, whose parameters and results are those of `before` in parts.
    pub fn rewrite_header(&self, module: &mut Module, before: &Module) {
        if *self == Unstacked::default() {
            return;
        }
        let number = |id| before.entry().instr(id).param_number().expect("a parameter") as usize;
        let aliases = aliased(before).into_iter().flat_map(|alias| {
            let pairs = self.results_of(alias.output).zip(self.params_of(number(alias.param)));
            pairs.map(|(output, param)| format!("{{{output}}}: ({param}, {{}}, may-alias)"))
        });
        set_list(module, "input_output_alias", aliases.collect());
        let donors = donor_entries(before).into_iter().filter_map(Result::ok);
        let donors = donors.flat_map(|(param, _)| self.params_of(number(param)));
        set_list(module, "buffer_donor", donors.map(|param| format!("({param}, {{}})")).collect());
        module.attrs.retain(|attr| &*attr.key != "entry_computation_layout");
    }
}

impl fmt::Display for Unstacked {
    /// `parameters=3x12,5x12;results=1x12`: parameter 3 has become 12.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |splits: &[Split]| {
            let all: Vec<String> = splits.iter().map(|it| format!("{}x{}", it.number, it.n_parts)).collect();
            all.join(",")
        };
        write!(f, "parameters={};results={}", text(&self.parameters), text(&self.results))
    }
}

fn splits(text: &str) -> Option<Vec<Split>> {
    let split = |part: &str| {
        let (number, n_parts) = part.split_once('x')?;
        Some(Split { number: number.parse().ok()?, n_parts: n_parts.parse().ok()? })
    };
    text.split(',').filter(|part| !part.is_empty()).map(split).collect()
}

fn numbers(splits: &[Split], number: usize) -> Range<usize> {
    let before = splits.iter().filter(|it| it.number < number).map(|it| it.n_parts.saturating_sub(1));
    let first = number + before.sum::<usize>();
    let own = splits.iter().find(|it| it.number == number).map_or(1, |it| it.n_parts);
    first..first + own
}

/// A list of the header in braces, if it has one.
fn set_list(module: &mut Module, key: &str, entries: Vec<String>) {
    if module.attr(key).is_some() {
        module.set_attr(key, format!("{{ {} }}", entries.join(", ")));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse;

    fn two_layers() -> Unstacked {
        let of = |number| Split { number, n_parts: 2 };
        Unstacked { parameters: vec![of(1)], results: vec![of(0)] }
    }

    #[test]
    fn later_numbers_move_by_the_parts_before_them() {
        let split = two_layers();
        assert_eq!([0, 1, 2].map(|number| split.params_of(number)), [0..1, 1..3, 3..4]);
        assert_eq!([0, 1].map(|number| split.results_of(number)), [0..2, 2..3]);
    }

    #[test]
    fn a_note_says_what_was_written_and_a_wrong_one_is_quoted() {
        let mut module = parse("ENTRY e { ROOT x = f32[] parameter(0) }").expect("legal");
        assert_eq!(Unstacked::of(&module), Ok(None));
        module.set_note(notes::UNSTACKED, &two_layers().to_string());
        assert_eq!(Unstacked::of(&module), Ok(Some(two_layers())));
        module.set_note(notes::UNSTACKED, "parameters=1xtwo;results=");
        assert!(Unstacked::of(&module).is_err_and(|error| error.contains("1xtwo")));
    }

    #[test]
    fn each_layer_takes_the_buffer_of_its_own_parameter() {
        let text = "HloModule m, input_output_alias={ {0}: (1, {}, may-alias), {1}: (2, {}, may-alias) }, buffer_donor={ (0, {}) }
            ENTRY e { a = f32[] parameter(0) b = f32[2] parameter(1) c = f32[] parameter(2) ROOT r = (f32[2], f32[]) tuple(b, c) }";
        let before = parse(text).expect("legal");
        let mut after = before.clone();
        two_layers().rewrite_header(&mut after, &before);
        let aliases = "{ {0}: (1, {}, may-alias), {1}: (2, {}, may-alias), {2}: (3, {}, may-alias) }";
        assert_eq!(after.attr("input_output_alias"), Some(aliases));
        assert_eq!(after.attr("buffer_donor"), Some("{ (0, {}) }"));
    }
}
