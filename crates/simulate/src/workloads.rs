//! Which workload a pod is counted with.

use std::collections::{HashMap, HashSet};

use berth_api::object::Pod;
use berth_api::read::{Inventory, Workload};

/// Namespace, and kind and name such as `Deployment web`.
type Key = (String, String);

/// The workloads of an input.
pub(super) struct Workloads {
    /// Those that are not part of another, in input order.
    pub(super) whole: Vec<Key>,
    /// The workload that another one of the input is part of: of a ReplicaSet its Deployment.
    wholes_of: HashMap<Key, String>,
}

impl Workloads {
    pub(super) fn new(inventory: &Inventory) -> Workloads {
        let mut workloads = Workloads { whole: Vec::new(), wholes_of: HashMap::new() };
        for workload in inventory.workloads.iter().map(|entry| &entry.object) {
            let metadata = workload.metadata();
            let key = (metadata.namespace.clone(), name(workload));
            let owner = metadata.controller();
            match owner.filter(|owner| matches!(owner.kind.as_str(), "Deployment" | "CronJob")) {
                Some(owner) => {
                    workloads.wholes_of.insert(key, format!("{} {}", owner.kind, owner.name));
                }
                None => workloads.whole.push(key),
            }
        }
        workloads
    }

    /// The workload that each of these pods of the input belongs to. A dump may lack the ReplicaSet or Job in
    /// between: its name tells the Deployment, or the CronJob if that is in the input.
    pub(super) fn owners<'a>(&'a self) -> impl Fn(&Pod) -> Option<String> + 'a {
        let known: HashSet<_> = self.whole.iter().collect();
        move |pod| {
            let owner = pod.metadata.controller()?;
            let key = (pod.metadata.namespace.clone(), format!("{} {}", owner.kind, owner.name));
            if let Some(whole) = self.wholes_of.get(&key) {
                return Some(whole.clone());
            }
            if known.contains(&key) {
                return Some(key.1);
            }
            let whole = match owner.kind.as_str() {
                // Called after the hash of its template.
                "ReplicaSet" => pod.metadata.labels.get("pod-template-hash").and_then(|hash| {
                    let deployment = owner.name.strip_suffix(hash.as_str())?.strip_suffix('-')?;
                    Some(format!("Deployment {deployment}"))
                }),
                // Called after the time of the run.
                "Job" => owner.name.rsplit_once('-').and_then(|(cron_job, time)| {
                    let whole = (key.0.clone(), format!("CronJob {cron_job}"));
                    let is_time = !time.is_empty() && time.bytes().all(|b| b.is_ascii_digit());
                    (is_time && known.contains(&whole)).then_some(whole.1)
                }),
                _ => None,
            };
            whole.or(Some(key.1))
        }
    }
}

/// `Deployment web`.
pub(super) fn name(workload: &Workload) -> String {
    format!("{} {}", workload.kind().name(), workload.metadata().name)
}
