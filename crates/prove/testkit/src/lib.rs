//! Test support for Berth's other crates.
//!
//! [`naive`] is the reference evaluator of property tests: slow, written directly from the rules, without code of the
//! engine. [`text`] is a small text form for clusters, so that a test case fits in a few lines. [`generate`] creates
//! random sequences of changes to a cluster. [`check`] judges placements, histories of bindings, volumes and devices of clusters that
//! others have decided about.
//! [`programs`] runs built programs and compares their output with golden scripts, [`documents`] reads the documents that
//! describe them.
//!
//! No shipped program uses this crate. [`text`] panics on malformed input, because its input is part of a test.

pub mod check;
pub mod documents;
pub mod generate;
pub mod naive;
pub mod programs;
pub mod text;
