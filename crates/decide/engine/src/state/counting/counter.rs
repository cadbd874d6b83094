//! Counters per topology domain.

use rustc_hash::FxHashMap;

use crate::state::counting::topology::DomainId;

/// How many pods, and the sum of the weights with which they count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) count: i64,
    pub(crate) weight: i64,
}

impl Tally {
    /// One pod (or, with `sign` −1, one fewer).
    pub(crate) fn one(sign: i64, weight: i64) -> Tally {
        Tally { count: sign, weight: sign * weight }
    }
}

impl std::ops::Add for Tally {
    type Output = Tally;

    fn add(self, other: Tally) -> Tally {
        Tally { count: self.count + other.count, weight: self.weight + other.weight }
    }
}

/// Tallies by domain; a domain without pods takes no room.
#[derive(Clone, Default)]
pub(crate) struct Counter {
    by_domain: FxHashMap<DomainId, Tally>,
}

impl Counter {
    pub(crate) fn add(&mut self, domain: DomainId, tally: Tally) {
        let entry = self.by_domain.entry(domain).or_default();
        *entry = *entry + tally;
        debug_assert!(entry.count >= 0, "a pod left a domain it was never counted in");
        if entry.count == 0 {
            self.by_domain.remove(&domain);
        }
    }

    #[inline]
    pub(crate) fn get(&self, domain: DomainId) -> Tally {
        self.by_domain.get(&domain).copied().unwrap_or_default()
    }

    /// Number of domains that have pods.
    pub(crate) fn n_domains(&self) -> usize {
        self.by_domain.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_domain.is_empty()
    }

    /// All domains that have pods, in no particular order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (DomainId, Tally)> + '_ {
        self.by_domain.iter().map(|(d, t)| (*d, *t))
    }
}
