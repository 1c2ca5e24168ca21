//! The pipeline that the command line asks for: `--passes`, with what other options add to its passes.

use crate::Failure;
use crate::args::Args;
use crate::render::Source;
use phzc_ir::Diagnostic;
use phzc_passes::shard::{self, pins};
use phzc_passes::{Pipeline, Step};

/// Reads `--passes` and adds the pins; what an option asks of `shard` needs it in the pipeline.
pub(crate) fn pipeline(args: &Args) -> Result<Pipeline, Failure> {
    let mut pipeline =
        Pipeline::parse(&args.passes).map_err(|errors| wrong("--passes", &args.passes, errors))?;
    let mut shards: Vec<&mut Step> =
        pipeline.steps.iter_mut().filter(|step| step.pass.name == shard::PASS.name).collect();
    for (option, is_given) in [("--pin", !args.pins.is_empty()), ("--explain", !args.explain.is_empty())] {
        if is_given && shards.is_empty() {
            let error = Diagnostic::error(format!("`{option}` is about the pass `shard`, which is not run"));
            let error = error.help("add it: `--passes fuse,shard,place`");
            return Err(wrong("--passes", &args.passes, vec![error]));
        }
    }
    for pin in &args.pins {
        pins::parse(pin).map_err(|error| wrong("--pin", pin, vec![error]))?;
        shards.iter_mut().for_each(|step| add_pin(step, pin));
    }
    Ok(pipeline)
}

fn add_pin(step: &mut Step, pin: &str) {
    let pins = step.options.values.entry("pin").or_default();
    *pins = if pins.is_empty() { pin.to_owned() } else { format!("{pins}; {pin}") };
}

/// A wrong command line: the option, what stands in it, and what is wrong.
fn wrong(option: &str, text: &str, errors: Vec<Diagnostic>) -> Failure {
    let source = Source { name: option.to_owned(), text: text.to_owned() };
    Failure { code: 2, source: Some(source), errors }
}
