//! The color and the letter of each pod, by its workload or by something else that it has in common with others.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use berth_api::syntax::format::{counted, grouped};
use berth_picture::{Class, Key, N_KINDS};
use berth_simulate::SimulatedPod;
use jiff::Timestamp;

use crate::overview::Pods;
use crate::pod_table::{PodTable, Subject};
use crate::workloads::name_of;

const OTHER: (Class, char) = (Class::Other, '·');
/// Ages of pods: the limit in seconds, and its name.
const AGES: [(i64, &str); 5] = [
    (600, "younger than 10 minutes"),
    (3600, "younger than an hour"),
    (86_400, "younger than a day"),
    (7 * 86_400, "younger than a week"),
    (i64::MAX, "a week old or older"),
];

/// What pods with the same color have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyBy {
    Workload,
    Namespace,
    Group,
    /// The priority class, or the number.
    Priority,
    /// The time since the creation of the pod.
    Age(Timestamp),
}

/// What most pods have in common, each with its color and letter.
#[derive(Default)]
pub(super) struct Keys {
    /// By the number of the workload.
    of_workload: Vec<Option<(Class, char)>>,
    /// By the position of a pod; first of all.
    of_pod: HashMap<usize, (Class, char)>,
    /// In the order of the legend.
    named: Vec<(String, (Class, char))>,
    /// Number and name of what has no color of its own.
    others: Option<String>,
}

impl Keys {
    pub(super) fn new(pods: Pods<'_>, by: KeyBy) -> Keys {
        match by {
            KeyBy::Workload => Keys::by_workload(pods),
            KeyBy::Namespace => Keys::by_namespace(pods),
            KeyBy::Group => {
                let group = |pod: &SimulatedPod| Some((0, pod.group.as_ref()?.name.to_string()));
                Keys::by_pod(pods, "pod without a group", group)
            }
            KeyBy::Priority => Keys::by_pod(pods, "pod of other priorities", |pod| {
                let spec = &pod.pod.spec;
                let priority = spec.priority.unwrap_or(0);
                let class = spec.priority_class_name.clone();
                let name = if class.is_empty() { "priority".to_owned() } else { class };
                Some((-i64::from(priority), format!("{name} ({})", priority)))
            }),
            KeyBy::Age(now) => Keys::by_pod(pods, "pod without a time", |pod| {
                let created = pod.pod.metadata.creation_timestamp?;
                let age = now.as_second() - created.as_second();
                let (limit, name) = AGES.iter().find(|(limit, _)| age < *limit)?;
                Some((*limit, (*name).to_owned()))
            }),
        }
    }

    fn by_workload(pods: Pods<'_>) -> Keys {
        let table = pods.table;
        let mut n_pods = vec![0_usize; table.n_numbers()];
        (0..table.n_pods()).filter_map(|at| table.workload(at)).for_each(|number| n_pods[number] += 1);
        let single: Vec<usize> = table.single().collect();
        let n_subjects = table.workloads().count() + single.len();
        let workloads =
            table.workloads().map(|(number, name)| (n_pods[number], name.clone(), Subject::Workload(number)));
        // Those by name that may be named here.
        let single = pods.sorted(single, N_KINDS).into_iter();
        let single = single.map(|(at, pod)| (1, name_of(pod), Subject::Single(at)));
        let mut subjects: Vec<_> = workloads.chain(single).collect();
        subjects.sort_by(|(n_a, a, _), (n_b, b, _)| (Reverse(n_a), a).cmp(&(Reverse(n_b), b)));
        subjects.truncate(N_KINDS);
        let n_others = n_subjects.saturating_sub(N_KINDS);
        let mut keys = Keys {
            of_workload: vec![None; table.n_numbers()],
            others: (n_others > 0).then(|| counted(n_others, "other workload")),
            ..Keys::default()
        };
        for (i, (_, (namespace, workload), subject)) in subjects.into_iter().enumerate() {
            match subject {
                Subject::Workload(number) => keys.of_workload[number] = Some(key(i)),
                Subject::Single(at) => _ = keys.of_pod.insert(at, key(i)),
            }
            keys.named.push((format!("{namespace}/{workload}"), key(i)));
        }
        keys
    }

    fn by_namespace(pods: Pods<'_>) -> Keys {
        let table = pods.table;
        let namespace = |at: usize| match table.workload(at) {
            Some(number) => table.name_of(number).0.as_str(),
            None => pods.at(at).pod.metadata.namespace.as_str(),
        };
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        (0..table.n_pods()).for_each(|at| *counts.entry(namespace(at)).or_default() += 1);
        let mut named: Vec<_> = counts.into_iter().collect();
        named.sort_by_key(|(name, n)| (Reverse(*n), *name));
        let n_others = named.len().saturating_sub(N_KINDS);
        named.truncate(N_KINDS);
        let of = |name: &str| named.iter().position(|(other, _)| *other == name).map(key);
        let mut of_workload = vec![None; table.n_numbers()];
        table.workloads().for_each(|(number, (name, _))| of_workload[number] = of(name));
        Keys {
            of_workload,
            of_pod: table.single().filter_map(|at| Some((at, of(namespace(at))?))).collect(),
            named: named.iter().enumerate().map(|(i, (name, _))| ((*name).to_owned(), key(i))).collect(),
            others: (n_others > 0).then(|| counted(n_others, "other namespace")),
        }
    }

    /// `key_of` gives the rank in the legend, and the name; those with most pods have a color.
    fn by_pod(pods: Pods<'_>, rest: &str, key_of: impl Fn(&SimulatedPod) -> Option<(i64, String)>) -> Keys {
        let mut positions: BTreeMap<(i64, String), Vec<usize>> = BTreeMap::new();
        for at in 0..pods.table.n_pods() {
            if let Some(found) = key_of(pods.at(at)) {
                positions.entry(found).or_default().push(at);
            }
        }
        let mut sizes: Vec<usize> = positions.values().map(Vec::len).collect();
        sizes.sort_unstable_by_key(|n| Reverse(*n));
        let least = sizes.get(N_KINDS).copied().unwrap_or(0);
        let mut keys = Keys { of_workload: vec![None; pods.table.n_numbers()], ..Keys::default() };
        for ((_, name), positions) in positions.into_iter().filter(|(_, p)| p.len() > least).take(N_KINDS) {
            let key = key(keys.named.len());
            keys.of_pod.extend(positions.into_iter().map(|at| (at, key)));
            keys.named.push((name, key));
        }
        let n_rest = pods.table.n_pods() - keys.of_pod.len();
        let rest = if n_rest == 1 { rest.to_owned() } else { rest.replacen("pod", "pods", 1) };
        keys.others = (n_rest > 0).then(|| format!("{} {rest}", grouped(n_rest)));
        keys
    }

    /// The color and the letter of the pod at a position.
    pub(super) fn of(&self, table: &PodTable, position: usize) -> (Class, char) {
        let by_pod = || self.of_pod.get(&position).copied();
        let by_workload = || self.of_workload.get(table.workload(position)?).copied().flatten();
        by_pod().or_else(by_workload).unwrap_or(OTHER)
    }

    pub(super) fn legend(&self) -> Vec<Key> {
        let key = |(text, (class, letter)): &(String, (Class, char))| Key {
            class: *class,
            mark: Some(*letter),
            text: text.clone(),
        };
        let mut keys: Vec<_> = self.named.iter().map(key).collect();
        if let Some(text) = &self.others {
            let (class, mark) = OTHER;
            keys.push(Key { class, mark: Some(mark), text: text.clone() });
        }
        keys
    }
}

/// The i-th color and letter.
fn key(i: usize) -> (Class, char) {
    (Class::Kind(i), char::from(b'a' + (i % 26) as u8))
}
