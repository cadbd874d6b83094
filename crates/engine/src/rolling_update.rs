//! Rolling updates that wait for themselves: a new pod is kept out by the old pods that are to make way for it.
//!
//! It is told from labels: pods of one workload have the same, but for those that tell revisions and single pods
//! apart.

use crate::explain::{ExcludedNodes, Explanation};
use crate::state::cluster::Cluster;
use crate::state::incoming::PreparedPod;
use crate::state::intern::{Labels, Symbol};
use crate::verdict::Witness;

use berth_api::config::Plugin;

/// The label by which a Deployment tells its revisions apart.
const REVISION: &str = "pod-template-hash";

impl Cluster {
    /// What to say of a pod that goes nowhere, if on some nodes nothing but pods of earlier (or later) revisions of its
    /// own Deployment is in the way.
    pub(crate) fn waits_for_own_update(
        &self,
        pod: &PreparedPod,
        explanation: &Explanation,
    ) -> Option<String> {
        let revision = self.symbols.get(REVISION)?;
        pod.labels.get(revision)?;
        let is_other_revision = |witness: &Witness| self.is_other_revision(pod, revision, witness);
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
        let own = own.filter(|v| v.counts.contains_key("matching")).find_map(|v| v.term.as_deref());
        let theirs = blocked.iter().flat_map(|group| &group.verdicts);
        let theirs = theirs.into_iter().any(|v| v.counts.contains_key("carriers"));
        let nodes = match n_nodes {
            0 => return None,
            1 => "on 1 node".to_owned(),
            n => format!("on {n} nodes"),
        };
        let keys = match own {
            Some(term) if theirs => format!(
                "; matchLabelKeys: [{REVISION}] in {term} keeps later updates from it (the old pods' own terms stand in \
                 the way of this one)"
            ),
            Some(term) => format!("; or put matchLabelKeys: [{REVISION}] in {term}"),
            None => String::new(),
        };
        Some(format!(
            "a rolling update waits for itself: {nodes} nothing is in the way but pods of the same workload with another \
             {REVISION}. Let one of them end first (maxUnavailable: 1 or more), or add a node{keys}"
        ))
    }

    fn is_other_revision(&self, pod: &PreparedPod, revision: Symbol, witness: &Witness) -> bool {
        let namespace = self.symbols.get(&witness.namespace);
        let other = namespace.and_then(|namespace| self.pods.find(namespace, &witness.name));
        let Some(other) = other.map(|id| self.pods.get(id)) else { return false };
        let without = |labels: &Labels| labels.restricted(|key| key != revision);
        other.namespace == pod.namespace
            && other.labels.get(revision).is_some()
            && other.labels.get(revision) != pod.labels.get(revision)
            && without(&other.labels) == without(&pod.labels)
    }
}
