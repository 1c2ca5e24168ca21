//! A plan, lowered once to the program of one device, and run step by step on whole inputs.

use super::one_mesh::on_one_mesh;
use super::replay;
use phzc_ir::eval::{Options, Value, eval, join, split};
use phzc_ir::{InstrId, Layout, Mesh, Module, Result};
use phzc_plan::derive::{Facts, derive, header};
use phzc_plan::microbatch::{after_all, on_time_axis};
use phzc_spmd::spmd;

/// The program of one device of a plan, and what is needed to run it on all of them.
pub struct Devices {
    /// Replicas of all stages.
    pub n_replicas: usize,
    /// Devices of all stages, of all replicas.
    pub n_devices: usize,
    /// Pipeline stages.
    pub n_stages: usize,
    /// Microbatches.
    pub n_microbatches: usize,
    /// Whether the schedule is replayed; otherwise all devices and microbatches run in lock-step.
    pub is_replayed: bool,
    plan: replay::Plan,
    /// The plan, with microbatches as the outermost axis of its mesh.
    timed: Module,
    facts: Facts,
    local: Module,
}

impl Devices {
    /// Lowers a plan.
    ///
    /// # Errors
    /// When its notes cannot be read, or it cannot be lowered.
    pub fn of(planned: &Module) -> Result<Devices> {
        let given = header(planned)?;
        let planned = &on_one_mesh(planned)?;
        let header = header(planned)?;
        let timed = on_time_axis(planned)?;
        let facts = derive(&timed)?;
        // One microbatch has no axis of its own.
        let can_replay = header.n_microbatches == 1 || after_all(&timed, &facts)?.is_some();
        let local = spmd::program(&timed, &facts)?;
        let (n_stages, n_microbatches) = (header.meshes.len(), header.n_microbatches);
        let is_replayed = can_replay && (n_stages > 1 || n_microbatches > 1);
        let per_stage = header.meshes[0].n_devices() as usize;
        let (n_devices, n_replicas, schedule) = (given.n_devices(), given.n_replicas(), given.schedule);
        let shares = given.shares();
        let plan = replay::Plan { n_stages, n_microbatches, shares, n_devices: per_stage, schedule };
        Ok(Devices {
            n_replicas,
            n_devices,
            n_stages,
            n_microbatches,
            is_replayed,
            plan,
            timed,
            facts,
            local,
        })
    }

    /// The numbers of parts that the mesh can split a dimension into.
    pub fn parts(&self) -> Vec<i64> {
        let sizes = self.mesh().sizes.iter();
        let mut parts = sizes.fold(vec![1], |parts, size| {
            let more = parts.iter().map(|part| part * size).collect();
            [parts, more].concat()
        });
        parts.sort_unstable();
        parts.dedup();
        parts
    }

    /// The whole result of whole inputs.
    ///
    /// # Errors
    /// When a task needs what has not been made by then, devices hold different copies of a value, or an
    /// instruction cannot be evaluated.
    pub fn run(&self, given: &[Value], options: &Options) -> Result<Value> {
        self.join(&self.run_each(given, options)?)
    }

    /// Each device's result of whole inputs.
    ///
    /// # Errors
    /// As [`Devices::run`], but for copies.
    pub fn run_each(&self, given: &[Value], options: &Options) -> Result<Vec<Value>> {
        let parts = self.cut(given)?;
        match self.is_replayed {
            true => replay::Replay::new(&self.local, self.plan.clone())?.run(parts, options),
            false => eval(&self.local, &parts, options),
        }
    }

    /// The whole result of all devices' results.
    ///
    /// # Errors
    /// When devices hold different copies of a value.
    pub fn join(&self, made: &[Value]) -> Result<Value> {
        join(made, &self.layouts(self.timed.entry().root), self.mesh())
    }

    /// The program of one device.
    pub fn local(&self) -> &Module {
        &self.local
    }

    /// Per device, per parameter: its part of the inputs.
    fn cut(&self, given: &[Value]) -> Result<Vec<Vec<Value>>> {
        let mut parts: Vec<Vec<Value>> = vec![Vec::new(); self.mesh().n_devices() as usize];
        for (value, &id) in given.iter().zip(&self.timed.entry().params()) {
            let cut = split(value, &self.layouts(id), self.mesh())?;
            parts.iter_mut().zip(cut).for_each(|(own, part)| own.push(part));
        }
        Ok(parts)
    }

    fn mesh(&self) -> &Mesh {
        &self.facts.header.meshes[0]
    }

    fn layouts(&self, id: InstrId) -> Vec<Layout> {
        let leaves = &self.facts.comps[self.timed.entry.index()][id.index()].leaves;
        leaves.iter().map(|leaf| leaf.layout).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A plan of one stage on this mesh.
    fn devices(mesh: &str, n_microbatches: usize) -> Devices {
        let notes = format!("phzc.mesh=\"{mesh}\",phzc.plan=\"{{\\\"n_microbatches\\\":{n_microbatches}}}\"");
        let text = format!(
            "HloModule m, frontend_attributes={{{notes}}}
             ENTRY e {{ x = f32[8] parameter(0), sharding={{replicated}}
             ROOT y = f32[8] tanh(x), sharding={{replicated}} }}"
        );
        Devices::of(&phzc_ir::parse(&text).expect("legal")).expect("a legal plan")
    }

    #[test]
    fn a_dimension_is_split_into_the_parts_of_any_axes() {
        assert_eq!(devices("x=2,y=4", 1).parts(), [1, 2, 4, 8]);
        assert_eq!(devices("x=3,y=2", 1).parts(), [1, 2, 3, 6]);
    }

    #[test]
    fn one_task_is_not_replayed() {
        let found = [1, 2].map(|n_microbatches| devices("x=2", n_microbatches).is_replayed);
        assert_eq!(found, [false, true]);
        let lines = [("x = f32[8] parameter(0)", "fwd", 0), ("ROOT y = f32[8] tanh(x)", "fwd", 1)];
        let two_stages = crate::testing::staged("", "0:;1:", "{}", &lines);
        assert!(Devices::of(&two_stages).expect("a legal plan").is_replayed);
    }
}
