//! Pending pods: which of them find a node.

use berth_api::object::Pod;
use berth_engine::{Cluster, Outcome, PreparedPod};

/// The pending pods, in the order in which the scheduler tries them.
pub(crate) struct Waiting<'a> {
    pub(crate) pods: Vec<(&'a Pod, PreparedPod)>,
}

impl<'a> Waiting<'a> {
    pub(crate) fn new(cluster: &mut Cluster, pods: &[&'a Pod]) -> Waiting<'a> {
        Waiting { pods: pods.iter().map(|pod| (*pod, cluster.prepare(pod))).collect() }
    }

    /// Places the pods that find a node, one after the other. Returns what was decided about each.
    pub(crate) fn place(&self, cluster: &mut Cluster) -> Vec<Outcome> {
        self.pods.iter().map(|(_, pod)| cluster.place(pod)).collect()
    }

    /// Takes the pods away again.
    pub(crate) fn take_back(&self, cluster: &mut Cluster, outcomes: &[Outcome]) {
        for ((_, pod), outcome) in self.pods.iter().zip(outcomes) {
            if let Outcome::Placed { volumes, devices, .. } = outcome {
                cluster.forget(pod);
                if let Some(volumes) = volumes {
                    cluster.restore_volumes(pod, volumes);
                }
                if let Some(devices) = devices {
                    cluster.restore_devices(&pod.assumed_devices(devices, false));
                }
            }
        }
    }

    /// The number of pods that find no node.
    pub(crate) fn n_unplaced(&self, cluster: &mut Cluster) -> i64 {
        if self.pods.is_empty() {
            return 0;
        }
        let outcomes = self.place(cluster);
        let n_unplaced = outcomes.iter().filter(|outcome| outcome.node().is_none()).count();
        self.take_back(cluster, &outcomes);
        n_unplaced as i64
    }
}
