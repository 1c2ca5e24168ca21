//! Names of tables: which files of a folder are other models' and which are misspelt.

use super::load::split;
use phzc_ir::Diagnostic;
use std::path::Path;

/// Collectives that a profiler measures; not all of them are read.
const COLLECTIVES: [&str; 4] = ["all_gather", "all_reduce", "all_to_all", "reduce_scatter"];
/// The tables of links, within a node and between nodes.
pub(super) const LINKS: [&str; 2] = ["p2p_intra_node", "p2p_inter_node"];

/// That a file was left out.
pub(super) fn not_read(path: &Path, cause: &str) -> Diagnostic {
    Diagnostic::warning(format!("`{}` is not read: {cause}", path.display()))
        .help("docs/profile-plan.md says how tables are called")
}

/// Why a name that no table of a model has seems to be misspelt; `None` for other models' and sizes'.
pub(super) fn mistaken(stem: &str, model: &str, size: &str) -> Option<String> {
    let Some(owner) = owner(stem) else {
        return Some("its name is none of a table".to_owned());
    };
    // `1.3b` is meant to be `1_3B`, `13B` is not.
    let plain = |text: &str| -> String {
        text.chars().map(|it| if it.is_alphanumeric() { it.to_ascii_lowercase() } else { '_' }).collect()
    };
    let wanted = format!("{model}_{size}");
    let is_other = owner.is_empty() || owner == wanted || plain(owner) != plain(&wanted);
    (!is_other).then(|| format!("it is called after `{owner}`, not `{wanted}`"))
}

/// Whether a name is that of a table which is read.
pub(super) fn is_table(stem: &str, model: &str, size: &str) -> bool {
    owner(stem).is_some_and(|owner| owner.is_empty() || owner == format!("{model}_{size}"))
}

/// Model and size by the name of a table, nothing for links; `None` where it is none.
fn owner(stem: &str) -> Option<&str> {
    if LINKS.contains(&stem) {
        return Some("");
    }
    if let Some((owner, rest)) = stem.rsplit_once("_mbs") {
        return split(rest).map(|_| owner);
    }
    let (rest, n_devices) = stem.strip_prefix("prim_")?.strip_suffix("gpus")?.rsplit_once('_')?;
    n_devices.parse::<u32>().ok()?;
    COLLECTIVES.iter().find_map(|kind| rest.strip_suffix(kind)?.strip_suffix('_'))
}
