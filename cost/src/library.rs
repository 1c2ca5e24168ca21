//! The embedded accelerators and clusters, by name.

use crate::accelerator::Accelerator;
use phzc_ir::{Diagnostic, Result, nearest};
use std::sync::LazyLock;

include!(concat!(env!("OUT_DIR"), "/embedded.rs"));

static ACCELERATORS: LazyLock<Vec<Accelerator>> = LazyLock::new(|| {
    let read = |&(stem, text): &(&str, &str)| {
        Accelerator::from_toml(text).unwrap_or_else(|error| panic!("cost/accels/{stem}.toml: {error}"))
    };
    ACCELS.iter().map(read).collect()
});

/// Every embedded accelerator, sorted by name.
pub fn known_accelerators() -> &'static [Accelerator] {
    &ACCELERATORS
}

/// The names of the embedded clusters, sorted.
pub fn known_clusters() -> impl Iterator<Item = &'static str> {
    CLUSTERS.iter().map(|&(stem, _)| stem)
}

/// The text of the embedded cluster of that name.
pub(crate) fn cluster_text(name: &str) -> Option<&'static str> {
    CLUSTERS.iter().find(|(stem, _)| *stem == name).map(|&(_, text)| text)
}

/// The text of the embedded accelerator of that name.
pub(crate) fn accelerator_text(name: &str) -> &'static str {
    ACCELS.iter().find(|(stem, _)| *stem == name).map_or("", |&(_, text)| text)
}

/// The embedded accelerator of that name or alias, in capitals or not, if there is one.
pub(crate) fn find_accelerator(name: &str) -> Option<&'static Accelerator> {
    let is_it = |known: &String| known.eq_ignore_ascii_case(name);
    known_accelerators().iter().find(|one| is_it(&one.name) || one.aliases.iter().any(is_it))
}

/// The embedded accelerator of that name or alias.
pub(crate) fn accelerator(name: &str) -> Result<&'static Accelerator> {
    find_accelerator(name).ok_or_else(|| unknown_device(name))
}

/// The error for a device that nobody knows, with the nearest name and the list.
pub(crate) fn unknown_device(name: &str) -> Diagnostic {
    let known: Vec<&str> =
        known_accelerators().iter().map(|one| one.name.as_str()).chain(known_clusters()).collect();
    let aliases = known_accelerators().iter().flat_map(|one| one.aliases.iter().map(String::as_str));
    let nearest = nearest(name, known.iter().copied().chain(aliases));
    let guess = nearest.map(|one| format!("did you mean `{one}`? ")).unwrap_or_default();
    Diagnostic::error(format!("unknown device `{name}`")).help(format!("{guess}known: {}", known.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::Cluster;

    #[test]
    fn every_embedded_file_reads_and_is_called_like_its_name() {
        for (&(stem, _), one) in ACCELS.iter().zip(known_accelerators()) {
            assert_eq!(stem, one.name);
            assert!(one.node.as_ref().is_some_and(|node| node.levels.len() >= 2), "{stem} needs two levels");
        }
        for &(stem, text) in CLUSTERS {
            assert_eq!(Cluster::from_toml(text).unwrap_or_else(|error| panic!("{stem}: {error}")).name, stem);
        }
    }

    #[test]
    fn no_two_devices_share_a_name() {
        let names = known_accelerators().iter().flat_map(|one| one.aliases.iter().chain([&one.name]));
        let mut names: Vec<&str> = names.map(String::as_str).chain(known_clusters()).collect();
        let n_names = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), n_names);
    }

    #[test]
    fn a_name_in_capitals_is_the_same_device_and_of_no_other() {
        for one in known_accelerators() {
            for name in one.aliases.iter().chain([&one.name]) {
                let [upper, lower] = [name.to_uppercase(), name.to_lowercase()];
                let found = [upper, lower].map(|name| accelerator(&name).map(|it| it.name.as_str()));
                assert_eq!(found, [Ok(one.name.as_str()), Ok(one.name.as_str())]);
            }
        }
    }
}
