//! The pods that PodMonitors and ServiceMonitors select.

use std::collections::HashMap;

use berth_api::object::{Monitor, MonitorNamespaces, Service};
use berth_api::work::WorkBudget;
use berth_input::inventory::{Entry, Inventory};
use berth_rules::{NamespaceScope, PodSet, Selector};

use super::collect::owner;
use super::{EmptySet, PodUse, SelectorOwner, SelectorRole, SelectorSets};

/// Steps of the search for the Services of ServiceMonitors: some tenths of a second.
const SERVICE_STEPS: u64 = 4_000_000;
/// Steps that a Service costs, which is kept.
const KEPT_STEPS: usize = 20;

impl SelectorSets {
    /// Adds the pods that PodMonitors select, and those of the Services that ServiceMonitors select.
    pub(super) fn add_monitors(&mut self, inventory: &Inventory) {
        let services = Services::new(inventory);
        let budget = WorkBudget::new(SERVICE_STEPS);
        for Entry { object: monitor, source, .. } in &inventory.monitors {
            let Monitor { selects_services, metadata, spec } = monitor;
            let kind = if *selects_services { "ServiceMonitor" } else { "PodMonitor" };
            let object = format!("{kind} {}", metadata.name);
            let owner = owner(SelectorRole::Monitor, &metadata.namespace, object, "spec.selector");
            let parsed = self.parse(&owner, &owner.field, Some(&spec.selector), source);
            let Some(selector) = parsed else { continue };
            let namespaces = scope(&spec.namespace_selector, &metadata.namespace);
            if !*selects_services {
                let uses = PodUse::of_pod_monitor(&spec.pod_metrics_endpoints);
                self.sets.push((PodSet { namespaces, selector }, SelectorOwner { uses, ..owner }));
                continue;
            }
            let Some(selected) = services.selected(&namespaces, &selector, &budget) else {
                self.n_monitors_not_compared += 1;
                continue;
            };
            if selected.is_empty() {
                let (namespaces, selector) = (namespaces.to_string(), format!("no Service with {selector}"));
                self.without_service.push(EmptySet { namespaces, selector, owner: owner.clone() });
            }
            for service in selected {
                // The selector of an invalid Service is an error already.
                let pods = service.spec.pod_selector().and_then(|s| Selector::parse(Some(&s)).ok());
                let Some(selector) = pods else { continue };
                let namespaces = NamespaceScope::only(&service.metadata.namespace);
                let through_service = Some(service.metadata.namespaced_name().to_string());
                let Some(uses) = PodUse::of_service_monitor(&spec.endpoints, &service.spec) else { continue };
                let owner = SelectorOwner { through_service, uses, ..owner.clone() };
                self.sets.push((PodSet { namespaces, selector }, owner));
            }
        }
    }
}

fn scope(namespaces: &MonitorNamespaces, own: &str) -> NamespaceScope {
    if namespaces.any {
        return NamespaceScope::all();
    }
    let mut names = namespaces.match_names.clone();
    if names.is_empty() {
        return NamespaceScope::only(own);
    }
    names.sort_unstable();
    names.dedup();
    NamespaceScope { names, selector: Selector::Nothing }
}

/// The Services of an input.
struct Services<'a> {
    all: Vec<&'a Service>,
    by_namespace: HashMap<&'a str, Vec<&'a Service>>,
}

impl<'a> Services<'a> {
    fn new(inventory: &'a Inventory) -> Services<'a> {
        let all: Vec<&Service> = inventory.services.iter().map(|entry| &entry.object).collect();
        let mut by_namespace: HashMap<&str, Vec<&Service>> = HashMap::new();
        for service in &all {
            by_namespace.entry(&service.metadata.namespace).or_default().push(service);
        }
        Services { all, by_namespace }
    }

    /// The Services of some namespaces with some labels. None if it is too much work.
    fn selected(
        &self,
        namespaces: &NamespaceScope,
        selector: &Selector,
        budget: &WorkBudget,
    ) -> Option<Vec<&'a Service>> {
        let names = namespaces.names.iter().filter_map(|name| self.by_namespace.get(name.as_str()));
        let of_names = names.flatten();
        let of_all = self.all.iter().filter(|_| namespaces.is_all());
        let mut selected = Vec::new();
        for service in of_names.chain(of_all) {
            budget.spend(1 + selector.requirements().len()).ok()?;
            if selector.matches(|key| service.metadata.label(key)) {
                budget.spend(KEPT_STEPS).ok()?;
                selected.push(*service);
            }
        }
        Some(selected)
    }
}
