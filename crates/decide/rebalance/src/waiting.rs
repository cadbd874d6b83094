//! Pending pods and groups: which of them find nodes.

use berth_api::object::Pod;
use berth_api::object::group::RemainingGroup;
use berth_engine::{Cluster, Group, GroupLevel, GroupOutcome, Outcome, PreparedPod};

use crate::request::Pending;

/// What is placed at once.
pub(crate) struct Unit<'a> {
    pub(crate) pods: Vec<(&'a Pod, PreparedPod)>,
    group: Option<RemainingGroup>,
}

/// The pending pods, in the order in which the scheduler tries them.
pub(crate) struct Waiting<'a> {
    pub(crate) units: Vec<Unit<'a>>,
}

impl<'a> Waiting<'a> {
    pub(crate) fn new(cluster: &mut Cluster, pending: Vec<Pending<'a>>) -> Waiting<'a> {
        let unit = |Pending { pods, group }: Pending<'a>| {
            let pods = pods.into_iter().map(|pod| (pod, cluster.prepare(pod))).collect();
            Unit { pods, group }
        };
        Waiting { units: pending.into_iter().map(unit).collect() }
    }

    /// Places what finds nodes, one unit after the other. Returns what was decided about the pods of each.
    pub(crate) fn place(&self, cluster: &mut Cluster) -> Vec<Vec<Outcome>> {
        self.units.iter().map(|unit| unit.place(cluster)).collect()
    }

    /// Takes the pods away again.
    pub(crate) fn take_back(&self, cluster: &mut Cluster, outcomes: &[Vec<Outcome>]) {
        let pods = self.units.iter().flat_map(|unit| &unit.pods);
        take_back(cluster, pods.map(|(_, pod)| pod).zip(outcomes.iter().flatten()));
    }

    pub(crate) fn n_pods(&self) -> usize {
        self.units.iter().map(|unit| unit.pods.len()).sum()
    }

    /// The number of pods that find no node.
    pub(crate) fn n_unplaced(&self, cluster: &mut Cluster) -> i64 {
        if self.units.is_empty() {
            return 0;
        }
        let outcomes = self.place(cluster);
        let n_unplaced = outcomes.iter().flatten().filter(|outcome| outcome.node().is_none()).count();
        self.take_back(cluster, &outcomes);
        n_unplaced as i64
    }
}

/// Takes placed pods away again.
pub(crate) fn take_back<'p>(
    cluster: &mut Cluster,
    placed: impl Iterator<Item = (&'p PreparedPod, &'p Outcome)>,
) {
    for (pod, outcome) in placed {
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

impl Unit<'_> {
    fn place(&self, cluster: &mut Cluster) -> Vec<Outcome> {
        let Some(RemainingGroup { min, levels, composite, problem }) = &self.group else {
            return self.pods.iter().map(|(_, pod)| cluster.place(pod)).collect();
        };
        let unplaced =
            || vec![Outcome::Unschedulable { message: String::new(), plugins: Vec::new() }; self.pods.len()];
        if problem.is_some() {
            return unplaced();
        }
        let members: Vec<_> = self.pods.iter().map(|(_, pod)| pod.clone()).collect();
        let levels: Vec<_> = levels.iter().map(GroupLevel::from).collect();
        let group = Group { members: &members, min: *min, levels: &levels, composite: composite.as_ref() };
        match cluster.place_group(&group) {
            GroupOutcome::Placed { members, .. } => members,
            GroupOutcome::Unplaced(_) => unplaced(),
        }
    }
}
