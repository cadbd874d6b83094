//! Plans of moves for a simulation.

use std::collections::HashSet;

use berth_api::object::GroupKey;
use berth_api::object::group::RemainingGroup;
use berth_engine::Outcome;
use berth_rebalance::{Input, Move, Pending, Placed, Plan, Request, RunningPod, plan};

use crate::simulation::{Simulation, Unit};

impl Simulation {
    /// Moves of running pods that lower what the goals of the request measure. Pods that the simulation has placed count as running; of
    /// the pending ones only those at these positions count, if they are given, and those of their groups. The simulation is not changed.
    pub fn rebalance(&self, request: &Request, only: Option<&[usize]>) -> Plan {
        let groups: HashSet<_> =
            only.into_iter().flatten().filter_map(|position| self.pods[*position].group.as_ref()).collect();
        let is_meant = |position: &usize| {
            let pod = &self.pods[*position];
            let is_with = |only: &[usize]| {
                only.contains(position) || pod.group.as_ref().is_some_and(|group| groups.contains(group))
            };
            only.is_none_or(is_with) && pod.is_unplaced()
        };
        let positions = self.queue.iter().copied().filter(is_meant);
        let pod = |position: usize| &self.pods[position].pod;
        let pending = self.units(positions.map(|position| (position, ()))).into_iter();
        let pending = pending.map(|unit| match unit {
            Unit::Pod(position, ()) => Pending::from(pod(position)),
            Unit::Group(key, members) => {
                let members: Vec<usize> = members.into_iter().map(|(position, ())| position).collect();
                let group = Some(self.pending_group(&key, &members));
                Pending { pods: members.into_iter().map(pod).collect(), group }
            }
        });
        let pending = pending.collect();
        self.plan_with(request, pending)
    }

    /// What a group requires of these members, which have no node.
    pub(crate) fn pending_group(&self, key: &GroupKey, members: &[usize]) -> RemainingGroup {
        let pending: Vec<_> = members.iter().map(|member| self.own_group(*member)).collect();
        let (rules, running) = (self.rules_of_group(key), self.running_members(key));
        self.cluster.remaining_group(key, rules.as_ref(), &pending, &running)
    }

    /// The same with these pending pods.
    pub(crate) fn plan_with(&self, request: &Request, pending: Vec<Pending<'_>>) -> Plan {
        let running = self.pods.iter().filter_map(|pod| {
            let node = pod.node()?;
            Some(RunningPod { pod: &pod.pod, node, stays: None, is_settled: false })
        });
        let input = Input {
            cluster: self.cluster.clone(),
            nodes: &self.nodes,
            namespaces: &self.namespaces,
            running: running.collect(),
            pending,
            budgets: self.budget_objects.iter().collect(),
            scales: &self.scales,
        };
        plan(input, request)
    }

    /// Moves the pods of a plan that was made for this simulation, and places the pending pods that it says are placed.
    pub fn carry_out(&mut self, plan: &Plan) {
        self.move_pods(&plan.moves);
        for Placed { namespace, name, node } in &plan.placed {
            let Some(position) = self.position(namespace, name) else { continue };
            self.queue.retain(|waiting| *waiting != position);
            let prepared = self.cluster.prepare(&self.pods[position].pod);
            self.cluster.assume(&prepared, node);
            self.pods[position].outcome = Outcome::on(node.clone());
        }
    }

    /// Moves pods, one after the other.
    pub(crate) fn move_pods(&mut self, moves: &[Move]) {
        moves.iter().for_each(|made| self.move_pod(&made.namespace, &made.name, &made.to));
    }

    /// Moves a pod. It gets other devices for the claims that no other pod uses.
    pub(crate) fn move_pod(&mut self, namespace: &str, name: &str, to: &str) {
        let Some(position) = self.position(namespace, name) else { return };
        self.remove_from_node(position);
        let from = self.pods[position].node().and_then(|node| self.nodes.get(node)).cloned();
        self.workloads.recreate(&mut self.pods[position].pod, from.as_ref());
        self.pods[position].was_running = false;
        self.move_to(position, to);
    }

    /// A pod that has left its node gets another one.
    pub(crate) fn move_to(&mut self, position: usize, to: &str) {
        let mut pod = self.pods[position].pod.clone();
        self.make_claims(&mut pod);
        let prepared = self.cluster.prepare(&pod);
        let devices = if self.may_need_devices(&pod) { self.cluster.decide_on(&prepared, to) } else { None };
        let outcome = devices.unwrap_or_else(|| Outcome::on(to.to_owned()));
        self.cluster.take(&prepared, &outcome);
        self.pods[position].pod = pod;
        self.decided(position, outcome);
    }
}
