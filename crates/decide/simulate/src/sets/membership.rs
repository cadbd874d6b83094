//! The pods of each set.

use std::collections::{BTreeMap, HashMap};

use berth_api::object::StringMap;
use berth_api::rules::{KnownNamespaces, PodSet, Selector};

use super::{Intersection, PodGroup};
use crate::simulation::SimulatedPod;

/// The pods by the sets that they are in, most pods first.
pub(super) fn intersections(
    sets: &[&PodSet],
    known: &KnownNamespaces,
    pods: &[&SimulatedPod],
) -> Vec<Intersection> {
    let index = NamespaceIndex::new(sets);
    let mut of_labels: HashMap<(&str, &StringMap), Vec<usize>> = HashMap::new();
    let mut groups: BTreeMap<Vec<usize>, BTreeMap<(&str, String), usize>> = BTreeMap::new();
    for SimulatedPod { pod, workload, .. } in pods {
        let (namespace, labels) = (pod.metadata.namespace.as_str(), &pod.metadata.labels);
        let members = of_labels.entry((namespace, labels)).or_insert_with(|| {
            let contains = |i: &usize| sets[*i].contains(namespace, labels, known);
            index.candidates(namespace).filter(contains).map(|i| i + 1).collect()
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
struct NamespaceIndex<'a> {
    by_name: HashMap<&'a str, Vec<usize>>,
    by_label: Vec<usize>,
}

impl<'a> NamespaceIndex<'a> {
    fn new(sets: &[&'a PodSet]) -> Self {
        let mut index = NamespaceIndex { by_name: HashMap::new(), by_label: Vec::new() };
        for (i, set) in sets.iter().enumerate() {
            if set.namespaces.selector != Selector::Nothing {
                index.by_label.push(i);
                continue;
            }
            for name in &set.namespaces.names {
                index.by_name.entry(name).or_default().push(i);
            }
        }
        index
    }

    /// Ascending positions.
    fn candidates(&self, namespace: &str) -> impl Iterator<Item = usize> {
        let mut candidates = self.by_name.get(namespace).cloned().unwrap_or_default();
        candidates.extend(&self.by_label);
        candidates.sort_unstable();
        candidates.into_iter()
    }
}
