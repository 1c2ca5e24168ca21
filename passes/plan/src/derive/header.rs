//! The header's notes: meshes, stages, and what the planner says about its plan.

use super::replicas::{self, Replica};
use crate::partitioned::partitioned;
use crate::plan_note::{self, MAX_MICROBATCHES};
use phzc_cost::schedule::Interleaving;
use phzc_cost::{Cluster, Schedule, Straggler};
use phzc_ir::{Diagnostic, Mesh, Module, Result, counted, notes};
use serde_json::Value;

/// The most devices that a mesh may have: layouts list them.
const MAX_DEVICES: i64 = 1 << 20;

/// What the header says.
#[derive(Clone, Debug, PartialEq)]
pub struct Header {
    /// The mesh of each stage; one where there are no stages. Stages that share a device group have meshes of
    /// as many devices.
    pub meshes: Vec<Mesh>,
    /// The first device of each device group: one after the other, unless the plan says otherwise.
    pub firsts: Vec<usize>,
    /// Microbatches of one step.
    pub n_microbatches: usize,
    /// How many of them these devices run, where others run the rest.
    pub(super) n_own: Option<usize>,
    /// Replicas of all stages, the first of which is on `firsts`; empty if there is one.
    pub replicas: Vec<Replica>,
    /// The order in which stages run them; 1F1B if the plan names none.
    pub schedule: Schedule,
    /// Whether forward and backward parts run as tasks of their own: where there are several stages, or will
    /// be.
    pub in_tasks: bool,
    /// What the plan expects of slow devices.
    pub straggler: Option<Straggler>,
    /// The planner's figures: an object, or null.
    pub plan: Value,
    /// Whether this is the program of each device.
    pub is_local: bool,
}

/// Whether phzc has planned the module: then every rule binds.
pub fn is_planned(module: &Module) -> bool {
    module.note(notes::PLAN).is_some()
}

/// Reads the header's notes. Without a mesh note all partitions are one axis, but those of a partitioned
/// program.
///
/// # Errors
/// When a note cannot be read.
pub fn header(module: &Module) -> Result<Header> {
    let plan = match module.note(notes::PLAN) {
        Some(text) => serde_json::from_str(&text).map_err(|error| bad(notes::PLAN, &error.to_string()))?,
        None => Value::Null,
    };
    if !plan.is_object() && !plan.is_null() {
        return Err(bad(notes::PLAN, "it is no object"));
    }
    let n_microbatches = n_microbatches(&plan)?;
    let partitioned = partitioned(module);
    let alone = |mesh: Mesh| (vec![mesh], vec![None]);
    let (meshes, firsts) = match (module.note(notes::STAGES), module.note(notes::MESH)) {
        (Some(stages), _) => stage_meshes(&stages)?,
        (None, Some(mesh)) => alone(Mesh::parse(&mesh)?),
        (None, None) => {
            alone(partitioned.as_ref().map_or_else(|| flat_mesh(module), |it| Ok(it.mesh.clone()))?)
        }
    };
    let n_devices = |mesh: &Mesh| mesh.sizes.iter().try_fold(1i64, |all, &size| all.checked_mul(size));
    if !meshes.iter().all(|mesh| n_devices(mesh).is_some_and(|n_devices| n_devices <= MAX_DEVICES)) {
        return Err(Diagnostic::error(format!("the plan's mesh has more than {MAX_DEVICES} devices")));
    }
    if partitioned.is_none() {
        agree(module, &meshes)?;
    }
    let is_local = partitioned.is_some() || module.note(notes::SPMD).is_some();
    // Its microbatches are one batch.
    let n_microbatches = if is_local { 1 } else { n_microbatches };
    let schedule = schedule(&plan)?;
    share_evenly(&meshes, schedule)?;
    let firsts = first_devices(&meshes[..schedule.n_groups(meshes.len())], &firsts)?;
    let in_tasks = meshes.len() > 1 || plan.get(plan_note::IN_TASKS).is_some();
    let (n_own, replicas, straggler) = (None, Vec::new(), straggler(&plan)?);
    let header = Header {
        meshes,
        firsts,
        n_microbatches,
        n_own,
        replicas,
        schedule,
        in_tasks,
        straggler,
        plan,
        is_local,
    };
    match module.note(notes::REPLICAS) {
        Some(text) => replicas::among(header, &text),
        None => Ok(header),
    }
}

/// Per device group: its first device, as it is said, or the one after the group before.
///
/// # Errors
/// When two groups share devices.
fn first_devices(meshes: &[Mesh], said: &[Option<usize>]) -> Result<Vec<usize>> {
    let n_devices = |group: usize| meshes[group].n_devices() as usize;
    let mut firsts: Vec<usize> = Vec::new();
    for (group, &said) in said.iter().enumerate().take(meshes.len()) {
        let next = firsts.last().map_or(0, |first| first + n_devices(group - 1));
        firsts.push(said.unwrap_or(next));
    }
    let mut order: Vec<usize> = (0..firsts.len()).collect();
    order.sort_by_key(|&group| firsts[group]);
    match order.windows(2).find(|pair| firsts[pair[0]] + n_devices(pair[0]) > firsts[pair[1]]) {
        None => Ok(firsts),
        Some(pair) => Err(bad(notes::STAGES, &format!("stages {} and {} share devices", pair[0], pair[1]))),
    }
}

/// Errors unless the header says of the first stage's mesh, and of the largest stage's devices, what the
/// stages' meshes are.
fn agree(module: &Module, meshes: &[Mesh]) -> Result<()> {
    let n_devices = meshes.iter().map(Mesh::n_devices).max().unwrap_or(1).to_string();
    let said = [
        (notes::MESH, module.note(notes::MESH), meshes[0].to_string()),
        ("num_partitions", module.attr("num_partitions").map(str::to_owned), n_devices),
    ];
    match said.into_iter().find_map(|(key, said, is)| Some((key, said.filter(|said| *said != is)?, is))) {
        None => Ok(()),
        Some((key, said, is)) => {
            let message = format!("the header's `{key}` is `{said}`, but by its mesh the plan has `{is}`");
            Err(Diagnostic::error(message).help("run `shard` and `place` again, or correct the header"))
        }
    }
}

/// Errors unless every device group holds as many stages, all on as many devices.
fn share_evenly(meshes: &[Mesh], schedule: Schedule) -> Result<()> {
    let (n_stages, n_chunks) = (meshes.len(), schedule.n_chunks());
    let error = |message: String| {
        let help = format!(
            "give `phzc.stages` a multiple of {n_chunks} stages that share devices evenly, or place again"
        );
        Err(Diagnostic::error(message).help(help))
    };
    if !n_stages.is_multiple_of(n_chunks) {
        return error(format!(
            "the schedule `{schedule}` needs {n_chunks} stages per device group, the plan has {}",
            counted(n_stages, "stage")
        ));
    }
    let n_groups = schedule.n_groups(n_stages);
    match (n_groups..n_stages)
        .find(|&stage| meshes[stage].n_devices() != meshes[stage % n_groups].n_devices())
    {
        None => Ok(()),
        Some(stage) => error(format!(
            "stages {} and {stage} share devices by the schedule `{schedule}`, but the one has {}, the other {}",
            stage % n_groups,
            counted(meshes[stage % n_groups].n_devices() as usize, "device"),
            meshes[stage].n_devices()
        )),
    }
}

fn n_microbatches(plan: &Value) -> Result<usize> {
    let Some(number) = plan.get("n_microbatches") else { return Ok(1) };
    let found = number
        .as_u64()
        .and_then(|n| usize::try_from(n).ok())
        .filter(|&n| (1..=MAX_MICROBATCHES).contains(&n));
    found.ok_or_else(|| {
        bad(notes::PLAN, &format!("expected 1 to {MAX_MICROBATCHES} microbatches, found `{number}`"))
    })
}

fn schedule(plan: &Value) -> Result<Schedule> {
    match plan.get("schedule") {
        None => Ok(Schedule::OneFOneB),
        Some(Value::String(name)) => {
            name.parse().map_err(|error: Diagnostic| bad(notes::PLAN, &error.message))
        }
        Some(other) => Err(bad(notes::PLAN, &format!("expected the name of a schedule, found `{other}`"))),
    }
}

fn straggler(plan: &Value) -> Result<Option<Straggler>> {
    let read = |said: &Value| said.as_str().unwrap_or_default().parse();
    let said = plan.get(plan_note::STRAGGLER).map(read).transpose();
    said.map_err(|error: String| bad(notes::PLAN, &error))
}

impl Header {
    /// The microbatches of a step that these devices run: all, unless there are replicas.
    pub fn n_own_microbatches(&self) -> usize {
        self.n_own.unwrap_or(self.n_microbatches)
    }

    /// A number among the planner's figures.
    pub fn figure(&self, key: &str) -> Option<f64> {
        self.plan.get(key).and_then(Value::as_f64)
    }

    /// Whether a cluster has the devices that the plan is for.
    ///
    /// # Errors
    /// When it has fewer.
    pub fn fits(&self, cluster: &Cluster) -> Result<()> {
        let (n_there, n_needed) = (cluster.n_all_devices(), self.n_needed());
        let is_split = |devices: [usize; 2]| cluster.kind_of(devices[0]) != cluster.kind_of(devices[1]);
        let is_split = |group: &usize| self.each_devices(*group).into_iter().any(is_split);
        let split = (0..self.n_groups()).find(is_split);
        let message = match split {
            _ if n_needed > n_there => {
                format!("the plan is for {}, `{}` has {n_there}", counted(n_needed, "device"), cluster.name)
            }
            Some(stage) => format!("stage {stage} is on devices of two kinds of `{}`", cluster.name),
            None => return Ok(()),
        };
        Err(Diagnostic::error(message).help("plan again for this cluster"))
    }

    /// The number of the last device, counted from one.
    fn n_needed(&self) -> usize {
        let last = |group: usize| self.each_devices(group).into_iter().map(|devices| devices[1] + 1).max();
        (0..self.n_groups()).filter_map(last).max().unwrap_or(1)
    }

    /// The nodes of a cluster that a stage is on.
    pub fn around<'c>(&self, cluster: &'c Cluster, stage: usize) -> &'c Cluster {
        if cluster.is_unlike() { cluster.around(self.devices(stage)[0]) } else { cluster }
    }

    /// Devices of all groups, of all replicas.
    pub fn n_devices(&self) -> usize {
        self.n_replicas() * self.n_replica_devices()
    }

    /// Devices of all groups of one replica.
    pub fn n_replica_devices(&self) -> usize {
        self.meshes[..self.n_groups()].iter().map(|mesh| mesh.n_devices() as usize).sum()
    }

    /// Device groups: as many as stages, unless the schedule has each hold several.
    pub fn n_groups(&self) -> usize {
        self.schedule.n_groups(self.meshes.len())
    }

    /// The device group of a stage.
    pub fn group(&self, stage: usize) -> usize {
        stage % self.n_groups()
    }

    /// The stages of a device group, first to last.
    pub fn stages_of(&self, group: usize) -> impl Iterator<Item = usize> + use<> {
        (group..self.meshes.len()).step_by(self.n_groups())
    }

    /// First and last device of a stage.
    pub fn devices(&self, stage: usize) -> [usize; 2] {
        let first = self.firsts[self.group(stage)];
        [first, first + self.meshes[stage].n_devices() as usize - 1]
    }

    /// Who runs what, where device groups hold several stages each.
    pub fn interleaving(&self) -> Option<Interleaving> {
        let (n_stages, n_microbatches) = (self.meshes.len(), self.n_own_microbatches());
        let interleaving = Interleaving { n_stages, n_groups: self.n_groups(), n_microbatches };
        (self.schedule.n_chunks() > 1).then_some(interleaving)
    }
}

/// `0:x=4;1:x=2,y=4@32`: the mesh of each stage, and its first device where that is said.
fn stage_meshes(text: &str) -> Result<(Vec<Mesh>, Vec<Option<usize>>)> {
    let (mut meshes, mut firsts) = (Vec::new(), Vec::new());
    for part in text.split(';').filter(|part| !part.is_empty()) {
        let (number, mesh) = part.split_once(':').ok_or_else(|| bad(notes::STAGES, "a stage is `0:x=4`"))?;
        if number.parse() != Ok(meshes.len()) {
            return Err(bad(notes::STAGES, "stages are numbered 0, 1, … in order"));
        }
        let (mesh, first) = match mesh.split_once('@') {
            None => (mesh, None),
            Some((mesh, first)) => {
                (mesh, Some(first.parse().ok().filter(|&first| first < MAX_DEVICES as usize)))
            }
        };
        let no_device = || bad(notes::STAGES, "after `@` stands the number of a stage's first device");
        firsts.push(first.map(|first| first.ok_or_else(no_device)).transpose()?);
        meshes.push(Mesh::parse(mesh)?);
    }
    if meshes.is_empty() { Err(bad(notes::STAGES, "there is no stage")) } else { Ok((meshes, firsts)) }
}

fn flat_mesh(module: &Module) -> Result<Mesh> {
    match module.attr("num_partitions").map(str::parse::<i64>) {
        None => Ok(Mesh::default()),
        Some(Ok(n_devices)) if n_devices >= 1 => Ok(Mesh::new(&[n_devices])),
        Some(_) => Err(Diagnostic::error("`num_partitions` must be a positive integer")),
    }
}

pub(super) fn bad(note: &str, what: &str) -> Diagnostic {
    Diagnostic::error(format!("the header's note `{note}` cannot be read: {what}"))
        .help("run `shard` and `place` again, or remove the note")
}
