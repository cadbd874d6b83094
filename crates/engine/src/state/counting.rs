//! Counting: which matchers and terms a pod relevant, and the counters kept right as pods come and go.

use smallvec::SmallVec;

use super::State;
use super::change::TrackedChange;
use super::counter::{Counter, Tally};
use super::intern::{Labels, Symbol};
use super::matcher::{Candidate, Direction, MatcherId, PodQuery, TermOwners};
use super::node::NodeId;
use super::rule_set::RuleSetId;
use super::signature::{LabelSignature, SignatureId, SignatureKey};
use super::topology::{Topologies, TopologyId};

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

    /// Counts one pod in or out: in the counters of the matchers it satisfies and of the terms it carries.
    pub(super) fn count(&mut self, rule_set: RuleSetId, signature: SignatureId, node: NodeId, sign: i64) {
        let signature = self.signatures.get_mut(signature);
        let placed = signature.placed.entry(node).or_default();
        *placed = placed.wrapping_add_signed(sign as i32);
        if *placed == 0 {
            signature.placed.remove(&node);
        }
        for matcher in &signature.matched {
            for (topology, counter) in &mut self.matchers.get_mut(*matcher).matching {
                if let Some(domain) = self.topologies.domain(*topology, node) {
                    counter.add(domain, Tally::one(sign, 1));
                    if let Some(tracked) = &mut self.tracked {
                        tracked.extend(TrackedChange::count(*matcher, *topology, domain, counter, sign));
                    }
                }
            }
        }
        for term in &self.rule_sets.get(rule_set).existing_terms {
            let Some(domain) = self.topologies.domain(term.topology, node) else { continue };
            let owners = &mut self.matchers.get_mut(term.matcher).owners;
            if let Some((_, owners)) = owners.iter_mut().find(|(t, _)| *t == term.topology) {
                owners.of(term.kind).add(domain, Tally::one(sign, term.weight));
            }
        }
    }

    /// The signature of a pod with these labels, made if need be.
    pub(crate) fn signature_of(
        &mut self,
        namespace: Symbol,
        terminating: bool,
        labels: &Labels,
    ) -> SignatureId {
        let key = self.signature_key(namespace, terminating, labels);
        if let Some(id) = self.signatures.find(&key) {
            return id;
        }
        let (matched, matched_by_existing) = self.match_signature(&key);
        self.signatures.insert(LabelSignature {
            key,
            matched,
            matched_by_existing,
            placed: Default::default(),
        })
    }

    /// The signature of a pod with these labels, if there is one yet.
    pub(crate) fn find_signature(
        &self,
        namespace: Symbol,
        terminating: bool,
        labels: &Labels,
    ) -> Option<SignatureId> {
        self.signatures.find(&self.signature_key(namespace, terminating, labels))
    }

    fn signature_key(&self, namespace: Symbol, terminating: bool, labels: &Labels) -> SignatureKey {
        let labels = labels.restricted(|key| self.mentioned.contains(&key));
        SignatureKey { namespace, terminating, labels }
    }

    pub(super) fn match_signature(&self, key: &SignatureKey) -> (Vec<MatcherId>, Vec<MatcherId>) {
        let pod = self.candidate(key);
        let matching = |direction| self.matchers.matching(&self.symbols, &self.namespaces, &pod, direction);
        (matching(Direction::TermOfIncoming), matching(Direction::TermOfExisting))
    }

    fn candidate<'a>(&self, key: &'a SignatureKey) -> Candidate<'a> {
        let SignatureKey { namespace, terminating, ref labels } = *key;
        Candidate { namespace, terminating, labels, exempt: self.is_exempt(namespace) }
    }

    /// The matcher of these questions, made and counted if need be, that counts matching pods in
    /// `matching` and owners in `owners`.
    pub(crate) fn matcher(
        &mut self,
        queries: SmallVec<[PodQuery; 1]>,
        matching: impl IntoIterator<Item = TopologyId>,
        owners: impl IntoIterator<Item = TopologyId>,
    ) -> MatcherId {
        let keys: Vec<_> = queries.iter().flat_map(|q| q.labels.requirements()).map(|r| r.key()).collect();
        self.mention(&keys);
        let (id, new) = self.matchers.intern(queries);
        if new {
            self.changes.epochs.terms += 1;
            for i in 0..self.signatures.iter().count() {
                let signature = self.signatures.get(SignatureId(i as u32));
                let pod = self.candidate(&signature.key);
                let matches = |direction| {
                    self.matchers.get(id).matches(&self.symbols, &self.namespaces, &pod, direction)
                };
                let (matched, by_existing) =
                    (matches(Direction::TermOfIncoming), matches(Direction::TermOfExisting));
                // The newest matcher has the highest number: the lists stay sorted.
                let signature = self.signatures.get_mut(SignatureId(i as u32));
                signature.matched.extend(matched.then_some(id));
                signature.matched_by_existing.extend(by_existing.then_some(id));
            }
        }
        for topology in matching {
            if self.matchers.get(id).matching_in(topology).is_none() {
                let mut counter = Counter::default();
                for (_, signature) in
                    self.signatures.iter().filter(|(_, i)| i.matched.binary_search(&id).is_ok())
                {
                    count_placed(&self.topologies, topology, &mut counter, signature.placed.iter(), 1);
                }
                self.matchers.get_mut(id).matching.push((topology, counter));
            }
        }
        for topology in owners {
            let owners = &mut self.matchers.get_mut(id).owners;
            if owners.iter().all(|(t, _)| *t != topology) {
                self.changes.epochs.terms += 1;
                owners.push((topology, TermOwners::default()));
            }
        }
        id
    }

    pub(super) fn mention_text<'a>(&mut self, keys: impl Iterator<Item = &'a String>) {
        let keys: Vec<_> = keys.map(|key| self.symbols.intern(key)).collect();
        self.mention(&keys);
    }

    /// Takes note that some selector looks at these label keys.
    fn mention(&mut self, keys: &[Symbol]) {
        let new_keys: Vec<_> = keys.iter().copied().filter(|key| self.mentioned.insert(*key)).collect();
        if !new_keys.is_empty() {
            self.split_signatures(&new_keys);
        }
    }

    /// Some selector mentions label keys for the first time: pods that differ in them are no longer alike.
    fn split_signatures(&mut self, keys: &[Symbol]) {
        let concerned = self.pods.iter().filter(|(_, p)| keys.iter().any(|k| p.labels.get(*k).is_some()));
        for id in concerned.map(|(id, _)| id).collect::<Vec<_>>() {
            let pod = self.pods.get(id);
            let (namespace, terminating, rule_set, node) =
                (pod.namespace, pod.terminating, pod.rule_set, pod.node);
            let (before, labels) = (pod.signature, pod.labels.clone());
            let signature = self.signature_of(namespace, terminating, &labels);
            self.pods.get_mut(id).signature = signature;
            if let Some(node) = node {
                self.count(rule_set, before, node, -1);
                self.count(rule_set, signature, node, 1);
            }
        }
    }

    /// Number of counter entries that are not zero; zero once all pods have gone.
    pub fn n_counted(&self) -> usize {
        let matchers = self.matchers.iter().map(|(_, m)| {
            let matching = m.matching.iter().map(|(_, c)| c.iter().count());
            let owners = m.owners.iter().flat_map(|(_, c)| {
                [&c.required_anti_affinity, &c.required_affinity, &c.preferred].map(|c| c.iter().count())
            });
            matching.sum::<usize>() + owners.sum::<usize>()
        });
        matchers.sum::<usize>() + self.signatures.iter().map(|(_, i)| i.placed.len()).sum::<usize>()
    }
}

pub(super) fn count_placed<'a>(
    topologies: &Topologies,
    topology: TopologyId,
    counter: &mut Counter,
    placed: impl Iterator<Item = (&'a NodeId, &'a u32)>,
    sign: i64,
) {
    for (node, n) in placed {
        if let Some(domain) = topologies.domain(topology, *node) {
            let n = sign * i64::from(*n);
            counter.add(domain, Tally { count: n, weight: n });
        }
    }
}
