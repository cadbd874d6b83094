//! The pods of each set.

use std::collections::{BTreeMap, HashMap};

use berth_api::object::StringMap;
use berth_rules::{KnownNamespaces, PodSet, Selector};

use super::{Intersection, PodGroup};
use crate::simulation::SimulatedPod;

/// The pods by the sets that they are in, most pods first.
pub(super) fn intersections(
    sets: &[&PodSet],
    known: &KnownNamespaces,
    pods: &[&SimulatedPod],
) -> Vec<Intersection> {
    let mut index = NamespaceIndex::default();
    sets.iter().enumerate().for_each(|(i, set)| index.add(i, set));
    let mut of_labels: HashMap<(&str, &StringMap), Vec<usize>> = HashMap::new();
    let mut groups: BTreeMap<Vec<usize>, BTreeMap<(&str, String), usize>> = BTreeMap::new();
    for SimulatedPod { pod, workload, .. } in pods {
        let (namespace, labels) = (pod.metadata.namespace.as_str(), &pod.metadata.labels);
        let members = of_labels.entry((namespace, labels)).or_insert_with(|| {
            let contains = |i: &usize| sets[*i].contains(namespace, labels, known);
            index.of_namespaces([namespace]).into_iter().filter(contains).map(|i| i + 1).collect()
        });
        let object = workload.clone().unwrap_or_else(|| format!("Pod {}", pod.metadata.name));
        *groups.entry(members.clone()).or_default().entry((namespace, object)).or_default() += 1;
    }
    let intersection = |(sets, groups): (_, BTreeMap<(&str, String), usize>)| {
        let group = |((namespace, object), n_pods): ((&str, String), usize)| PodGroup {
            namespace: namespace.to_owned(),
            object,
            n_pods,
        };
        let n_pods = groups.values().sum();
        let pods = groups.into_iter().map(group).collect();
        Intersection { sets, selected_twice_by: Vec::new(), n_pods, pods }
    };
    let mut intersections: Vec<_> = groups.into_iter().map(intersection).collect();
    intersections.sort_by(|a, b| b.n_pods.cmp(&a.n_pods).then_with(|| a.sets.cmp(&b.sets)));
    intersections
}

/// The sets that can have pods of a namespace.
#[derive(Default)]
pub(super) struct NamespaceIndex<'a> {
    by_name: HashMap<&'a str, Vec<usize>>,
    by_label: Vec<usize>,
}

impl<'a> NamespaceIndex<'a> {
    pub(super) fn add(&mut self, position: usize, set: &'a PodSet) {
        if set.namespaces.selector != Selector::Nothing {
            return self.by_label.push(position);
        }
        for name in &set.namespaces.names {
            self.by_name.entry(name).or_default().push(position);
        }
    }

    /// The positions, of `n` in all, of sets that can have pods in a namespace of another set; ascending.
    pub(super) fn candidates(&self, set: &PodSet, n: usize) -> Vec<usize> {
        match set.namespaces.selector {
            Selector::Nothing => self.of_namespaces(set.namespaces.names.iter().map(String::as_str)),
            Selector::All(_) => (0..n).collect(),
        }
    }

    /// Ascending positions.
    fn of_namespaces<'n>(&self, names: impl IntoIterator<Item = &'n str>) -> Vec<usize> {
        let by_name = names.into_iter().filter_map(|name| self.by_name.get(name)).flatten();
        let mut positions: Vec<usize> = by_name.chain(&self.by_label).copied().collect();
        positions.sort_unstable();
        positions.dedup();
        positions
    }
}
