//! The pods and workloads of the input by their owners.

use std::collections::{HashMap, HashSet};

use berth_api::object::{ObjectMeta, OwnerReference, Pod};
use berth_api::read::Kind;
use berth_input::inventory::{Entry, Inventory, Workload};

use crate::cron_job;

/// Owner: kind, namespace and name.
type Key<'a> = (Kind, &'a str, &'a str);

/// An index over the owner references of the input.
pub(super) struct Ownership<'a> {
    pods: HashMap<Key<'a>, Vec<&'a Pod>>,
    workloads: HashMap<Key<'a>, Vec<&'a Entry<Workload>>>,
    /// Pods of a Deployment whose ReplicaSet is not in the input.
    pods_of_absent_replica_sets: HashMap<(&'a str, &'a str), Vec<&'a Pod>>,
    /// Names in use: namespace and name.
    names: HashSet<(&'a str, &'a str)>,
    /// Workloads of the input with their uids.
    uids: HashMap<Key<'a>, &'a str>,
}

impl<'a> Ownership<'a> {
    pub(super) fn new(inventory: &'a Inventory) -> Self {
        let mut index = Ownership {
            pods: HashMap::new(),
            workloads: HashMap::new(),
            pods_of_absent_replica_sets: HashMap::new(),
            names: HashSet::new(),
            uids: HashMap::new(),
        };
        for entry in &inventory.workloads {
            let metadata = entry.object.metadata();
            let key = (entry.object.kind(), metadata.namespace.as_str(), metadata.name.as_str());
            index.uids.insert(key, &metadata.uid);
            if let Some(key) = owner_key(metadata) {
                index.workloads.entry(key).or_default().push(entry);
            }
        }
        for entry in &inventory.pods {
            let pod = &entry.object;
            index.names.insert((&pod.metadata.namespace, &pod.metadata.name));
            let Some(key) = owner_key(&pod.metadata) else { continue };
            index.pods.entry(key).or_default().push(pod);
            if let (false, Some(deployment)) = (index.uids.contains_key(&key), pod.deployment()) {
                let owner = (pod.metadata.namespace.as_str(), deployment);
                index.pods_of_absent_replica_sets.entry(owner).or_default().push(pod);
            }
        }
        index
    }

    pub(super) fn pods_of(&self, kind: Kind, metadata: &'a ObjectMeta) -> Vec<&'a Pod> {
        let pods = self.pods.get(&(kind, metadata.namespace.as_str(), metadata.name.as_str()));
        let is_owned = |pod: &&&Pod| owner_is(&pod.metadata, &metadata.uid);
        pods.into_iter().flatten().filter(is_owned).copied().collect()
    }

    /// The pods of a Deployment whose ReplicaSet is not in the input.
    pub(super) fn pods_of_absent_replica_sets(&self, deployment: &'a ObjectMeta) -> &[&'a Pod] {
        let key = (deployment.namespace.as_str(), deployment.name.as_str());
        self.pods_of_absent_replica_sets.get(&key).map_or(&[], Vec::as_slice)
    }

    /// The workloads that a workload controls: ReplicaSets of a Deployment, Jobs of a CronJob.
    pub(super) fn workloads_of(&self, kind: Kind, metadata: &'a ObjectMeta) -> Vec<&'a Entry<Workload>> {
        let workloads = self.workloads.get(&(kind, metadata.namespace.as_str(), metadata.name.as_str()));
        let is_owned = |entry: &&&Entry<Workload>| owner_is(entry.object.metadata(), &metadata.uid);
        workloads.into_iter().flatten().filter(is_owned).copied().collect()
    }

    /// Whether the workload that controls this one is in the input.
    pub(super) fn has_owner_of(&self, metadata: &ObjectMeta) -> bool {
        owner_key(metadata)
            .and_then(|key| self.uids.get(&key))
            .is_some_and(|owner_uid| owner_is(metadata, owner_uid))
    }

    /// Whether a pod belongs to a run of the CronJob whose Job is not in the input.
    pub(super) fn has_pods_of_absent_jobs(&self, cron_job: &ObjectMeta) -> bool {
        self.pods.keys().any(|(kind, namespace, job)| {
            *kind == Kind::Job
                && *namespace == cron_job.namespace
                && cron_job::of_job(job) == Some(&cron_job.name)
        })
    }

    /// Whether a pod of the input has this name.
    pub(super) fn is_taken(&self, namespace: &str, name: &str) -> bool {
        self.names.contains(&(namespace, name))
    }
}

/// Whether a controller counts this pod: it has not ended and is not being deleted.
pub(super) fn is_active(pod: &Pod) -> bool {
    !pod.is_terminal() && pod.metadata.deletion_timestamp.is_none()
}

fn owner_key(metadata: &ObjectMeta) -> Option<Key<'_>> {
    let OwnerReference { api_version, kind, name, .. } = metadata.controller()?;
    Some((Kind::of(api_version, kind)?, &metadata.namespace, name))
}

/// Compares uids if both are known, otherwise names: manifests have no uid.
fn owner_is(metadata: &ObjectMeta, owner_uid: &str) -> bool {
    metadata
        .controller()
        .is_some_and(|owner| owner.uid.is_empty() || owner_uid.is_empty() || owner.uid == owner_uid)
}
