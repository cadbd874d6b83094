//! Moves: the plan of `berth rebalance --for`, the fewest moves of running pods after which the pod fits.

use berth_api::object::{NodeSelector, NodeSelectorTerm, Pod, SelectorRequirement};
use berth_rebalance::{Goal, Input, Move, Pending, Request, RunningPod, plan};

use super::change::{Change, Repair};
use super::commands;
use super::trial::Trial;

/// The most states that are looked at to find the fewest moves.
const MAX_STATES: usize = 2_000;
/// Steps of work for each pod and node of a plan.
const PLAN_STEPS: usize = 10;

impl Trial<'_> {
    /// The fewest moves after which the pod fits.
    pub(super) fn move_pods(&mut self) -> Option<Repair> {
        let mut pod = self.pod.pod.clone();
        if let Some(node) = self.only {
            require_node(&mut pod, node);
        }
        self.make_room(vec![Pending::from(&pod)])
    }

    /// The fewest moves after which pending pods fit, which are placed at once.
    pub(super) fn make_room(&mut self, pending: Vec<Pending<'_>>) -> Option<Repair> {
        let Trial { cluster, nodes, pods, budgets, scales, namespaces, now, .. } = self;
        // Each pod is evaluated where it is.
        self.budget.spend(PLAN_STEPS * (pods.len() + nodes.len())).ok()?;
        let running = pods.iter().filter_map(|pod| {
            let stays = (!pod.was_running).then_some("it is not running yet");
            Some(RunningPod { pod: &pod.pod, node: pod.node()?, stays, is_settled: false })
        });
        let input = Input {
            cluster: cluster.clone(),
            nodes,
            namespaces,
            running: running.collect(),
            pending,
            budgets: budgets.iter().collect(),
            scales,
        };
        let (max_states, max_steps) = (MAX_STATES, self.budget.left());
        let request = Request { max_states, max_steps, ..Request::new(vec![Goal::Defragment], *now) };
        let plan = plan(input, &request);
        _ = self.budget.spend(usize::try_from(plan.n_work_steps).unwrap_or(usize::MAX));
        let node = plan.placed.first().filter(|_| !plan.moves.is_empty())?.node.clone();
        let mut commands = vec![commands::plan_for(&self.pod.pod)];
        commands.extend(plan.moves.iter().map(|made| commands::delete(&made.namespace, &made.name)));
        let change = |Move { namespace, name, from, to, .. }| Change::Move { namespace, name, from, to };
        Some(Repair::new(plan.moves.into_iter().map(change).collect(), node, commands))
    }
}

/// Adds that the pod may be on this node alone.
fn require_node(pod: &mut Pod, node: &str) {
    let required = SelectorRequirement {
        key: "metadata.name".to_owned(),
        operator: "In".to_owned(),
        values: vec![node.to_owned()],
    };
    let affinity = pod.spec.affinity.get_or_insert_default().node_affinity.get_or_insert_default();
    let selector = affinity.required_during_scheduling_ignored_during_execution.get_or_insert_with(|| {
        let term = NodeSelectorTerm { match_fields: vec![required.clone()], ..NodeSelectorTerm::default() };
        NodeSelector { node_selector_terms: vec![term], ..NodeSelector::default() }
    });
    // An empty term matches no node.
    let terms = selector.node_selector_terms.iter_mut().filter(|term| **term != NodeSelectorTerm::default());
    terms.for_each(|term| term.match_fields.push(required.clone()));
}
