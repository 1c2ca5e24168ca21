//! What the user controls by options: the mesh, pinned layouts, forbidden strategies, dumps.

use super::forbid::Forbid;
use super::pins::{self, Pin};
use phzc_cost::Cluster;
use phzc_ir::{Diagnostic, MAX_AXES, Mesh, Module, Result, counted, notes};
use phzc_pass::pass::{OptionInfo, OptionKind, Options};
use phzc_pass::pipeline_syntax::{self, RawStep};

/// The options of `shard`.
pub(super) const OPTIONS: &[OptionInfo] = &[
    OptionInfo {
        name: "mesh",
        kind: OptionKind::Text("auto, or sizes such as 2x4, or names and sizes such as {data=2,model=4}"),
        default: "auto",
        help: "the logical mesh; auto tries every one- and two-axis mesh of the cluster's devices",
    },
    OptionInfo {
        name: "pin",
        kind: OptionKind::Checked(
            "a pattern of names, `=`, a layout; several with `;` between: {^w1$=[x,-]; bias=[-]}",
            |text| pins::parse(text).map(drop),
        ),
        default: "",
        help: "fixes the layouts of instructions whose names match (a regular expression, searched for); what a \
               layout means is in the tensor table: axes per dimension, `-` for none; meshes without these axes are not tried",
    },
    OptionInfo {
        name: "forbid",
        kind: OptionKind::Checked(
            "all-gather, all-reduce, reduce-scatter, all-to-all, collective-permute, batch, lhs, rhs, contract, \
             weights, zero1, zero3, remake; several with `+` between",
            |text| Forbid::parse(text).map(drop),
        ),
        default: "",
        help: "what no plan may have: a collective; a split of the loops that only the left operand of a block's \
               forward product has (lhs), only the right one (rhs), both and the result (batch), both but not the \
               result (contract); parameters stored in parts, batches aside (weights); gathers of parameters after their \
               update (zero1, which is ZeRO-1 and 2), or where they are read (zero3); copies of what is \
               larger than what it is made of, where another layout is needed (remake)",
    },
    OptionInfo {
        name: "map",
        kind: OptionKind::Choice(&["short", "full"]),
        default: "short",
        help: "strategy_map.txt with names only, or with CFP's costs: seconds of the kernel and of collectives, bytes \
               of the result, and per operand the seconds from each strategy of its maker",
    },
    OptionInfo {
        name: "enumerate",
        kind: OptionKind::Flag,
        default: "false",
        help: "also write enumeration.txt: volume, seconds and memory of every combination of strategies of the \
               repeated segment's blocks, 4096 at most",
    },
];

/// The options of a run, read.
pub(super) struct Control {
    pub mesh: Option<Mesh>,
    pub pins: Vec<Pin>,
    pub forbid: Forbid,
}

impl Control {
    /// Reads the options for a cluster; of unlike devices its first kind.
    ///
    /// # Errors
    /// When one of them cannot be.
    pub fn read(options: &Options, cluster: &Cluster) -> Result<Control> {
        let of_first = |error: Diagnostic| match cluster.is_unlike() {
            true => error
                .note(None, format!("layouts are chosen for the first kind of nodes in `{}`", cluster.name)),
            false => error,
        };
        let mesh = match options.text("mesh") {
            "auto" => None,
            text => Some(parse_mesh(text, cluster.n_devices() as i64).map_err(of_first)?),
        };
        let (pins, forbid) = (pins::parse(options.text("pin"))?, Forbid::parse(options.text("forbid"))?);
        Ok(Control { mesh, pins, forbid })
    }
}

fn parse_mesh(text: &str, n_devices: i64) -> Result<Mesh> {
    let mesh = if text.contains('=') { Mesh::parse(text)? } else { unnamed(text)? };
    let product = mesh.sizes.iter().try_fold(1i64, |total, &size| total.checked_mul(size));
    match product {
        Some(product) if product == n_devices => Ok(mesh),
        Some(product) => Err(Diagnostic::error(format!(
            "mesh `{text}` has {}, the cluster has {n_devices}",
            counted(product as usize, "device")
        ))),
        None => Err(no_mesh(text)),
    }
}

fn unnamed(text: &str) -> Result<Mesh> {
    let sizes: Option<Vec<i64>> =
        text.split('x').map(|size| size.parse().ok().filter(|&size: &i64| size > 0)).collect();
    match sizes {
        Some(sizes) if sizes.len() <= MAX_AXES => Ok(Mesh::new(&sizes)),
        _ => Err(no_mesh(text)),
    }
}

fn no_mesh(text: &str) -> Diagnostic {
    let help = "write up to four sizes, such as `2x4`, or names and sizes, such as `{data=2,model=4}`";
    Diagnostic::error(format!("`{text}` is no mesh")).help(help)
}

/// The texts that earlier runs of `shard` were given for an option, as the module remembers them.
pub(super) fn history(module: &Module, option: &str) -> Vec<String> {
    let default = OPTIONS.iter().find(|known| known.name == option).map_or("", |known| known.default);
    texts_of(module, super::PASS.name, (option, default))
}

/// What the run of `shard` that made the plan was given for an option, if not the default: a later run leaves
/// the plan as it is, and need not say it again.
fn asked(module: &Module, option: &str) -> Option<String> {
    let default = OPTIONS.iter().find(|known| known.name == option).map_or("", |known| known.default);
    history(module, option).into_iter().rev().find(|text| text != default)
}

/// The same of any pass, for an option with this default.
pub fn texts_of(module: &Module, pass: &str, (option, default): (&str, &str)) -> Vec<String> {
    let passes = module.note(notes::PASSES).unwrap_or_default();
    let steps = pipeline_syntax::parse(&passes).unwrap_or_default();
    let asked = |step: RawStep| {
        let given = step.options.into_iter().find(|given| given.key == option);
        given.map_or(default.to_owned(), |given| given.value)
    };
    steps.into_iter().filter(|step| step.name == pass).map(asked).collect()
}

/// The options of `shard` for another form of the program: what the user asked of this one's plan.
pub fn asked_again(module: &Module) -> Options {
    let asked = |option: &OptionInfo| {
        let is_asked = matches!(option.name, "mesh" | "forbid");
        let text = is_asked.then(|| asked(module, option.name)).flatten();
        (option.name, text.unwrap_or_else(|| option.default.to_owned()))
    };
    Options { values: OPTIONS.iter().map(asked).collect() }
}

/// The mesh that the program's plan was asked to have, if one was.
pub fn asked_mesh(module: &Module, n_devices: i64) -> Option<Mesh> {
    parse_mesh(&asked(module, "mesh")?, n_devices).ok()
}

/// What the program's plan was not allowed to have: `place` keeps to that too.
pub fn forbidden(module: &Module) -> Forbid {
    Forbid::parse(&asked(module, "forbid").unwrap_or_default()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program that has been through these passes.
    fn planned_by(passes: &str) -> Module {
        let mut module = phzc_ir::parse("ENTRY e { ROOT x = f32[4] parameter(0) }").expect("legal");
        module.set_note(notes::PASSES, passes);
        module
    }

    #[test]
    fn a_program_remembers_the_mesh_that_was_asked_for_last() {
        let asked = |passes: &str| asked_mesh(&planned_by(passes), 8).map(|mesh| mesh.to_string());
        assert_eq!([asked("fuse,shard"), asked("shard{mesh=auto}"), asked("")], [None, None, None]);
        assert_eq!(asked("shard{mesh=2x4}"), Some("x=2,y=4".to_owned()));
        assert_eq!(asked("shard{mesh=8},shard{mesh=2x4}"), Some("x=2,y=4".to_owned()));
        assert_eq!(asked("shard{mesh=2x2}"), None);
    }

    #[test]
    fn another_form_is_asked_for_what_this_one_was() {
        let options = asked_again(&planned_by("fuse,shard{mesh=2x4,forbid=weights,map=full}"));
        assert_eq!(["mesh", "forbid"].map(|name| options.text(name)), ["2x4", "weights"]);
        assert_eq!(options.text("map"), asked_again(&planned_by("shard")).text("map"));
        assert_eq!(asked_again(&planned_by("fuse")).text("mesh"), "auto");
    }
}
