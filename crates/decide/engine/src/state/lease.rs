//! Counted use of interned values: by what is in the state, and by values that the state has handed out.

use std::sync::{Arc, Mutex, PoisonError};

use smallvec::SmallVec;

use super::State;
use super::matcher::{MatcherId, PodQuery, release_counter};
use super::rule_set::RuleSetId;
use super::selector::LabelRequirement;
use super::signature::{LabelSetId, SignatureId};
use super::spread::DefaultSpreadId;
use super::table::Keyed;
use super::topology::TopologyId;

/// A value that is used, once.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Use {
    RuleSet(RuleSetId),
    LabelSet(LabelSetId),
    Signature(SignatureId),
    DefaultSpread(DefaultSpreadId),
    Topology(TopologyId),
    Matcher(MatcherId),
    /// A matcher's counter of matching pods; besides the matcher.
    Matching(MatcherId, TopologyId),
    /// A matcher's counters of term owners; besides the matcher.
    Owners(MatcherId, TopologyId),
    /// A matcher's counter of owners of anti-affinity with a limit; besides the matcher.
    LimitedOwners(MatcherId, TopologyId, u32),
}

/// A value that has been removed, by which those above the state keep something.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Freed {
    RuleSet(RuleSetId),
    Signature(SignatureId),
}

/// The uses of leases that have ended, until the state is next updated.
pub(super) type Ended = Arc<Mutex<Vec<Use>>>;

/// What a value outside the state uses: its ids stay valid until the lease is dropped.
#[derive(Debug)]
pub(crate) struct Lease {
    uses: SmallVec<[Use; 3]>,
    ended: Ended,
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner).extend(self.uses.drain(..));
    }
}

impl State {
    /// A lease that takes over these uses, already counted.
    pub(super) fn lease(&self, uses: impl IntoIterator<Item = Use>) -> Arc<Lease> {
        Arc::new(Lease { uses: uses.into_iter().collect(), ended: self.ended.clone() })
    }

    /// Releases what leases used that have ended; returns what has been removed since the last call.
    pub(crate) fn collect(&mut self) -> Vec<Freed> {
        let ended = std::mem::take(&mut *self.ended.lock().unwrap_or_else(PoisonError::into_inner));
        self.release_all(ended);
        std::mem::take(&mut self.freed)
    }

    /// Releases uses, the last first: counters before their matchers.
    pub(super) fn release_all(&mut self, uses: impl IntoIterator<Item = Use, IntoIter: DoubleEndedIterator>) {
        uses.into_iter().rev().for_each(|used| self.release(used));
    }

    /// Counts one user fewer; a value without users is removed, and releases what it uses.
    pub(super) fn release(&mut self, used: Use) {
        match used {
            Use::RuleSet(id) => {
                if let Some(mut rule_set) = self.rule_sets.release(id) {
                    self.freed.push(Freed::RuleSet(id));
                    self.unmention_attributes(&mut rule_set);
                    self.symbols.release_all(rule_set.symbols());
                    self.release_all(rule_set.uses);
                }
            }
            Use::LabelSet(id) => {
                if let Some(label_set) = self.label_sets.release(id) {
                    self.symbols.release_all(label_set.of.symbols());
                    self.release(Use::Signature(label_set.signature));
                }
            }
            Use::Signature(id) => {
                if let Some(signature) = self.signatures.release(id) {
                    self.freed.push(Freed::Signature(id));
                    self.unmention(signature.of.labels.iter().map(|(key, _)| key));
                    self.symbols.release_all(signature.of.symbols());
                }
            }
            Use::DefaultSpread(id) => {
                if let Some(spread) = self.default_spreads.release(id) {
                    self.release_all(spread.uses);
                }
            }
            Use::Topology(id) => {
                if let Some(topology) = self.topologies.table.release(id) {
                    self.symbols.release_all(topology.key().iter().copied());
                }
            }
            Use::Matcher(id) => self.release_matcher(id),
            Use::Matching(matcher, topology) => {
                if release_counter(&mut self.matchers.table.get_mut(matcher).matching, topology, 0) {
                    self.release(Use::Topology(topology));
                }
            }
            Use::Owners(matcher, topology) => {
                if release_counter(&mut self.matchers.table.get_mut(matcher).owners, topology, 0) {
                    self.changes.epochs.terms += 1;
                    self.release(Use::Topology(topology));
                }
            }
            Use::LimitedOwners(matcher, topology, limit) => {
                let owners = &mut self.matchers.table.get_mut(matcher).limited_owners;
                if release_counter(owners, topology, limit) {
                    self.changes.epochs.terms += 1;
                    self.release(Use::Topology(topology));
                }
            }
        }
    }

    fn release_matcher(&mut self, id: MatcherId) {
        let candidates = match self.matchers.table.n_users(id) {
            1 => self.signatures.candidates(self.matchers.get(id).anchor()),
            _ => Vec::new(),
        };
        let Some(matcher) = self.matchers.release(id) else { return };
        for signature in candidates {
            let signature = self.signatures.table.get_mut(signature);
            for matched in [&mut signature.matched, &mut signature.matched_by_existing] {
                if let Ok(i) = matched.binary_search(&id) {
                    matched.remove(i);
                }
            }
        }
        self.unmention(matcher.requirements().map(LabelRequirement::key));
        self.symbols.release_all(matcher.queries.iter().flat_map(PodQuery::symbols));
    }
}
