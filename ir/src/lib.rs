//! The tensor IR: HLO text in, typed-id arenas, HLO text out; factor rules that all passes read.
//!
//! This crate knows no hardware, no pass and no file. Its invariant: after [`verify()`] has passed,
//! no other function panics on the module.

pub mod alias;
pub mod annotations;
pub mod attention;
pub mod attr;
pub mod axes;
pub mod border;
pub mod build;
pub mod device_groups;
pub mod diag;
pub mod dtype;
pub mod edit;
pub mod effects;
pub mod eval;
pub mod flops;
pub mod fusion;
pub mod kernels;
pub mod layout;
pub mod loops;
pub mod module;
mod module_notes;
mod nearest;
pub mod notes;
pub mod opcode;
pub mod ops;
pub mod product;
pub mod rule;
pub mod shape;
pub mod sharding;
pub mod shardy;
pub mod text;
pub mod trip;
pub mod unstacked;
pub mod verify;
pub mod view;
pub mod work;

pub use alias::{Aliased, alias_entries, aliased, donor_entries};
pub use attention::{AttentionLoop, AttentionNote, AttentionProduct};
pub use attr::{Attr, Key, Value};
pub use axes::LayoutText;
pub use diag::{Diagnostic, Result, Severity, Span, counted};
pub use dtype::DType;
pub use fusion::{FusionKind, Touch};
pub use layout::{Layout, MAX_AXES, Mesh};
pub use module::{CompId, Computation, HeaderAttr, Instr, InstrId, Module, Payload};
pub use nearest::nearest;
pub use opcode::Opcode;
pub use product::{Part, Product};
pub use rule::{Factor, FactorId, FactorKind, Halo, Reducer, Rule, TensorMap};
pub use shape::{ArrayShape, Dims, Shape};
pub use sharding::{Sharding, Tiles, Tiling, TilingKind};
pub use text::{parse, print, print_with};
pub use verify::verify;
pub use view::View;
pub use work::Work;
