//! Which pods may move.

use berth_rules::Selector;
use jiff::SignedDuration;

/// Which pods may move, apart from those that never do.
#[derive(Clone, Debug, PartialEq)]
pub struct Movable {
    /// The labels of the namespaces whose pods may; none means all namespaces.
    pub namespaces: Option<Selector>,
    /// The labels of the pods that may; none means all pods.
    pub pods: Option<Selector>,
    /// The labels of the nodes whose pods may; none means all nodes. Pods move to any node.
    pub nodes: Option<Selector>,
    /// Pods of this priority and above stay.
    pub below_priority: Option<i32>,
    /// Pods of controllers with fewer pods than this stay, pending ones included.
    pub min_replicas: usize,
    /// How long a pod must have been running.
    pub settle: SignedDuration,
    /// Whether pods with local storage (`emptyDir`, `hostPath`) may.
    pub with_local_storage: bool,
    /// Whether pods with a PersistentVolumeClaim may.
    pub with_claims: bool,
    /// Whether pods that no PodDisruptionBudget selects may.
    pub without_budget: bool,
    /// Whether pods with the annotation `descheduler.alpha.kubernetes.io/prefer-no-eviction` may.
    pub preferring_no_eviction: bool,
}

impl Default for Movable {
    fn default() -> Movable {
        let settle = SignedDuration::from_mins(10);
        Movable { with_local_storage: false, settle, ..Movable::ALL }
    }
}

impl Movable {
    /// All pods that ever move.
    pub const ALL: Movable = Movable {
        namespaces: None,
        pods: None,
        nodes: None,
        below_priority: None,
        min_replicas: 0,
        settle: SignedDuration::ZERO,
        with_local_storage: true,
        with_claims: true,
        without_budget: true,
        preferring_no_eviction: true,
    };

    /// The pods that both allow to move.
    #[must_use]
    pub fn and(self, other: Movable) -> Movable {
        let least = |a: Option<i32>, b: Option<i32>| a.into_iter().chain(b).min();
        Movable {
            namespaces: both(self.namespaces, other.namespaces),
            pods: both(self.pods, other.pods),
            nodes: both(self.nodes, other.nodes),
            below_priority: least(self.below_priority, other.below_priority),
            min_replicas: self.min_replicas.max(other.min_replicas),
            settle: self.settle.max(other.settle),
            with_local_storage: self.with_local_storage && other.with_local_storage,
            with_claims: self.with_claims && other.with_claims,
            without_budget: self.without_budget && other.without_budget,
            preferring_no_eviction: self.preferring_no_eviction && other.preferring_no_eviction,
        }
    }
}

/// What both selectors match.
fn both(a: Option<Selector>, b: Option<Selector>) -> Option<Selector> {
    match (a, b) {
        (Some(Selector::All(a)), Some(Selector::All(b))) => Some(Selector::new([a, b].concat())),
        (Some(_), Some(_)) => Some(Selector::Nothing),
        (a, b) => a.or(b),
    }
}
