//! What every pass asks of a program: its graph, attentions, batch dimensions, classes of dimensions,
//! blocks, phases, repeated layers.

pub mod attention;
pub mod batch;
pub mod block_list;
pub mod block_notes;
pub mod blocks;
pub mod classes;
pub mod graph;
pub mod linear;
pub mod merged;
pub mod phase;
pub mod repeats;
pub mod roles;
pub mod segments;
pub mod siblings;
