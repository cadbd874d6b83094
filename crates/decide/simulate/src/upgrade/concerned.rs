//! The objects of a cluster that changes between versions concern.

use std::collections::BTreeSet;

use berth_api::feature_gates::VersionChange;
use berth_api::object::device::{DeviceClaim, DeviceObject, ResourceSlice};
use berth_api::object::group::GroupKind;
use berth_api::object::{LabelSelector, PodGroup, VolumeObject};
use berth_input::inventory::Inventory;
use berth_rules::PodRequests;

use crate::{Pods, SimulatedPod};

/// A cluster.
pub(super) struct Concerned<'a> {
    pub(super) inventory: &'a Inventory,
    pub(super) pods: &'a Pods,
}

impl Concerned<'_> {
    /// The objects that a change concerns; none for one that only changes texts.
    pub(super) fn by_change(&self, change: VersionChange) -> Vec<String> {
        match change {
            VersionChange::SelectorErrorNamesDevice
            | VersionChange::ConfigOfAllRequests
            | VersionChange::TooManyDevicesNamesRequest
            | VersionChange::CapacityInFormatOfStep
            | VersionChange::ScoresOfHugeQuantities
            | VersionChange::GroupAgreementNamesPods => Vec::new(),
            VersionChange::BudgetsAfterViolation => {
                let budgets = self.budgets(|_| true);
                if budgets.len() > 1 { budgets } else { Vec::new() }
            }
            VersionChange::CounterSlicesOfNode => self.slices(|slice| !slice.spec.shared_counters.is_empty()),
            VersionChange::AllWithUsedCapacity | VersionChange::AllWithUnusablePool => self.claims(|claim| {
                claim.requests.iter().any(|request| {
                    request.exactly.as_ref().is_some_and(|exactly| exactly.is_for_all())
                        || request.first_available.iter().any(|alternative| alternative.is_for_all())
                })
            }),
            VersionChange::GatedNomination => self.pods(|pod| {
                !pod.pod.spec.scheduling_gates.is_empty() && !pod.pod.status.nominated_node_name.is_empty()
            }),
            VersionChange::GroupAgreement => self.groups(|_| true),
            VersionChange::BasicGroups => self.groups(|group| {
                group.spec.scheduling_policy.as_ref().is_some_and(|policy| policy.basic.is_some())
            }),
            VersionChange::GroupsPreempt => self.groups(|group| !group.levels().is_empty()),
            VersionChange::EmptySpreadSelector => self.pods(|pod| {
                let mut constraints = pod.pod.spec.topology_spread_constraints.iter();
                constraints.any(|constraint| is_empty(constraint.label_selector.as_ref()))
            }),
            VersionChange::EmptyBudgetSelector => self.budgets(is_empty),
            VersionChange::ExclusiveWithShares => {
                self.slices(|slice| slice.spec.devices.iter().any(|device| device.allow_multiple_allocations))
            }
            VersionChange::VersionsWithoutBuildMetadata => self.claims(|claim| !claim.constraints.is_empty()),
            VersionChange::RequestsOfResizes => self.pods(|pod| PodRequests::depend_on_status(&pod.pod)),
            VersionChange::PodLevelFitScore => self.pods(|pod| pod.pod.spec.resources.is_some()),
            VersionChange::ExactStorageCapacity => self.unbound_claims(),
            VersionChange::QualifiedCapacity => self.claims(|claim| {
                claim.requests.iter().any(|request| {
                    let exactly = request.exactly.iter().flat_map(|exactly| &exactly.capacity);
                    let alternatives = request.first_available.iter().flat_map(|of| &of.capacity);
                    let mut names = exactly.chain(alternatives).flat_map(|capacity| capacity.requests.keys());
                    names.any(|name| name.contains('/'))
                })
            }),
        }
    }

    /// The objects that a feature gate concerns.
    pub(super) fn by_gate(&self, name: &str) -> Vec<String> {
        match name {
            "StorageCapacityScoring" => self.unbound_claims(),
            "VolumeLimitScaling" => self.volumes(|object| match object {
                VolumeObject::CsiDriver(driver) => {
                    driver.spec.prevent_pod_scheduling_if_missing == Some(true)
                }
                _ => false,
            }),
            "DRADeviceTaintRules" => {
                self.devices(|object| matches!(object, DeviceObject::DeviceTaintRule(_)))
            }
            "DRAFractionalCapacityRange" => self.slices(|slice| {
                let mut capacities = slice.spec.devices.iter().flat_map(|device| device.capacity.values());
                capacities.any(|capacity| {
                    capacity.request_policy.as_ref().is_some_and(|policy| policy.valid_range.is_some())
                })
            }),
            "DRAWorkloadResourceClaims" => self.groups(|group| !group.spec.resource_claims.is_empty()),
            "PodGroupPreemptionPolicy" => self.groups(|group| group.spec.preemption_policy.is_some()),
            "CompositePodGroup" => self.groups(|group| group.spec.parent_composite_pod_group_name.is_some()),
            _ => Vec::new(),
        }
    }

    /// Workloads, and pods without one.
    fn pods(&self, is_concerned: impl Fn(&SimulatedPod) -> bool) -> Vec<String> {
        let concerned = self.pods.iter().filter(|pod| is_concerned(pod));
        let name = |pod: &SimulatedPod| match &pod.workload {
            Some(workload) => format!("{workload} of namespace {}", pod.pod.metadata.namespace),
            None => format!("Pod {}", pod.pod.metadata.namespaced_name()),
        };
        concerned.map(name).collect::<BTreeSet<_>>().into_iter().collect()
    }

    fn groups(&self, is_concerned: impl Fn(&PodGroup) -> bool) -> Vec<String> {
        let groups = self.inventory.pod_groups.iter().map(|entry| &entry.object);
        let concerned =
            groups.filter(|group| group.key().kind == GroupKind::Scheduling && is_concerned(group));
        concerned.map(|group| format!("PodGroup {}", group.metadata.namespaced_name())).collect()
    }

    fn budgets(&self, is_concerned: impl Fn(Option<&LabelSelector>) -> bool) -> Vec<String> {
        let budgets = self.inventory.pod_disruption_budgets.iter().map(|entry| &entry.object);
        let concerned = budgets.filter(|budget| is_concerned(budget.spec.selector.as_ref()));
        concerned.map(|budget| format!("PodDisruptionBudget {}", budget.metadata.namespaced_name())).collect()
    }

    fn devices(&self, is_concerned: impl Fn(&DeviceObject) -> bool) -> Vec<String> {
        let concerned = self.inventory.device_objects.iter().filter(|entry| is_concerned(&entry.object));
        let name = |object: &DeviceObject| {
            let name = object.metadata().namespaced_name();
            format!("{} {}", object.kind().resource().kind, name.to_string().trim_start_matches('/'))
        };
        concerned.map(|entry| name(&entry.object)).collect()
    }

    fn slices(&self, is_concerned: impl Fn(&ResourceSlice) -> bool) -> Vec<String> {
        self.devices(|object| matches!(object, DeviceObject::ResourceSlice(slice) if is_concerned(slice)))
    }

    fn claims(&self, is_concerned: impl Fn(&DeviceClaim) -> bool) -> Vec<String> {
        self.devices(|object| match object {
            DeviceObject::ResourceClaim(claim) => is_concerned(&claim.spec.devices),
            DeviceObject::ResourceClaimTemplate(template) => is_concerned(&template.spec.spec.devices),
            _ => false,
        })
    }

    fn volumes(&self, is_concerned: impl Fn(&VolumeObject) -> bool) -> Vec<String> {
        let concerned = self.inventory.volume_objects.iter().filter(|entry| is_concerned(&entry.object));
        let name = |object: &VolumeObject| {
            let name = object.metadata().namespaced_name();
            format!("{} {}", object.kind().resource().kind, name.to_string().trim_start_matches('/'))
        };
        concerned.map(|entry| name(&entry.object)).collect()
    }

    fn unbound_claims(&self) -> Vec<String> {
        self.volumes(|object| match object {
            VolumeObject::PersistentVolumeClaim(claim) => claim.spec.volume_name.is_empty(),
            _ => false,
        })
    }
}

fn is_empty(selector: Option<&LabelSelector>) -> bool {
    selector.is_some_and(|s| s.match_labels.is_empty() && s.match_expressions.is_empty())
}
