//! A plan's figures by another schedule.

use super::{Plan, Stage, straggler};
use crate::memory::StageMemory;
use phzc_cost::{Pipeline, Schedule};

impl Plan {
    /// The times of one microbatch on each stage and between stages.
    pub fn pipeline(&self) -> Pipeline {
        let secs = |of: fn(&Stage) -> f64| self.stages.iter().map(of).collect();
        let mut send_secs: Vec<f64> = secs(|stage| stage.send_secs);
        send_secs.pop();
        Pipeline {
            forward_secs: secs(|stage| stage.forward_secs),
            backward_secs: secs(|stage| stage.backward_secs),
            weight_secs: secs(|stage| stage.weight_gradient_secs),
            send_secs,
            n_microbatches: self.replicas.first().map_or(self.n_microbatches, |first| first.n_microbatches),
        }
    }

    /// Seconds of one step by another schedule.
    pub fn secs_by(&self, schedule: Schedule) -> f64 {
        match &self.straggling {
            Some(it) => straggler::expected_secs(it, std::slice::from_ref(self), schedule),
            None => self.pipeline().step_secs(schedule) + self.once_secs,
        }
    }

    /// The same plan by another schedule, in which stages need such memory: what changes is how long they
    /// wait.
    #[must_use]
    pub fn by(&self, schedule: Schedule, memory: &[StageMemory]) -> Plan {
        let mut plan = Plan { schedule: schedule.to_string(), ..self.clone() };
        plan.time_secs = self.secs_by(schedule);
        if let Some(it) = &mut plan.straggling {
            it.even_secs = self.pipeline().step_secs(schedule) + self.once_secs;
        }
        let idle_secs = plan.breakdown.bubble_secs + plan.time_secs - self.time_secs;
        // Sends take what is left of the time in which nothing is computed.
        plan.breakdown.collective_secs += idle_secs.min(0.0);
        plan.breakdown.bubble_secs = idle_secs.max(0.0);
        for (stage, memory) in plan.stages.iter_mut().zip(memory) {
            stage.memory_bytes = memory.peak_bytes;
        }
        plan
    }
}
