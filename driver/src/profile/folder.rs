//! The directory of a profile: `manifest.json`, which says what is measured, a program per entry, and
//! `measured.json`, which `python -m phzc.measure` writes.

use super::entries::{Collected, Entry, SEGMENT, STEP};
use super::programs::hash;
use phzc_cost::measured::{Item, Segment};
use phzc_cost::{Cluster, Measured};
use phzc_io::render::Source;
use phzc_io::{Failure, files, json};
use phzc_ir::{Diagnostic, Result, Span};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What is to be measured.
const MANIFEST: &str = "manifest.json";
/// What was.
const MEASURED: &str = "measured.json";
/// No such file is larger.
const MAX_BYTES: u64 = 256 << 20;
/// The version of both files.
const SCHEMA: u32 = 1;

/// What is to be measured, and what prices are made of.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Manifest {
    schema: u32,
    cluster: String,
    n_devices: usize,
    /// Most weight first, then those that weigh nothing.
    entries: Vec<EntryText>,
    /// Kernels and collectives by key.
    items: BTreeMap<String, ItemText>,
    /// Entries that are to be measured once more, in turns, whatever was measured of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    again: Vec<String>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct EntryText {
    key: String,
    kind: String,
    file: String,
    predicted_secs: f64,
    times: f64,
    weight_secs: f64,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    kernels: BTreeMap<String, f64>,
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct ItemText {
    class: String,
    formula_secs: f64,
}

/// What was measured, and on what.
#[derive(Debug, Default, Deserialize)]
struct MeasuredText {
    schema: u32,
    entries: BTreeMap<String, TimeText>,
}

/// One entry: its times, or why it has none.
#[derive(Debug, Deserialize)]
struct TimeText {
    median_secs: Option<f64>,
    #[serde(default)]
    spread_secs: f64,
    #[serde(rename = "error")]
    _error: Option<String>,
}

/// A profile's directory, read.
pub(super) struct Folder {
    path: PathBuf,
    manifest: Manifest,
    measured: MeasuredText,
}

/// A cluster with what a profile has of it.
pub(crate) fn applied(path: &Path, cluster: Cluster) -> std::result::Result<Cluster, Failure> {
    if !path.join(MANIFEST).is_file() {
        let error = Diagnostic::error(format!("`{}` is no profile: it has no `{MANIFEST}`", path.display()));
        return Err(error.help("write one: `phzc profile MODEL --cluster C -o DIR`").into());
    }
    let folder = Folder::open(path, &cluster)?;
    let help = format!("measure it: `python -m phzc.measure {}`", path.display());
    let measured = folder.measured().ok_or_else(|| {
        Diagnostic::error(format!("nothing of the profile `{}` is measured", path.display())).help(help)
    })?;
    Ok(cluster.with_measured(Some(measured)))
}

impl Folder {
    /// Reads a directory; one that is not there is empty.
    pub fn open(path: &Path, cluster: &Cluster) -> std::result::Result<Folder, Failure> {
        let help = "`phzc profile` writes it anew into an empty directory";
        let manifest: Option<Manifest> = part(&path.join(MANIFEST), help, |_, _| Ok(()))?;
        let help = format!("remove it and measure again: `python -m phzc.measure {}`", path.display());
        let measured = part(&path.join(MEASURED), &help, legal_times)?;
        let empty = Manifest {
            schema: SCHEMA,
            cluster: cluster.name.clone(),
            n_devices: cluster.n_devices(),
            entries: Vec::new(),
            items: BTreeMap::new(),
            again: Vec::new(),
        };
        let manifest = manifest.unwrap_or(empty);
        of_cluster(path, &manifest, cluster)?;
        Ok(Folder { path: path.to_path_buf(), manifest, measured: measured.unwrap_or_default() })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn n_entries(&self) -> usize {
        self.manifest.entries.len()
    }

    pub fn n_measured(&self) -> usize {
        self.manifest.entries.iter().filter(|entry| self.secs(&entry.key).is_some()).count()
    }

    /// Entries that were not measured, and may be.
    pub fn n_missing(&self) -> usize {
        self.manifest.entries.iter().filter(|entry| !self.measured.entries.contains_key(&entry.key)).count()
    }

    /// Seconds that an entry takes, if it was measured.
    pub fn secs(&self, key: &str) -> Option<f64> {
        self.measured.entries.get(key)?.median_secs
    }

    /// How far samples of an entry lie from its seconds: half of the middle half of them.
    pub fn spread_secs(&self, key: &str) -> f64 {
        self.measured.entries.get(key).map_or(0.0, |time| time.spread_secs)
    }

    /// Asks for these entries to be measured once more; for none, once they are.
    pub fn ask_again(&mut self, keys: Vec<String>) -> Result<()> {
        self.manifest.again = keys;
        files::write(&self.path.join(MANIFEST), &pretty(&self.manifest))
    }

    /// The times that were measured; none if there are none.
    pub fn measured(&self) -> Option<Arc<Measured>> {
        let entries = self.manifest.entries.iter().filter_map(|it| Some((it, self.secs(&it.key)?)));
        let entries: Vec<(&EntryText, f64)> = entries.collect();
        entries.first()?;
        let alone = entries.iter().filter(|(it, _)| it.kernels.is_empty());
        let alone_secs = alone.map(|(it, secs)| (it.key.clone(), *secs)).collect();
        let together = [SEGMENT, STEP].map(|kind| of_kind(&entries, kind));
        let items = self.manifest.items.iter();
        let items: Vec<Item> = items.map(|(key, it)| Item { key: key.clone(), ..it.into() }).collect();
        Some(Arc::new(Measured::new(&items, &alone_secs, &together)))
    }

    /// Adds entries, at most so many new ones, and writes programs and manifest; how many are new.
    pub fn add(&mut self, collected: &Collected, most: Option<usize>) -> Result<usize> {
        files::make_dir(&self.path)?;
        self.manifest.items.extend(collected.items.values().map(|it| (it.key.clone(), it.into())));
        let known: BTreeMap<String, usize> =
            self.manifest.entries.iter().enumerate().map(|(at, it)| (it.key.clone(), at)).collect();
        let mut new: Vec<&Entry> =
            collected.entries.values().filter(|it| !known.contains_key(&it.key)).collect();
        new.sort_by(|a, b| b.weight_secs.total_cmp(&a.weight_secs).then(a.key.cmp(&b.key)));
        new.truncate(most.unwrap_or(usize::MAX));
        for entry in &new {
            files::write(&self.path.join(file_of(entry)), &entry.program)?;
        }
        self.manifest.entries.iter_mut().for_each(|it| (it.times, it.weight_secs) = (0.0, 0.0));
        for (key, at) in known {
            if let Some(entry) = collected.entries.get(&key) {
                self.manifest.entries[at] = text_of(entry);
            }
        }
        self.manifest.entries.extend(new.iter().map(|entry| text_of(entry)));
        self.manifest.entries.sort_by(|a, b| b.weight_secs.total_cmp(&a.weight_secs).then(a.key.cmp(&b.key)));
        files::write(&self.path.join(MANIFEST), &pretty(&self.manifest))?;
        Ok(new.len())
    }
}

/// What was measured together, of one kind.
fn of_kind(entries: &[(&EntryText, f64)], kind: &str) -> Vec<Segment> {
    let own = entries.iter().filter(|(it, _)| it.kind == kind);
    own.map(|(it, secs)| Segment { secs: *secs, kernels: it.kernels.clone() }).collect()
}

impl From<&Item> for ItemText {
    fn from(it: &Item) -> ItemText {
        ItemText { class: it.class.clone(), formula_secs: it.formula_secs }
    }
}

impl From<&ItemText> for Item {
    fn from(it: &ItemText) -> Item {
        Item { key: String::new(), class: it.class.clone(), formula_secs: it.formula_secs }
    }
}

fn text_of(entry: &Entry) -> EntryText {
    EntryText {
        key: entry.key.clone(),
        kind: entry.kind.to_owned(),
        file: file_of(entry),
        predicted_secs: entry.predicted_secs,
        times: entry.times,
        weight_secs: entry.weight_secs,
        kernels: entry.kernels.clone(),
    }
}

fn file_of(entry: &Entry) -> String {
    format!("{}-{}.hlo", entry.kind, hash(&entry.key))
}

fn pretty(value: &impl Serialize) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default() + "\n"
}

/// Reads a file of a profile, if it is there.
fn part<T: serde::de::DeserializeOwned>(
    path: &Path,
    help: &str,
    check: impl FnOnce(&T, &str) -> Result<()>,
) -> std::result::Result<Option<T>, Failure> {
    if !path.is_file() {
        return Ok(None);
    }
    let text = files::read(path, MAX_BYTES)?;
    let read = json::read(&text, "the profile", help).and_then(|it| check(&it, &text).map(|()| it));
    let source = || Source { name: path.display().to_string(), text: text.clone() };
    read.map(Some).map_err(|error| Failure::new(Some(source()), error))
}

/// Times are numbers above zero.
fn legal_times(measured: &MeasuredText, text: &str) -> Result<()> {
    if measured.schema != SCHEMA {
        let error = Diagnostic::error(format!("expected the schema {SCHEMA}, found `{}`", measured.schema));
        let at = text.find("\"schema\"").unwrap_or(0);
        return Err(error
            .at(Span::new(at, at + 8))
            .help("measure anew, with the `phzc.measure` of this version"));
    }
    let is_wrong = |(_, time): &(&String, &TimeText)| {
        time.median_secs.is_some_and(|secs| !(secs.is_finite() && secs > 0.0))
    };
    let Some((key, _)) = measured.entries.iter().find(is_wrong) else { return Ok(()) };
    let error = Diagnostic::error(format!("the time of `{key}` is no number above zero"));
    let at = text.find(&format!("\"{key}\"")).unwrap_or(0);
    Err(error.at(Span::new(at, at + key.len() + 2)).help("remove the entry and measure it again"))
}

/// A profile says nothing about other hardware.
fn of_cluster(path: &Path, manifest: &Manifest, cluster: &Cluster) -> Result<()> {
    let is_same = manifest.cluster == cluster.name && manifest.n_devices == cluster.n_devices();
    let message = || {
        let (name, was) = (path.display(), &manifest.cluster);
        format!("the profile `{name}` is of `{was}`, and the cluster is `{}`", cluster.name)
    };
    if is_same {
        Ok(())
    } else {
        Err(Diagnostic::error(message()).help("name that cluster, or another profile"))
    }
}
