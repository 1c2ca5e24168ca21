//! What a node takes to fetch the edges of its neighbours' tiles, as a function of the strategy.

use super::model::Model;
use super::strategies::{Strategy, View, layout, outermost};
use phzc_analysis::graph::NodeId;
use phzc_cost::Collective;
use phzc_ir::Halo;
use phzc_plan::pricing;
use smallvec::SmallVec;

/// One operand's edges along one loop of the menu.
struct Exchange {
    halo: Halo,
    /// The loop as strategies count it.
    choice: u8,
    /// Elements of the operand along its dimension.
    n_elements: i64,
    /// Bytes of the operand, and how the menu's loops lie in it.
    bytes: f64,
    view: View,
}

/// The exchanges of a node.
pub struct Exchanges(Vec<Exchange>);

impl Exchanges {
    /// Those of a node whose loops lie in its operands as `view` says.
    pub fn new(model: &Model, id: NodeId, view: impl Fn(usize) -> View) -> Exchanges {
        let (graph, blocks) = (model.input.graph, model.input.blocks);
        let (node, block) = (&graph.nodes[id as usize], blocks.block_of[id as usize]);
        let loops = block.map_or(&[][..], |block| &model.menus[block as usize].loops);
        let exchange = |&halo: &Halo| {
            let (at, _) = outermost(blocks, id, halo.factor, loops)?;
            let size = node.rule.factors[halo.factor as usize].size;
            Some(Exchange {
                halo,
                choice: at as u8 + 1,
                n_elements: node.rule.n_elements(&halo, size),
                bytes: graph.tensors[*node.operands.get(halo.operand)? as usize].bytes,
                view: view(halo.operand),
            })
        };
        Exchanges(node.rule.halos.iter().filter_map(exchange).collect())
    }

    /// Seconds of one execution for one of `n_parts` microbatches.
    pub fn secs(&self, model: &Model, strategy: &Strategy, n_parts: f64) -> f64 {
        let mut secs = 0.0;
        // A dimension's edges contain those of the operand's dimensions before it: the corners.
        let n_operands = self.0.iter().map(|it| it.halo.operand + 1).max().unwrap_or(0);
        let mut wide: SmallVec<[f64; 2]> = SmallVec::from_elem(1.0, n_operands);
        for it in &self.0 {
            let Some(axis) = strategy.iter().position(|&choice| choice == it.choice) else { continue };
            let own = (it.n_elements / model.mesh.sizes[axis]) as f64;
            let bytes = it.bytes / n_parts / layout(strategy, &it.view).n_tiles(&model.mesh) as f64;
            for moved in [it.halo.low, it.halo.high].into_iter().filter(|&moved| moved > 0) {
                let bytes = bytes * wide[it.halo.operand] * moved as f64 / own;
                let (cluster, kind) = (model.input.cluster, Collective::Permute);
                secs += pricing::collective_secs(cluster, &model.mesh, kind, 1 << axis, bytes);
            }
            wide[it.halo.operand] *= (own + (it.halo.low + it.halo.high) as f64) / own;
        }
        secs
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::check;

    /// The plan of a convolution over one image of 16 rows; no other size can be split.
    fn plan(size: i64, mesh: &str, forbid: &str) -> String {
        let low = size / 2;
        let program = format!(
            "ENTRY e {{ x = f32[1,16,16381,63] parameter(0)
                k = f32[{size},1,63,61] parameter(1)
                ROOT c = f32[1,16,16381,61] convolution(x, k), window={{size={size}x1 pad={low}_{low}x0_0}}, dim_labels=b01f_01io->b01f }}"
        );
        check(&format!("shard{{mesh={mesh}{forbid}}}"), &program)
    }

    #[test]
    fn an_image_is_split_where_tiles_have_what_their_neighbours_read() {
        let is_split = |plan: &str| {
            let made = plan.lines().find(|line| line.contains("ROOT c =")).expect("the convolution");
            made.contains("devices=[1,")
        };
        assert!(is_split(&plan(5, "8", "")));
        assert!(!is_split(&plan(7, "8", "")), "two rows are fewer than three");
        assert!(is_split(&plan(7, "2x4", "")));
        assert!(!is_split(&plan(7, "2x4", ",forbid=collective-permute")));
    }
}
