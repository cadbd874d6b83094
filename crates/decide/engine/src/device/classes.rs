//! Equal devices of one search: what fails with one of them fails with all.

use std::collections::HashMap;

use super::search::Search;

/// The class of each candidate. Devices of a class are equal in everything that the requests of the search look at, and
/// take the same of the same counters.
pub(super) struct Classes(Vec<usize>);

impl Classes {
    pub(super) fn new(search: &Search<'_>) -> Classes {
        let mut numbers: HashMap<String, usize> = HashMap::new();
        let class = |i: usize| {
            let candidate = &search.candidates[i];
            let device = candidate.device;
            // Shared devices differ in what is left of them, and devices in use are not tried.
            let mut key = match device.shape.allows_multiple || candidate.used.is_some() {
                true => format!("{i} "),
                false => String::new(),
            };
            for (claim, requests) in search.wanted.iter().enumerate() {
                for wanted in requests.iter().flatten() {
                    key.push(if search.could_take(claim, wanted, i) { '1' } else { '0' });
                }
                for constraint in search.constraints_of(claim) {
                    key += &format!(" {:?}", device.shape.attribute(&constraint.attribute));
                }
            }
            if !device.consumes.is_empty() {
                key += &format!(" {} {:?}", candidate.pool, device.consumes);
            }
            let n = numbers.len();
            *numbers.entry(key).or_insert(n)
        };
        Classes((0..search.candidates.len()).map(class).collect())
    }

    pub(super) fn of(&self, candidate: usize) -> usize {
        self.0[candidate]
    }
}
