//! The color and the letter of each workload.

use std::collections::{BTreeMap, HashMap};

use berth_picture::{Class, Key, N_KINDS};
use berth_simulate::Simulation;

use crate::names::counted;
use crate::workloads::{WorkloadName, name_of};

/// Workloads that have a color of their own; the others share the last one.
const MAX_NAMED: usize = N_KINDS - 1;
const OTHER: (Class, char) = (Class::Kind(MAX_NAMED), '·');

/// The workloads with most pods, each with its color and letter.
#[derive(Default)]
pub(super) struct WorkloadKeys {
    named: BTreeMap<WorkloadName, (Class, char)>,
    n_others: usize,
}

impl WorkloadKeys {
    pub(super) fn new(simulation: &Simulation) -> WorkloadKeys {
        let mut n_pods: HashMap<(&str, &str), usize> = HashMap::new();
        let mut single = Vec::new();
        for pod in simulation.pods() {
            match &pod.workload {
                Some(workload) => *n_pods.entry((&pod.pod.metadata.namespace, workload)).or_default() += 1,
                None => single.push(pod),
            }
        }
        let n_workloads = n_pods.len() + single.len();
        // Those by name that may be named here.
        single.sort_by_key(|pod| (&pod.pod.metadata.namespace, &pod.pod.metadata.name));
        let single = single.into_iter().take(MAX_NAMED).map(|pod| (name_of(pod), 1));
        let owned = |((namespace, workload), n): ((&str, &str), usize)| {
            ((namespace.to_owned(), workload.to_owned()), n)
        };
        let mut names: Vec<(WorkloadName, usize)> = n_pods.into_iter().map(owned).chain(single).collect();
        names.sort_by(|(a, n_a), (b, n_b)| n_b.cmp(n_a).then_with(|| a.cmp(b)));
        let n_others = n_workloads.saturating_sub(MAX_NAMED);
        names.truncate(MAX_NAMED);
        let key = |(i, (name, _)): (usize, (WorkloadName, usize))| (name, (Class::Kind(i), letter(i)));
        WorkloadKeys { named: names.into_iter().enumerate().map(key).collect(), n_others }
    }

    pub(super) fn of(&self, name: &WorkloadName) -> (Class, char) {
        self.named.get(name).copied().unwrap_or(OTHER)
    }

    pub(super) fn legend(&self) -> Vec<Key> {
        let mut named: Vec<_> = self.named.iter().collect();
        named.sort_by_key(|(_, (_, letter))| *letter);
        let key = |((namespace, workload), (class, letter)): (&WorkloadName, &(Class, char))| Key {
            class: *class,
            mark: Some(*letter),
            text: format!("{namespace}/{workload}"),
        };
        let mut keys: Vec<_> = named.into_iter().map(key).collect();
        if self.n_others > 0 {
            let (class, mark) = OTHER;
            keys.push(Key { class, mark: Some(mark), text: counted(self.n_others, "other workload") });
        }
        keys
    }
}

fn letter(i: usize) -> char {
    char::from_u32('a' as u32 + u32::try_from(i).unwrap_or(0)).unwrap_or('a')
}
