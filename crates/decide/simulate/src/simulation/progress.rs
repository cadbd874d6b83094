//! What a rolling update of a Deployment knows of its pods.

use berth_api::object::NamespacedName;
use berth_control::deployment::SetSize;
use berth_control::replica_set::DeletionOrder;
use jiff::Timestamp;

use super::departure::replica;
use super::pods::Pods;

/// What a rolling update knows of its pods after a step, so that the next one looks at few of them.
#[derive(Clone)]
pub(crate) struct Progress {
    /// How often pods had lost their nodes at that time: when pods have lost their nodes, all are counted again.
    n_vacated: usize,
    pub old: Vec<SetSize>,
    pub new: SetSize,
    /// The pods that are not available: their positions, and the numbers of their ReplicaSets; none for the new one.
    pub unavailable: Vec<(usize, Option<usize>)>,
    pub order: DeletionOrder,
}

impl Progress {
    /// `old` are the pods of the earlier template with the numbers of their ReplicaSets, the oldest first; `new` those of the new one.
    pub fn of<'a>(
        pods: &Pods,
        n_vacated: usize,
        old: impl Iterator<Item = (&'a NamespacedName, usize)>,
        new: &[NamespacedName],
        now: Timestamp,
    ) -> Progress {
        let position = |name: &NamespacedName| pods.position(name.namespace(), name.name());
        let old: Vec<(usize, usize)> = old.filter_map(|(name, set)| Some((position(name)?, set))).collect();
        let new: Vec<usize> = new.iter().filter_map(position).collect();
        let n_sets = old.iter().map(|(_, set)| set + 1).max().unwrap_or(0);
        let replicas = old.iter().map(|(at, set)| (*at, *set, replica(&pods[*at].pod, pods[*at].node())));
        let others = new.iter().filter_map(|at| pods[*at].node());
        let mut progress = Progress {
            n_vacated,
            old: vec![SetSize::default(); n_sets],
            new: SetSize::default(),
            unavailable: Vec::new(),
            order: DeletionOrder::new(replicas, others, now),
        };
        let old = old.into_iter().map(|(position, set)| (position, Some(set)));
        for (position, set) in old.chain(new.into_iter().map(|position| (position, None))) {
            let size = progress.size(set);
            size.replicas += 1;
            match pods[position].is_available() {
                true => size.available += 1,
                false => progress.unavailable.push((position, set)),
            }
        }
        progress
    }

    fn size(&mut self, set: Option<usize>) -> &mut SetSize {
        match set {
            Some(set) => &mut self.old[set],
            None => &mut self.new,
        }
    }

    /// Counts the pods that have become available. Returns none if the order of deletion has to be found again.
    pub fn updated(mut self: Box<Progress>, pods: &Pods, n_vacated: usize) -> Option<Box<Progress>> {
        if self.n_vacated != n_vacated {
            return None;
        }
        let is_available = |(position, _): &mut (usize, Option<usize>)| pods[*position].is_available();
        for (position, set) in self.unavailable.extract_if(.., is_available).collect::<Vec<_>>() {
            if set.is_some() {
                return None;
            }
            self.new.available += 1;
            if let Some(node) = pods[position].node() {
                self.order.add(node);
            }
        }
        Some(self)
    }
}
