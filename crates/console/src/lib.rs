//! Pictures of placement, for reports and pages.
//!
//! A picture is a pure function of a simulation or an answer of the engine: the same state gives the same SVG. Its numbers
//! are those of the reports. This crate does no I/O and has no clock, and does not decide about placement.

pub mod pictures;
