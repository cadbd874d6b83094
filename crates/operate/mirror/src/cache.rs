//! Applies events to the engine's state.
//!
//! A [`CacheSync`] keeps a fingerprint of each object in the state. Heartbeats and other changes that placement does not
//! see cost no more than the fingerprint, and of a list after an interruption only the differences are applied.

use std::cell::RefCell;
use std::collections::BTreeMap;

use berth_api::object::device::DeviceKind;
use berth_api::object::group::{
    CompositePodGroup, GroupKey, GroupKind, GroupOwner, GroupWorkload, PodGroup, members_of_job,
    members_of_workload, n_replicas,
};
use berth_api::object::{
    Job, Namespace, NamespacedName, Node, PodDisruptionBudget, ReplicationController, Service, VolumeKind,
    Workload,
};
use berth_client::{KubeObject, StreamEvent};
use berth_engine::{Cluster, GroupDisruption};
use berth_input::journal::GroupClaims;
use berth_rules::{Requirement, Selector};

use crate::change::Change;
use crate::entries::{Entries, Sync};
use crate::fingerprint::{Fingerprint, Fingerprints};
use crate::pod_entries::PodEntries;
use crate::workloads::Workloads;

/// Keeps a [`Cluster`] equal to what the API server reports.
#[derive(Default)]
pub(crate) struct CacheSync {
    pub(crate) fingerprints: Fingerprints,
    pub(crate) nodes: Entries<Fingerprint>,
    pub(crate) pods: PodEntries,
    namespaces: Entries<Fingerprint>,
    services: Entries<Fingerprint>,
    replica_sets: Entries<Fingerprint>,
    stateful_sets: Entries<Fingerprint>,
    replication_controllers: Entries<Fingerprint>,
    jobs: Entries<Fingerprint>,
    budgets: Entries<Fingerprint>,
    pod_groups: BTreeMap<GroupKind, Entries<Fingerprint>>,
    composite_groups: Entries<Fingerprint>,
    workload_entries: Entries<Fingerprint>,
    pub(crate) workloads: Workloads,
    pub(crate) devices: BTreeMap<DeviceKind, Entries<Fingerprint>>,
    pub(crate) volumes: BTreeMap<VolumeKind, Entries<Fingerprint>>,
}

impl CacheSync {
    pub(crate) fn apply_node(
        &mut self,
        cluster: &mut Cluster,
        event: StreamEvent<Node>,
        changes: &mut Vec<Change>,
    ) {
        let fingerprints = &self.fingerprints;
        let cluster = RefCell::new(cluster);
        self.nodes.apply(
            event,
            |node| fingerprints.of_node(node, &cluster.borrow()),
            |sync| match sync {
                Sync::Set(node) => {
                    cluster.borrow_mut().set_node(&node);
                    changes.push(Change::NodeApplied(Box::new(node)));
                }
                Sync::Unset(key) => {
                    cluster.borrow_mut().remove_node(key.name());
                    changes.push(Change::NodeDeleted(key.name().to_owned()));
                }
            },
        );
    }

    pub(crate) fn drop_node(
        &mut self,
        cluster: &mut Cluster,
        key: &NamespacedName,
        changes: &mut Vec<Change>,
    ) {
        self.nodes.remove(key);
        cluster.remove_node(key.name());
        changes.push(Change::NodeDeleted(key.name().to_owned()));
    }

    pub(crate) fn apply_namespace(
        &mut self,
        cluster: &mut Cluster,
        event: StreamEvent<Namespace>,
        changes: &mut Vec<Change>,
    ) {
        let fingerprints = &self.fingerprints;
        let fingerprint = |namespace: &Namespace| fingerprints.of(&namespace.metadata.labels);
        self.namespaces.apply(event, fingerprint, |sync| match sync {
            Sync::Set(namespace) => {
                cluster.set_namespace(&namespace);
                changes.push(Change::NamespaceApplied(Box::new(namespace)));
            }
            Sync::Unset(key) => {
                cluster.remove_namespace(key.name());
                changes.push(Change::NamespaceDeleted(key.name().to_owned()));
            }
        });
    }

    pub(crate) fn apply_service(&mut self, cluster: &mut Cluster, event: StreamEvent<Service>) {
        let fingerprints = &self.fingerprints;
        let fingerprint = |service: &Service| fingerprints.of(&service.spec.selector);
        self.services.apply(event, fingerprint, |sync| match sync {
            Sync::Set(service) => cluster.set_service(&service),
            Sync::Unset(key) => cluster.remove_service(key.namespace(), key.name()),
        });
    }

    pub(crate) fn apply_owner(
        &mut self,
        cluster: &mut Cluster,
        kind: GroupOwner,
        event: StreamEvent<Workload>,
        changes: &mut Vec<Change>,
    ) {
        let fingerprints = &self.fingerprints;
        let n_members = |workload: &Workload| members_of_workload(workload, kind, workload.spec.replicas);
        let fingerprint =
            |workload: &Workload| fingerprints.of(&(&workload.spec.selector, n_members(workload)));
        let entries = match kind {
            GroupOwner::StatefulSet => &mut self.stateful_sets,
            _ => &mut self.replica_sets,
        };
        entries.apply(event, fingerprint, |sync| match sync {
            Sync::Set(workload) => {
                let (namespace, name) = workload.key();
                let selector = Selector::parse(workload.spec.selector.as_ref()).ok();
                cluster.set_owner_selector(kind.name(), namespace, name, selector);
                changes.push(owner_changed(
                    kind,
                    &workload.metadata.namespaced_name(),
                    Some(n_members(&workload)),
                ));
            }
            Sync::Unset(key) => {
                cluster.set_owner_selector(kind.name(), key.namespace(), key.name(), None);
                changes.push(owner_changed(kind, &key, None));
            }
        });
    }

    pub(crate) fn apply_job(&mut self, event: StreamEvent<Job>, changes: &mut Vec<Change>) {
        let fingerprints = &self.fingerprints;
        let fingerprint = |job: &Job| fingerprints.of(&members_of_job(job));
        self.jobs.apply(event, fingerprint, |sync| {
            changes.push(match sync {
                Sync::Set(job) => {
                    let name = job.metadata.namespaced_name();
                    owner_changed(GroupOwner::Job, &name, Some(members_of_job(&job)))
                }
                Sync::Unset(key) => owner_changed(GroupOwner::Job, &key, None),
            });
        });
    }

    pub(crate) fn apply_replication_controller(
        &mut self,
        cluster: &mut Cluster,
        event: StreamEvent<ReplicationController>,
        changes: &mut Vec<Change>,
    ) {
        const KIND: GroupOwner = GroupOwner::ReplicationController;
        let fingerprints = &self.fingerprints;
        let fingerprint = |owner: &ReplicationController| {
            fingerprints.of(&(&owner.spec.selector, n_replicas(owner.spec.replicas)))
        };
        self.replication_controllers.apply(event, fingerprint, |sync| match sync {
            Sync::Set(owner) => {
                let (namespace, name) = owner.key();
                let equal =
                    |(key, value): (&String, &String)| Requirement::In(key.clone(), vec![value.clone()]);
                let selector = Selector::new(owner.spec.selector.iter().map(equal).collect());
                cluster.set_owner_selector(KIND.name(), namespace, name, Some(selector));
                let n_members = n_replicas(owner.spec.replicas);
                changes.push(owner_changed(KIND, &owner.metadata.namespaced_name(), Some(n_members)));
            }
            Sync::Unset(key) => {
                cluster.set_owner_selector(KIND.name(), key.namespace(), key.name(), None);
                changes.push(owner_changed(KIND, &key, None));
            }
        });
    }

    /// Budgets are not part of the engine's state: they are an argument of preemption.
    pub(crate) fn apply_budget(
        &mut self,
        event: StreamEvent<PodDisruptionBudget>,
        changes: &mut Vec<Change>,
    ) {
        let fingerprints = &self.fingerprints;
        // Of a budget everything counts, and it changes with every pod that it covers.
        let fingerprint = |budget: &PodDisruptionBudget| fingerprints.of(&budget.metadata.resource_version);
        self.budgets.apply(event, fingerprint, |sync| {
            changes.push(match sync {
                Sync::Set(budget) => Change::BudgetApplied(Box::new(budget)),
                Sync::Unset(key) => Change::BudgetDeleted(key),
            });
        });
    }

    /// Of pod groups, the engine's state has what matters for running members; the rest is an argument of decisions.
    pub(crate) fn apply_pod_group(
        &mut self,
        cluster: &mut Cluster,
        kind: GroupKind,
        event: StreamEvent<PodGroup>,
        changes: &mut Vec<Change>,
    ) {
        let fingerprints = &self.fingerprints;
        let fingerprint = |group: &PodGroup| fingerprints.of(&group.metadata.resource_version);
        self.pod_groups.entry(kind).or_default().apply(event, fingerprint, |sync| match sync {
            Sync::Set(group) => {
                let key = GroupKey { kind, name: group.metadata.namespaced_name() };
                set_group(cluster, key, Some(group), changes);
            }
            Sync::Unset(name) => set_group(cluster, GroupKey { kind, name }, None, changes),
        });
    }

    /// CompositePodGroups are not part of the engine's state: they are an argument of decisions.
    pub(crate) fn apply_composite_group(
        &mut self,
        event: StreamEvent<CompositePodGroup>,
        changes: &mut Vec<Change>,
    ) {
        let fingerprints = &self.fingerprints;
        let fingerprint = |group: &CompositePodGroup| fingerprints.of(&group.metadata.resource_version);
        self.composite_groups.apply(event, fingerprint, |sync| {
            changes.push(match sync {
                Sync::Set(group) => {
                    Change::CompositePodGroup(group.metadata.namespaced_name(), Some(group.into()))
                }
                Sync::Unset(name) => Change::CompositePodGroup(name, None),
            });
        });
    }

    /// A Workload that names a Deployment or a StatefulSet makes a group of its pods.
    pub(crate) fn apply_workload(
        &mut self,
        cluster: &mut Cluster,
        event: StreamEvent<GroupWorkload>,
        changes: &mut Vec<Change>,
    ) {
        let (fingerprints, workloads) = (&self.fingerprints, &mut self.workloads);
        let fingerprint = |workload: &GroupWorkload| fingerprints.of(&workload.metadata.resource_version);
        self.workload_entries.apply(event, fingerprint, |sync| {
            let (name, group) = match sync {
                Sync::Set(workload) => (workload.metadata.namespaced_name(), workload.into_group()),
                Sync::Unset(name) => (name, None),
            };
            for (key, group) in workloads.set(name, group) {
                set_group(cluster, key, group, changes);
            }
        });
    }
}

/// Sets a group, or removes it.
fn set_group(cluster: &mut Cluster, key: GroupKey, group: Option<PodGroup>, changes: &mut Vec<Change>) {
    if key.kind == GroupKind::Scheduling {
        cluster.set_group_claims(&key.name, group.as_ref().and_then(GroupClaims::of));
    }
    changes.push(match group {
        Some(group) => {
            cluster.set_group(&key, GroupDisruption::from(&group));
            Change::PodGroupApplied(key, group.into())
        }
        None => {
            cluster.remove_group(&key);
            Change::PodGroupDeleted(key)
        }
    });
}

fn owner_changed(kind: GroupOwner, name: &NamespacedName, n_members: Option<usize>) -> Change {
    Change::GroupOwnerChanged(GroupKey::of_owner(kind, name.namespace(), name.name()), n_members)
}
