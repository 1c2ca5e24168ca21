//! What every plan keeps on a device: where that is more than there is, no search finds a plan.

use phzc_analysis::batch::data;
use phzc_analysis::graph::{Graph, Tensor};
use phzc_cost::Cluster;
use phzc_ir::dtype::Class;
use phzc_ir::{Diagnostic, Result, counted};
use phzc_plan::memory::amount;

/// Errors if weights, and the optimizer's states, need more memory than there is even if they are split
/// evenly over all devices. They live throughout a step and are on some device whatever the stages are, so
/// the fullest device has the mean at least. What is data may come microbatch by microbatch, and is left out.
pub fn check(graph: &Graph, cluster: &Cluster) -> Result<()> {
    let (device, n_devices) = (&cluster.accelerator, cluster.n_devices());
    let kept = kept(graph);
    let kept_bytes = kept.iter().map(|tensor| tensor.bytes).sum::<f64>();
    let least_bytes = kept_bytes / n_devices as f64;
    if least_bytes <= device.usable_bytes() {
        return Ok(());
    }
    let [all, least, usable] = [kept_bytes, least_bytes, device.usable_bytes()].map(amount);
    let message = format!(
        "no plan fits: {} need {all}, {least} on each of {} were they split evenly, \
         `{}` has {usable} to use",
        if graph.aliases.is_empty() { "inputs" } else { "weights and optimizer states" },
        counted(n_devices, "device"),
        device.name
    );
    let n_enough = (kept_bytes / device.usable_bytes()).ceil();
    let help = format!(
        "use {n_enough} devices at least, devices with more memory, or narrower types: more microbatches and \
         recomputation save none of this"
    );
    Err(Diagnostic::error(message).help(help))
}

/// The inputs that are read and are no data.
fn kept(graph: &Graph) -> Vec<&Tensor> {
    let mut is_data = vec![false; graph.tensors.len()];
    data(graph).for_each(|id| is_data[id as usize] = true);
    let is_kept = |tensor: &Tensor| {
        tensor.param.is_some() && !tensor.uses.is_empty() && tensor.dtype.class() != Class::Complex
    };
    let all = graph.tensors.iter().zip(is_data);
    all.filter(|(tensor, is_data)| is_kept(tensor) && !is_data).map(|(tensor, _)| tensor).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::{EXAMPLES, cluster};
    use super::*;
    use phzc_ir::parse;
    use phzc_pass::pass::Context;

    /// What planning an example says on devices with so many bytes to use.
    fn planned(usable_bytes: f64) -> Result<()> {
        let (mut module, mut cluster) = (parse(EXAMPLES[2].1).expect("a program"), cluster());
        cluster.accelerator.hbm_bytes = usable_bytes / cluster.accelerator.usable;
        let steps = crate::testing::pipeline("fuse,shard,place").expect("legal").steps;
        let mut cx = Context::new(&cluster);
        steps.iter().try_for_each(|step| step.run(&mut module, &mut cx).map(|_| ()))
    }

    #[test]
    fn states_that_fit_no_device_end_the_search_before_it_begins() {
        let graph = Graph::build(&parse(EXAMPLES[2].1).expect("a program"));
        let bytes = kept(&graph).iter().map(|tensor| tensor.bytes).sum::<f64>();
        assert!(bytes > 0.0);
        let (below, above) = (planned(0.24 * bytes), planned(0.26 * bytes));
        assert!(
            below
                .expect_err("too little")
                .message
                .starts_with("no plan fits: weights and optimizer states need")
        );
        assert!(above.err().is_none_or(|error| !error.message.starts_with("no plan fits")));
    }
}
