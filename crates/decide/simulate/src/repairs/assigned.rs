//! Pods that are assigned while changes are tried, with the devices that they take.

use berth_api::journal::AssumedDevices;
use berth_api::object::Pod;
use berth_engine::{Outcome, PreparedPod};

use super::trial::Trial;

/// A pod on a node, with what was assumed about its claims.
pub(super) struct Assigned {
    pod: PreparedPod,
    devices: Option<AssumedDevices>,
}

impl Trial<'_> {
    /// Whether a pod takes devices: then the scheduler has to say which.
    pub(super) fn may_need_devices(&self, pod: &Pod) -> bool {
        self.devices.may_be_for(pod)
    }

    /// Assigns a pod to a node. `decided` says which devices it takes there.
    pub(super) fn assign(&mut self, pod: &PreparedPod, node: &str, decided: Option<&Outcome>) -> Assigned {
        let decision = match decided {
            Some(Outcome::Placed { devices, .. }) => devices.as_ref(),
            _ => None,
        };
        let devices = decision.map(|decision| pod.assumed_devices(decision, false));
        self.cluster.assume(pod, node);
        devices.iter().for_each(|devices| self.cluster.assume_devices(devices));
        Assigned { pod: pod.clone(), devices }
    }

    /// Takes that back.
    pub(super) fn unassign(&mut self, Assigned { pod, devices }: Assigned) {
        self.cluster.forget(&pod);
        devices.iter().for_each(|devices| self.cluster.restore_devices(devices));
    }
}
