//! What a program's own shardings leave open, completed as GSPMD's propagation does: along the loops of every
//! op, from values that are sharded to those that they are made of and that are made of them.

use phzc_analysis::graph::{Graph, Node, TensorId};
use phzc_ir::{
    FactorId, FactorKind, InstrId, Key, Layout, Mesh, Module, Result, Sharding, TensorMap, Tiling, Value,
    notes,
};
use phzc_plan::derive::planned_comps;
use phzc_planner::fuse;
use phzc_planner::plan_state::flatten;
use phzc_planner::shard::given_layouts;

/// The program with a sharding for every value, on a mesh of its own shardings; the collectives that follow
/// are those of a partitioner.
///
/// # Errors
/// A sharding that no mesh expresses; those of inlining.
pub fn complete(module: &Module, n_devices: i64) -> Result<Module> {
    let mut module = module.clone();
    flatten(&mut module)?;
    let graph = Graph::build(&module);
    let (mesh, given) = given_layouts(&module, &graph, n_devices)?;
    let is_fixed = given.iter().map(Option::is_some).collect();
    let layouts = given.into_iter().map(Option::unwrap_or_default).collect();
    let mut propagation = Propagation { graph: &graph, mesh: &mesh, is_fixed, layouts };
    propagation.run();
    let layouts = propagation.layouts;
    write(&mut module, &graph, &mesh, &layouts);
    module.set_note(notes::MESH, &mesh.to_string());
    module.set_note(notes::PARTITIONER, "gspmd");
    module.set_attr("num_partitions", n_devices.to_string());
    fuse::ensure_noted(&mut module)?;
    Ok(module)
}

struct Propagation<'a> {
    graph: &'a Graph,
    mesh: &'a Mesh,
    is_fixed: Vec<bool>,
    layouts: Vec<Layout>,
}

impl Propagation<'_> {
    /// First through ops that keep all their loops, then through all: a value's place along a chain of
    /// elementwise ops counts for more than what a product would like.
    fn run(&mut self) {
        for may_reduce in [false, true] {
            let nodes: Vec<&Node> =
                self.graph.nodes.iter().filter(|node| may_reduce || !reduces(node)).collect();
            let mut is_changed = true;
            while is_changed {
                is_changed = false;
                for node in nodes.iter().chain(nodes.iter().rev()) {
                    is_changed |= self.spread(node);
                }
            }
        }
    }

    /// Splits the tensors of a node along the loops that one of them splits. An axis that is set stays, so
    /// this comes to an end.
    fn spread(&mut self, node: &Node) -> bool {
        let operands = node.operands.iter().zip(&node.rule.operands);
        let tensors: Vec<(TensorId, &TensorMap)> =
            operands.chain(node.results.iter().zip(&node.rule.results)).map(|(&id, map)| (id, map)).collect();
        let mut is_changed = false;
        for axis in 0..self.mesh.n_axes() {
            let split = tensors
                .iter()
                .filter_map(|&(id, map)| Some((self.bytes(id), self.loop_of(node, id, map, axis)?)));
            // Of tensors that differ, the largest is followed.
            let Some((_, of)) = split.reduce(|best, next| if next.0 > best.0 { next } else { best }) else {
                continue;
            };
            for &(id, map) in &tensors {
                is_changed |= self.follow(node, (id, map), axis, of);
            }
        }
        is_changed
    }

    fn bytes(&self, id: TensorId) -> f64 {
        self.graph.tensors[id as usize].bytes
    }

    /// The loop that an axis splits in a tensor of a node.
    fn loop_of(&self, node: &Node, id: TensorId, map: &TensorMap, axis: usize) -> Option<FactorId> {
        let layout = self.layouts[id as usize];
        let dim = layout.dim_of(axis)?;
        self.loops_of_axes(node, map, layout, dim).into_iter().find(|(own, _)| *own == axis).map(|(_, of)| of)
    }

    /// The loops that the axes of a dimension split, major to minor: an axis takes what those before it have
    /// left of a loop.
    fn loops_of_axes(
        &self,
        node: &Node,
        map: &TensorMap,
        layout: Layout,
        dim: usize,
    ) -> Vec<(usize, FactorId)> {
        let factor = |of: FactorId| node.rule.factors[of as usize];
        let mut loops = map.get(dim).into_iter().flatten().copied().map(|of| (of, factor(of).size));
        let (mut found, mut current) = (Vec::new(), loops.next());
        for axis in layout.axes_of(dim) {
            while current.is_some_and(|(_, left)| left == 1) {
                current = loops.next();
            }
            let Some((of, left)) = current else { break };
            let is_shared = matches!(factor(of).kind, FactorKind::Pass | FactorKind::Reduce(_));
            if !is_shared || left % self.mesh.sizes[axis] != 0 {
                break;
            }
            current = Some((of, left / self.mesh.sizes[axis]));
            found.push((axis, of));
        }
        found
    }

    /// Splits a tensor along a loop, if it runs over one of its dimensions and nothing stands against it.
    fn follow(&mut self, node: &Node, (id, map): (TensorId, &TensorMap), axis: usize, of: FactorId) -> bool {
        let at = id as usize;
        if self.is_fixed[at] || self.layouts[at].dim_of(axis).is_some() {
            return false;
        }
        let Some(dim) = (0..map.len()).find(|&dim| map[dim].contains(&of)) else { return false };
        let split = self.layouts[at].with(axis, Some(dim));
        let loops = self.loops_of_axes(node, map, split, dim);
        let is_legal = loops.len() == split.axes_of(dim).count()
            && loops.contains(&(axis, of))
            && split.divides(&self.graph.tensors[at].dims, self.mesh);
        if is_legal {
            self.layouts[at] = split;
        }
        is_legal
    }
}

fn reduces(node: &Node) -> bool {
    node.rule.factors.iter().any(|factor| matches!(factor.kind, FactorKind::Reduce(_)))
}

/// Writes the layouts of all values as shardings.
fn write(module: &mut Module, graph: &Graph, mesh: &Mesh, layouts: &[Layout]) {
    for comp in planned_comps(module) {
        for at in 0..module.comp(comp).instrs.len() {
            let values = &graph.values[comp.index()][InstrId::new(at).index()];
            let instr = &mut module.comps[comp.index()].instrs[at];
            let leaves = instr.shape.leaves().into_iter().enumerate();
            let tiling = |(leaf, shape): (usize, &phzc_ir::Shape)| {
                let rank = shape.as_array().map_or(0, phzc_ir::ArrayShape::rank);
                let layout = values.get(leaf).map_or(Layout::REPLICATED, |&id| layouts[id as usize]);
                layout.to_tiling(rank, mesh)
            };
            let mut tilings: Vec<Tiling> = leaves.map(tiling).collect();
            let sharding = match instr.shape.as_array() {
                Some(_) => Sharding::Single(tilings.swap_remove(0)),
                None => Sharding::Tuple(tilings),
            };
            instr.set_attr(Key::Sharding, Value::Sharding(Box::new(sharding)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use phzc_plan::derive::derive;

    /// The shardings of a completed program, by name, and the kinds of collectives that follow.
    fn completed(text: &str) -> (Vec<String>, Vec<&'static str>) {
        let module = complete(&phzc_ir::parse(text).expect("legal"), 8).expect("readable");
        assert!(phzc_ir::verify(&module).is_empty());
        let instrs = module.entry().instrs.iter();
        let shardings = instrs.map(|it| format!("{} {}", it.name, it.sharding().expect("written")));
        let facts = derive(&module).expect("legal");
        let steps = facts.comps[module.entry.index()].iter().flat_map(|it| &it.steps);
        (shardings.collect(), steps.map(|step| step.kind.as_str()).collect())
    }

    #[test]
    fn megatron_s_two_weights_split_what_is_between_them() {
        let (shardings, steps) = completed(
            "e {
              x = f32[64,32] parameter(0), sharding={devices=[2,1,4]<=[8] last_tile_dim_replicate}
              v = f32[32,64] parameter(1), sharding={devices=[1,4,2]<=[2,4]T(1,0) last_tile_dim_replicate}
              w = f32[64,32] parameter(2), sharding={devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}
              h = f32[64,64] dot(x, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}
              t = f32[64,64] tanh(h)
              ROOT y = f32[64,32] dot(t, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
            }",
        );
        let rows = "{devices=[2,1,4]<=[8] last_tile_dim_replicate}";
        assert_eq!(
            shardings[3..],
            ["h {devices=[2,4]<=[8]}", "t {devices=[2,4]<=[8]}", &format!("y {rows}")]
        );
        assert_eq!(steps, ["all-reduce"]);
    }

    #[test]
    fn a_loop_carries_what_its_first_value_has() {
        let (shardings, steps) = completed(
            "b { p = (s32[], f32[64]) parameter(0)
               i = s32[] get-tuple-element(p), index=0 one = s32[] constant(1) n = s32[] add(i, one)
               x = f32[64] get-tuple-element(p), index=1 y = f32[64] tanh(x)
               ROOT t = (s32[], f32[64]) tuple(n, y) }
            c { p = (s32[], f32[64]) parameter(0) i = s32[] get-tuple-element(p), index=0
               three = s32[] constant(3) ROOT l = pred[] compare(i, three), direction=LT }
            ENTRY e {
              a = f32[64] parameter(0), sharding={devices=[8]<=[8]}
              zero = s32[] constant(0)
              first = (s32[], f32[64]) tuple(zero, a)
              w = (s32[], f32[64]) while(first), condition=c, body=b
              ROOT r = f32[64] get-tuple-element(w), index=1
            }",
        );
        assert_eq!(shardings[4], "r {devices=[8]<=[8]}");
        assert_eq!(steps, [""; 0]);
    }

    #[test]
    fn what_is_given_stays_and_the_largest_value_is_followed() {
        let (shardings, steps) = completed(
            "s { p = f32[] parameter(0) q = f32[] parameter(1) ROOT r = f32[] add(p, q) }
            ENTRY e {
              a = f32[64,8] parameter(0), sharding={devices=[8,1]<=[8]}
              b = f32[64,8] parameter(1), sharding={replicated}
              c = f32[64,8] add(a, b)
              z = f32[] constant(0)
              ROOT d = f32[8] reduce(c, z), dimensions={0}, to_apply=s
            }",
        );
        assert_eq!(shardings[1], "b {replicated}");
        assert_eq!(shardings[2], "c {devices=[8,1]<=[8]}");
        assert_eq!(steps, ["all-reduce"]);
    }
}
