//! The options of `phzc gen`: a subcommand per family, an option per dimension, those that all families
//! share.

use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use phzc_frontends::zoo::{FAMILIES, Family, Settings};
use phzc_ir::DType;
use std::path::PathBuf;

/// The arguments of `phzc gen`.
#[derive(Debug)]
pub struct GenArgs {
    /// What to write.
    pub family: &'static Family,
    /// The name of its size.
    pub size: String,
    /// One value per dimension.
    pub values: Vec<i64>,
    /// What all families have in common.
    pub settings: Settings,
    /// Microbatches of a step; the settings' batch is that of one.
    pub n_microbatches: i64,
    /// The optimizer; without one only the forward program is wanted.
    pub optimizer: Option<String>,
    /// Whether to write figures of the program, not the program.
    pub describe: bool,
    /// Where to.
    pub output: Option<PathBuf>,
}

/// What an optimizer is called, in the pass of that name too.
const OPTIMIZERS: [&str; 4] = ["adamw", "adam", "momentum", "sgd"];

impl clap::Args for GenArgs {
    fn augment_args(command: Command) -> Command {
        let command = command.subcommand_required(true).subcommand_value_name("FAMILY");
        let command = command.subcommand_help_heading("Families").disable_help_subcommand(true);
        FAMILIES.iter().fold(command, |command, family| command.subcommand(subcommand(family)))
    }

    fn augment_args_for_update(command: Command) -> Command {
        GenArgs::augment_args(command)
    }
}

impl clap::FromArgMatches for GenArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<GenArgs, clap::Error> {
        let (name, matches) = matches.subcommand().expect("clap has asked for one");
        let family = FAMILIES.iter().find(|family| family.name == name).expect("clap knows these only");
        read(family, matches)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = GenArgs::from_arg_matches(matches)?;
        Ok(())
    }
}

/// The subcommand of a family; its dimensions' defaults are those of the size.
fn subcommand(family: &'static Family) -> Command {
    let named = family.sizes.iter().map(|size| PossibleValue::new(size.name).help(size.source));
    let size = Arg::new("size")
        .long("size")
        .value_name("NAME")
        .help("Named dimensions; each may be changed by an option of its own")
        .value_parser(PossibleValuesParser::new(named))
        .default_value(family.sizes[0].name);
    let dims = family.dims.iter().map(|dim| {
        let (least, most) = dim.range;
        Arg::new(dim.name)
            .long(dim.name)
            .value_name("N")
            .help(dim.about)
            .help_heading("Dimensions")
            .value_parser(value_parser!(i64).range(least..=most))
    });
    let command =
        Command::new(family.name).about(family.about).arg(size).args(shared()).args(numbers()).args(dims);
    if family.can_scan { command.arg(scan()) } else { command }
}

fn shared() -> [Arg; 7] {
    [
        Arg::new("batch")
            .long("global-batch")
            .value_name("N")
            .help("Samples of a step")
            .value_parser(value_parser!(i64).range(1..=1_000_000))
            .default_value("8"),
        Arg::new("microbatch")
            .long("microbatch")
            .value_name("N")
            .help("Samples at once, in a loop that adds up gradients [default: all]")
            .value_parser(value_parser!(i64).range(1..=1_000_000)),
        Arg::new("dropout")
            .long("dropout")
            .value_name("SHARE")
            .help("Share of activations that dropout drops")
            .value_parser(share)
            .default_value("0"),
        Arg::new("optimizer")
            .long("optimizer")
            .value_name("KIND")
            .help("How parameters are updated")
            .value_parser(OPTIMIZERS)
            .default_value(OPTIMIZERS[0]),
        Arg::new("forward")
            .long("forward")
            .help("Only the forward program, which returns the loss")
            .action(ArgAction::SetTrue)
            .conflicts_with("optimizer"),
        Arg::new("describe")
            .long("describe")
            .help("Instead of the program: its dimensions, parameters and FLOPs, as JSON")
            .action(ArgAction::SetTrue),
        Arg::new("output")
            .short('o')
            .long("output")
            .value_name("FILE")
            .help("File for the program [default: standard output]")
            .value_parser(value_parser!(PathBuf)),
    ]
}

/// What is computed and stored in which type, and what of it trains.
fn numbers() -> [Arg; 4] {
    [
        Arg::new("dtype")
            .long("dtype")
            .value_name("TYPE")
            .help("Type that products are computed in")
            .value_parser(["f32", "bf16", "f16"])
            .default_value("bf16"),
        Arg::new("products")
            .long("products")
            .value_name("TYPE")
            .help("Type of the operands of the layers' products with weights, converted without scales [default: as --dtype]")
            .value_parser(["f8e4m3fn", "f8e5m2", "f4e2m1fn"]),
        Arg::new("weights")
            .long("weights")
            .value_name("TYPE")
            .help("Type that parameters are stored in; of narrow ones the optimizer keeps f32 masters")
            .value_parser(["f32", "bf16", "f16"])
            .default_value("f32"),
        Arg::new("adapters")
            .long("adapters")
            .value_name("RANK")
            .help("Rank of adapters beside the projections into attention, which train alone (LoRA)")
            .value_parser(value_parser!(i64).range(0..=1_000_000))
            .default_value("0"),
    ]
}

fn scan() -> Arg {
    Arg::new("scan")
        .long("scan")
        .help("Equal layers as a loop over stacked parameters, not one after the other")
        .action(ArgAction::SetTrue)
}

/// A number from 0 to below 1.
fn share(text: &str) -> Result<f64, String> {
    let is_legal = |x: &f64| (0.0..1.0).contains(x);
    text.parse().ok().filter(is_legal).ok_or_else(|| "expected a number from 0 to below 1".to_owned())
}

fn read(family: &'static Family, matches: &ArgMatches) -> Result<GenArgs, clap::Error> {
    let text = |name: &str| matches.get_one::<String>(name).expect("it has a default").clone();
    let size_name = text("size");
    let size = family.sizes.iter().find(|size| size.name == size_name).expect("clap knows these only");
    let chosen = family.dims.iter().zip(size.values);
    let values = chosen.map(|(dim, &own)| matches.get_one(dim.name).copied().unwrap_or(own)).collect();
    let all: i64 = *matches.get_one("batch").expect("it has a default");
    let batch = matches.get_one("microbatch").copied().unwrap_or(all);
    if all % batch != 0 {
        let message =
            format!("`--global-batch` has to be a multiple of `--microbatch`, got {all} and {batch}\n");
        return Err(clap::Error::raw(clap::error::ErrorKind::ValueValidation, message));
    }
    let dtype = DType::parse(&text("dtype")).expect("clap knows these only");
    let products = matches.get_one::<String>("products").and_then(|name| DType::parse(name));
    let settings = Settings {
        batch,
        dtype,
        products: products.unwrap_or(dtype),
        weights: DType::parse(&text("weights")).expect("clap knows these only"),
        adapters: *matches.get_one("adapters").expect("it has a default"),
        dropout: *matches.get_one("dropout").expect("it has a default"),
        scan: family.can_scan && matches.get_flag("scan"),
    };
    let optimizer = (!matches.get_flag("forward")).then(|| text("optimizer"));
    let output = matches.get_one("output").cloned();
    Ok(GenArgs {
        family,
        size: size_name,
        values,
        settings,
        n_microbatches: all / batch,
        optimizer,
        describe: matches.get_flag("describe"),
        output,
    })
}
