//! The status of a pod as its node reports it, in the kubelet's shape.

use std::net::Ipv4Addr;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    ContainerState, ContainerStateRunning, ContainerStateTerminated, ContainerStateWaiting, ContainerStatus, HostIP,
    PodCondition, PodIP, PodStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::life::{End, Ending, Life, Refusal, Stage};
use super::plan::ContainerPlan;

/// Addresses that the status names.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Addresses {
    pub(crate) host: Ipv4Addr,
    /// None for a pod in the node's network.
    pub(crate) pod: Option<Ipv4Addr>,
}

impl Life {
    /// The status as of now. Conditions of others, such as `PodScheduled`, are not in it: it is to be merged.
    pub(crate) fn status(&self, uid: &str, addresses: Addresses) -> PodStatus {
        if let Stage::Ended(End::Rejected(Refusal { reason, message })) = &self.stage {
            return PodStatus {
                phase: Some("Failed".to_owned()),
                reason: Some(reason.clone()),
                message: Some(message.clone()),
                start_time: Some(Time(self.start_time)),
                observed_generation: self.plan.generation,
                ..PodStatus::default()
            };
        }
        let (reason, message) = match self.stage {
            Stage::Ended(End::DeadlineExceeded) => (
                Some("DeadlineExceeded".to_owned()),
                Some("Pod was active on the node longer than the specified deadline".to_owned()),
            ),
            _ => (None, None),
        };
        // An address is given when the containers' network is set up: before the first container starts.
        let has_network = !matches!(self.stage, Stage::Creating);
        let pod_ip = has_network.then(|| addresses.pod.unwrap_or(addresses.host).to_string());
        let host_ip = addresses.host.to_string();
        PodStatus {
            phase: Some(self.phase().to_owned()),
            reason,
            message,
            observed_generation: self.plan.generation,
            conditions: Some(self.conditions()),
            init_container_statuses: (!self.plan.init_containers.is_empty())
                .then(|| self.init_container_statuses(uid)),
            container_statuses: Some(self.container_statuses(uid)),
            host_ips: Some(vec![HostIP { ip: host_ip.clone() }]),
            host_ip: Some(host_ip),
            pod_ips: pod_ip.clone().map(|ip| vec![PodIP { ip }]),
            pod_ip,
            start_time: Some(Time(self.start_time)),
            ..PodStatus::default()
        }
    }

    fn phase(&self) -> &'static str {
        match &self.stage {
            Stage::Creating | Stage::Initializing => "Pending",
            Stage::Stopping { .. } if self.run_began.is_none() => "Pending",
            Stage::Started | Stage::Ready | Stage::BackOff | Stage::Stopping { .. } => "Running",
            Stage::Ended(End::Succeeded) => "Succeeded",
            Stage::Ended(_) => "Failed",
        }
    }

    fn containers_ready(&self) -> bool {
        self.stage == Stage::Ready
    }

    fn conditions(&self) -> Vec<PodCondition> {
        let condition = |type_: &str, is_true: bool, since: Timestamp, why: Option<(&str, String)>| {
            let (reason, message) = why.unzip();
            PodCondition {
                type_: type_.to_owned(),
                status: if is_true { "True" } else { "False" }.to_owned(),
                last_transition_time: Some(Time(since)),
                reason: reason.map(str::to_owned),
                message: message.filter(|m| !m.is_empty()),
                observed_generation: self.plan.generation,
                ..PodCondition::default()
            }
        };
        let ended = match &self.stage {
            Stage::Ended(End::Succeeded) => Some("PodCompleted"),
            Stage::Ended(_) => Some("PodFailed"),
            _ => None,
        };
        let names = |containers: &[ContainerPlan]| {
            containers.iter().map(|c| c.name.as_str()).collect::<Vec<_>>().join(" ")
        };
        let unready = || match ended {
            Some(reason) => (reason, String::new()),
            None => (
                "ContainersNotReady",
                format!("containers with unready status: [{}]", names(&self.plan.containers)),
            ),
        };
        let has_sandbox = !matches!(self.stage, Stage::Creating | Stage::Ended(_));
        let sandbox_since = if has_sandbox { self.start_time } else { self.ready_changed };
        let initialized = self.initialized_at;
        let uninitialized = || {
            let incomplete = self.plan.init_containers.iter().enumerate();
            let incomplete = incomplete.filter(|(i, _)| self.init_runs.get(*i).is_none_or(|r| r.ended.is_none()));
            let incomplete: Vec<_> = incomplete.map(|(_, c)| c.name.as_str()).collect();
            ("ContainersNotInitialized", format!("containers with incomplete status: [{}]", incomplete.join(" ")))
        };
        let why_initialized = match (initialized, ended) {
            (None, None) => Some(uninitialized()),
            (_, Some("PodCompleted")) => Some(("PodCompleted", String::new())),
            (None, Some(reason)) => Some((reason, String::new())),
            _ => None,
        };
        let containers_ready = self.containers_ready();
        let ready = containers_ready && self.passes_readiness_gates;
        let why_unready = match (ready, containers_ready) {
            (true, _) => None,
            (false, true) => {
                Some(("ReadinessGatesNotReady", "the condition of a readiness gate is not true".to_owned()))
            }
            (false, false) => Some(unready()),
        };
        // A pod without init containers counts as initialized as soon as it is accepted.
        let no_init_containers = self.plan.init_containers.is_empty();
        vec![
            condition("PodReadyToStartContainers", has_sandbox, sandbox_since, None),
            condition(
                "Initialized",
                initialized.is_some() || no_init_containers,
                initialized.unwrap_or(self.start_time),
                why_initialized.filter(|_| !no_init_containers || ended.is_some()),
            ),
            condition("Ready", ready, self.ready_changed, why_unready),
            condition("ContainersReady", containers_ready, self.ready_changed, (!containers_ready).then(unready)),
        ]
    }

    fn container_statuses(&self, uid: &str) -> Vec<ContainerStatus> {
        let containers = self.plan.containers.iter();
        containers.map(|container| self.container_status(container, uid)).collect()
    }

    fn container_status(&self, container: &ContainerPlan, uid: &str) -> ContainerStatus {
        let id = |restarts| container_id(uid, container, restarts);
        let terminated = |ending: &Ending, restarts| ContainerState {
            terminated: Some(terminated(ending, id(restarts))),
            ..ContainerState::default()
        };
        let waiting = |reason: &str, message: Option<String>| ContainerState {
            waiting: Some(ContainerStateWaiting { reason: Some(reason.to_owned()), message }),
            ..ContainerState::default()
        };
        let runs = matches!(self.stage, Stage::Started | Stage::Ready)
            || matches!(self.stage, Stage::Stopping { .. }) && self.run_began.is_some();
        let state = match (&self.stage, &self.last_end) {
            _ if runs => ContainerState {
                running: Some(ContainerStateRunning { started_at: self.run_began.map(Time) }),
                ..ContainerState::default()
            },
            (Stage::Ended(_), Some(ending)) => terminated(ending, self.restarts),
            (Stage::BackOff, _) => waiting(
                "CrashLoopBackOff",
                Some(format!(
                    "back-off {:?} restarting failed container={}",
                    self.plan.backoff(self.n_crashes),
                    container.name
                )),
            ),
            _ if self.plan.init_containers.is_empty() => waiting("ContainerCreating", None),
            _ => waiting("PodInitializing", None),
        };
        // The end of the run before the one that `state` tells of.
        let last_state = match (&self.stage, &self.last_end) {
            (Stage::Ended(_), _) | (_, None) => ContainerState::default(),
            (Stage::BackOff, Some(ending)) => terminated(ending, self.restarts),
            (_, Some(ending)) => terminated(ending, self.restarts.saturating_sub(1)),
        };
        let began = self.run_began.is_some();
        ContainerStatus {
            name: container.name.clone(),
            image: container.image.clone(),
            image_id: if began { container.image.clone() } else { String::new() },
            container_id: began.then(|| id(self.restarts)),
            ready: self.containers_ready(),
            restart_count: self.restarts as i32,
            started: Some(runs),
            state: Some(state),
            last_state: Some(last_state),
            ..ContainerStatus::default()
        }
    }

    fn init_container_statuses(&self, uid: &str) -> Vec<ContainerStatus> {
        let status = |(i, container): (usize, &ContainerPlan)| {
            let run = self.init_runs.get(i);
            let id = || container_id(uid, container, 0);
            let state = match run {
                None => ContainerState {
                    waiting: Some(ContainerStateWaiting {
                        reason: Some("PodInitializing".to_owned()),
                        message: None,
                    }),
                    ..ContainerState::default()
                },
                Some(run) => match run.ended {
                    None => ContainerState {
                        running: Some(ContainerStateRunning { started_at: Some(Time(run.began)) }),
                        ..ContainerState::default()
                    },
                    Some(ended) => {
                        let ending = Ending { exit_code: 0, began: run.began, ended };
                        ContainerState {
                            terminated: Some(terminated(&ending, id())),
                            ..ContainerState::default()
                        }
                    }
                },
            };
            let runs = run.is_some_and(|run| run.ended.is_none());
            ContainerStatus {
                name: container.name.clone(),
                image: container.image.clone(),
                image_id: run.map(|_| container.image.clone()).unwrap_or_default(),
                container_id: run.map(|_| id()),
                // An init container is ready when it is done, a sidecar while it runs.
                ready: run.is_some_and(|run| run.ended.is_some() != container.is_sidecar),
                restart_count: 0,
                started: Some(runs),
                state: Some(state),
                last_state: Some(ContainerState::default()),
                ..ContainerStatus::default()
            }
        };
        self.plan.init_containers.iter().enumerate().map(status).collect()
    }
}

/// Unique for each run of each container, and stable over restarts of the node.
fn container_id(uid: &str, container: &ContainerPlan, restarts: u32) -> String {
    format!("berth://{uid}/{}/{restarts}", container.name)
}

fn terminated(ending: &Ending, container_id: String) -> ContainerStateTerminated {
    ContainerStateTerminated {
        container_id: Some(container_id),
        exit_code: ending.exit_code,
        reason: Some(if ending.exit_code == 0 { "Completed" } else { "Error" }.to_owned()),
        started_at: Some(Time(ending.began)),
        finished_at: Some(Time(ending.ended)),
        ..ContainerStateTerminated::default()
    }
}
