//! Checks of a run, on the history of the API server's objects. They share no code with the components: rules are judged by the
//! checks of `berth_testkit`.

pub mod console;
pub mod devices;
pub mod evictions;
pub mod groups;
pub mod moves;
pub mod quotas;
pub mod settled;
#[cfg(test)]
mod tests;

use std::time::Duration;

use berth_input::config::Profile;
use berth_testkit::check::bindings::{self, Attempt, Schedulers};
use berth_testkit::check::history::{self, Changes, Step};

use crate::devices::{BINDING_TIMEOUT, EXTENDED_RESOURCE};
use crate::platform;

/// How far a watch may lag: a stalled one is noticed after 90 s.
const LAG: Duration = Duration::from_secs(150);

/// The profile of the schedulers. The timeout concerns devices alone.
pub fn profile() -> Profile {
    let mut profile = Profile::default();
    profile.dynamic_resources.binding_timeout = BINDING_TIMEOUT;
    profile
}

pub fn steps(changes: &Changes) -> Vec<Step> {
    history::steps(changes, platform::wall_clock(Duration::ZERO))
}

/// The number of bindings, and those that no known state allowed.
pub fn check_bindings(steps: &[Step], attempts: &[Attempt]) -> (usize, Vec<String>) {
    let device_resource = Some(EXTENDED_RESOURCE);
    bindings::check(steps, &Schedulers { profile: profile(), attempts, lag: LAG, device_resource })
}
