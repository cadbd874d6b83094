//! Rolling updates that block themselves: a new pod is unschedulable because of the old pods that it is to replace.
//!
//! Labels show it: pods of one workload have equal labels, except for the label of their revision.

use std::collections::HashSet;

use berth_api::object::{NamespacedName, Pod, TOPOLOGY_LABELS};
use berth_control::expand::POD_TEMPLATE_HASH as REVISION;
use berth_engine::{Counts, ExcludedNodes, Explanation, Verdict, Witness};
use berth_input::config::Plugin;

use crate::simulation::Simulation;

/// The hint for an unschedulable pod, if on some nodes only pods of other revisions of its own Deployment block it.
/// `pods` are all pods of the cluster.
pub(crate) fn blocked_by_own_update<'a>(
    explanation: &Explanation,
    pod: &Pod,
    pods: impl Iterator<Item = &'a Pod>,
) -> Option<String> {
    let metadata = &pod.metadata;
    let other_revisions: HashSet<&str> =
        other_revisions(pod, pods).map(|p| p.metadata.name.as_str()).collect();
    let is_other_revision = |witness: &Witness| {
        witness.namespace == metadata.namespace && other_revisions.contains(witness.name.as_str())
    };
    let blocked = explanation.excluded.iter().filter(|group| {
        let mut terms = group.verdicts.iter().map(|verdict| {
            let summary = explanation.terms.iter().find(|t| {
                (t.plugin, &t.detail) == (verdict.plugin, &verdict.detail)
                    && Some(&t.term) == verdict.term.as_ref()
            });
            let witnesses = || summary.into_iter().flat_map(|t| &t.domains).flat_map(|d| &d.witnesses);
            verdict.plugin == Plugin::InterPodAffinity
                && witnesses().next().is_some()
                && witnesses().all(is_other_revision)
        });
        terms.all(|by_own_update| by_own_update)
    });
    let blocked: Vec<&ExcludedNodes> = blocked.collect();
    let n_nodes: usize = blocked.iter().map(|group| group.nodes.len()).sum();
    let own = blocked.iter().flat_map(|group| &group.verdicts);
    let is_own = |v: &&Verdict| matches!(v.counts, Some(Counts::AntiAffinity { .. }));
    let own = own.filter(is_own).find_map(|v| v.term.as_deref());
    let theirs = blocked.iter().flat_map(|group| &group.verdicts);
    let theirs = theirs.into_iter().any(|v| {
        v.is_mutual
            || matches!(v.counts, Some(Counts::ExistingAntiAffinity { .. } | Counts::ExistingLimit { .. }))
    });
    let nodes = match n_nodes {
        0 => return None,
        1 => "on 1 node".to_owned(),
        n => format!("on {n} nodes"),
    };
    let keys = match own {
        Some(term) if theirs => format!(
            "; matchLabelKeys: [{REVISION}] in {term} keeps later updates from blocking themselves (the terms of the \
             old pods still exclude this one)"
        ),
        Some(term) => format!("; or add matchLabelKeys: [{REVISION}] to {term}"),
        None => String::new(),
    };
    Some(format!(
        "the rolling update blocks itself: {nodes} only pods of the same workload with another {REVISION} exclude this \
         pod. Let one of them stop first (maxUnavailable: 1 or more), or add a node{keys}"
    ))
}

/// The pods of other revisions of a pod's Deployment.
fn other_revisions<'p, 'a: 'p>(
    pod: &'p Pod,
    pods: impl Iterator<Item = &'a Pod> + 'p,
) -> impl Iterator<Item = &'a Pod> + 'p {
    let revision = pod.metadata.labels.get(REVISION);
    pods.filter(move |other| {
        other.metadata.namespace == pod.metadata.namespace
            && revision.is_some()
            && other.metadata.labels.get(REVISION).is_some_and(|other| Some(other) != revision)
            && labels_of_workload(other).eq(labels_of_workload(pod))
    })
}

/// Old pods that are tried; those of one workload are alike.
const MAX_TRIED: usize = 100;

impl Simulation {
    /// For an unschedulable pod of a new revision: a pod of another revision of its Deployment that leaves enough room
    /// for it when it stops.
    pub fn rollout_blocker(&mut self, namespace: &str, name: &str) -> Option<NamespacedName> {
        let pod = self.pod(namespace, name).filter(|pod| pod.node().is_none())?.pod.clone();
        let running: Vec<Pod> = {
            let running = self.pods().iter().filter(|pod| pod.was_running && pod.node().is_some());
            other_revisions(&pod, running.map(|pod| &pod.pod)).take(MAX_TRIED).cloned().collect()
        };
        let prepared = self.cluster.prepare(&pod);
        let makes_room = |old: &&Pod| self.fits_without(&prepared, old);
        running.iter().find(makes_room).map(|old| old.metadata.namespaced_name())
    }
}

/// The labels without those of the revision and of the node.
fn labels_of_workload(pod: &Pod) -> impl Iterator<Item = (&String, &String)> {
    let is_own = |key: &str| key == REVISION || TOPOLOGY_LABELS.contains(&key);
    pod.metadata.labels.iter().filter(move |(key, _)| !is_own(key))
}
