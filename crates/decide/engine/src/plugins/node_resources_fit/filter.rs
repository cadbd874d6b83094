//! The filter of `NodeResourcesFit`: the requests of the pod against the free resources of the node.

use std::borrow::Cow;

use berth_api::syntax::quantity::with_unit;
use berth_input::config::Plugin;
use smallvec::SmallVec;

use super::super::rule::{Filter, TermInfo};
use crate::cycle::context::{Context, NodeRef};
use crate::state::interned::intern::Symbol;
use crate::state::node::shortage::{PODS, Shortage, each_shortage, shortages};
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
        if !self.delegated.is_empty() {
            return self.shortages(node).is_empty();
        }
        let mut fits = true;
        let requests = &self.context.rule_set.requests;
        each_shortage(requests, &self.scalar, node.n_pods(), node.record, |_| fits = false);
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
