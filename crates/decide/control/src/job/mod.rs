//! The pods of a Job: which of them are to be deleted, and how many are to be created, with which indexes.

mod indexes;

use std::collections::HashSet;

use jiff::Timestamp;

pub use indexes::Indexes;

/// What the steps depend on.
#[derive(Clone, Copy, Debug)]
pub struct Job<'a> {
    /// `spec.parallelism`, at least 0.
    pub parallelism: i32,
    /// `spec.completions`.
    pub completions: Option<i32>,
    /// Whether `spec.completionMode` is `Indexed`: then it has `completions`.
    pub is_indexed: bool,
    /// How many pods have succeeded.
    pub succeeded: i32,
    /// Indexes that have succeeded.
    pub completed: &'a Indexes,
    /// Indexes that have failed for good.
    pub failed: &'a Indexes,
    /// The completion index of each active pod; those come first that are kept longest, see [`rank`].
    pub active: &'a [Option<i32>],
    /// Those of pods that are being deleted and are replaced when they have ended.
    pub awaited: &'a [Option<i32>],
}

/// The order in which active pods are kept.
pub type Rank<'a> = (bool, bool, bool, Option<Timestamp>, &'a str);

/// The rank of a pod; those with the lowest are kept longest.
pub fn rank<'a>(
    is_ready: bool,
    phase: &str,
    node: &str,
    created: Option<Timestamp>,
    name: &'a str,
) -> Rank<'a> {
    (!is_ready, phase != "Running", node.is_empty(), created, name)
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Steps {
    /// Positions of active pods to delete.
    pub delete: Vec<usize>,
    /// Number of pods to create. Those of an indexed Job have [`Job::free_indexes`], of which there may be fewer.
    pub n_missing: usize,
}

impl Job<'_> {
    /// The active pods that an indexed Job keeps: one for each index that it wants. For others, all.
    fn kept(&self) -> (Vec<usize>, HashSet<i32>) {
        let mut taken = HashSet::new();
        let is_wanted = |index: i32| {
            Some(index) < self.completions && !self.completed.contains(index) && !self.failed.contains(index)
        };
        let mut keeps = |index: Option<i32>| {
            !self.is_indexed || index.is_some_and(|index| is_wanted(index) && taken.insert(index))
        };
        let kept = (0..self.active.len()).filter(|at| keeps(self.active[*at])).collect();
        (kept, taken)
    }

    pub fn steps(&self) -> Steps {
        let (mut kept, _) = self.kept();
        let mut delete: Vec<usize> =
            (0..self.active.len()).filter(|at| kept.binary_search(at).is_err()).collect();
        let wanted = match self.completions {
            // A work queue: after the first success no pods are created, and the others run to completion.
            None if self.succeeded > 0 => kept.len(),
            None => usize::try_from(self.parallelism).unwrap_or(0),
            Some(n) => usize::try_from(n.saturating_sub(self.succeeded).min(self.parallelism)).unwrap_or(0),
        };
        delete.extend(kept.split_off(wanted.min(kept.len())));
        Steps { delete, n_missing: wanted.saturating_sub(kept.len() + self.awaited.len()) }
    }

    /// The indexes of an indexed Job that new pods may have, the lowest first.
    pub fn free_indexes(&self) -> impl Iterator<Item = i32> {
        let (_, mut taken) = self.kept();
        taken.extend(self.awaited.iter().flatten());
        let free = self.completed.free(self.failed, self.completions.unwrap_or(0));
        free.filter(move |index| !taken.contains(index))
    }
}
