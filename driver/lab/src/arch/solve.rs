//! Estimates and the search, in each cost mode.

use super::args::{ArchArgs, Until};
use super::inputs::Inputs;
use super::lines::{self, Line};
use super::page::LayerOperators;
use super::place::{self, Fleet, Placer};
use super::planned::Planned;
use super::report::name;
use super::{estimates, space};
use crate::results::Stream;
use phzc_arch::estimate::{Estimator, LayerSecs};
use phzc_arch::mapping::Mode;
use phzc_arch::model::{Microbatch, ModelGraph};
use phzc_arch::search::{Candidate, Found as Searched, Log, Model, Question, Visit};
use phzc_arch::search::{Limit, best_first, evaluate, found, found_best, near, ordered, search, times};
use phzc_arch::space::Point;
use phzc_arch::{Space, Technology};
use phzc_cost::phaze::Plan;
use phzc_io::{Failure, Io, files};
use phzc_ir::Result;

/// What a mode found.
pub(super) struct ModeFound {
    /// The mode.
    pub mode: Mode,
    /// Limits of area and power within each of which the best was looked for, instead of a front.
    pub limits: usize,
    /// By area: those that no other beats, or all that were named.
    pub shown: Vec<Chosen>,
    /// By model: the accelerator with the most samples per second.
    pub best: Vec<Option<Chosen>>,
    /// The one with the most samples per second of all models, each by its weight.
    pub common: Option<Chosen>,
    /// Those with the most samples per second of all models, the best first.
    pub near: Vec<Chosen>,
    /// Accelerators, those estimated, and those placed; the others were excluded by bounds.
    pub counts: [usize; 3],
    /// By model: the operators of its layers on its best accelerator, where a page is asked for.
    pub operators: Vec<Vec<LayerOperators>>,
}

/// All that was found.
pub(super) struct Found {
    /// By mode.
    pub modes: Vec<ModeFound>,
    /// Names of the models.
    pub models: Vec<String>,
    /// HBM, clock and word of every accelerator.
    pub space: Space,
    /// Whether accelerators were named.
    pub is_list: bool,
    /// Samples of a step.
    pub batch: u64,
    /// Accelerators of the fleet.
    pub n_devices: usize,
    /// What plans take on the device file, where one is asked for.
    pub planned: Option<Planned>,
}

/// An accelerator with plans and times.
#[derive(Clone)]
pub(super) struct Chosen {
    /// The accelerator and its runs.
    pub candidate: Candidate,
    /// By model: the plan of its run, and its seconds per step.
    pub plans: Vec<Option<(Plan, f64)>>,
    /// By model: samples of the run's microbatch, the smallest where none fits.
    pub samples: Vec<u64>,
    /// By model: seconds of each kind of layer at the run's microbatch.
    pub times: Vec<Vec<LayerSecs>>,
    /// By model: multiply-accumulates of its products, forward, over those that all PEs could do meanwhile.
    pub efficiency: Vec<f64>,
}

/// Searches, or only estimates, in each mode that is asked for, and keeps the mappings.
pub(super) fn run(
    args: &ArchArgs,
    fleet: &Fleet,
    inputs: &Inputs,
    io: &mut Io,
) -> std::result::Result<Found, Failure> {
    let technology = Technology::cacti_22nm();
    let space = space::space(args, &technology)?;
    let mut points = space::points(args, &space, &technology)?;
    if args.arch.is_empty() {
        points = ordered(&points);
    }
    let limits = args.limits.map_or_else(Vec::new, |n| Limit::grid(&points, n));
    let header = lines::header(args, inputs, &space, &points);
    let own: Vec<Point> = args.part.unwrap_or_default().of(&points).copied().collect();
    let mut results = lines::open(args, &header, &own)?;
    let mut merged = lines::merged(args, &header, &points)?.into_iter();
    let question = Question {
        space: space.clone(),
        models: inputs.models.iter().zip(&inputs.weights).map(|(it, weight)| model(it, *weight)).collect(),
        hbm_bytes: args.hbm_bytes(),
        recompute: args.recompute(),
    };
    let (mut modes, mut cache) = (Vec::new(), inputs.cache.clone());
    for (at, mode) in args.modes().iter().enumerate() {
        let estimator = Estimator::new(&technology, *mode, cache);
        if *mode == Mode::Phaze {
            estimates::teach(&estimator, &inputs.estimates, &space.base, &technology)?;
        }
        let task = Task {
            args,
            fleet,
            models: &inputs.models,
            question: &question,
            estimator: &estimator,
            limits: &limits,
        };
        let mut found = match merged.next() {
            Some(visits) => task.merged(*mode, visits)?,
            None => task.run((at, *mode), &own, &mut results, io)?,
        };
        if args.html.is_some() {
            found.operators = task.operators(&found.best)?;
        }
        modes.push(found);
        cache = estimator.into_cache();
    }
    if let Some(path) = &args.cache {
        files::write(path, &cache.to_text())?;
    }
    let models = inputs.models.iter().map(|model| model.name.clone()).collect();
    let (is_list, batch, n_devices) = (!args.arch.is_empty(), fleet.batch, fleet.n_devices);
    Ok(Found { modes, models, space, is_list, batch, n_devices, planned: None })
}

/// The layers of a model.
fn model(graph: &ModelGraph, weight: f64) -> Model {
    let layers = |it: &Microbatch| it.kinds.iter().map(|kind| kind.layer.clone()).collect();
    let microbatches = graph.microbatches.iter().map(|it| (it.samples, layers(it))).collect();
    Model { name: graph.name.clone(), weight, microbatches }
}

/// The work of one mode.
struct Task<'a> {
    args: &'a ArchArgs,
    fleet: &'a Fleet,
    models: &'a [ModelGraph],
    question: &'a Question,
    estimator: &'a Estimator<'a>,
    /// Within which the best are searched.
    limits: &'a [Limit],
}

impl Task<'_> {
    fn run(
        &self,
        (at, mode): (usize, Mode),
        points: &[Point],
        results: &mut Stream<Line>,
        io: &mut Io,
    ) -> Result<ModeFound> {
        let is_placed = self.args.until == Until::Solve;
        let place = Placer { fleet: self.fleet, models: self.models, is_placed };
        let visited = lines::visits(&results.results, at, points.len());
        if self.args.is_best_alone() {
            return self.best_alone(mode, (points, visited), &place, results, io);
        }
        let mut record = |point: &Point, visit: &Visit| results.push(Line::new(mode, point, visit));
        let mut progress =
            |done: usize, all: usize| (io.progress)(&format!("{}: {done} of {all} accelerators", name(mode)));
        let log = Log { visited, record: &mut record, progress: &mut progress };
        let found = match self.args.arch.is_empty() && is_placed {
            true => self.searched(mode, search(self.question, points, self.estimator, &place, log)?),
            false => self.listed(mode, evaluate(self.question, points, self.estimator, &place, log)?),
        };
        (io.progress)("");
        found
    }

    /// The best alone. Lines of results are written when it ends: bounds decide about all accelerators
    /// together. A file that lacks some is computed again.
    fn best_alone(
        &self,
        mode: Mode,
        (points, mut visits): (&[Point], Vec<Visit>),
        place: &Placer,
        results: &mut Stream<Line>,
        io: &mut Io,
    ) -> Result<ModeFound> {
        let n_known = visits.len();
        if n_known < points.len() {
            let mut progress = |done: usize, all: usize| {
                (io.progress)(&format!("{}: {done} of {all} accelerators", name(mode)))
            };
            let within = (points, self.limits);
            visits = best_first(self.question, within, self.estimator, place, &mut progress)?;
            (io.progress)("");
        }
        for (point, visit) in points.iter().zip(&visits).skip(n_known) {
            results.push(Line::new(mode, point, visit))?;
        }
        self.searched(mode, found_best(visits, self.models.len(), self.limits))
    }

    /// What several runs have found together.
    fn merged(&self, mode: Mode, visits: Vec<Visit>) -> Result<ModeFound> {
        match self.args.arch.is_empty() {
            true if self.args.is_best_alone() => {
                self.searched(mode, found_best(visits, self.models.len(), self.limits))
            }
            true => self.searched(mode, found(visits, self.models.len())),
            false => self.listed(mode, visits.iter().filter_map(Visit::candidate).collect()),
        }
    }

    fn searched(&self, mode: Mode, found: Searched) -> Result<ModeFound> {
        let best = found.best.into_iter().map(|it| it.map(|it| self.chosen(it)).transpose());
        let is_front = !self.args.is_best_alone() || !self.limits.is_empty();
        let front = found.front.iter().filter(|_| is_front);
        Ok(ModeFound {
            mode,
            limits: self.limits.len(),
            common: self.common(&found.front)?,
            best: best.collect::<Result<_>>()?,
            counts: [found.n_points, found.n_estimated, found.n_placed],
            near: found.near.into_iter().map(|it| self.chosen(it)).collect::<Result<_>>()?,
            shown: front.map(|it| self.chosen(it.clone())).collect::<Result<_>>()?,
            operators: Vec::new(),
        })
    }

    /// All of a list, with the best of them.
    fn listed(&self, mode: Mode, candidates: Vec<Candidate>) -> Result<ModeFound> {
        let of_model = |model: usize| {
            let rate = |it: &&Candidate| it.runs[model].map_or(0.0, |run| run.1);
            let fitting = candidates.iter().filter(|it| it.runs[model].is_some());
            fitting.max_by(|a, b| rate(a).total_cmp(&rate(b))).cloned()
        };
        let best = (0..self.models.len()).map(of_model);
        let best = best.map(|it| it.map(|it| self.chosen(it)).transpose()).collect::<Result<_>>()?;
        let (common, n) = (self.common(&candidates)?, candidates.len());
        let near = near(&candidates).into_iter().map(|it| self.chosen(it)).collect::<Result<_>>()?;
        let shown = candidates.into_iter().map(|it| self.chosen(it)).collect::<Result<_>>()?;
        Ok(ModeFound { mode, limits: 0, shown, best, common, near, counts: [n; 3], operators: Vec::new() })
    }

    /// The candidate with the most samples per second of all models.
    fn common(&self, candidates: &[Candidate]) -> Result<Option<Chosen>> {
        let rate = |it: &&Candidate| it.samples_per_sec.unwrap_or(0.0);
        let fitting = candidates.iter().filter(|it| it.samples_per_sec.is_some());
        let best = fitting.rev().max_by(|a, b| rate(a).total_cmp(&rate(b)));
        best.map(|it| self.chosen(it.clone())).transpose()
    }

    /// A candidate with the plans of its runs.
    fn chosen(&self, candidate: Candidate) -> Result<Chosen> {
        let all = times(self.question, self.estimator, &candidate.point)?;
        let (mut left, mut plans, mut times) = (all.as_slice(), Vec::new(), Vec::new());
        let (mut samples, mut efficiency) = (Vec::new(), Vec::new());
        for (graph, run) in self.models.iter().zip(&candidate.runs) {
            let mut own = Vec::new();
            for microbatch in &graph.microbatches {
                let (head, rest) = left.split_at(microbatch.kinds.len());
                own.push(head);
                left = rest;
            }
            let run = run.map(|run| run.0);
            plans.push(run.and_then(|run| place::plan(self.fleet, self.models, &run, own[run.microbatch])));
            let at = run.map_or(0, |run| run.microbatch);
            times.push(own[at].to_vec());
            samples.push(graph.microbatches[at].samples);
            efficiency.push(self.efficiency(&candidate.point, &graph.microbatches[at])?);
        }
        Ok(Chosen { candidate, plans, samples, times, efficiency })
    }

    /// By model: the operators of its layers on an accelerator; none where nothing fits.
    fn operators(&self, best: &[Option<Chosen>]) -> Result<Vec<Vec<LayerOperators>>> {
        let mut found = Vec::new();
        for (model, graph) in self.models.iter().enumerate() {
            let run = best[model].as_ref().and_then(|it| Some((it, it.candidate.runs[model]?.0)));
            let mut layers = Vec::new();
            if let Some((chosen, run)) = run {
                let template = self.question.space.template(chosen.candidate.point.cores);
                let Microbatch { kinds, chain, .. } = &graph.microbatches[run.microbatch];
                for (at, kind) in kinds.iter().enumerate() {
                    let operators = self.estimator.operators(&template, &kind.layer)?;
                    let n_layers = chain.iter().filter(|kind| **kind == at).count();
                    layers.push(LayerOperators { name: kind.name.clone(), n_layers, operators });
                }
            }
            found.push(layers);
        }
        Ok(found)
    }

    fn efficiency(&self, point: &Point, microbatch: &Microbatch) -> Result<f64> {
        let template = self.question.space.template(point.cores);
        let (mut busy, mut all) = (0.0, 0.0);
        for kind in &microbatch.chain {
            let [cycles, macs] = self.estimator.products(&template, &microbatch.kinds[*kind].layer)?;
            busy += macs;
            all += cycles * point.cores.macs_per_cycle() as f64;
        }
        // No product: nothing says what they reach.
        Ok(if all > 0.0 { busy / all } else { 1.0 })
    }
}
