//! What plans ask for, as entries to be measured: products, collectives, segments, and how much each weighs.

use super::coverage;
use super::plans::Planned;
use super::programs;
use phzc_cost::Cluster;
use phzc_cost::measured::Item;
use phzc_ir::{Module, print};
use phzc_passes::derive::derive;
use phzc_passes::device_segments::{anonymous, segments};
use phzc_passes::pricing::keys;
use phzc_passes::report::{Asked, asked};
use phzc_passes::spmd;
use std::collections::BTreeMap;

/// What kinds of entries are called.
const PRODUCT: &str = "product";
const COLLECTIVE: &str = "collective";
pub(super) const SEGMENT: &str = "segment";
pub(super) const STEP: &str = "step";

/// Something that is measured.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Entry {
    /// What a plan's costs find it by.
    pub key: String,
    /// `product`, `collective`, `segment` or `step`.
    pub kind: &'static str,
    /// HLO text of one device's program.
    pub program: String,
    /// Seconds of one time, as predicted.
    pub predicted_secs: f64,
    /// How often the best plan runs it in a step.
    pub times: f64,
    /// Seconds per step that it may be off, in the plan that runs it most.
    pub weight_secs: f64,
    /// Of a segment or a step: what is in it, with how often each runs.
    pub kernels: BTreeMap<String, f64>,
}

/// All that a plan and its rivals ask for.
pub(super) struct Collected {
    /// The best plan's time.
    pub time_secs: f64,
    /// How much of it was measured.
    pub said: String,
    /// The best plan.
    pub module: Module,
    /// The entry that is its whole step; none where it cannot be written for one device.
    pub step: Option<String>,
    /// Why that cannot be.
    pub unwritten: Option<String>,
    /// Entries by key.
    pub entries: BTreeMap<String, Entry>,
    /// What is priced: kernels and collectives.
    pub items: BTreeMap<String, Item>,
}

/// Collects entries of plans.
pub(super) struct Collector<'c> {
    cluster: &'c Cluster,
    /// What takes longer is of no interest.
    best_secs: f64,
    found: Collected,
}

impl<'c> Collector<'c> {
    /// With those of the best plan.
    pub fn new(cluster: &'c Cluster, best: &Planned, best_secs: f64) -> Collector<'c> {
        let asked = asked(&best.module, &best.facts, cluster);
        let time_secs = best.plan.time_secs;
        let found = Collected {
            time_secs,
            said: coverage(&asked),
            module: Module::empty(),
            step: None,
            unwritten: None,
            entries: BTreeMap::new(),
            items: BTreeMap::new(),
        };
        let mut collector = Collector { cluster, best_secs: best_secs.min(time_secs), found };
        collector.add(best, &asked, true);
        collector
    }

    /// Adds those of a plan that may beat the best, if what it was not measured in takes less than predicted.
    pub fn rival(&mut self, rival: &Planned) {
        let asked = asked(&rival.module, &rival.facts, self.cluster);
        let open: f64 = asked.values().map(|one| one.times * self.doubt_secs(one)).sum();
        if rival.plan.time_secs - open < self.best_secs {
            self.add(rival, &asked, false);
        }
    }

    /// What was found, with the best plan.
    pub fn finish(self, module: Module) -> Collected {
        Collected { module, ..self.found }
    }

    /// By how much one time of it may be off.
    fn doubt_secs(&self, one: &Asked) -> f64 {
        let spread = self.cluster.measured.as_ref().map_or(1.0, |it| it.spread(&one.item.class));
        if one.source.is_measured() { 0.0 } else { one.secs * (1.0 - (-spread).exp()) }
    }

    fn add(&mut self, planned: &Planned, asked: &BTreeMap<String, Asked>, is_best: bool) {
        for one in asked.values() {
            self.item(&one.item);
            let program = programs::of(&one.item.key, self.cluster.n_devices());
            if let Some(program) = program {
                let kind = if one.item.class == keys::PRODUCT { PRODUCT } else { COLLECTIVE };
                let entry = Entry {
                    key: one.item.key.clone(),
                    kind,
                    program,
                    predicted_secs: one.secs,
                    times: if is_best { one.times } else { 0.0 },
                    weight_secs: one.times * self.doubt_secs(one),
                    kernels: BTreeMap::new(),
                };
                self.entry(entry);
            }
        }
        self.whole(planned, asked, is_best);
    }

    /// The segments, and of the best plan the step, where a plan of one stage can be written for one device.
    fn whole(&mut self, planned: &Planned, asked: &BTreeMap<String, Asked>, is_best: bool) {
        let mut module = planned.module.clone();
        let lowered = phzc_passes::inline::flatten(&mut module)
            .and_then(|_| derive(&module))
            .and_then(|facts| spmd::program(&module, &facts))
            .and_then(|device| derive(&device).map(|facts| (device, facts)));
        let (device, facts) = match lowered {
            Ok(lowered) => lowered,
            Err(error) if is_best => return self.found.unwritten = Some(error.message.to_string()),
            Err(_) => return,
        };
        if is_best {
            self.step(&device, planned.plan.time_secs, asked);
        }
        for (text, segment) in segments(&device, &facts, self.cluster) {
            let items = segment.kernels.values().map(|(item, _)| item);
            items.for_each(|item| self.item(item));
            let price = |(key, (item, n)): (&String, &(Item, f64))| {
                let measured = self.cluster.measured.as_ref();
                n * measured.map_or(item.formula_secs, |it| it.secs(key, &item.class, item.formula_secs).0)
            };
            let predicted_secs = segment.kernels.iter().map(price).sum();
            let kernels = segment.kernels.iter().map(|(key, (_, n))| (key.clone(), *n)).collect();
            self.entry(Entry {
                key: format!("segment {}", programs::hash(&text)),
                kind: SEGMENT,
                program: text,
                predicted_secs,
                times: if is_best { segment.times } else { 0.0 },
                weight_secs: segment.times * predicted_secs,
                kernels,
            });
        }
    }

    fn step(&mut self, device: &Module, time_secs: f64, asked: &BTreeMap<String, Asked>) {
        let program = print(&anonymous(device));
        let key = format!("{STEP} {}", programs::hash(&program));
        self.found.step = Some(key.clone());
        self.entry(Entry {
            key,
            kind: STEP,
            program,
            predicted_secs: time_secs,
            times: 1.0,
            weight_secs: time_secs,
            kernels: asked.iter().map(|(key, one)| (key.clone(), one.times)).collect(),
        });
    }

    fn item(&mut self, item: &Item) {
        self.found.items.entry(item.key.clone()).or_insert_with(|| item.clone());
    }

    fn entry(&mut self, entry: Entry) {
        let known = self.found.entries.entry(entry.key.clone()).or_insert_with(|| entry.clone());
        known.weight_secs = known.weight_secs.max(entry.weight_secs);
    }
}
