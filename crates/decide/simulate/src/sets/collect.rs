//! The selectors of an input.

use std::collections::HashSet;

use berth_api::expand::{WorkloadPods, workload_pods};
use berth_api::inventory::{Entry, Inventory};
use berth_api::object::{LabelSelector, NetworkPolicyPeer, Pod};
use berth_api::read::SourceLocation;
use berth_api::rules::{
    KnownNamespaces, NamespaceScope, PodRules, PodSet, PodTerm, Selector, merge_label_keys,
};
use berth_api::syntax::annotations::AFFINITY_ANNOTATION;

use super::{SelectorOwner, SelectorRole};
use crate::simulation::{InvalidObject, SimulatedPod, SimulationError, workloads};

/// The selectors of an input with their objects.
#[derive(Clone, Debug)]
pub struct SelectorSets {
    pub(super) sets: Vec<(PodSet, SelectorOwner)>,
    pub(super) namespaces: KnownNamespaces,
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
        let mut sets =
            SelectorSets { sets: Vec::new(), namespaces, templates: Vec::new(), invalid: Vec::new() };
        for Entry { object: service, source, .. } in &inventory.services {
            // A Service without a selector has endpoints that others write.
            if !service.spec.selector.is_empty() && service.spec.service_type != "ExternalName" {
                let object = format!("Service {}", service.metadata.name);
                let owner =
                    owner(SelectorRole::Service, &service.metadata.namespace, object, "spec.selector");
                let match_labels = service.spec.selector.clone();
                let selector = LabelSelector { match_labels, ..LabelSelector::default() };
                sets.add(owner, None, Some(&selector), source);
            }
        }
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
                sets.add(owner, None, selector.as_ref(), &entry.source);
            }
            sets.templates.push((object, template));
        }
        for Entry { object: budget, source, .. } in &inventory.pod_disruption_budgets {
            let object = format!("PodDisruptionBudget {}", budget.metadata.name);
            let owner =
                owner(SelectorRole::DisruptionBudget, &budget.metadata.namespace, object, "spec.selector");
            sets.add(owner, None, budget.spec.selector.as_ref(), source);
        }
        for Entry { object: policy, source, .. } in &inventory.network_policies {
            let object = format!("NetworkPolicy {}", policy.metadata.name);
            let owner = |field: &str| {
                owner(SelectorRole::NetworkPolicy, &policy.metadata.namespace, object.clone(), field)
            };
            sets.add(owner("spec.podSelector"), None, Some(&policy.spec.pod_selector), source);
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

    /// Adds the affinity terms of the pods, and of the templates of workloads that have none. Equal terms of the pods of
    /// one workload are added once.
    pub fn add_terms(&mut self, pods: &[SimulatedPod], extensions: bool) {
        let mut seen = HashSet::new();
        let mut with_pods = HashSet::new();
        for SimulatedPod { pod, workload, .. } in pods {
            let namespace = &pod.metadata.namespace;
            if let Some(workload) = workload {
                with_pods.insert((namespace.clone(), workload.clone()));
            }
            let object = workload.clone().unwrap_or_else(|| format!("Pod {}", pod.metadata.name));
            for (set, owner) in terms(pod, object, extensions) {
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
                self.sets.extend(terms(&pod, object, extensions));
            }
        }
    }

    /// Keeps the selectors for which `keep` is true.
    pub fn retain(&mut self, keep: impl Fn(&SelectorOwner) -> bool) {
        self.sets.retain(|(_, owner)| keep(owner));
    }

    fn add_peer(&mut self, owner: SelectorOwner, peer: &NetworkPolicyPeer, source: &SourceLocation) {
        let NetworkPolicyPeer { pod_selector, namespace_selector } = peer;
        if pod_selector.is_none() && namespace_selector.is_none() {
            return;
        }
        let all = LabelSelector::default();
        let selector = pod_selector.as_ref().unwrap_or(&all);
        self.add(owner, namespace_selector.as_ref(), Some(selector), source);
    }

    /// Adds a selector for the namespace of its object, or for the namespaces that another selector selects.
    fn add(
        &mut self,
        owner: SelectorOwner,
        namespaces: Option<&LabelSelector>,
        selector: Option<&LabelSelector>,
        source: &SourceLocation,
    ) {
        let parse = |selector: Option<&LabelSelector>, part: &str| {
            Selector::parse(selector).map_err(|error| format!("{}{part}.{error}", owner.field))
        };
        let is_peer = owner.field.ends_with(']');
        let scope = match namespaces {
            None => Ok(NamespaceScope::only(&owner.namespace)),
            Some(namespaces) => parse(Some(namespaces), ".namespaceSelector")
                .map(|selector| NamespaceScope { names: Vec::new(), selector }),
        };
        let set = scope.and_then(|namespaces| {
            let selector = parse(selector, if is_peer { ".podSelector" } else { "" })?;
            Ok(PodSet { namespaces, selector })
        });
        match set {
            Ok(set) => self.sets.push((set, owner)),
            Err(error) => {
                let name = owner.object.replacen(' ', &format!(" {}/", owner.namespace), 1);
                let source = Some(source.clone());
                self.invalid.push(InvalidObject { object: name, source, errors: vec![error] });
            }
        }
    }
}

fn owner(role: SelectorRole, namespace: &str, object: String, field: &str) -> SelectorOwner {
    SelectorOwner { role, namespace: namespace.to_owned(), object, field: field.to_owned() }
}

/// The affinity terms of a pod.
fn terms(pod: &Pod, object: String, extensions: bool) -> Vec<(PodSet, SelectorOwner)> {
    if pod.spec.affinity.is_none() && !pod.metadata.annotations.contains_key(AFFINITY_ANNOTATION) {
        return Vec::new();
    }
    let rules = PodRules::parse(pod, extensions);
    let required = rules.required_affinity.into_iter().chain(rules.required_anti_affinity);
    let preferred = rules.preferred_affinity.into_iter().chain(rules.preferred_anti_affinity);
    let set = |PodTerm { path, selector, namespaces, .. }: PodTerm| {
        let owner = owner(SelectorRole::AffinityTerm, &pod.metadata.namespace, object.clone(), &path);
        (PodSet { namespaces, selector }, owner)
    };
    required.chain(preferred.map(|preferred| preferred.term)).map(set).collect()
}
