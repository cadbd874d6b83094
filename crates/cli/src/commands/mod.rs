//! The commands: each parses its arguments and wires the parts together.

pub mod bench;
mod cluster_args;
pub mod completions;
pub mod explain;
pub mod replay;
mod rules_args;
pub mod simulate;
