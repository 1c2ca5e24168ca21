//! Model families that phzc writes itself: one file and one line here each.

mod attention;
mod bert;
mod deepseek;
mod dims;
mod dispatch;
mod experts;
mod gpt;
mod gshard;
mod layers;
mod llama;
mod mixtral;
mod mlp;
mod net;
mod opt;
mod resnet;
mod t5;
mod vit;

pub use dims::Dim;
pub use net::{LAYER_PRODUCT, Net, Settings};

use phzc_ir::{Diagnostic, InstrId, Module, Result};

/// All families, in the order of the help.
pub const FAMILIES: &[Family] = &[
    gpt::FAMILY,
    opt::FAMILY,
    llama::FAMILY,
    bert::FAMILY,
    t5::FAMILY,
    gshard::FAMILY,
    mixtral::FAMILY,
    deepseek::FAMILY,
    vit::FAMILY,
    resnet::FAMILY,
    mlp::FAMILY,
];

/// A model family.
#[derive(Clone, Copy, Debug)]
pub struct Family {
    /// As in `phzc gen gpt`.
    pub name: &'static str,
    /// One line for the help.
    pub about: &'static str,
    /// What can be chosen.
    pub dims: &'static [Dim],
    /// Named choices; the first is the default.
    pub sizes: &'static [Size],
    /// Whether it has equal layers, which may be a loop.
    pub can_scan: bool,
    /// Builds the forward program: one value per dimension; the loss.
    pub build: fn(&[i64], &mut Net) -> Result<InstrId>,
}

/// A named choice of all dimensions.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// As in `--size 1.3b`.
    pub name: &'static str,
    /// One value per dimension.
    pub values: &'static [i64],
    /// Where the values are from.
    pub source: &'static str,
}

/// A line of a table of sizes.
const fn size(name: &'static str, values: &'static [i64], source: &'static str) -> Size {
    Size { name, values, source }
}

impl Family {
    /// The forward program, which returns the loss of a batch.
    ///
    /// # Errors
    /// Dimensions that do not fit each other; a loop over layers that differ.
    pub fn forward(&self, values: &[i64], settings: Settings) -> Result<Module> {
        dims::countable(self.dims, values, settings.batch)?;
        if settings.scan && !self.can_scan {
            let message = format!("the layers of `{}` differ: they cannot be a loop", self.name);
            return Err(Diagnostic::error(message).help("leave `--scan` out"));
        }
        let mut net = Net::new(self.name, settings);
        let loss = (self.build)(values, &mut net)?;
        net.check()?;
        Ok(net.finish(loss))
    }
}

/// How many numbers a family's program trains: the elements of its inputs `params.*`.
pub fn n_parameters(module: &Module) -> i64 {
    let entry = module.entry();
    let params = entry.params().into_iter().map(|id| entry.instr(id));
    let trained = params.filter(|param| param.name.starts_with("params."));
    trained.filter_map(|param| param.shape.as_array()).map(|shape| shape.dims.iter().product::<i64>()).sum()
}

#[cfg(test)]
mod tests;
