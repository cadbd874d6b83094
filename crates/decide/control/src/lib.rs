//! The control plane around a decision, written once: the embedded cluster puts watches and writes around these functions,
//! simulations run them on their own state. Objects in, what to write out; no clock, no I/O.

pub mod budget;
pub mod limits;
pub mod quota;
pub mod taints;
