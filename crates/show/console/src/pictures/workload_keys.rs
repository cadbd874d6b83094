//! The color and the letter of each workload.

use std::cmp::Reverse;
use std::collections::HashMap;

use berth_api::syntax::format::counted;
use berth_picture::{Class, Key, N_KINDS};

use crate::overview::Pods;
use crate::pod_table::{PodTable, Subject};
use crate::workloads::{WorkloadName, name_of};

/// Workloads with a separate color; the others share the last one.
const MAX_NAMED: usize = N_KINDS - 1;
const OTHER: (Class, char) = (Class::Kind(MAX_NAMED), '·');

/// The workloads with most pods, each with its color and letter.
#[derive(Default)]
pub(super) struct WorkloadKeys {
    /// By the number of the workload.
    of_workload: Vec<Option<(Class, char)>>,
    /// By the position of a pod without a workload.
    of_single: HashMap<usize, (Class, char)>,
    /// In the order of the legend.
    named: Vec<(WorkloadName, (Class, char))>,
    n_others: usize,
}

impl WorkloadKeys {
    pub(super) fn new(pods: Pods<'_>) -> WorkloadKeys {
        let table = pods.table;
        let mut n_pods = vec![0_usize; table.n_numbers()];
        (0..table.n_pods()).filter_map(|at| table.workload(at)).for_each(|number| n_pods[number] += 1);
        let single: Vec<usize> = table.single().collect();
        let n_subjects = table.workloads().count() + single.len();
        let workloads =
            table.workloads().map(|(number, name)| (n_pods[number], name.clone(), Subject::Workload(number)));
        // Those by name that may be named here.
        let single = pods.sorted(single, MAX_NAMED).into_iter();
        let single = single.map(|(at, pod)| (1, name_of(pod), Subject::Single(at)));
        let mut subjects: Vec<_> = workloads.chain(single).collect();
        subjects.sort_by(|(n_a, a, _), (n_b, b, _)| (Reverse(n_a), a).cmp(&(Reverse(n_b), b)));
        subjects.truncate(MAX_NAMED);
        let mut keys = WorkloadKeys {
            of_workload: vec![None; table.n_numbers()],
            n_others: n_subjects.saturating_sub(MAX_NAMED),
            ..WorkloadKeys::default()
        };
        for (i, (_, name, subject)) in subjects.into_iter().enumerate() {
            let key = (Class::Kind(i), letter(i));
            match subject {
                Subject::Workload(number) => keys.of_workload[number] = Some(key),
                Subject::Single(at) => _ = keys.of_single.insert(at, key),
            }
            keys.named.push((name, key));
        }
        keys
    }

    /// The color and the letter of the pod at a position.
    pub(super) fn of(&self, table: &PodTable, position: usize) -> (Class, char) {
        let key = match table.subject(position) {
            Subject::Workload(number) => self.of_workload.get(number).copied().flatten(),
            Subject::Single(at) => self.of_single.get(&at).copied(),
        };
        key.unwrap_or(OTHER)
    }

    pub(super) fn legend(&self) -> Vec<Key> {
        let key = |((namespace, workload), (class, letter)): &(WorkloadName, (Class, char))| Key {
            class: *class,
            mark: Some(*letter),
            text: format!("{namespace}/{workload}"),
        };
        let mut keys: Vec<_> = self.named.iter().map(key).collect();
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
