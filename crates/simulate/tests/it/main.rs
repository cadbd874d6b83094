//! The tests of the crate in one binary.

mod groups;
mod hints;
mod repairs;
mod simulation;
