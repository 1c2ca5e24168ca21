//! Plans and what is known of others, as `place` hands them to the driver.

use phzc_plan::report::Plan;

/// What the search knows of the plans on a number of device groups.
pub struct StageCount {
    /// How many groups; each holds one stage, or several where stages are interleaved.
    pub n_groups: usize,
    /// No such plan takes less; 0 where no bound was needed.
    pub lower_bound_secs: f64,
    /// The best plan, or what there is instead.
    pub known: Known,
}

/// What `shard` knows of a mesh of all devices.
pub struct OnMesh {
    /// `x=2,y=4`.
    pub mesh: String,
    /// No layouts on it take less.
    pub lower_bound_secs: f64,
    /// Seconds and bytes of the best layouts, where the bound was below those of another mesh.
    pub best: Option<[f64; 2]>,
}

/// The best plan that was evaluated, or why none was.
#[derive(Clone)]
pub enum Known {
    /// It was evaluated.
    Plan(Box<Alternative>),
    /// By an estimate the best one takes so many seconds.
    About(f64),
    /// By an estimate all take so many seconds or more.
    Over(f64),
    /// There is none, as the message says.
    None(String),
    /// The bound is all there is.
    Bound,
}

/// One of the best plans.
#[derive(Clone)]
pub struct Alternative {
    /// Options of `place` that ask for it.
    pub options: String,
    /// Whether it computes activations again.
    pub is_again: bool,
    /// What the report says of it.
    pub plan: Plan,
}
