//! The commands: each parses its arguments and wires the parts together.

pub mod completions;
pub mod explain;
pub mod replay;
pub mod simulate;
