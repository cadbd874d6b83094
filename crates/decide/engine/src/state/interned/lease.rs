//! Counted use of interned values: by what is in the state, and by values that the state has handed out.

use std::sync::{Arc, Mutex, PoisonError};

use smallvec::SmallVec;

use super::uses::Use;
use crate::state::State;
use crate::state::counting::matcher::{MatcherId, PodQuery, release_counter};
use crate::state::interned::table::Keyed;
use crate::state::pod::signature::{LabelSetId, SignatureId};
use crate::state::rule_set::RuleSetId;
use crate::state::rule_set::default_spread::DefaultSpreadId;
use crate::state::rule_set::selector::LabelRequirement;

/// An interned value that is in use, once.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Held {
    RuleSet(RuleSetId),
    LabelSet(LabelSetId),
    Signature(SignatureId),
    DefaultSpread(DefaultSpreadId),
}

/// A value that has been removed, by which those above the state keep something.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Freed {
    RuleSet(RuleSetId),
    Signature(SignatureId),
}

/// What leases held that have ended, until the state is next updated.
pub(in crate::state) type Ended = Arc<Mutex<Vec<Held>>>;

/// What a value outside the state uses: its ids stay valid until the lease is dropped.
#[derive(Debug)]
pub(crate) struct Lease {
    held: SmallVec<[Held; 3]>,
    ended: Ended,
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner).extend(self.held.drain(..));
    }
}

impl State {
    /// A lease on these values, which are already counted.
    pub(in crate::state) fn lease(&self, held: impl IntoIterator<Item = Held>) -> Arc<Lease> {
        Arc::new(Lease { held: held.into_iter().collect(), ended: self.ended.clone() })
    }

    /// Releases what leases held that have ended; returns what has been removed since the last call.
    pub(crate) fn collect(&mut self) -> Vec<Freed> {
        let ended = std::mem::take(&mut *self.ended.lock().unwrap_or_else(PoisonError::into_inner));
        ended.into_iter().rev().for_each(|held| self.release(held));
        std::mem::take(&mut self.freed)
    }

    /// Counts one user fewer; a value without users is removed, and releases what it uses.
    pub(in crate::state) fn release(&mut self, held: Held) {
        match held {
            Held::RuleSet(id) => {
                if let Some(mut rule_set) = self.rule_sets.release(id) {
                    self.freed.push(Freed::RuleSet(id));
                    self.unmention_attributes(&mut rule_set);
                    self.symbols.release_all(rule_set.symbols());
                    self.release_all(rule_set.uses);
                }
            }
            Held::LabelSet(id) => {
                if let Some(label_set) = self.label_sets.release(id) {
                    self.symbols.release_all(label_set.of.symbols());
                    self.release(Held::Signature(label_set.signature));
                }
            }
            Held::Signature(id) => {
                if let Some(signature) = self.signatures.release(id) {
                    self.freed.push(Freed::Signature(id));
                    self.unmention(signature.of.labels.iter().map(|(key, _)| key));
                    self.symbols.release_all(signature.of.symbols());
                }
            }
            Held::DefaultSpread(id) => {
                if let Some(spread) = self.default_spreads.release(id) {
                    self.release_all(spread.uses);
                }
            }
        }
    }

    /// Releases uses, the last first: counters before their matchers.
    pub(in crate::state) fn release_all(
        &mut self,
        uses: impl IntoIterator<Item = Use, IntoIter: DoubleEndedIterator>,
    ) {
        uses.into_iter().rev().for_each(|used| self.release_use(used));
    }

    fn release_use(&mut self, used: Use) {
        match used {
            Use::Topology(id) => {
                if let Some(topology) = self.topologies.table.release(id) {
                    self.symbols.release_all(*topology.key());
                }
            }
            Use::Matcher(id) => self.release_matcher(id),
            Use::Matching(matcher, topology) => {
                if release_counter(&mut self.matchers.table.get_mut(matcher).matching, topology, ()) {
                    self.release_use(Use::Topology(topology));
                }
            }
            Use::Owners(matcher, topology, kind) => {
                if release_counter(&mut self.matchers.table.get_mut(matcher).owners, topology, kind) {
                    self.changes.epochs.terms += 1;
                    self.release_use(Use::Topology(topology));
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
