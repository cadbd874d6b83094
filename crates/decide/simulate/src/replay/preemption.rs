//! The comparison of preemption: candidates, the nominated node with its victims, and the next attempt of the pod.

use std::collections::BTreeMap;

use berth_api::object::NamespacedName;
use berth_engine::{Cluster, DisruptionBudget, NodeEvaluation, Preemption, PreparedPod, Victims};
use berth_input::recording::{RecordedPreemption, RecordedVictims};

use super::comparison::{Comparison, rejected};

impl Comparison<'_> {
    /// Compares the preemption for an unschedulable pod, and then removes the recorded victims and nominations.
    pub(super) fn preemption(
        &mut self,
        cluster: &mut Cluster,
        pod: &PreparedPod,
        budgets: &[DisruptionBudget],
        recorded: &RecordedPreemption,
    ) {
        let preemption = cluster.preempt(pod, budgets);
        let candidates = cluster.preemption_candidates(pod, budgets);
        let candidates: BTreeMap<_, _> = candidates
            .iter()
            .map(|v| (v.node.clone(), RecordedVictims { node: String::new(), ..of(v) }))
            .collect();
        for node in recorded
            .candidates
            .keys()
            .chain(candidates.keys().filter(|n| !recorded.candidates.contains_key(*n)))
        {
            let (expected, got) = (recorded.candidates.get(node), candidates.get(node));
            if expected != got {
                self.differ(Some(node), "preemption.candidates", format!("{expected:?}"), format!("{got:?}"));
            }
        }
        match (&recorded.node, &preemption) {
            (Some(node), Preemption::Victims(victims)) => {
                let (got, first) =
                    (of(victims), RecordedVictims { node: node.clone(), ..RecordedVictims::default() });
                let recorded_victims = RecordedVictims {
                    victims: recorded.victims.clone(),
                    pdb_violations: recorded.candidates.get(node).map_or(0, |c| c.pdb_violations),
                    ..first
                };
                if !recorded.acceptable.contains(&got) {
                    self.same("preemption", &recorded_victims, &got);
                }
                if got.node == *node {
                    let cleared = names(&victims.nominations);
                    self.same("preemption.clearedNominations", &recorded.cleared_nominations, &cleared);
                }
            }
            (None, Preemption::Victims(victims)) => {
                self.differ(None, "preemption.node", "no node".to_owned(), victims.node.clone());
            }
            (Some(node), other) => {
                self.differ(None, "preemption.node", node.clone(), other.message().unwrap_or_default());
            }
            (None, other) => {
                let message = other.message();
                // `PostFilter` rejects a pod with this code in every case.
                self.same(
                    "preemption.code",
                    &recorded.code.as_deref(),
                    &message.as_ref().map(|_| "Unschedulable"),
                );
                self.same("preemption.message", &recorded.message, &message);
            }
        }
        let Some(node) = &recorded.node else { return };
        let split = |key: &String| {
            key.split_once('/').map(|(namespace, name)| (namespace.to_owned(), name.to_owned()))
        };
        for (namespace, name) in recorded.victims.iter().filter_map(split) {
            cluster.remove_pod(&namespace, &name);
        }
        for (namespace, name) in recorded.cleared_nominations.iter().filter_map(split) {
            cluster.clear_nomination(&namespace, &name);
        }
        let rejection = match cluster.evaluate(pod).nodes.get(node) {
            Some(NodeEvaluation::Rejected(rejection)) => Some(rejected(rejection)),
            _ => None,
        };
        self.same("preemption.retry", &recorded.retry, &rejection);
    }
}

pub(super) fn names(pods: &[NamespacedName]) -> Vec<String> {
    pods.iter().map(ToString::to_string).collect()
}

fn of(victims: &Victims) -> RecordedVictims {
    RecordedVictims {
        node: victims.node.clone(),
        victims: names(&victims.victims),
        pdb_violations: victims.n_pdb_violations,
    }
}
