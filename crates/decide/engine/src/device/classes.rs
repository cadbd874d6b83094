//! Equal devices of one search: what fails with one of them fails with all.

use std::collections::HashMap;

/// The class of each candidate.
pub(super) struct Classes(Vec<usize>);

impl Classes {
    /// Candidates with equal keys are of one class.
    pub(super) fn new(keys: impl Iterator<Item = String>) -> Classes {
        let mut numbers: HashMap<String, usize> = HashMap::new();
        let class = |key| {
            let n = numbers.len();
            *numbers.entry(key).or_insert(n)
        };
        Classes(keys.map(class).collect())
    }

    pub(super) fn of(&self, candidate: usize) -> usize {
        self.0[candidate]
    }
}
