//! The filter of `NodeResourcesFit`: the requests of the pod against the free resources of the node.

use std::borrow::Cow;

use berth_api::config::Plugin;
use berth_api::syntax::quantity::with_unit;
use smallvec::SmallVec;

use super::super::rule::{Filter, TermInfo};
use crate::cycle::context::{Context, NodeRef};
use crate::state::interned::intern::{Symbol, Symbols};
use crate::state::node::{NodeRecord, Resources};
use crate::verdict::{Counts, Rejection, Status, Verdict};

struct FreeResources<'a> {
    context: Context<'a>,
    /// Requested resources other than CPU, memory and storage, without ignored ones.
    scalar: Vec<(Symbol, i64)>,
    /// Those that devices provide on nodes that do not have them: `DynamicResources` looks for devices there.
    delegated: SmallVec<[Symbol; 1]>,
}

pub(super) fn filter<'a>(context: Context<'a>) -> Option<Box<dyn Filter + 'a>> {
    let args = &context.profile.profile.node_resources_fit;
    let requests = &context.rule_set.requests;
    let ignored = |name: &str| {
        let group = name.split('/').next().unwrap_or_default();
        is_extended_resource(name)
            && (args.ignored_resources.iter().any(|r| r == name)
                || args.ignored_resource_groups.iter().any(|g| g == group))
    };
    let requested = requests.scalar.iter().filter(|(_, amount)| *amount != 0);
    let scalar = requested.filter(|(name, _)| !ignored(context.state.symbols.text(*name))).copied().collect();
    let devices = context.cycle.devices.as_ref();
    let extended = devices.into_iter().flat_map(|devices| &devices.rules.extended);
    let delegated = extended.filter_map(|resource| context.state.symbols.get(&resource.name)).collect();
    Some(Box::new(FreeResources { context, scalar, delegated }))
}

/// Whether a resource is an extended resource: one outside `kubernetes.io`.
pub(crate) fn is_extended_resource(name: &str) -> bool {
    name.contains('/') && !name.contains("kubernetes.io/")
}

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

const PODS: &str = "pods";

impl FreeResources<'_> {
    fn shortages(&self, node: NodeRef<'_>) -> SmallVec<[Shortage; 2]> {
        shortages(&self.context.rule_set.requests, &self.scalar_on(node), node.n_pods(), node.record)
    }

    /// The resources that the node itself has to provide.
    fn scalar_on(&self, node: NodeRef<'_>) -> Cow<'_, [(Symbol, i64)]> {
        if self.delegated.is_empty() {
            return Cow::Borrowed(&self.scalar);
        }
        let is_own = |name: Symbol| {
            !self.delegated.contains(&name)
                || node.record.allocatable.resources.scalar(name).unwrap_or(0) != 0
        };
        self.scalar.iter().filter(|(name, _)| is_own(*name)).copied().collect()
    }
}

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

#[inline]
fn each_shortage(
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

impl Filter for FreeResources<'_> {
    fn check(&self, node: NodeRef<'_>) -> Option<Rejection> {
        let shortages = self.shortages(node);
        if shortages.is_empty() {
            return None;
        }
        let unresolvable = shortages.iter().any(Shortage::is_unresolvable);
        let status = if unresolvable { Status::UnschedulableAndUnresolvable } else { Status::Unschedulable };
        let reasons = shortages.iter().map(|s| s.reason(&self.context.state.symbols)).collect();
        Some(Rejection { plugin: Plugin::NodeResourcesFit, status, reasons })
    }

    fn admits(&self, node: NodeRef<'_>) -> bool {
        let mut fits = true;
        let requests = &self.context.rule_set.requests;
        each_shortage(requests, &self.scalar_on(node), node.n_pods(), node.record, |_| fits = false);
        fits
    }

    fn terms(&self) -> Vec<TermInfo> {
        let requests = &self.context.rule_set.requests;
        let named = [
            (PODS, 1),
            ("cpu", requests.milli_cpu),
            ("memory", requests.memory),
            ("ephemeral-storage", requests.ephemeral_storage),
        ];
        let scalar =
            self.scalar.iter().map(|(name, amount)| (self.context.state.symbols.text(*name), *amount));
        let requested = named.into_iter().chain(scalar).filter(|(_, amount)| *amount > 0);
        requested
            .map(|(name, amount)| TermInfo { term: term(name).to_owned(), detail: describe(name, amount) })
            .collect()
    }

    fn verdicts(&self, node: NodeRef<'_>) -> Vec<Verdict> {
        let verdict = |shortage: Shortage| {
            let name = shortage.resource_name(&self.context.state.symbols);
            let Shortage { requested, used, allocatable, .. } = shortage;
            let status = if shortage.is_unresolvable() {
                Status::UnschedulableAndUnresolvable
            } else {
                Status::Unschedulable
            };
            let mut verdict = Verdict::new(Plugin::NodeResourcesFit, status, "", describe(name, requested))
                .term(term(name))
                .counts(Counts::Resource { resource: name.to_owned(), requested, used, allocatable });
            verdict.reason = shortage.reason(&self.context.state.symbols);
            verdict
        };
        self.shortages(node).into_iter().map(verdict).collect()
    }
}

fn term(resource: &str) -> &'static str {
    if resource == PODS {
        "status.allocatable.pods of the node"
    } else {
        "spec.containers[*].resources.requests"
    }
}

fn describe(resource: &str, amount: i64) -> String {
    match resource {
        PODS => "requires capacity for one more pod".to_owned(),
        _ => format!("requests {} {resource}", with_unit(resource, amount)),
    }
}
