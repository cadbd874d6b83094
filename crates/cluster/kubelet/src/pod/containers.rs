//! The statuses of a pod's containers.

use std::collections::BTreeMap;

use berth_api::object::{ResourceList, ResourceRequirements};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    self as core, ContainerState, ContainerStateRunning, ContainerStateTerminated, ContainerStateWaiting,
    ContainerStatus,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::lifecycle::PodLifecycle;
use super::plan::ContainerPlan;
use super::stage::{CompletedRun, InitRun, Stage};

impl PodLifecycle {
    pub(super) fn container_statuses(&self, uid: &str) -> Vec<ContainerStatus> {
        let containers = self.plan.containers.iter().enumerate();
        containers.map(|(i, container)| self.container_status(i, container, uid)).collect()
    }

    fn container_status(&self, i: usize, container: &ContainerPlan, uid: &str) -> ContainerStatus {
        let id = |restarts| container_id(uid, container, restarts);
        let runs = self.runs();
        let state = match (&self.stage, &self.last_end) {
            _ if runs => running(self.run_began),
            (Stage::Ended(_), Some(ending)) => terminated(ending, id(self.restarts)),
            (Stage::BackOff, _) => {
                let wait = self.plan.backoff(self.n_crashes);
                let message = format!("back-off {wait:?} restarting failed container={}", container.name);
                waiting("CrashLoopBackOff", Some(message))
            }
            _ if self.plan.init_containers.is_empty() => waiting("ContainerCreating", None),
            _ => waiting("PodInitializing", None),
        };
        // The run before the one in `state`.
        let last_state = match (&self.stage, &self.last_end) {
            (Stage::Ended(_), _) | (_, None) => ContainerState::default(),
            (Stage::BackOff, Some(ending)) => terminated(ending, id(self.restarts)),
            (_, Some(ending)) => terminated(ending, id(self.restarts.saturating_sub(1))),
        };
        let began = self.run_began.is_some();
        ContainerStatus {
            name: container.name.clone(),
            image: container.image.clone(),
            image_id: if began { container.image.clone() } else { String::new() },
            container_id: began.then(|| id(self.restarts)),
            ready: self.containers_ready(),
            restart_count: i32::try_from(self.restarts).unwrap_or(i32::MAX),
            started: Some(runs),
            state: Some(state),
            last_state: Some(last_state),
            ..with_resources(container, self.in_force(i, &container.resources))
        }
    }

    /// Whether the containers run, including while they stop.
    fn runs(&self) -> bool {
        match self.stage {
            Stage::Started | Stage::Ready => true,
            Stage::Stopping { .. } => self.run_began.is_some(),
            _ => false,
        }
    }

    pub(super) fn init_container_statuses(&self, uid: &str) -> Vec<ContainerStatus> {
        let containers = self.plan.init_containers.iter().enumerate();
        containers
            .map(|(i, container)| {
                let in_force = self.in_force(self.plan.containers.len() + i, &container.resources);
                ContainerStatus {
                    resources: resources(in_force),
                    ..init_container_status(container, self.init_runs.get(i), uid)
                }
            })
            .collect()
    }
}

fn init_container_status(container: &ContainerPlan, run: Option<&InitRun>, uid: &str) -> ContainerStatus {
    let id = container_id(uid, container, 0);
    let state = match run {
        None => waiting("PodInitializing", None),
        Some(InitRun { began, ended: None }) => running(Some(*began)),
        Some(InitRun { began, ended: Some(ended) }) => {
            terminated(&CompletedRun { exit_code: 0, began: *began, ended: *ended }, id.clone())
        }
    };
    ContainerStatus {
        name: container.name.clone(),
        image: container.image.clone(),
        image_id: run.map(|_| container.image.clone()).unwrap_or_default(),
        container_id: run.map(|_| id),
        // An init container is ready when it has ended, a sidecar while it runs.
        ready: run.is_some_and(|run| run.ended.is_some() != container.is_sidecar),
        restart_count: 0,
        started: Some(run.is_some_and(|run| run.ended.is_none())),
        state: Some(state),
        last_state: Some(ContainerState::default()),
        ..with_resources(container, &container.resources)
    }
}

/// A status with the allocated requests, and with the requests and limits in force.
fn with_resources(container: &ContainerPlan, in_force: &ResourceRequirements) -> ContainerStatus {
    let requests = &container.resources.requests;
    ContainerStatus {
        allocated_resources: (!requests.is_empty()).then(|| quantities(requests)),
        resources: resources(in_force),
        ..ContainerStatus::default()
    }
}

fn resources(resources: &ResourceRequirements) -> Option<core::ResourceRequirements> {
    let list = |list: &ResourceList| (!list.is_empty()).then(|| quantities(list));
    let (requests, limits) = (list(&resources.requests), list(&resources.limits));
    let any = requests.is_some() || limits.is_some();
    any.then(|| core::ResourceRequirements { requests, limits, ..core::ResourceRequirements::default() })
}

fn quantities(list: &ResourceList) -> BTreeMap<String, Quantity> {
    list.iter().map(|(name, amount)| (name.clone(), Quantity(amount.to_string()))).collect()
}

/// Unique for each run of each container, and stable over restarts of the agent.
fn container_id(uid: &str, container: &ContainerPlan, restarts: u32) -> String {
    format!("berth://{uid}/{}/{restarts}", container.name)
}

fn waiting(reason: &str, message: Option<String>) -> ContainerState {
    let waiting = ContainerStateWaiting { reason: Some(reason.to_owned()), message };
    ContainerState { waiting: Some(waiting), ..ContainerState::default() }
}

fn running(began: Option<Timestamp>) -> ContainerState {
    let running = ContainerStateRunning { started_at: began.map(Time) };
    ContainerState { running: Some(running), ..ContainerState::default() }
}

fn terminated(ending: &CompletedRun, container_id: String) -> ContainerState {
    let terminated = ContainerStateTerminated {
        container_id: Some(container_id),
        exit_code: ending.exit_code,
        reason: Some(if ending.exit_code == 0 { "Completed" } else { "Error" }.to_owned()),
        started_at: Some(Time(ending.began)),
        finished_at: Some(Time(ending.ended)),
        ..ContainerStateTerminated::default()
    };
    ContainerState { terminated: Some(terminated), ..ContainerState::default() }
}
