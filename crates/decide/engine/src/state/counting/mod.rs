//! Counting: which matchers and terms a pod concerns, and the counters kept right as pods come and go.

pub(crate) mod counter;
pub(crate) mod matcher;
pub(crate) mod topology;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use self::counter::{Counter, Tally};
use self::matcher::{
    Candidate, Direction, ExistingTermKind, Matcher, MatcherId, PodQuery, position, retain_counter,
};
use self::topology::{Topologies, TopologyId};
use super::State;
use super::change::TrackedChange;
use super::interned::intern::Symbol;
use super::interned::lease::Held;
use super::interned::uses::Use;
use crate::state::node::NodeId;
use crate::state::pod::signature::{LabelSet, LabelSetId, LabelSignature, PodLabels, SignatureId};
use crate::state::rule_set::RuleSetId;
use crate::state::rule_set::selector::LabelRequirement;

impl State {
    /// Counts all pods of a node in (1) or out (−1).
    pub(super) fn count_node(&mut self, node: NodeId, sign: i64) {
        for pod in self.nodes.get(node).pods.clone() {
            let record = self.pods.get(pod);
            self.count(record.rule_set, record.signature, node, sign);
            if sign > 0 {
                self.track(|| TrackedChange::Relocated(pod));
            }
        }
    }

    /// Counts one pod in or out: in the counters of the matchers it satisfies and of the terms it owns.
    pub(super) fn count(&mut self, rule_set: RuleSetId, signature: SignatureId, node: NodeId, sign: i64) {
        let signature = self.signatures.table.get_mut(signature);
        signature.place(node, sign);
        for matcher in &signature.matched {
            let Matcher { matching, owners, .. } = self.matchers.table.get_mut(*matcher);
            for matching in matching {
                let (topology, counter) = (matching.topology, &mut matching.counter);
                if let Some(domain) = self.topologies.domain(topology, node) {
                    counter.add(domain, Tally::one(sign, 1));
                    if let Some(tracked) = &mut self.tracked {
                        let first = owners.partition_point(|o| o.topology < topology);
                        let owners = owners[first..].iter().take_while(|o| o.topology == topology);
                        let limits = owners.filter_map(|o| o.kind.anti_affinity_limit());
                        tracked
                            .extend(TrackedChange::count(*matcher, topology, domain, counter, sign, limits));
                    }
                }
            }
        }
        for term in &self.rule_sets.get(rule_set).existing_terms {
            let Some(domain) = self.topologies.domain(term.topology, node) else { continue };
            let (mut kind, mut weight) = (term.kind, term.weight);
            if kind.looks_at_owner() {
                let matches_itself = signature.matches(term.matcher);
                kind = kind.of_owner(matches_itself);
                if kind.anti_affinity_limit().is_some() {
                    weight = i64::from(matches_itself);
                }
            }
            if let Some(owners) = self.matchers.table.get_mut(term.matcher).owners_mut(term.topology, kind) {
                owners.add(domain, Tally::one(sign, weight));
            }
        }
    }

    /// Counts that owners of a term with a signature match it themselves (1) or no longer do (−1).
    pub(super) fn count_self_matches(&mut self, matcher: MatcherId, signature: SignatureId, sign: i64) {
        if !self.matchers.get(matcher).owners.iter().any(|owners| owners.kind.looks_at_owner()) {
            return;
        }
        for node in self.signatures.get(signature).placed.keys() {
            let pods = self.nodes.get(*node).pods.iter().map(|pod| self.pods.get(*pod));
            for pod in pods.filter(|pod| pod.signature == signature) {
                for term in self.rule_sets.get(pod.rule_set).existing_terms.iter() {
                    if term.matcher != matcher || !term.kind.looks_at_owner() {
                        continue;
                    }
                    let Some(domain) = self.topologies.domain(term.topology, *node) else { continue };
                    let owners = self.matchers.table.get_mut(matcher);
                    let mut add = |kind, tally| {
                        owners.owners_mut(term.topology, kind).into_iter().for_each(|o| o.add(domain, tally));
                    };
                    if term.kind.anti_affinity_limit().is_some() {
                        add(term.kind, Tally { count: 0, weight: sign });
                    } else {
                        add(term.kind.of_owner(true), Tally::one(sign, term.weight));
                        add(term.kind.of_owner(false), Tally::one(-sign, term.weight));
                    }
                }
            }
        }
    }

    /// The label set of a pod with these labels, whose symbols it takes over; with one more user.
    pub(super) fn label_set(&mut self, of: PodLabels) -> LabelSetId {
        if let Some(id) = self.label_sets.find(&of) {
            self.symbols.release_all(of.symbols());
            self.label_sets.retain(id);
            return id;
        }
        let signature = self.signature_of(&of);
        self.label_sets.insert(LabelSet { of, signature })
    }

    /// The signature of labels, with one more user.
    fn signature_of(&mut self, of: &PodLabels) -> SignatureId {
        let labels = of.labels.restricted(|key| self.mentioned.contains_key(&key));
        let of = PodLabels { labels, ..*of };
        if let Some(id) = self.signatures.table.find(&of) {
            self.signatures.table.retain(id);
            return id;
        }
        of.symbols().for_each(|symbol| self.symbols.retain(symbol));
        for (key, _) in of.labels.iter() {
            *self.mentioned.entry(key).or_default() += 1;
        }
        let (matched, matched_by_existing) = self.match_labels(&of);
        let placed = FxHashMap::default();
        self.signatures.insert(LabelSignature { of, matched, matched_by_existing, placed })
    }

    /// The matchers that a signature satisfies, as a running pod and as the incoming one.
    pub(super) fn match_labels(&self, of: &PodLabels) -> (Vec<MatcherId>, Vec<MatcherId>) {
        let pod = self.candidate(of);
        let matching = |direction| self.matchers.matching(&self.symbols, &self.namespaces, &pod, direction);
        (matching(Direction::TermOfIncoming), matching(Direction::TermOfExisting))
    }

    /// Whether a matcher would match pods with a signature if they were not being deleted.
    pub(crate) fn matches_while_alive(&self, matcher: MatcherId, signature: &LabelSignature) -> bool {
        signature.matched.binary_search(&matcher).is_ok()
            || signature.of.terminating && {
                let alive = Candidate { terminating: false, ..self.candidate(&signature.of) };
                let direction = Direction::TermOfIncoming;
                self.matchers.get(matcher).matches(&self.symbols, &self.namespaces, &alive, direction)
            }
    }

    fn candidate<'a>(&self, of: &'a PodLabels) -> Candidate<'a> {
        let PodLabels { namespace, terminating, ref labels } = *of;
        Candidate { namespace, terminating, labels, exempt: self.is_exempt(namespace) }
    }

    /// The matcher of these queries, whose symbols it takes over, that counts matching pods in `matching` and
    /// owners in `owners`. What is used is added to `uses`.
    pub(super) fn matcher(
        &mut self,
        queries: SmallVec<[PodQuery; 1]>,
        matching: impl IntoIterator<Item = TopologyId>,
        owners: impl IntoIterator<Item = (TopologyId, ExistingTermKind)>,
        uses: &mut Vec<Use>,
    ) -> MatcherId {
        let id = match self.matchers.table.find(&queries) {
            Some(id) => {
                self.symbols.release_all(queries.iter().flat_map(PodQuery::symbols));
                self.matchers.table.retain(id);
                id
            }
            None => self.add_matcher(queries),
        };
        uses.push(Use::Matcher(id));
        for topology in matching {
            uses.push(Use::Matching(id, topology));
            if retain_counter(&mut self.matchers.table.get_mut(id).matching, topology, ()) {
                self.topologies.table.retain(topology);
                let mut counter = Counter::default();
                for signature in self.signatures.candidates(self.matchers.get(id).anchor()) {
                    let signature = self.signatures.get(signature);
                    if signature.matched.binary_search(&id).is_ok() {
                        count_placed(&self.topologies, topology, &mut counter, signature, 1);
                    }
                }
                let matching = &mut self.matchers.table.get_mut(id).matching;
                if let Ok(i) = position(matching, topology, ()) {
                    matching[i].counter = counter;
                }
            }
        }
        for (topology, kind) in owners {
            uses.push(Use::Owners(id, topology, kind));
            if retain_counter(&mut self.matchers.table.get_mut(id).owners, topology, kind) {
                self.topologies.table.retain(topology);
                self.changes.epochs.terms += 1;
            }
        }
        id
    }

    fn add_matcher(&mut self, queries: SmallVec<[PodQuery; 1]>) -> MatcherId {
        let requirements = queries.iter().flat_map(|q| q.labels.requirements());
        let keys: SmallVec<[Symbol; 4]> = requirements.map(LabelRequirement::key).collect();
        self.mention(&keys);
        self.changes.epochs.terms += 1;
        let id = self.matchers.insert(queries);
        for signature in self.signatures.candidates(self.matchers.get(id).anchor()) {
            let pod = self.candidate(&self.signatures.get(signature).of);
            let matches =
                |direction| self.matchers.get(id).matches(&self.symbols, &self.namespaces, &pod, direction);
            let [matched, by_existing] = [Direction::TermOfIncoming, Direction::TermOfExisting].map(matches);
            let signature = self.signatures.table.get_mut(signature);
            if matched {
                insert_sorted(&mut signature.matched, id);
            }
            if by_existing {
                insert_sorted(&mut signature.matched_by_existing, id);
            }
        }
        id
    }

    /// Counts that a selector looks at these label keys, each as often as it stands there.
    pub(super) fn mention(&mut self, keys: &[Symbol]) {
        let mut new_keys: SmallVec<[Symbol; 4]> = SmallVec::new();
        for key in keys {
            let n_mentions = self.mentioned.entry(*key).or_default();
            *n_mentions += 1;
            // A key that nothing but this selector uses is no label of any pod.
            let n_here = keys.iter().filter(|other| *other == key).count();
            if *n_mentions == 1 && self.symbols.n_users(*key) as usize > n_here {
                new_keys.push(*key);
            }
        }
        if !new_keys.is_empty() {
            self.split_signatures(&new_keys);
        }
    }

    /// Counts that label keys are mentioned once less, each.
    pub(super) fn unmention(&mut self, keys: impl IntoIterator<Item = Symbol>) {
        for key in keys {
            if let Some(n_mentions) = self.mentioned.get_mut(&key) {
                *n_mentions -= 1;
                if *n_mentions == 0 {
                    self.mentioned.remove(&key);
                }
            }
        }
    }

    /// A selector mentions label keys for the first time: pods that differ in them are no longer alike. What is
    /// counted stays: no matcher looks at these keys yet.
    fn split_signatures(&mut self, keys: &[Symbol]) {
        let has_key = |set: &LabelSet| keys.iter().any(|key| set.of.labels.get(*key).is_some());
        let concerned: Vec<_> =
            self.label_sets.iter().filter(|(_, set)| has_key(set)).map(|(id, _)| id).collect();
        if concerned.is_empty() {
            return;
        }
        self.signature_epoch += 1;
        let mut moved: FxHashMap<LabelSetId, SignatureId> = FxHashMap::default();
        for id in concerned {
            let of = self.label_sets.get(id).of.clone();
            let signature = self.signature_of(&of);
            let before = std::mem::replace(&mut self.label_sets.get_mut(id).signature, signature);
            moved.insert(id, before);
        }
        for pod in self.pods.iter_mut() {
            let Some(before) = moved.get(&pod.label_set) else { continue };
            pod.signature = self.label_sets.get(pod.label_set).signature;
            if let Some(node) = pod.node {
                self.signatures.table.get_mut(*before).place(node, -1);
                self.signatures.table.get_mut(pod.signature).place(node, 1);
            }
        }
        moved.into_values().for_each(|signature| self.release(Held::Signature(signature)));
    }

    /// Number of counter entries that are not zero; zero once all pods are removed.
    pub(crate) fn n_counted(&self) -> usize {
        let matchers = self.matchers.table.iter().map(|(_, m)| {
            let matching = m.matching.iter().map(|m| m.counter.iter().count());
            let owners = m.owners.iter().map(|o| o.counter.iter().count());
            matching.sum::<usize>() + owners.sum::<usize>()
        });
        let placed = self.signatures.table.iter().map(|(_, signature)| signature.placed.len());
        matchers.sum::<usize>() + placed.sum::<usize>()
    }
}

fn insert_sorted(ids: &mut Vec<MatcherId>, id: MatcherId) {
    if let Err(i) = ids.binary_search(&id) {
        ids.insert(i, id);
    }
}

/// Counts the pods of a signature in a topology in (1) or out (−1).
pub(super) fn count_placed(
    topologies: &Topologies,
    topology: TopologyId,
    counter: &mut Counter,
    signature: &LabelSignature,
    sign: i64,
) {
    for (node, n) in &signature.placed {
        if let Some(domain) = topologies.domain(topology, *node) {
            let n = sign * i64::from(*n);
            counter.add(domain, Tally { count: n, weight: n });
        }
    }
}
