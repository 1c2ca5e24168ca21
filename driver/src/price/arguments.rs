//! Megatron-LM's command line: what of it is priced, what is passed over, and what is no argument of it.

mod families;

use phzc_ir::{Diagnostic, Result, Span, nearest};
use std::fmt::Write;

/// No script of arguments is larger.
pub const MAX_BYTES: u64 = 1 << 20;

/// Degrees and sizes are no larger.
const MAX_NUMBER: usize = 1 << 20;

/// What is recomputed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Recompute {
    #[default]
    Nothing,
    /// Of attention what is cheap to make.
    Selective,
    /// Everything but what layers hand on.
    Full,
}

/// A number, and where it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Number {
    pub value: usize,
    pub span: Span,
}

/// What a command line asks for. Numbers that are not given are `None`: Megatron's defaults are ones.
#[derive(Clone, Debug, Default)]
pub struct Arguments {
    pub numbers: Vec<(&'static str, Number)>,
    pub sequence_parallel: bool,
    /// ZeRO's stage.
    pub zero: u8,
    pub recompute: Recompute,
    pub layout: Option<(String, Span)>,
    /// Whether attention is not one kernel.
    pub is_unfused: bool,
    /// Whether copies share out what ZeRO's stage says, though other plans be faster.
    pub is_exact: bool,
    /// Whether all microbatches go forward before any goes backward.
    pub is_gpipe: bool,
    /// What is priced otherwise than it runs.
    pub nearly: Vec<String>,
    ignored: Vec<String>,
    unpriced: Vec<String>,
    /// Arguments and their values, in order.
    said: Vec<(String, String)>,
}

/// Arguments whose value is a number that is priced or checked.
const NUMBERS: [&str; 20] = [
    "--tensor-model-parallel-size",
    "--pipeline-model-parallel-size",
    "--context-parallel-size",
    "--expert-model-parallel-size",
    "--expert-tensor-parallel-size",
    "--micro-batch-size",
    "--global-batch-size",
    "--seq-length",
    "--num-layers",
    "--num-layers-per-virtual-pipeline-stage",
    "--num-virtual-stages-per-pipeline-rank",
    "--decoder-first-pipeline-num-layers",
    "--decoder-last-pipeline-num-layers",
    "--recompute-num-layers",
    "--world-size",
    "--hidden-size",
    "--ffn-hidden-size",
    "--num-experts",
    "--num-attention-heads",
    "--kv-channels",
];

/// Other arguments that are priced.
const WORDS: [&str; 14] = [
    "--sequence-parallel",
    "--use-distributed-optimizer",
    "--use-megatron-fsdp",
    "--use-custom-fsdp",
    "--use-torch-fsdp2",
    "--data-parallel-sharding-strategy",
    "--recompute-granularity",
    "--recompute-activations",
    "--recompute-method",
    "--pipeline-model-parallel-layout",
    "--attention-backend",
    "--use-flash-attn",
    "--optimizer-cpu-offload",
    "--recompute-modules",
];

impl Arguments {
    /// Reads a command line.
    ///
    /// # Errors
    /// At an argument that Megatron does not have, or a value that is none; the span is in `text`.
    pub fn parse(text: &str) -> Result<Arguments> {
        let (mut found, words) = (Arguments::default(), words(text));
        let mut at = 0;
        while at < words.len() {
            let (word, span) = &words[at];
            if !word.starts_with("--") {
                let error = Diagnostic::error(format!("`{word}` stands behind no argument")).at(*span);
                return Err(error.help("give Megatron's arguments as `--name value` or `--name=value`"));
            }
            let is_value = |(word, _): &&(String, Span)| !word.starts_with("--");
            let n_values = words[at + 1..].iter().take_while(is_value).count();
            let (name, joined) =
                word.split_once('=').map_or((&**word, None), |(name, value)| (name, Some(value)));
            let mut values: Vec<(&str, Span)> = joined.into_iter().map(|value| (value, *span)).collect();
            values.extend(words[at + 1..=at + n_values].iter().map(|(word, span)| (&**word, *span)));
            found.argument(name, *span, &values)?;
            found.repeat(name, &values);
            at += 1 + n_values;
        }
        Ok(found)
    }

    /// The value of a number, one by default.
    pub fn number(&self, name: &str) -> usize {
        self.given(name).map_or(1, |number| number.value)
    }

    /// A number that is given; the last one counts, as in Megatron.
    pub fn given(&self, name: &str) -> Option<Number> {
        self.numbers.iter().rev().find(|(own, _)| *own == name).map(|(_, number)| *number)
    }

    /// An error at an argument, if it is given.
    pub fn at(&self, name: &str, error: Diagnostic) -> Diagnostic {
        match self.given(name) {
            Some(number) => error.at(number.span),
            None => error,
        }
    }

    /// Lines about what was passed over.
    pub fn remarks(&self) -> String {
        let lists = [("ignored", &self.ignored), ("not priced", &self.unpriced)];
        let named = lists.iter().filter(|(_, names)| !names.is_empty());
        named.fold(String::new(), |mut text, (what, names)| {
            let _ = writeln!(text, "{what}: {}", names.join(", "));
            text
        })
    }

    /// Notes an argument that is given with another value than before.
    fn repeat(&mut self, name: &str, values: &[(&str, Span)]) {
        let values: Vec<&str> = values.iter().map(|(value, _)| *value).collect();
        let (values, before) = (values.join(" "), self.said.iter().rev().find(|(own, _)| own == name));
        if let Some((_, before)) = before.filter(|(_, before)| *before != values) {
            let text =
                format!("`{name}` is given as `{before}` and as `{values}`: the last counts, as in Megatron");
            self.nearly.push(text);
        }
        self.said.push((name.to_owned(), values));
    }

    fn argument(&mut self, name: &str, span: Span, values: &[(&str, Span)]) -> Result<()> {
        if let Some(known) = NUMBERS.iter().find(|known| **known == name) {
            let number = number(name, span, values)?;
            self.numbers.push((known, number));
            return Ok(());
        }
        match name {
            "--sequence-parallel" => self.sequence_parallel = true,
            "--use-distributed-optimizer" => self.zero = self.zero.max(1),
            "--use-megatron-fsdp" | "--use-custom-fsdp" => self.zero = self.zero.max(1),
            "--use-torch-fsdp2" => self.zero = 3,
            "--data-parallel-sharding-strategy" => self.zero = strategy(value(name, span, values)?)?,
            "--recompute-activations" => self.recompute = Recompute::Selective,
            "--recompute-granularity" => self.recompute = granularity(value(name, span, values)?)?,
            "--recompute-method" => self.method(value(name, span, values)?)?,
            "--pipeline-model-parallel-layout" => {
                let (text, span) = value(name, span, values)?;
                self.layout = Some((text.to_owned(), span));
            }
            "--attention-backend" => self.is_unfused = backend(value(name, span, values)?)?,
            "--use-flash-attn" => self.is_unfused = false,
            "--optimizer-cpu-offload" | "--recompute-modules" => self.unpriced.push(name.to_owned()),
            _ if families::is_unpriced(name) => self.unpriced.push(name.to_owned()),
            _ if families::is_ignored(name) => self.ignored.push(name.to_owned()),
            _ => return Err(unknown(name, span)),
        }
        Ok(())
    }

    fn method(&mut self, (word, span): (&str, Span)) -> Result<()> {
        match one_of("--recompute-method", (word, span), &["uniform", "block"])? {
            0 => {}
            _ => self.nearly.push(
                "`--recompute-method block` recomputes some layers of each stage; priced as if all"
                    .to_owned(),
            ),
        }
        Ok(())
    }
}

/// The words of a command line: split at blanks, quotes and escaped line breaks taken away.
fn words(text: &str) -> Vec<(String, Span)> {
    let (mut found, mut word, mut start, mut quote) = (Vec::new(), String::new(), None, None);
    for (at, c) in text.char_indices().chain([(text.len(), ' ')]) {
        match (c, quote) {
            (_, Some(open)) if c == open => quote = None,
            ('"' | '\'', None) => {
                quote = Some(c);
                start.get_or_insert(at);
            }
            ('\\', None) => {}
            (_, None) if c.is_whitespace() => {
                if let Some(start) = start.take() {
                    found.push((std::mem::take(&mut word), Span::new(start, at)));
                }
            }
            _ => {
                start.get_or_insert(at);
                word.push(c);
            }
        }
    }
    found
}

/// Of a script that `--emit megatron` wrote the list of arguments, of another file all that is no comment.
pub fn of_script(text: &str) -> String {
    let list = text.split_once("MEGATRON_ARGS=(").and_then(|(_, rest)| rest.split_once("\n)"));
    let lines = list.map_or(text, |(list, _)| list).lines();
    lines.filter(|line| !line.trim_start().starts_with('#')).map(|line| format!("{line}\n")).collect()
}

fn value<'a>(name: &str, span: Span, values: &[(&'a str, Span)]) -> Result<(&'a str, Span)> {
    values.first().copied().ok_or_else(|| {
        Diagnostic::error(format!("`{name}` needs a value")).at(span).help("write it behind the argument")
    })
}

fn number(name: &str, span: Span, values: &[(&str, Span)]) -> Result<Number> {
    let (word, at) = value(name, span, values)?;
    let value = word.parse().ok().filter(|n| (1..=MAX_NUMBER).contains(n));
    let error = || Diagnostic::error(format!("`{name}` needs a whole number from 1 up, got `{word}`")).at(at);
    value
        .map(|value| Number { value, span: Span::new(span.start as usize, at.end as usize) })
        .ok_or_else(error)
}

/// The position of a word among those that an argument takes.
fn one_of(name: &str, (word, span): (&str, Span), known: &[&str]) -> Result<usize> {
    known.iter().position(|known| *known == word).ok_or_else(|| {
        let error = Diagnostic::error(format!("`{name}` does not take `{word}`")).at(span);
        error.help(format!("one of {}", known.join(", ")))
    })
}

fn strategy(value: (&str, Span)) -> Result<u8> {
    let known = ["no_shard", "optim", "optim_grads", "optim_grads_params"];
    Ok(one_of("--data-parallel-sharding-strategy", value, &known)? as u8)
}

fn granularity(value: (&str, Span)) -> Result<Recompute> {
    let found = one_of("--recompute-granularity", value, &["selective", "full"])?;
    Ok([Recompute::Selective, Recompute::Full][found])
}

fn backend(value: (&str, Span)) -> Result<bool> {
    Ok(one_of("--attention-backend", value, &["flash", "fused", "auto", "unfused", "local"])? >= 3)
}

fn unknown(name: &str, span: Span) -> Diagnostic {
    let error = Diagnostic::error(format!("Megatron-LM has no argument `{name}` that phzc knows")).at(span);
    match nearest(name, NUMBERS.into_iter().chain(WORDS)) {
        Some(near) => error.help(format!("did you mean `{near}`?")),
        None => error.help("leave it out: it is not priced"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str) -> String {
        Arguments::parse(text).map_or_else(|error| error.message.to_string(), |found| found.remarks())
    }

    #[test]
    fn numbers_words_and_what_is_passed_over_are_told_apart() {
        let text = "--tensor-model-parallel-size 8 --micro-batch-size=2 \\\n --lr 1e-4 --sequence-parallel \
                    --pipeline-model-parallel-layout 'Et|tL' --overlap-grad-reduce --save \"my dir\"";
        let found = Arguments::parse(text).expect("legal");
        assert_eq!(found.number("--tensor-model-parallel-size"), 8);
        assert_eq!((found.number("--micro-batch-size"), found.number("--context-parallel-size")), (2, 1));
        assert_eq!(found.layout.as_ref().map(|(text, _)| &**text), Some("Et|tL"));
        assert!(found.sequence_parallel);
        assert_eq!(found.remarks(), "ignored: --lr, --save\nnot priced: --overlap-grad-reduce\n");
    }

    #[test]
    fn what_is_no_argument_is_named() {
        assert_eq!(
            said("--tensor-model-paralel-size 8"),
            "Megatron-LM has no argument `--tensor-model-paralel-size` that phzc knows"
        );
        assert_eq!(said("8 --bf16"), "`8` stands behind no argument");
        assert_eq!(said("--micro-batch-size --bf16"), "`--micro-batch-size` needs a value");
        assert_eq!(
            said("--micro-batch-size 0"),
            "`--micro-batch-size` needs a whole number from 1 up, got `0`"
        );
        assert_eq!(said("--recompute-granularity half"), "`--recompute-granularity` does not take `half`");
        let error = Arguments::parse("--bf16 --context-parallel-sise 2").expect_err("a misspelling");
        assert_eq!(error.span, Some(Span::new(7, 30)));
    }

    #[test]
    fn zero_s_stage_is_what_the_sharding_strategy_says() {
        let zero = |text: &str| Arguments::parse(text).expect("legal").zero;
        assert_eq!((zero(""), zero("--use-distributed-optimizer")), (0, 1));
        assert_eq!(zero("--use-megatron-fsdp --data-parallel-sharding-strategy optim_grads_params"), 3);
    }
}
