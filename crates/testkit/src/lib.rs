//! Test support for Berth's other crates.
//!
//! [`naive`] is the evaluator the engine is held to: slow, written straight from the rules, and sharing
//! no code with the engine. [`text`] is a small text form for clusters, so that a test case fits in a few
//! lines. [`generate`] makes random sequences of changes to a cluster for property tests. [`history`] judges what a
//! scheduler did to a cluster, from what a watch saw of it.
//!
//! Nothing here is part of a shipped program; [`text`] panics on bad input, because its input is a test.

pub mod generate;
pub mod history;
pub mod naive;
pub mod text;
