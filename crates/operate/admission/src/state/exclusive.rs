//! Exclusive pods: pods that reject all other pods on their node.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use berth_api::object::Pod;
use berth_api::syntax::labels::HOSTNAME;
use berth_rules::{NodeRequirement, NodeTerm, PodRules, PodTerm, Requirement, Selector, TopologyScope};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ExclusivePod {
    pub(crate) node: Option<String>,
    /// The only node it may use, if its rules allow just one.
    pub(crate) pinned: Option<String>,
}

/// The required anti-affinity that gives a pod its own node: over all namespaces, by host name, against all pods,
/// or all but those with certain labels.
pub(crate) fn exclusive_term(rules: &PodRules) -> Option<&PodTerm> {
    let is_exception = |r: &Requirement| matches!(r, Requirement::NotIn(..) | Requirement::DoesNotExist(_));
    rules.required_anti_affinity.iter().find(|term| {
        let is_node = matches!(&term.topology, TopologyScope::Key(key) if key == HOSTNAME);
        let is_all = matches!(&term.selector, Selector::All(all) if all.iter().all(is_exception));
        is_node && is_all && term.limit == 0 && term.namespaces.is_all()
    })
}

/// The only node a pod may use, if it names it by node name or host name.
pub(crate) fn pinned_node(pod: &Pod, rules: &PodRules) -> Option<String> {
    if !pod.spec.node_name.is_empty() {
        return Some(pod.spec.node_name.clone());
    }
    if let Some(name) = pod.spec.node_selector.get(HOSTNAME) {
        return Some(name.clone());
    }
    rules.required_node_affinity.iter().find_map(|rule| {
        let [NodeTerm::All(requirements)] = rule.terms.as_slice() else { return None };
        requirements.iter().find_map(|requirement| match requirement {
            NodeRequirement::Label(requirement) if requirement.key() != HOSTNAME => None,
            NodeRequirement::Label(Requirement::In(_, names))
            | NodeRequirement::Name(Requirement::In(_, names)) => match names.as_slice() {
                [name] => Some(name.clone()),
                _ => None,
            },
            _ => None,
        })
    })
}

/// All of them, by namespace.
pub(crate) struct ExclusiveNodes {
    /// By namespace, then name.
    seen: HashMap<String, HashMap<String, ExclusivePod>>,
    /// Created, but not in the state yet: by namespace, then name (or request uid with `generateName`).
    reserved: HashMap<String, HashMap<String, (ExclusivePod, Instant)>>,
    reserved_for: Duration,
}

impl ExclusiveNodes {
    pub(crate) fn new(reserved_for: Duration) -> ExclusiveNodes {
        ExclusiveNodes { seen: HashMap::new(), reserved: HashMap::new(), reserved_for }
    }

    pub(crate) fn saw(&mut self, pod: &Pod, rules: Option<&PodRules>) {
        let metadata = &pod.metadata;
        let (namespace, name) = (&metadata.namespace, &metadata.name);
        remove(&mut self.reserved, namespace, name);
        match rules.filter(|rules| exclusive_term(rules).is_some()) {
            Some(rules) => {
                let node = Some(pod.spec.node_name.clone()).filter(|node| !node.is_empty());
                let pod = ExclusivePod { node, pinned: pinned_node(pod, rules) };
                self.seen.entry(namespace.clone()).or_default().insert(name.clone(), pod);
            }
            None => remove(&mut self.seen, namespace, name),
        }
    }

    pub(crate) fn gone(&mut self, namespace: &str, name: &str) {
        remove(&mut self.seen, namespace, name);
    }

    /// A pod that was allowed counts from now on.
    pub(crate) fn reserve(&mut self, namespace: &str, name: &str, pod: ExclusivePod, now: Instant) {
        let until = now + self.reserved_for;
        self.reserved.entry(namespace.to_owned()).or_default().insert(name.to_owned(), (pod, until));
    }

    pub(crate) fn expire(&mut self, now: Instant) {
        for pods in self.reserved.values_mut() {
            pods.retain(|_, (_, until)| *until > now);
        }
        self.reserved.retain(|_, pods| !pods.is_empty());
    }

    /// Those of a namespace, but for one name.
    pub(crate) fn of<'a>(&'a self, namespace: &str, but: &'a str) -> impl Iterator<Item = &'a ExclusivePod> {
        let seen = self.seen.get(namespace).into_iter().flatten();
        let reserved = self.reserved.get(namespace).into_iter().flatten().map(|(name, (pod, _))| (name, pod));
        seen.chain(reserved).filter(move |(name, _)| *name != but).map(|(_, pod)| pod)
    }
}

fn remove<T>(by_namespace: &mut HashMap<String, HashMap<String, T>>, namespace: &str, name: &str) {
    if let Some(pods) = by_namespace.get_mut(namespace) {
        pods.remove(name);
        if pods.is_empty() {
            by_namespace.remove(namespace);
        }
    }
}
