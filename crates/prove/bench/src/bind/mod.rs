//! What a benchmark of bindings observes.

mod order;
mod rates;

pub use order::decidable;
pub use rates::{PartTime, Rates, Sample, n_bound};
