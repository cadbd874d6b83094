//! The tests of the crate in one binary.

mod cases;
mod descheduler;
mod naive;
mod properties;
mod room;
mod worlds;
