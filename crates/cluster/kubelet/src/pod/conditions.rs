//! The conditions that a node reports for a pod.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::PodCondition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::lifecycle::PodLifecycle;
use super::resize::{PendingResize, RESIZE_CONDITIONS};
use super::stage::{Outcome, Stage};

/// The reason and message of a condition that is not true, or of an ended pod.
struct Why {
    reason: &'static str,
    message: Option<String>,
}

impl PodLifecycle {
    pub(super) fn containers_ready(&self) -> bool {
        self.stage == Stage::Ready
    }

    pub(super) fn conditions(&self) -> Vec<PodCondition> {
        let has_sandbox = !matches!(self.stage, Stage::Creating | Stage::Ended(_));
        let sandbox_since = if has_sandbox { self.start_time } else { self.ready_changed };
        // A pod without init containers counts as initialized as soon as it is accepted.
        let initialized = self.plan.init_containers.is_empty() || self.initialized_at.is_some();
        let initialized_since = self.initialized_at.unwrap_or(self.start_time);
        let containers_ready = self.containers_ready();
        let ready = containers_ready && self.passes_readiness_gates;
        let mut conditions = vec![
            self.condition("PodReadyToStartContainers", has_sandbox, sandbox_since, None),
            self.condition(
                "Initialized",
                initialized,
                initialized_since,
                self.why_uninitialized(initialized),
            ),
            self.condition("Ready", ready, self.ready_changed, self.why_unready(ready)),
            self.condition(
                "ContainersReady",
                containers_ready,
                self.ready_changed,
                self.why_containers_unready(containers_ready),
            ),
        ];
        let since = self.resize.changed;
        let [pending, in_progress] = RESIZE_CONDITIONS;
        if let Some(resize) = &self.resize.pending {
            let (reason, message) = match resize {
                PendingResize::Infeasible(message) => ("Infeasible", message),
                PendingResize::Deferred(message) => ("Deferred", message),
            };
            let why = Why { reason, message: Some(message.clone()) };
            conditions.push(self.condition(pending, true, since, Some(why)));
        }
        if self.resize.in_force.is_some() {
            conditions.push(self.condition(in_progress, true, since, None));
        }
        conditions
    }

    fn condition(&self, type_: &str, is_true: bool, since: Timestamp, why: Option<Why>) -> PodCondition {
        let (reason, message) = why.map(|why| (why.reason.to_owned(), why.message)).unzip();
        PodCondition {
            type_: type_.to_owned(),
            status: if is_true { "True" } else { "False" }.to_owned(),
            last_transition_time: Some(Time(since)),
            reason,
            message: message.flatten(),
            observed_generation: self.plan.generation,
            ..PodCondition::default()
        }
    }

    fn has_ended_because(&self) -> Option<Why> {
        let reason = match &self.stage {
            Stage::Ended(Outcome::Succeeded) => "PodCompleted",
            Stage::Ended(_) => "PodFailed",
            _ => return None,
        };
        Some(Why { reason, message: None })
    }

    fn why_uninitialized(&self, initialized: bool) -> Option<Why> {
        let ended = self.has_ended_because();
        if initialized {
            return ended.filter(|why| why.reason == "PodCompleted");
        }
        ended.or_else(|| {
            let containers = self.plan.init_containers.iter().enumerate();
            let is_complete = |i: usize| self.init_runs.get(i).is_some_and(|run| run.ended.is_some());
            let incomplete = containers.filter(|(i, _)| !is_complete(*i)).map(|(_, c)| c.name.as_str());
            let message = format!("containers with incomplete status: {}", bracketed(incomplete));
            Some(Why { reason: "ContainersNotInitialized", message: Some(message) })
        })
    }

    fn why_containers_unready(&self, containers_ready: bool) -> Option<Why> {
        if containers_ready {
            return None;
        }
        self.has_ended_because().or_else(|| {
            let names = self.plan.containers.iter().map(|c| c.name.as_str());
            let message = format!("containers with unready status: {}", bracketed(names));
            Some(Why { reason: "ContainersNotReady", message: Some(message) })
        })
    }

    fn why_unready(&self, ready: bool) -> Option<Why> {
        match (ready, self.containers_ready()) {
            (true, _) => None,
            (false, true) => Some(Why {
                reason: "ReadinessGatesNotReady",
                message: Some("the condition of a readiness gate is not true".to_owned()),
            }),
            (false, false) => self.why_containers_unready(false),
        }
    }
}

fn bracketed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    format!("[{}]", names.collect::<Vec<_>>().join(" "))
}
