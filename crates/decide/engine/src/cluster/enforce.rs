//! Enforce: whether rules of running pods hold, and what would make them hold again.

use std::sync::PoisonError;

use super::Cluster;
use crate::violation::tracker::ViolationTracker;
use crate::violation::{
    Remedies, RemedyOptions, Violation, ViolationChanges, ViolationKey, audit, remedy, violations,
};

impl Cluster {
    /// Every required rule of a running pod that does not hold where it runs now; see the documentation of
    /// [`ViolatedRule`](crate::ViolatedRule) for which rules these are. Sorted by namespace, name, rule and term.
    ///
    /// v1 rules are evaluated as if the pod were to be placed on its node now, with itself taken away before. So every
    /// pod of a domain that a spread constraint finds overfull is named, and every pod that asks for what its
    /// node has promised too much of: moving some of them is enough. Rules whose plugins the pod's profile has
    /// disabled are left out, except those required during execution; a pod whose scheduler name has no profile is
    /// evaluated by the rules of the first one, its added affinity left out. Cordoning (`spec.unschedulable`) is no
    /// rule of the pod's and is left out. Rules that do not parse are reported as such.
    pub fn audit(&mut self) -> Vec<Violation> {
        self.audit_with(|_, _| {})
    }

    /// [`Cluster::audit`], which reports how many pods have been evaluated, and of how many.
    pub fn audit_with(&mut self, progress: impl FnMut(usize, usize)) -> Vec<Violation> {
        let found = audit(&mut self.state, &self.nominations, progress);
        self.updated();
        found
    }

    /// Every rule required during execution that is broken now, sorted: that part of [`Cluster::audit`] alone.
    pub fn violations(&self) -> Vec<Violation> {
        violations(&self.state)
    }

    /// Starts tracking which rules required during execution are broken. The first
    /// [`Cluster::violation_changes`] then reports all of them. A second call changes nothing.
    pub fn watch_violations(&mut self) {
        if self.tracker.is_none() {
            self.tracker = Some(Box::new(ViolationTracker::attach(&mut self.state)));
        }
    }

    /// What changed since the last call; nothing while violations are not tracked
    /// ([`Cluster::watch_violations`]).
    ///
    /// The cost follows what changed in the cluster meanwhile: the pods that came, the pods on nodes whose labels
    /// changed, and those with rules about pods whose number in their domain crossed from none to one or from one
    /// to several.
    pub fn violation_changes(&mut self) -> ViolationChanges {
        self.tracker.as_mut().map(|tracker| tracker.changes(&mut self.state)).unwrap_or_default()
    }

    /// Which pods have to be evicted so that these broken rules hold again, and where they would go: hypothetically,
    /// the state is not changed. The same rules in the same state get the same answer, whatever their order.
    ///
    /// Every rule is answered: it is in [`Remedy::cures`](crate::Remedy::cures) of the pods to be evicted for it, or in
    /// [`Remedies::stays`] with the reason why no pod is; so are rules that are not required during execution, and
    /// rules that hold. The remedies are one plan: each takes those before it as carried out. A pod without
    /// a target is held ([`Remedy::is_held`](crate::Remedy::is_held)), unless [`RemedyOptions::evict_without_target`] has it.
    pub fn remedy(&mut self, broken: &[ViolationKey], options: &RemedyOptions) -> Remedies {
        let Cluster { state, caches, nominations, tracker, .. } = self;
        let views = &mut caches.get_mut().unwrap_or_else(PoisonError::into_inner).views;
        let remedies = remedy(state, views, nominations, tracker, broken, options);
        self.updated();
        remedies
    }
}
