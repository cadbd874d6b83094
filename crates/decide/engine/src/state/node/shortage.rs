//! What a node lacks for a pod.

use std::borrow::Cow;

use smallvec::SmallVec;

use super::{NodeRecord, Resources};
use crate::state::interned::intern::{Symbol, Symbols};

/// A resource that the node lacks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shortage {
    /// None for the resources that have a `name`.
    resource: Option<Symbol>,
    name: &'static str,
    pub(crate) requested: i64,
    pub(crate) used: i64,
    pub(crate) allocatable: i64,
}

impl Shortage {
    /// Whether even the empty node would lack it.
    pub(crate) fn is_unresolvable(&self) -> bool {
        self.name != PODS && self.requested > self.allocatable
    }

    /// The reason in kube-scheduler's words.
    pub(crate) fn reason(&self, symbols: &Symbols) -> Cow<'static, str> {
        match self.name {
            PODS => "Too many pods".into(),
            "cpu" => "Insufficient cpu".into(),
            "memory" => "Insufficient memory".into(),
            "ephemeral-storage" => "Insufficient ephemeral-storage".into(),
            _ => format!("Insufficient {}", self.resource_name(symbols)).into(),
        }
    }

    pub(crate) fn resource_name<'a>(&self, symbols: &'a Symbols) -> &'a str {
        self.resource.map_or(self.name, |r| symbols.text(r))
    }
}

pub(crate) const PODS: &str = "pods";

/// The resources that a node with `n_pods` pods lacks for a pod. `scalar` are the resources to check besides CPU,
/// memory and storage.
pub(crate) fn shortages(
    requests: &Resources,
    scalar: &[(Symbol, i64)],
    n_pods: i64,
    node: &NodeRecord,
) -> SmallVec<[Shortage; 2]> {
    let mut shortages = SmallVec::new();
    each_shortage(requests, scalar, n_pods, node, |shortage| shortages.push(shortage));
    shortages
}

/// Calls `found` for each of them.
#[inline]
pub(crate) fn each_shortage(
    requests: &Resources,
    scalar: &[(Symbol, i64)],
    n_pods: i64,
    node: &NodeRecord,
    mut found: impl FnMut(Shortage),
) {
    if n_pods + 1 > node.allocatable.pods {
        let (resource, allocatable) = (None, node.allocatable.pods);
        found(Shortage { resource, name: PODS, requested: 1, used: n_pods, allocatable });
    }
    let mut check = |resource, name, requested: i64, used: i64, allocatable: i64| {
        if requested > 0 && requested > allocatable.saturating_sub(used) {
            found(Shortage { resource, name, requested, used, allocatable });
        }
    };
    let (offered, used) = (&node.allocatable.resources, &node.requested);
    check(None, "cpu", requests.milli_cpu, used.milli_cpu, offered.milli_cpu);
    check(None, "memory", requests.memory, used.memory, offered.memory);
    let storage = (requests.ephemeral_storage, used.ephemeral_storage, offered.ephemeral_storage);
    check(None, "ephemeral-storage", storage.0, storage.1, storage.2);
    for (name, amount) in scalar {
        let (used, offered) = (used.scalar(*name).unwrap_or(0), offered.scalar(*name).unwrap_or(0));
        check(Some(*name), "", *amount, used, offered);
    }
}
