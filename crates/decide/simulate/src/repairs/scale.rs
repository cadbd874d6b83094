//! One more pod of another workload: where the pod needs matching pods, or the minimum of a spread constraint is too low.

use std::collections::BTreeSet;

use super::change::{Change, Repair};
use super::commands;
use super::trial::{Problem, Trial};

/// Number of workloads that are tried.
const MAX_WORKLOADS: usize = 20;

impl Trial<'_> {
    /// The first workload, by namespace and name, of which the scheduler would place one more pod so that the pod fits
    /// afterwards.
    pub(super) fn scale(&mut self, problem: &Problem) -> Option<Repair> {
        let rules = &problem.rules;
        let selectors = rules.required_affinity.iter().map(|t| &t.selector);
        let spread = rules.spread_constraints.iter().map(|c| &c.selector);
        let selectors: Vec<_> = selectors.chain(spread).collect();
        if selectors.is_empty() {
            return None;
        }
        let mut workloads = BTreeSet::new();
        for pod in self.pods {
            let metadata = &pod.pod.metadata;
            let labels = &metadata.labels;
            let is_scalable = |workload: &&String| {
                ["Deployment ", "StatefulSet ", "ReplicaSet "].iter().any(|kind| workload.starts_with(kind))
            };
            let matches = || selectors.iter().any(|s| s.matches(|key| labels.get(key).map(String::as_str)));
            if let Some(workload) = pod.workload.as_ref().filter(is_scalable).filter(|_| matches()) {
                workloads.insert((&metadata.namespace, workload));
            }
        }
        workloads.into_iter().take(MAX_WORKLOADS).find_map(|(namespace, workload)| {
            let of_workload = |p: &&crate::SimulatedPod| {
                p.workload.as_ref() == Some(workload) && p.pod.metadata.namespace == *namespace
            };
            let of_workload = || self.pods.iter().filter(of_workload).map(|p| &p.pod);
            let replicas = of_workload().count() + 1;
            let mut replica = of_workload().min_by_key(|pod| &pod.metadata.name)?.clone();
            replica.spec.node_name.clear();
            replica.metadata.name.push_str("-one-more");
            replica.metadata.deletion_timestamp = None;
            let replica = self.cluster.prepare(&replica);
            let on = self.cluster.decide(&replica).node()?.to_owned();
            self.cluster.assume(&replica, &on);
            let node = self.place_of(&problem.prepared).filter(|node| self.breaks_nothing(problem, node));
            self.cluster.forget(&replica);
            let (namespace, workload) = (namespace.clone(), workload.clone());
            let changes = vec![Change::Scale { namespace, workload, replicas }];
            let commands = commands::of_changes(&changes);
            Some(Repair::new(changes, node?, commands))
        })
    }
}
