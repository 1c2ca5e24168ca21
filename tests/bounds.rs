//! A pin, a prohibition or an option takes from the choices that there are without it, so no plan under one
//! takes less than the bound that the same passes print without: `cargo bench --bench bounds`, in small.

use crate::common::bounds::restricted;
use crate::common::{Random, program as text, root};
use phzc_cost::Cluster;

#[test]
fn no_plan_under_pins_prohibitions_and_options_is_below_the_bound_without_them() {
    let cluster = Cluster::named("a100-8").expect("it is built in");
    let mut random = Random(1);
    for name in ["mlp", "moe"] {
        let path = root().join(format!("examples/{name}.ir"));
        let module = phzc_ir::parse(&text(&path)).expect("an example is legal");
        let found = restricted(&module, 5, &cluster, &mut random);
        assert!(found.n_planned > 3, "{name}: {} plans", found.n_planned);
        assert!(found.below.is_empty(), "{name}: {:?}", found.below);
    }
}
