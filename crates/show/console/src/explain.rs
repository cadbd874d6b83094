//! Explanations of pods: those of `berth explain` for the same input.

use berth_simulate::{GroupPlacement, PodExplanation, Simulation};

use crate::State;

impl State {
    /// Explains a pod at its turn: after the pending pods before it, which a scheduler places first, and before all others. None if the
    /// pod does not exist. The search has at most as many steps of work.
    pub fn explain(&mut self, namespace: &str, name: &str, steps: u64) -> Option<PodExplanation> {
        self.at_turn_of(namespace, name, |simulation| simulation.explain_within(namespace, name, None, steps))
    }

    /// The group of a pod at its turn; none if the pod does not exist or has no group.
    pub(crate) fn explain_group(&mut self, namespace: &str, name: &str) -> Option<GroupPlacement> {
        self.at_turn_of(namespace, name, |simulation| simulation.explain_group(namespace, name))
    }

    fn at_turn_of<T>(&mut self, namespace: &str, name: &str, ask: impl FnOnce(&mut Simulation) -> T) -> T {
        if !self.simulation().is_in_turn(namespace, name) {
            let (inventory, options) = self.given();
            if let Ok(mut simulation) = Simulation::new(inventory, options) {
                simulation.run_before(namespace, name);
                return ask(&mut simulation);
            }
        }
        ask(self.simulation())
    }
}

#[cfg(test)]
mod tests {
    use berth_input::inventory::Inventory;
    use berth_simulate::{Simulation, SimulationOptions};

    use crate::State;

    /// Pods of a workload that has none yet, pending pods of several priorities, and a running one.
    const CLUSTER: &str = "{apiVersion: v1, kind: Node, metadata: {name: a, labels: {kubernetes.io/hostname: a}}, status: {allocatable: {cpu: 4, pods: 9}}}
---
{apiVersion: v1, kind: Node, metadata: {name: b, labels: {kubernetes.io/hostname: b}}, status: {allocatable: {cpu: 3, pods: 9}}}
---
{apiVersion: v1, kind: Pod, metadata: {name: running}, spec: {nodeName: a, containers: [{name: c, image: i, resources: {requests: {cpu: 1}}}]},
  status: {phase: Running}}
---
{apiVersion: v1, kind: Pod, metadata: {name: first}, spec: {containers: [{name: c, image: i, resources: {requests: {cpu: 2}}}]}}
---
{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}, spec: {replicas: 3, selector: {matchLabels: {app: web}}, template:
  {metadata: {labels: {app: web}}, spec: {containers: [{name: c, image: i, resources: {requests: {cpu: 1}}}]}}}}
---
{apiVersion: v1, kind: Pod, metadata: {name: last}, spec: {containers: [{name: c, image: i, resources: {requests: {cpu: 2}}}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: high}, spec: {priority: 9, containers: [{name: c, image: i, resources: {requests: {cpu: 2}}}]}}";

    #[test]
    fn the_command_and_the_console_named_other_nodes_for_the_same_input() {
        let inventory = || Inventory::from_text(CLUSTER).expect("the text is well-formed");
        let simulation =
            || Simulation::new(inventory(), SimulationOptions::default()).expect("the objects are valid");
        let mut state =
            State::new("test", inventory(), SimulationOptions::default()).expect("the objects are valid");
        let mut nodes = Vec::new();
        for pod in simulation().pods() {
            let (namespace, name) = (&pod.pod.metadata.namespace, &pod.pod.metadata.name);
            let mut command = simulation();
            command.run_before(namespace, name);
            let expected = command.explain(namespace, name, None).expect("the pod exists");
            let found = state.explain(namespace, name, 10_000_000).expect("the pod exists");
            let json = |explained| serde_json::to_value(explained).expect("an explanation is data");
            assert_eq!(json(&found), json(&expected), "{name}");
            nodes.push(found.explanation.outcome.node().map(str::to_owned));
        }
        nodes.sort();
        nodes.dedup();
        assert_eq!(nodes.len(), 3, "a, b, and none: {nodes:?}");
    }
}
