//! Plans of moves for a simulation.

use berth_api::object::{GroupKey, Pod};
use berth_engine::Outcome;
use berth_rebalance::{Input, Move, Placed, Plan, Request, RunningPod, plan};

use crate::simulation::{SimulatedPod, Simulation};

impl Simulation {
    /// Moves of running pods that lower what the goals of the request measure. Pods that the simulation has placed count as running; of
    /// the pending ones only those at these positions count, if they are given. The simulation is not changed.
    pub fn rebalance(&self, request: &Request, only: Option<&[usize]>) -> Plan {
        let pending = self.queue.iter().filter(|position| only.is_none_or(|only| only.contains(position)));
        let pending = pending.map(|position| &self.pods[*position]);
        let pending = pending.filter(|pod| pod.is_unplaced()).map(|pod| &pod.pod).collect();
        self.plan_with(request, pending)
    }

    /// The same with these pending pods.
    pub(crate) fn plan_with(&self, request: &Request, pending: Vec<&Pod>) -> Plan {
        let running = self.pods.iter().filter_map(|pod| {
            let node = pod.node()?;
            Some(RunningPod { pod: &pod.pod, node, stays: self.stays(pod) })
        });
        let input = Input {
            cluster: self.cluster.clone(),
            nodes: &self.nodes,
            running: running.collect(),
            pending,
            budgets: self.budget_objects.iter().collect(),
        };
        plan(input, request)
    }

    /// Moves the pods of a plan that was made for this simulation, and places the pending pods that it says are placed.
    pub fn carry_out(&mut self, plan: &Plan) {
        for Move { namespace, name, to, .. } in &plan.moves {
            let Some(position) = self.position(namespace, name) else { continue };
            self.remove_from_node(position);
            let from = self.pods[position].node().and_then(|node| self.nodes.get(node)).cloned();
            self.workloads.recreate(&mut self.pods[position].pod, from.as_ref());
            let prepared = self.cluster.prepare(&self.pods[position].pod);
            self.cluster.assume(&prepared, to);
            let pod = &mut self.pods[position];
            pod.was_running = false;
            pod.outcome = Outcome::on(to.clone());
        }
        for Placed { namespace, name, node } in &plan.placed {
            let Some(position) = self.position(namespace, name) else { continue };
            self.queue.retain(|waiting| *waiting != position);
            let prepared = self.cluster.prepare(&self.pods[position].pod);
            self.cluster.assume(&prepared, node);
            self.pods[position].outcome = Outcome::on(node.clone());
        }
    }

    fn stays(&self, pod: &SimulatedPod) -> Option<&'static str> {
        let settings = self.cluster.settings();
        let is_exempt =
            settings.extensions && settings.exempt_namespaces.contains(&pod.pod.metadata.namespace);
        let group = GroupKey::of(&pod.pod, self.extensions);
        let is_of_whole =
            group.and_then(|key| self.group_disruptions.get(&key)).is_some_and(|group| group.as_a_whole);
        match (is_exempt, is_of_whole) {
            (true, _) => Some("its namespace is exempt from enforcement"),
            (_, true) => Some("its group is disrupted as a whole"),
            _ => None,
        }
    }
}
