//! Pairs of changes, where no single kind of change helps: one that removes a reason, and the cheapest of another kind that helps then.
//!
//! First changes are: one relaxed rule; what the rules about a node's own labels, taints and cordon need of one of the nearest nodes;
//! requests as small as one of these nodes has free. The second change is looked for with the first one made.

use berth_api::syntax::annotations::AFFINITY_ANNOTATION;
use berth_engine::Verdict;

use super::change::{Reach, Repair};
use super::node::changed_node;
use super::trial::{Problem, Trial};
use crate::simulation::SimulatedPod;

/// Number of rules of a pod up to which each is relaxed first.
const MAX_RULES: usize = 30;
/// Number of nodes that are changed first, those with the fewest reasons.
const MAX_NODES: usize = 20;

fn cheapest(repair: &Repair) -> (bool, u32, Reach) {
    (repair.blast_radius >= Reach::ToleratedTaint, repair.cost, repair.blast_radius)
}

impl Trial<'_> {
    /// The cheapest pair; of several, the one that reaches least.
    pub(super) fn pair(&mut self, problem: &Problem) -> Option<Repair> {
        let mut nearest: Vec<_> = problem.rejecting.iter().collect();
        nearest.sort_by_key(|(_, verdicts)| verdicts.len());
        nearest.truncate(MAX_NODES);
        let mut found = self.after_relaxing(problem);
        for (node, verdicts) in nearest {
            found.extend(self.after_changing(problem, node));
            found.extend(self.after_requesting_less(problem, node, verdicts));
        }
        found.into_iter().min_by_key(cheapest)
    }

    fn after_relaxing(&mut self, problem: &Problem) -> Vec<Repair> {
        let mut found = Vec::new();
        for (pod, first) in self.relax_each(problem, MAX_RULES) {
            let changed = SimulatedPod { pod, ..self.pod.clone() };
            let (nodes, only) = (self.nodes, self.only);
            let mut then = self.with(&changed, nodes, only);
            let Some(problem) = then.problem_beside(&problem.broken) else { break };
            let second = [
                then.request_less(&problem),
                then.scale(&problem),
                then.change_node(&problem),
                then.move_pods(),
                then.add_node(&problem),
            ];
            let second = second.into_iter().flatten().min_by_key(cheapest);
            found.extend(second.map(|second| first.and(second)));
        }
        found
    }

    fn after_changing(&mut self, problem: &Problem, node: &str) -> Option<Repair> {
        // The pod with the rules that the node alone decides.
        let mut plain = self.pod.clone();
        let spec = &mut *plain.pod.spec;
        for container in spec.containers.iter_mut().chain(spec.init_containers.iter_mut()) {
            container.resources = Default::default();
            container.ports.clear();
        }
        spec.topology_spread_constraints = Default::default();
        if let Some(affinity) = &mut spec.affinity {
            affinity.pod_affinity = None;
            affinity.pod_anti_affinity = None;
        }
        plain.pod.metadata.labels = Default::default();
        plain.pod.metadata.annotations.remove(AFFINITY_ANNOTATION);
        let (pod, nodes) = (self.pod, self.nodes);
        let mut first = self.with(&plain, nodes, Some(node));
        let alone = first.problem_beside(&problem.broken)?;
        let first = first.change_node(&alone)?;
        let before = nodes.get(node)?;
        let changed = changed_node(before, &first.changes);
        self.cluster.set_node(&changed);
        let mut nodes = nodes.clone();
        nodes.insert(node.to_owned(), changed);
        let mut then = self.with(pod, &nodes, Some(node));
        let second = then.problem_beside(&problem.broken).and_then(|problem| {
            let second = [then.request_less(&problem), then.scale(&problem), then.move_pods()];
            second.into_iter().flatten().min_by_key(cheapest)
        });
        self.cluster.set_node(before);
        Some(first.and(second?))
    }

    fn after_requesting_less(
        &mut self,
        problem: &Problem,
        node: &str,
        verdicts: &[Verdict],
    ) -> Option<Repair> {
        let (pod, first) = self.request_less_on(node, verdicts)?;
        let changed = SimulatedPod { pod, ..self.pod.clone() };
        let nodes = self.nodes;
        let mut then = self.with(&changed, nodes, Some(node));
        let problem = then.problem_beside(&problem.broken)?;
        let second = [then.change_node(&problem), then.move_pods()];
        Some(first.and(second.into_iter().flatten().min_by_key(cheapest)?))
    }
}
