//! For how much of the whole program instructions stand; a program for which no shorter one does stands for
//! itself.

use super::Short;
use phzc_ir::Module;

impl Short {
    /// Per instruction of the short entry: how many of the whole one's it stands for.
    pub fn n_alike(&self) -> Vec<f64> {
        let mut found = vec![0.0; self.whole_of.len()];
        self.stands.iter().for_each(|stands| found[stands[0].index()] += 1.0);
        found
    }

    /// A program that stands for itself.
    pub fn itself(module: &Module) -> Short {
        let ids = || module.entry().iter().map(|(id, _)| id);
        let n_instrs = module.entry().instrs.len();
        Short {
            module: module.clone(),
            n_layers: Vec::new(),
            layer_of: vec![None; n_instrs],
            stands: ids().map(|id| [id; 2]).collect(),
            whole_of: ids().collect(),
            place: vec![None; n_instrs],
            neighbours: vec![[None; 2]; n_instrs],
            twin: vec![None; n_instrs],
        }
    }
}
