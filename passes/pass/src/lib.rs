//! What a pass is, how pipelines of passes are written, and how they run.

pub mod alternative;
pub mod explanation;
pub mod handed_on;
pub mod manager;
pub mod pass;
pub mod pipeline;
pub mod pipeline_syntax;
