//! What the report finds in plans of real programs.

use super::plans::planned;
use phzc_cost::Cluster;
use phzc_passes::report::plan;

/// The layers of this program are recomputed: products and reductions by computations of their own, other
/// layouts.
#[test]
fn what_jax_rematerialises_is_recomputation() {
    let cluster = Cluster::named("a100-8").expect("a known cluster");
    let text = include_str!("../../examples/gpt_remat.ir");
    let module = planned(text, "fuse,shard,place{stages=1}", &cluster);
    let stage = &plan(&module, &cluster).expect("a legal header").stages[0];
    // A forward part again, but for the loss.
    assert!(
        stage.recompute_secs > 0.3 * stage.forward_secs,
        "{} {}",
        stage.recompute_secs,
        stage.forward_secs
    );
}
