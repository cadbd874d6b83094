//! Pods that their nodes rejected. A controller replaces such a pod again and again; only the last attempt counts.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

use berth_api::object::NamespacedName;

use super::observed::{Observed, Stage};
use super::workload::Workload;

/// The rejected pods that stand for the missing pods of their workloads.
#[derive(Default)]
pub struct Rejections {
    pub pods: HashSet<NamespacedName>,
    /// The uids of the controllers all of whose missing pods were rejected, and will be rejected again: their template names the
    /// node, or there was a second attempt.
    pub controllers: HashSet<String>,
}

impl Rejections {
    /// The rejected pods without those that newer ones replaced.
    pub fn new(observed: &Observed, workloads: &[Workload]) -> Rejections {
        let by_uid: HashMap<&str, &Workload> =
            workloads.iter().map(|w| (w.metadata.uid.as_str(), w)).collect();
        let pods = observed.pods();
        let (mut n_active, mut rejected) = (HashMap::<&str, i64>::new(), HashMap::<&str, Vec<_>>::new());
        for pod in &pods {
            let owner = pod.metadata.controller().map_or("", |owner| owner.uid.as_str());
            match observed.stage(pod) {
                Stage::Rejected => rejected.entry(owner).or_default().push(pod),
                Stage::Succeeded | Stage::Failed | Stage::Terminating => {}
                _ => *n_active.entry(owner).or_default() += 1,
            }
        }
        let mut rejections = Rejections::default();
        for (owner, mut pods) in rejected {
            let workload = by_uid.get(owner);
            let wanted = workload.and_then(|workload| workload.n_wanted_pods());
            let n_missing = wanted.map(|wanted| wanted - n_active.get(owner).copied().unwrap_or(0));
            let n_missing = n_missing.map_or(pods.len(), |n| usize::try_from(n).unwrap_or(0));
            let names_node = workload.is_some_and(|w| w.spec.template.spec.node_name.is_some());
            let n_tried = if names_node { n_missing } else { n_missing.saturating_mul(2) };
            if n_missing > 0 && pods.len() >= n_tried {
                rejections.controllers.insert(owner.to_owned());
            }
            pods.sort_by_key(|pod| (Reverse(pod.metadata.creation_timestamp), &pod.metadata.name));
            rejections.pods.extend(pods.iter().take(n_missing).map(|pod| pod.metadata.namespaced_name()));
        }
        rejections
    }
}
