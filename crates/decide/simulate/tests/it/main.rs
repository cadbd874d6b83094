//! The tests of the crate in one binary.

mod capacity;
mod compare;
mod groups;
mod hints;
mod repairs;
mod sets;
mod simulation;
mod what_if;
mod worlds;
