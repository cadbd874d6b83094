//! Test support for Berth's other crates.
//!
//! [`naive`] is the reference evaluator of property tests: slow, written directly from the rules, without code of the
//! engine. [`text`] is a small text form for clusters, so that a test case fits in a few lines. [`generate`] creates
//! random sequences of changes to a cluster. [`history`] verifies the bindings of a scheduler from watch events, [`devices`]
//! the devices that it has allocated.
//! [`programs`] runs built programs and compares their output with golden scripts, [`documents`] reads the documents that
//! describe them.
//!
//! No shipped program uses this crate. [`text`] panics on malformed input, because its input is part of a test.

pub mod devices;
pub mod documents;
pub mod generate;
pub mod history;
pub mod naive;
pub mod programs;
pub mod text;
