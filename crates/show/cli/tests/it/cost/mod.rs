//! What commands and pages cost grows with the size of their input, and not with its square.
//!
//! Measured is the processor time of whole processes at two sizes of each dimension. Other load on the machine changes it little, other
//! than wall time, and a test fails only if it is far from what `n log n` allows, twice. Of the dimensions, every fifth is measured;
//! `BERTH_COSTS=1` measures all, and prints the figures.

#![cfg(target_os = "linux")]

mod attacks;
mod commands;
mod pages;
mod requests;
mod scenes;
mod scheduling;

use std::time::Duration;

use scenes::{DIMENSIONS, Dimension};

/// The larger size of a dimension, in units of the smaller one.
const FACTOR: usize = 8;
/// How much more the larger size may cost, and be less than `n log n` and noise.
const MOST: u32 = 16;
/// Less than this is noise.
const NOISE: Duration = Duration::from_millis(40);
/// The most that anything may cost at these sizes.
const LIMIT: Duration = Duration::from_secs(10);

/// The processor time for the sizes 1, `n` and `FACTOR * n`; `None` if it is beyond the limit.
type Costs = [Option<Duration>; 3];

/// Whether the costs beyond those of the size 1 grow no more than `n log n`.
fn is_even([one, small, large]: Costs) -> bool {
    let (Some(one), Some(small), Some(large)) = (one, small, large) else { return false };
    large.saturating_sub(one) <= small.saturating_sub(one).max(NOISE) * MOST
}

fn wants_all() -> bool {
    std::env::var_os("BERTH_COSTS").is_some()
}

/// The dimensions that are measured.
fn dimensions() -> impl Iterator<Item = &'static Dimension> {
    DIMENSIONS.iter().step_by(if wants_all() { 1 } else { 5 })
}

/// Says what was measured, if wanted.
fn report(what: &str, dimension: &str, costs: Costs) -> String {
    let line = format!("{what}: {dimension}: {costs:?}");
    if wants_all() {
        println!("{line}");
    }
    line
}
