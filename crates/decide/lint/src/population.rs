//! The pods of the input, in groups that no selector of the linted objects distinguishes.

use std::collections::{BTreeSet, HashMap};

use berth_api::object::StringMap;
use berth_input::inventory::Inventory;
use berth_rules::{KnownNamespaces, PodSet, Requirement, Selector};
use berth_simulate::Workloads;

use crate::added_labels::UNKNOWN_VALUE;
use crate::subject::Subject;
use crate::work::Work;

/// Pods with the same namespace, owner and labels, as far as selectors mention the labels.
pub(crate) struct PodGroup {
    pub(crate) namespace: String,
    /// The labels that some selector mentions.
    pub(crate) labels: StringMap,
    /// Position of the subject that has the pods; none for pods of other objects.
    pub(crate) subject: Option<usize>,
    pub(crate) is_running: bool,
    /// Labels whose values only the controller knows.
    unknown: Vec<&'static str>,
}

pub(crate) struct Population {
    pub(crate) groups: Vec<PodGroup>,
    by_namespace: HashMap<String, Vec<usize>>,
    namespaces: KnownNamespaces,
    work: Work,
}

impl Population {
    pub(crate) fn new(
        subjects: &[Subject<'_>],
        inventory: &Inventory,
        namespaces: KnownNamespaces,
        work: Work,
    ) -> Population {
        let mut keys = BTreeSet::new();
        for subject in subjects {
            for selector in selectors(subject) {
                keys.extend(selector.requirements().iter().map(|r| r.key().to_owned()));
            }
        }
        let mut population =
            Population { groups: Vec::new(), by_namespace: HashMap::new(), namespaces, work };
        let mut positions: HashMap<(String, String), usize> = HashMap::new();
        let mut linted_pods = HashMap::new();
        for (i, subject) in subjects.iter().enumerate() {
            if subject.template.is_empty() {
                linted_pods.insert(subject.object.order, i);
                continue;
            }
            let namespace = subject.namespace().to_owned();
            positions.insert((namespace.clone(), subject.shown()), i);
            if subject.replicas != Some(0) {
                let labels = known(&subject.pod.object.metadata.labels, &keys);
                let unknown = subject.unknown_labels();
                population.add(PodGroup { namespace, labels, subject: Some(i), is_running: false, unknown });
            }
        }
        let workloads = Workloads::new(inventory);
        let mut seen = HashMap::new();
        for entry in &inventory.pods {
            let pod = &entry.object;
            if pod.is_terminal() {
                continue;
            }
            let namespace = pod.metadata.namespace.clone();
            let subject = match workloads.owner(pod) {
                Some(workload) => positions.get(&(namespace.clone(), workload)).copied(),
                None => linted_pods.get(&entry.order).copied(),
            };
            let labels = known(&pod.metadata.labels, &keys);
            let is_running = !pod.spec.node_name.is_empty();
            if seen.insert((namespace.clone(), labels.clone(), subject, is_running), ()).is_none() {
                population.add(PodGroup { namespace, labels, subject, is_running, unknown: Vec::new() });
            }
        }
        population
    }

    fn add(&mut self, group: PodGroup) {
        self.by_namespace.entry(group.namespace.clone()).or_default().push(self.groups.len());
        self.groups.push(group);
    }

    /// Whether the input has running pods: what is not among them does not run.
    pub(crate) fn has_running(&self) -> bool {
        self.groups.iter().any(|group| group.is_running)
    }

    pub(crate) fn has_namespace(&self, namespace: &str) -> bool {
        self.by_namespace.contains_key(namespace)
    }

    pub(crate) fn in_set<'s>(&'s self, set: &PodSet) -> impl Iterator<Item = &'s PodGroup> + use<'s> {
        let is_named = set.namespaces.selector == Selector::Nothing;
        let named =
            || set.namespaces.names.iter().filter_map(|name| self.by_namespace.get(name)).flatten().copied();
        let candidates: Vec<usize> = match is_named {
            _ if self.work.is_spent() => Vec::new(),
            true => named().collect(),
            false => (0..self.groups.len()).collect(),
        };
        let set = set.clone();
        candidates.into_iter().map(|i| &self.groups[i]).filter(move |group| self.is_in(group, &set))
    }

    /// Whether the pods of a group are in a set, or could be as far as only their controller knows.
    pub(crate) fn is_in(&self, group: &PodGroup, set: &PodSet) -> bool {
        if !self.work.spend(1 + set.selector.requirements().len() + set.namespaces.names.len()) {
            return false;
        }
        // A value that stands for another unknown one is compared: workloads have different ones.
        let labels = |requirement: &Requirement| {
            let key = requirement.key();
            let is_unknown = group.unknown.contains(&key) && !is_unknown_value(requirement);
            is_unknown || requirement.matches(group.labels.get(key).map(String::as_str))
        };
        set.selector != Selector::Nothing
            && set.selector.requirements().iter().all(labels)
            && set.namespaces_contain(&group.namespace, &self.namespaces)
    }
}

fn is_unknown_value(requirement: &Requirement) -> bool {
    let (Requirement::In(_, values) | Requirement::NotIn(_, values)) = requirement else { return false };
    values.iter().any(|value| value.starts_with(UNKNOWN_VALUE))
}

/// The label selectors of pods in the rules of a subject.
fn selectors<'a>(subject: &'a Subject<'_>) -> impl Iterator<Item = &'a Selector> {
    let terms = subject.terms().map(|term| &term.term.selector);
    terms.chain(subject.pod.rules.spread_constraints.iter().map(|constraint| &constraint.selector))
}

fn known(labels: &StringMap, keys: &BTreeSet<String>) -> StringMap {
    labels.iter().filter(|(key, _)| keys.contains(*key)).map(|(k, v)| (k.clone(), v.clone())).collect()
}
