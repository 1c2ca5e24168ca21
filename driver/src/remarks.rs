//! Planned programs as text, with what their instructions take as `// 12.5 us` at line ends.
//!
//! Remarks follow from the text and the cluster alone, and parsing drops them: a dump resumes to the same
//! bytes.

use phzc_cost::Cluster;
use phzc_io::units::secs;
use phzc_ir::{CompId, InstrId, Mesh, Module, Result, print, print_with};
use phzc_passes::derive::{Facts, derive, is_planned};
use phzc_passes::pricing::axes_of;
use phzc_passes::report::{Cost, costs_of};

/// The program as text; remarks only if it has a plan.
pub(crate) fn text(module: &Module, cluster: &Cluster) -> Result<String> {
    if is_planned(module) { Ok(with_facts(module, &derive(module)?, cluster)) } else { Ok(print(module)) }
}

/// The planned program as text, its facts known already.
pub(crate) fn with_facts(module: &Module, facts: &Facts, cluster: &Cluster) -> String {
    let costs = costs_of(module, facts, cluster);
    let mesh = |comp: CompId, id: InstrId| &facts.header.meshes[facts.comps[comp.index()][id.index()].stage];
    print_with(module, &|comp, id| costs.get(&(comp, id)).map(|costs| remark(costs, mesh(comp, id))))
}

/// `12 x 9.70 us + 12 x 11.4 us all-reduce over x`.
fn remark(costs: &[Cost], mesh: &Mesh) -> String {
    costs.iter().map(|cost| part(cost, mesh)).collect::<Vec<_>>().join(" + ")
}

fn part(cost: &Cost, mesh: &Mesh) -> String {
    let what = cost.collective.map(|(kind, axes)| {
        let names: Vec<&str> = axes_of(axes).map(|axis| mesh.axis_name(axis)).collect();
        format!(" {kind} over {}", names.join(","))
    });
    let times = if cost.times == 1 { String::new() } else { format!("{} x ", cost.times) };
    format!("{times}{}{}", secs(cost.secs), what.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use phzc_cost::Collective;

    #[test]
    fn a_remark_names_the_kernel_then_the_collectives() {
        let mesh = Mesh::parse("x=2,model=4").expect("a mesh");
        let kernel = Cost { collective: None, times: 1, secs: 9.7e-6 };
        assert_eq!(remark(&[kernel], &mesh), "9.70 us");
        let reduce = Cost { collective: Some((Collective::AllReduce, 0b11)), times: 12, secs: 1e-3 };
        assert_eq!(remark(&[kernel, reduce], &mesh), "9.70 us + 12 x 1.00 ms all-reduce over x,model");
    }

    #[test]
    fn remarks_are_for_planned_programs_and_vanish_when_read() {
        let cluster = Cluster::named("a100-8").expect("a known cluster");
        let plain =
            "HloModule m\n\nENTRY e {\n  x = f32[64,64] parameter(0)\n  ROOT y = f32[64,64] tanh(x)\n}\n";
        let module = phzc_ir::parse(plain).expect("legal");
        assert_eq!(text(&module, &cluster), Ok(plain.to_owned()));
        let mut planned = module.clone();
        planned.set_note("phzc.plan", "{}");
        let shown = text(&planned, &cluster).expect("legal notes");
        assert!(shown.contains("  ROOT y = f32[64,64] tanh(x) // "), "{shown}");
        assert_eq!(print(&phzc_ir::parse(&shown).expect("legal")), print(&planned));
    }
}
