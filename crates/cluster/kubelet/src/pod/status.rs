//! The status of a pod as its node reports it, in the form that a kubelet writes.

use std::net::Ipv4Addr;

use k8s_openapi::api::core::v1::{HostIP, PodIP, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::lifecycle::PodLifecycle;
use super::rejection::Rejection;
use super::stage::{Outcome, Stage};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Addresses {
    pub(crate) host: Ipv4Addr,
    /// None for a pod in the node's network, and for a pod that has released its address: the API keeps the old value.
    pub(crate) pod: Option<Ipv4Addr>,
}

impl PodLifecycle {
    /// The current status. Write it as a strategic merge: it lacks conditions of other components, such as
    /// `PodScheduled`.
    pub(crate) fn status(&self, uid: &str, addresses: Addresses) -> PodStatus {
        if let Stage::Ended(Outcome::Rejected(Rejection { reason, message })) = &self.stage {
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
            Stage::Ended(Outcome::DeadlineExceeded) => (
                Some("DeadlineExceeded".to_owned()),
                Some("Pod was active on the node longer than the specified deadline".to_owned()),
            ),
            _ => (None, None),
        };
        // The pod gets its address before the first container starts.
        let has_network = !matches!(self.stage, Stage::Creating);
        let pod_ip = if self.plan.host_network { Some(addresses.host) } else { addresses.pod };
        let pod_ip = pod_ip.filter(|_| has_network).map(|ip| ip.to_string());
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
            Stage::Ended(Outcome::Succeeded) => "Succeeded",
            Stage::Ended(_) => "Failed",
        }
    }
}
