//! What the command line says of the space of plans and of the own cost, checked.

use super::{CostMode, ProfilePlanArgs, models};
use phzc_cost::Accelerator;
use phzc_cost::aceso::{Machine, OpChain, Own, PlanSchedule};
use phzc_cost::profile::OpTables;
use phzc_io::Failure;
use phzc_ir::{Diagnostic, Result};
use phzc_solver::chain::profiled::{Limits, Space};
use std::collections::BTreeSet;

/// What may be recomputed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum WhatIsRecomputed {
    /// Whatever makes a stage fit for the least time
    Any,
    /// Nothing
    None,
}

/// What runs beside the backward part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Overlap {
    /// Nothing
    None,
    /// Sums of gradients and gathers of parameters
    Gradients,
}

/// Numbers of stages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StageRange {
    least: usize,
    most: usize,
}

impl std::str::FromStr for StageRange {
    type Err = String;
    fn from_str(text: &str) -> std::result::Result<StageRange, String> {
        let number = |text: &str| text.parse::<usize>().ok().filter(|&n| n > 0);
        let (least, most) = match text.split_once("..") {
            Some((least, most)) => (number(least), number(most)),
            None => (number(text), number(text)),
        };
        match (least, most) {
            (Some(least), Some(most)) if least <= most => Ok(StageRange { least, most }),
            _ => Err(format!("expected a number above 0 or A..B with A up to B, found `{text}`")),
        }
    }
}

/// How far from the best a plan may be.
pub(super) fn gap(text: &str) -> std::result::Result<f64, String> {
    let is_legal = |percent: &f64| (0.0..=100.0).contains(percent);
    text.parse().ok().filter(is_legal).ok_or_else(|| "expected percent from 0 to 100, such as 0.5".to_owned())
}

/// A schedule by its name.
pub(super) fn schedule(text: &str) -> std::result::Result<PlanSchedule, String> {
    text.parse().map_err(|error: Diagnostic| error.message)
}

/// The device whose memory the optimizer uses where none is given: that of Aceso's machines.
const DEVICE: &str = "v100-32";
/// Stages per device of the interleaved pipelines that are tried where no schedule is given.
const CHUNKS: [usize; 2] = [2, 4];

/// What the own cost needs to know; nothing for Aceso's.
pub(super) fn own(args: &ProfilePlanArgs, tables: &OpTables, chain: &OpChain) -> Result<Option<Own>> {
    if args.cost == CostMode::Aceso {
        let given = [
            ("--schedule", !args.schedule.is_empty()),
            ("--zero", !args.zero.is_empty()),
            ("--overlap", args.overlap.is_some()),
            ("--device", args.device.is_some()),
            ("--tied", !args.tied.is_empty()),
        ];
        return match given.iter().find(|(_, is_given)| *is_given) {
            Some((name, _)) => {
                Err(Diagnostic::error(format!("Aceso's cost knows no `{name}`")).help("give --cost own"))
            }
            None => Ok(None),
        };
    }
    let device = Accelerator::named(args.device.as_deref().unwrap_or(DEVICE))?;
    let memory_mib_per_ms = device.hbm_bytes_per_sec * device.hbm_efficiency / f64::from(1 << 20) / 1e3;
    let is_overlapped = args.overlap == Some(Overlap::Gradients);
    Ok(Some(Own { is_overlapped, memory_mib_per_ms, tied: tied(args, tables, chain)? }))
}

/// The operators of the chain that share a parameter: those named, or those of a published model.
fn tied(args: &ProfilePlanArgs, tables: &OpTables, chain: &OpChain) -> Result<Vec<usize>> {
    let known = models::family(&args.model).map_or(&[][..], |it| it.tied);
    let position = |name: &str| {
        let row = tables.names.iter().position(|own| own == name)?;
        let mut all = (0..chain.len()).filter(|&op| chain.rows[op] == row);
        let first = all.next()?;
        all.next().is_none().then_some(first)
    };
    if args.tied.is_empty() {
        let all: Vec<usize> = known.iter().filter_map(|name| position(name)).collect();
        return Ok(if all.len() > 1 { all } else { Vec::new() });
    }
    let named = |name: &String| {
        position(name).ok_or_else(|| {
            let message = format!("no operator, or more than one of the model, is called `{name}`");
            Diagnostic::error(message).help("name operators that the model has once, as the tables do")
        })
    };
    let mut all: Vec<usize> = args.tied.iter().map(named).collect::<Result<_>>()?;
    all.sort_unstable();
    all.dedup();
    match all.len() {
        1 => {
            Err(Diagnostic::error("one operator alone shares no parameter")
                .help("name two or more in --tied"))
        }
        _ => Ok(all),
    }
}

/// The space of plans.
pub(super) fn space(args: &ProfilePlanArgs, machine: &Machine) -> std::result::Result<Space, Failure> {
    let (n_devices, is_own) = (args.gpus.unwrap_or(1), machine.own.is_some());
    let is_mixed = is_mixed(args, machine)?;
    let stages = args.stages.unwrap_or(StageRange { least: 1, most: args.max_stages });
    if stages.least > n_devices || stages.least > machine.chain.len() {
        let message =
            format!("{} stages, but {n_devices} devices and {} operators", stages.least, machine.chain.len());
        return Err(Diagnostic::error(message).help("each stage has a device and an operator").into());
    }
    measured("--tensor", &args.tensor, machine.tables.rows.keys().map(|split| split.tensor))?;
    let limits = Limits {
        min_stages: stages.least,
        groups: groups(args, n_devices, is_own)?,
        tensor: args.tensor.clone(),
        data: args.data.clone(),
        zero: zero(args, machine, is_mixed),
        schedules: schedules(args, is_own),
        keeps_all: args.recompute == WhatIsRecomputed::None,
        max_plans: args.max_plans.map(|n| n as usize),
        gap: args.gap.map(|percent| percent / 100.0),
        n_best: args.top as usize,
    };
    let mut space = Space {
        n_devices,
        max_stages: stages.most,
        max_group: args.gpus_per_node.min(models::MAX_GROUP),
        max_tensor: args.gpus_per_node.min(models::MAX_GROUP) as u32,
        microbatches: Vec::new(),
        is_mixed,
        limits,
    };
    space.microbatches = microbatches(args, machine, &space)?;
    Ok(space)
}

/// Longer chains take minutes with operators split each its own way.
const MAX_MIXED: usize = 2000;

/// Whether operators of one stage may be split in different ways: only where a rule says what the changes of
/// layout take.
fn is_mixed(args: &ProfilePlanArgs, machine: &Machine) -> Result<bool> {
    let family = models::family(&args.model);
    if args.mixed == Some(true) && !family.is_some_and(|it| it.has_layouts) {
        let message = format!("what changes of layout inside a stage take is not known for `{}`", args.model);
        return Err(Diagnostic::error(message)
            .help("leave --mixed out: all operators of a stage are split alike then"));
    }
    let is_usual = |it: &models::Family| match &machine.own {
        Some(_) => it.is_mixed,
        None => it.has_layouts && machine.chain.len() <= MAX_MIXED,
    };
    Ok(args.mixed.unwrap_or(family.is_some_and(is_usual)))
}

/// Whether what is forced was measured.
fn measured(option: &str, wanted: &[u32], known: impl Iterator<Item = u32>) -> Result<()> {
    let known: BTreeSet<u32> = known.collect();
    match wanted.iter().find(|degree| !known.contains(degree)) {
        Some(wrong) => Err(Diagnostic::error(format!("`{option} {wrong}` was not measured"))
            .help(format!("measured were {known:?}"))),
        None => Ok(()),
    }
}

/// Numbers of devices of a stage: those given; for the own cost all that nodes can be tiled with.
fn groups(args: &ProfilePlanArgs, n_devices: usize, is_own: bool) -> Result<Vec<usize>> {
    let per_node = args.gpus_per_node;
    let tiles = |size: &usize| *size > 0 && (*size <= per_node || size.is_multiple_of(per_node));
    if let Some(wrong) = args.group.iter().find(|size| !tiles(size) || **size > n_devices) {
        let message = format!("no stage can have {wrong} of {n_devices} devices");
        let help = format!("a stage has up to {per_node} devices of one node, or whole nodes");
        return Err(Diagnostic::error(message).help(help));
    }
    Ok(match args.group.is_empty() && is_own {
        true => (1..=n_devices).filter(tiles).collect(),
        false => args.group.clone(),
    })
}

/// ZeRO stages to try. Without overlap stage 0 takes as long as stage 1 and holds more; of single operators'
/// only one is tried.
fn zero(args: &ProfilePlanArgs, machine: &Machine, is_mixed: bool) -> Vec<u32> {
    match (&machine.own, args.zero.is_empty()) {
        (Some(_), true) if is_mixed => vec![1],
        (Some(_), true) => vec![1, 2, 3],
        _ => args.zero.clone(),
    }
}

fn schedules(args: &ProfilePlanArgs, is_own: bool) -> Vec<PlanSchedule> {
    if !args.schedule.is_empty() || !is_own {
        return args.schedule.clone();
    }
    // GPipe is never faster than 1F1B, and never holds less.
    let interleaved = CHUNKS.map(PlanSchedule::Interleaved);
    [PlanSchedule::OneFOneB, PlanSchedule::ZeroBubble].into_iter().chain(interleaved).collect()
}

/// The microbatches to try: those given, or those measured as samples of a replica, with the own cost for any
/// number of replicas; whole ones of a step.
fn microbatches(args: &ProfilePlanArgs, machine: &Machine, space: &Space) -> Result<Vec<u32>> {
    let measured = machine.tables.batches();
    let divides = |microbatch: &u32| *microbatch > 0 && machine.global_batch.is_multiple_of(*microbatch);
    if let Some(wrong) = args.microbatches.iter().find(|microbatch| !divides(microbatch)) {
        let message =
            format!("{wrong} samples of a microbatch do not divide the {} of a step", machine.global_batch);
        return Err(Diagnostic::error(message).help(format!("measured were {measured:?}")));
    }
    if !args.microbatches.is_empty() {
        return Ok(args.microbatches.clone());
    }
    let most = space.limits.groups.iter().copied().max().unwrap_or(1) as u32;
    let replicas: Vec<u32> = if machine.own.is_some() { (1..=most).collect() } else { vec![1] };
    let all: BTreeSet<u32> = measured
        .iter()
        .flat_map(|batch| replicas.iter().filter_map(move |n| batch.checked_mul(*n)))
        .collect();
    Ok(all.into_iter().filter(divides).collect())
}
