//! The objects of an input by kind.

mod changes;
mod collect;
mod entry;
mod workload;

pub use collect::Inventory;
pub use entry::{Entry, InputError, NOT_AN_OBJECT};
pub use workload::{Workload, WorkloadSpec};

#[cfg(test)]
pub(crate) mod tests;
