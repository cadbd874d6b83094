//! The selectors of an input.

use std::collections::HashSet;

use berth_api::object::{LabelSelector, NetworkPolicyPeer, Pod};
use berth_api::read::SourceLocation;
use berth_api::syntax::annotations::AFFINITY_ANNOTATION;
use berth_control::expand::{WorkloadPods, workload_pods};
use berth_input::inventory::{Entry, Inventory};
use berth_rules::{
    KnownNamespaces, NamespaceScope, PodSet, PodTerm, Selector, SpreadConstraint, merge_label_keys,
};

use super::{EmptySet, PodUse, SelectorOwner, SelectorRole};
use crate::Simulation;
use crate::simulation::{InvalidObject, SimulatedPod, SimulationError, workloads};

/// The selectors of an input with their objects.
#[derive(Clone, Debug)]
pub struct SelectorSets {
    pub(super) sets: Vec<(PodSet, SelectorOwner)>,
    pub(super) namespaces: KnownNamespaces,
    /// ServiceMonitors that select no Service.
    pub(super) without_service: Vec<EmptySet>,
    pub(super) n_monitors_not_compared: usize,
    /// Templates of the workloads of the input, in case that they have no pods.
    templates: Vec<(String, Pod)>,
    invalid: Vec<InvalidObject>,
}

impl SelectorSets {
    /// The selectors of the objects of an input.
    ///
    /// # Errors
    /// A selector is not valid; the error names all such selectors.
    pub fn new(inventory: &Inventory) -> Result<SelectorSets, SimulationError> {
        let namespaces = KnownNamespaces::new(inventory.namespaces.iter().map(|entry| &entry.object));
        let mut sets = SelectorSets {
            sets: Vec::new(),
            namespaces,
            without_service: Vec::new(),
            n_monitors_not_compared: 0,
            templates: Vec::new(),
            invalid: Vec::new(),
        };
        for Entry { object: service, source, .. } in &inventory.services {
            // A Service without a selector has endpoints that others write.
            if let Some(selector) = service.spec.pod_selector() {
                let object = format!("Service {}", service.metadata.name);
                let owner =
                    owner(SelectorRole::Service, &service.metadata.namespace, object, "spec.selector");
                let owner = SelectorOwner { uses: PodUse::of_service(&service.spec), ..owner };
                sets.add_own(owner, Some(&selector), source);
            }
        }
        sets.add_monitors(inventory);
        for entry in &inventory.workloads {
            let metadata = entry.object.metadata();
            // Its owner has a selector that contains this one.
            if workloads::owning_workload(metadata).is_some() {
                continue;
            }
            let WorkloadPods { selector, template } = workload_pods(entry)?;
            let object = workloads::name(&entry.object);
            if selector.is_some() {
                let owner =
                    owner(SelectorRole::Controller, &metadata.namespace, object.clone(), "spec.selector");
                sets.add_own(owner, selector.as_ref(), &entry.source);
            }
            sets.templates.push((object, template));
        }
        for Entry { object: budget, source, .. } in &inventory.pod_disruption_budgets {
            let object = format!("PodDisruptionBudget {}", budget.metadata.name);
            let owner =
                owner(SelectorRole::DisruptionBudget, &budget.metadata.namespace, object, "spec.selector");
            sets.add_own(owner, budget.spec.selector.as_ref(), source);
        }
        for Entry { object: policy, source, .. } in &inventory.network_policies {
            let object = format!("NetworkPolicy {}", policy.metadata.name);
            let owner = |field: &str| {
                owner(SelectorRole::NetworkPolicy, &policy.metadata.namespace, object.clone(), field)
            };
            sets.add_own(owner("spec.podSelector"), Some(&policy.spec.pod_selector), source);
            for (direction, rules) in [("ingress", &policy.spec.ingress), ("egress", &policy.spec.egress)] {
                for (i, rule) in rules.iter().enumerate() {
                    for (side, peers) in [("from", &rule.from), ("to", &rule.to)] {
                        for (j, peer) in peers.iter().enumerate() {
                            let field = format!("spec.{direction}[{i}].{side}[{j}]");
                            sets.add_peer(owner(&field), peer, source);
                        }
                    }
                }
            }
        }
        match sets.invalid.is_empty() {
            true => Ok(sets),
            false => Err(SimulationError::Invalid(sets.invalid)),
        }
    }

    /// Adds the affinity terms and spread constraints of the pods, and of the templates of workloads that have none. Equal
    /// terms of the pods of one workload are added once.
    pub fn add_terms(&mut self, simulation: &Simulation) {
        let mut seen = HashSet::new();
        let mut with_pods = HashSet::new();
        for SimulatedPod { pod, workload, .. } in simulation.pods() {
            let namespace = &pod.metadata.namespace;
            if let Some(workload) = workload {
                with_pods.insert((namespace.clone(), workload.clone()));
            }
            let object = workload.clone().unwrap_or_else(|| format!("Pod {}", pod.metadata.name));
            for (set, owner) in terms(simulation, pod, object) {
                if seen.insert((
                    owner.namespace.clone(),
                    owner.object.clone(),
                    owner.field.clone(),
                    set.clone(),
                )) {
                    self.sets.push((set, owner));
                }
            }
        }
        for (object, mut pod) in std::mem::take(&mut self.templates) {
            if !with_pods.contains(&(pod.metadata.namespace.clone(), object.clone())) {
                merge_label_keys(&mut pod);
                self.sets.extend(terms(simulation, &pod, object));
            }
        }
    }

    /// Keeps the selectors for which `keep` is true.
    pub fn retain(&mut self, keep: impl Fn(&SelectorOwner) -> bool) {
        self.sets.retain(|(_, owner)| keep(owner));
        self.without_service.retain(|empty| keep(&empty.owner));
    }

    fn add_peer(&mut self, owner: SelectorOwner, peer: &NetworkPolicyPeer, source: &SourceLocation) {
        let NetworkPolicyPeer { pod_selector, namespace_selector } = peer;
        if pod_selector.is_none() && namespace_selector.is_none() {
            return;
        }
        let all = LabelSelector::default();
        let selector = pod_selector.as_ref().unwrap_or(&all);
        let namespaces = match namespace_selector {
            None => NamespaceScope::only(&owner.namespace),
            Some(namespaces) => {
                let field = format!("{}.namespaceSelector", owner.field);
                let Some(selector) = self.parse(&owner, &field, Some(namespaces), source) else { return };
                NamespaceScope { names: Vec::new(), selector }
            }
        };
        let field = format!("{}.podSelector", owner.field);
        if let Some(selector) = self.parse(&owner, &field, Some(selector), source) {
            self.sets.push((PodSet { namespaces, selector }, owner));
        }
    }

    /// Adds the selector of an object for pods of the same namespace.
    fn add_own(&mut self, owner: SelectorOwner, selector: Option<&LabelSelector>, source: &SourceLocation) {
        if let Some(selector) = self.parse(&owner, &owner.field, selector, source) {
            let namespaces = NamespaceScope::only(&owner.namespace);
            self.sets.push((PodSet { namespaces, selector }, owner));
        }
    }

    /// Parses a selector; notes the error of an invalid one.
    pub(super) fn parse(
        &mut self,
        owner: &SelectorOwner,
        field: &str,
        selector: Option<&LabelSelector>,
        source: &SourceLocation,
    ) -> Option<Selector> {
        let invalid = |error: String| InvalidObject {
            object: owner.object.replacen(' ', &format!(" {}/", owner.namespace), 1),
            source: Some(source.clone()),
            errors: vec![format!("{field}.{error}")],
        };
        Selector::parse(selector).map_err(|error| self.invalid.push(invalid(error))).ok()
    }
}

pub(super) fn owner(role: SelectorRole, namespace: &str, object: String, field: &str) -> SelectorOwner {
    let (namespace, field) = (namespace.to_owned(), field.to_owned());
    SelectorOwner { role, namespace, object, field, through_service: None, uses: PodUse::default() }
}

/// The affinity terms and spread constraints of a pod.
fn terms(simulation: &Simulation, pod: &Pod, object: String) -> Vec<(PodSet, SelectorOwner)> {
    let has_affinity =
        pod.spec.affinity.is_some() || pod.metadata.annotations.contains_key(AFFINITY_ANNOTATION);
    if !has_affinity && pod.spec.topology_spread_constraints.is_empty() {
        return Vec::new();
    }
    let rules = simulation.rules_of(pod);
    let namespace = &pod.metadata.namespace;
    let constraint = |SpreadConstraint { path, selector, .. }: SpreadConstraint| {
        let owner = owner(SelectorRole::SpreadConstraint, namespace, object.clone(), &path);
        (PodSet { namespaces: NamespaceScope::only(namespace), selector }, owner)
    };
    let required = rules.required_affinity.into_iter().chain(rules.required_anti_affinity);
    let preferred = rules.preferred_affinity.into_iter().chain(rules.preferred_anti_affinity);
    let term = |PodTerm { path, selector, namespaces, .. }: PodTerm| {
        let owner = owner(SelectorRole::AffinityTerm, namespace, object.clone(), &path);
        (PodSet { namespaces, selector }, owner)
    };
    let terms = required.chain(preferred.map(|preferred| preferred.term)).map(term);
    terms.chain(rules.spread_constraints.into_iter().map(constraint)).collect()
}
