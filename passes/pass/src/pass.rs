//! What a pass is: a name, a summary, typed options, and a function from module to module.

use crate::alternative::{Alternative, OnMesh, StageCount};
use crate::explanation::Explanation;
use crate::handed_on::HandedOn;
use indexmap::IndexMap;
use phzc_cost::Cluster;
use phzc_ir::{Diagnostic, Module, Result};

/// A pass: one static per file, listed in `passes/src/registry.rs`.
pub struct Pass {
    /// Name in `--passes`; also the file and the golden directory.
    pub name: &'static str,
    /// One line for `--help-passes`.
    pub summary: &'static str,
    /// What may stand in the braces of `name{key=value}`.
    pub options: &'static [OptionInfo],
    /// Changes the module; says whether it did.
    pub run: fn(&mut Module, &Options, &mut Context) -> Result<Changed>,
}

/// Whether a pass changed the module; the manager checks the answer in debug builds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Changed {
    /// The printed module differs.
    Yes,
    /// It does not.
    No,
}

/// One option of a pass.
pub struct OptionInfo {
    /// Key before the equals sign.
    pub name: &'static str,
    /// What values it takes.
    pub kind: OptionKind,
    /// The value when it is not given, as text.
    pub default: &'static str,
    /// One line for `--help-passes`.
    pub help: &'static str,
}

/// The values that an option takes.
pub enum OptionKind {
    /// An integer between these bounds, both included.
    Int {
        /// Least.
        min: i64,
        /// Greatest.
        max: i64,
    },
    /// `true` or `false`.
    Flag,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// Text that the pass checks itself; says what it looks like.
    Text(&'static str),
    /// Text that says itself what is wrong with it; says what it looks like. Spans are in the text.
    Checked(&'static str, fn(&str) -> Result<()>),
}

/// The options of one pass in a pipeline, checked against its table, defaults filled in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Text per option, in the pass' order.
    pub values: IndexMap<&'static str, String>,
}

impl Options {
    /// An option's text. The manager has filled in every option of the pass.
    pub fn text(&self, name: &str) -> &str {
        self.values.get(name).map_or("", String::as_str)
    }

    /// An integer option.
    pub fn int(&self, name: &str) -> i64 {
        self.text(name).parse().unwrap_or(0)
    }

    /// A flag.
    pub fn flag(&self, name: &str) -> bool {
        self.text(name) == "true"
    }
}

/// What passes share besides the module.
pub struct Context<'a> {
    /// The hardware to plan for.
    pub cluster: &'a Cluster,
    /// What the pass before has worked out about the module.
    pub handed_on: HandedOn,
    /// What the user should hear of; the run goes on.
    pub warnings: Vec<Diagnostic>,
    /// Whether anybody reads `artifacts`: of very many layers they take seconds.
    pub wants_artifacts: bool,
    /// Text files for `--dump-dir`, by file name: `blocks.txt`, `strategy_map.txt`.
    pub artifacts: IndexMap<String, String>,
    /// Instructions whose layouts the user wants explained.
    pub explain: Vec<String>,
    /// The explanations, from `shard`.
    pub explanations: Vec<Explanation>,
    /// The best plans, from `place`, if several were asked for.
    pub alternatives: Vec<Alternative>,
    /// What `shard` knows of every mesh.
    pub meshes: Vec<OnMesh>,
    /// What `place` knows of every number of stages.
    pub stage_counts: Vec<StageCount>,
    /// Called with a short phrase when long work advances.
    pub progress: &'a (dyn Fn(&str) + Sync),
    /// What the user may ask for while a search runs.
    pub interrupt: Interrupt<'a>,
    /// Whether the manager compares the text before and after each pass with what the pass says of it.
    pub is_suspicious: bool,
}

/// A request to end a search early, which the caller hears of: passes read no signals.
#[derive(Clone, Copy)]
pub struct Interrupt<'a> {
    /// Whether the best plan so far will do; asked between candidates.
    pub is_requested: &'a (dyn Fn() -> bool + Sync),
    /// Called once there is a plan that such a request would leave.
    pub has_plan: &'a (dyn Fn() + Sync),
}

impl Interrupt<'_> {
    /// Nobody interrupts.
    pub const NEVER: Interrupt<'static> = Interrupt { is_requested: &|| false, has_plan: &|| {} };
}

impl<'a> Context<'a> {
    /// Adds a warning, unless it has been given already.
    pub fn warn_once(&mut self, warning: Diagnostic) {
        if !self.warnings.contains(&warning) {
            self.warnings.push(warning);
        }
    }

    /// A context that shows no progress.
    pub fn new(cluster: &'a Cluster) -> Context<'a> {
        Context {
            cluster,
            handed_on: HandedOn::default(),
            warnings: Vec::new(),
            wants_artifacts: true,
            artifacts: IndexMap::new(),
            explain: Vec::new(),
            explanations: Vec::new(),
            alternatives: Vec::new(),
            meshes: Vec::new(),
            stage_counts: Vec::new(),
            progress: &|_| {},
            interrupt: Interrupt::NEVER,
            is_suspicious: cfg!(debug_assertions),
        }
    }
}
