//! The tests of the crate in one binary.

mod hints;
mod simulation;
