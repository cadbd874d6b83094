//! What a pod will do on its node: timings and exit codes, fixed when the node accepts the pod.

use std::time::Duration;

use berth_api::object::ResourceRequirements;

use super::annotation::{PodBehavior, RunFor};
use super::view::{PodView, RestartPolicy};
use crate::options::PodTimings;

/// Exit code of a container that ends on SIGTERM because it does not handle it.
const SIGTERM_EXIT: i32 = 143;
/// Exit code of a container that was killed.
const SIGKILL_EXIT: i32 = 137;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Plan {
    pub(crate) init_containers: Vec<ContainerPlan>,
    pub(crate) containers: Vec<ContainerPlan>,
    pub(crate) restart_policy: RestartPolicy,
    pub(crate) start_after: Duration,
    pub(crate) ready_after: Duration,
    pub(crate) init_run_for: Duration,
    /// None for containers that do not end.
    pub(crate) run_for: Option<Duration>,
    /// Exit codes of successive runs; the last one repeats. Never empty.
    exit_codes: Vec<i32>,
    stop_after: Duration,
    pub(crate) active_deadline: Option<Duration>,
    restart_backoff: Duration,
    max_restart_backoff: Duration,
    /// Whether the last status is written although the agent is about to remove the pod: a Job controller counts ended
    /// pods, or finalizers keep the pod.
    pub(crate) reports_end: bool,
    pub(crate) host_network: bool,
    pub(crate) generation: Option<i64>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ContainerPlan {
    pub(crate) name: String,
    pub(crate) image: String,
    pub(crate) is_sidecar: bool,
    /// The resources that the node has allocated.
    pub(crate) resources: ResourceRequirements,
}

impl Plan {
    /// `draw` returns random numbers from 0 to 1, for the jitter.
    pub(crate) fn new(
        pod: &PodView,
        timings: &PodTimings,
        behavior: &PodBehavior,
        draw: &mut dyn FnMut() -> f64,
    ) -> Plan {
        let mut jittered = |duration: Duration| match timings.jitter.clamp(0.0, 1.0) {
            0.0 => duration,
            jitter => duration.mul_f64(1.0 + jitter * (2.0 * draw() - 1.0)),
        };
        let spec = &pod.spec;
        let plan = |c: &berth_api::object::Container| ContainerPlan {
            name: c.name.clone(),
            image: c.image.clone(),
            is_sidecar: c.is_sidecar(),
            resources: c.resources.clone(),
        };
        let ends = spec.restart_policy != RestartPolicy::Always;
        Plan {
            init_containers: spec.init_containers.iter().map(plan).collect(),
            containers: spec.containers.iter().map(plan).collect(),
            restart_policy: spec.restart_policy,
            start_after: behavior.start_after.unwrap_or_else(|| jittered(timings.start_after)),
            ready_after: behavior.ready_after.unwrap_or_else(|| jittered(timings.ready_after)),
            init_run_for: behavior.init_run_for.unwrap_or(timings.init_run_for),
            run_for: match behavior.run_for {
                Some(RunFor::Forever) => None,
                Some(RunFor::For(duration)) => Some(duration),
                // A container with an exit code to report must end.
                None => (ends || !behavior.exit_codes.is_empty()).then_some(timings.run_for),
            },
            exit_codes: if behavior.exit_codes.is_empty() { vec![0] } else { behavior.exit_codes.clone() },
            stop_after: behavior.stop_after.unwrap_or(timings.stop_after),
            active_deadline: spec.active_deadline_seconds.map(|s| Duration::from_secs(s.max(0) as u64)),
            restart_backoff: timings.restart_backoff,
            max_restart_backoff: timings.max_restart_backoff,
            reports_end: ends || !pod.metadata.finalizers.is_empty(),
            host_network: spec.host_network,
            generation: (pod.metadata.generation != 0).then_some(pod.metadata.generation),
        }
    }

    /// Exit code of the run after this number of restarts.
    pub(crate) fn exit_code(&self, restarts: u32) -> i32 {
        let last = self.exit_codes.len() - 1;
        self.exit_codes[last.min(restarts as usize)]
    }

    pub(crate) fn restarts_after(&self, exit_code: i32) -> bool {
        match self.restart_policy {
            RestartPolicy::Always => true,
            RestartPolicy::OnFailure => exit_code != 0,
            RestartPolicy::Never => false,
        }
    }

    /// Wait before the restart of a container that ended `n_crashes` times in quick succession: zero the first time,
    /// then doubling, at least 100 ms.
    pub(crate) fn backoff(&self, n_crashes: u32) -> Duration {
        const SHORTEST: Duration = Duration::from_millis(100);
        match n_crashes {
            0 | 1 => Duration::ZERO,
            n => {
                let doubled = self.restart_backoff.saturating_mul(1 << (n - 2).min(20));
                doubled.min(self.max_restart_backoff).max(SHORTEST)
            }
        }
    }

    /// How long the containers take to stop within this grace period, and their exit code.
    ///
    /// A pod with `restartPolicy: Always` handles SIGTERM and exits with 0. A pod that runs to completion exits with a
    /// failure, so that a Job does not count it as succeeded.
    pub(crate) fn stopping(&self, grace: Duration) -> (Duration, i32) {
        match (self.stop_after <= grace, self.restart_policy) {
            (false, _) => (grace, SIGKILL_EXIT),
            (true, RestartPolicy::Always) => (self.stop_after, 0),
            (true, _) => (self.stop_after, SIGTERM_EXIT),
        }
    }
}
