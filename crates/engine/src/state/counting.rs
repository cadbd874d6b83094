//! Counting: which matchers and terms a pod concerns, and the counters kept right as pods come and go.

use smallvec::SmallVec;

use super::class::ClassId;
use super::cluster::Cluster;
use super::counter::{Counter, Tally};
use super::identity::{Identity, IdentityId, IdentityKey};
use super::intern::{Labels, Symbol};
use super::matcher::{Candidate, Carriers, Direction, MatcherId, PodQuery};
use super::node::NodeId;
use super::topology::{Topologies, TopologyId};

impl Cluster {
    /// Counts all pods of a node in (1) or out (−1).
    pub(super) fn count_node(&mut self, node: NodeId, sign: i64) {
        for pod in self.nodes.get(node).pods.clone() {
            if sign < 0 {
                self.watch_displaced(pod);
            }
            let record = self.pods.get(pod);
            self.count(record.class, record.identity, node, sign);
            if sign > 0 {
                self.watch_placed(pod);
            }
        }
    }

    /// Counts one pod in or out: in the counters of the matchers it satisfies and of the terms it carries.
    pub(super) fn count(&mut self, class: ClassId, identity: IdentityId, node: NodeId, sign: i64) {
        let identity = self.identities.get_mut(identity);
        let placed = identity.placed.entry(node).or_default();
        *placed = placed.wrapping_add_signed(sign as i32);
        if *placed == 0 {
            identity.placed.remove(&node);
        }
        for matcher in &identity.matched {
            for (topology, counter) in &mut self.matchers.get_mut(*matcher).matching {
                if let Some(domain) = self.topologies.domain(*topology, node) {
                    counter.add(domain, Tally::one(sign, 1));
                    if let Some(watch) = &mut self.watch {
                        watch.counted(*matcher, *topology, domain, counter, sign);
                    }
                }
            }
        }
        for carried in &self.classes.get(class).carried {
            let Some(domain) = self.topologies.domain(carried.topology, node) else { continue };
            let carriers = &mut self.matchers.get_mut(carried.matcher).carriers;
            if let Some((_, carriers)) = carriers.iter_mut().find(|(t, _)| *t == carried.topology) {
                carriers.of(carried.kind).add(domain, Tally::one(sign, carried.weight));
            }
        }
    }

    /// The identity of a pod with these labels, made if need be.
    pub(crate) fn identity_of(
        &mut self,
        namespace: Symbol,
        terminating: bool,
        labels: &Labels,
    ) -> IdentityId {
        let key = self.identity_key(namespace, terminating, labels);
        if let Some(id) = self.identities.find(&key) {
            return id;
        }
        let (matched, matched_by_existing) = self.match_identity(&key);
        self.identities.insert(Identity { key, matched, matched_by_existing, placed: Default::default() })
    }

    /// The identity of a pod with these labels, if there is one yet.
    pub(crate) fn find_identity(
        &self,
        namespace: Symbol,
        terminating: bool,
        labels: &Labels,
    ) -> Option<IdentityId> {
        self.identities.find(&self.identity_key(namespace, terminating, labels))
    }

    fn identity_key(&self, namespace: Symbol, terminating: bool, labels: &Labels) -> IdentityKey {
        let labels = labels.restricted(|key| self.mentioned.contains(&key));
        IdentityKey { namespace, terminating, labels }
    }

    pub(super) fn match_identity(&self, key: &IdentityKey) -> (Vec<MatcherId>, Vec<MatcherId>) {
        let pod = self.candidate(key);
        let matching = |direction| self.matchers.matching(&self.symbols, &self.namespaces, &pod, direction);
        (matching(Direction::TermOfIncoming), matching(Direction::TermOfExisting))
    }

    fn candidate<'a>(&self, key: &'a IdentityKey) -> Candidate<'a> {
        let IdentityKey { namespace, terminating, ref labels } = *key;
        Candidate { namespace, terminating, labels, exempt: self.is_exempt(namespace) }
    }

    /// The matcher of these questions, made and counted if need be, that counts matching pods in
    /// `matching` and carriers in `carriers`.
    pub(crate) fn matcher(
        &mut self,
        queries: SmallVec<[PodQuery; 1]>,
        matching: impl IntoIterator<Item = TopologyId>,
        carriers: impl IntoIterator<Item = TopologyId>,
    ) -> MatcherId {
        let keys: Vec<_> = queries.iter().flat_map(|q| q.labels.requirements()).map(|r| r.key()).collect();
        self.mention(&keys);
        let (id, new) = self.matchers.intern(queries);
        if new {
            self.changes.epochs.terms += 1;
            for i in 0..self.identities.iter().count() {
                let identity = self.identities.get(IdentityId(i as u32));
                let pod = self.candidate(&identity.key);
                let matches = |direction| {
                    self.matchers.get(id).matches(&self.symbols, &self.namespaces, &pod, direction)
                };
                let (matched, by_existing) =
                    (matches(Direction::TermOfIncoming), matches(Direction::TermOfExisting));
                // The newest matcher has the highest number: the lists stay sorted.
                let identity = self.identities.get_mut(IdentityId(i as u32));
                identity.matched.extend(matched.then_some(id));
                identity.matched_by_existing.extend(by_existing.then_some(id));
            }
        }
        for topology in matching {
            if self.matchers.get(id).matching_in(topology).is_none() {
                let mut counter = Counter::default();
                for (_, identity) in
                    self.identities.iter().filter(|(_, i)| i.matched.binary_search(&id).is_ok())
                {
                    count_placed(&self.topologies, topology, &mut counter, identity.placed.iter(), 1);
                }
                self.matchers.get_mut(id).matching.push((topology, counter));
            }
        }
        for topology in carriers {
            let carriers = &mut self.matchers.get_mut(id).carriers;
            if carriers.iter().all(|(t, _)| *t != topology) {
                self.changes.epochs.terms += 1;
                carriers.push((topology, Carriers::default()));
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
            self.split_identities(&new_keys);
        }
    }

    /// Some selector mentions label keys for the first time: pods that differ in them are no longer alike.
    fn split_identities(&mut self, keys: &[Symbol]) {
        let concerned = self.pods.iter().filter(|(_, p)| keys.iter().any(|k| p.labels.get(*k).is_some()));
        for id in concerned.map(|(id, _)| id).collect::<Vec<_>>() {
            let pod = self.pods.get(id);
            let (namespace, terminating, class, node) = (pod.namespace, pod.terminating, pod.class, pod.node);
            let (before, labels) = (pod.identity, pod.labels.clone());
            let identity = self.identity_of(namespace, terminating, &labels);
            self.pods.get_mut(id).identity = identity;
            if let Some(node) = node {
                self.count(class, before, node, -1);
                self.count(class, identity, node, 1);
            }
        }
    }

    /// Number of counter entries that are not zero; zero once all pods have gone.
    pub fn n_counted(&self) -> usize {
        let matchers = self.matchers.iter().map(|(_, m)| {
            let matching = m.matching.iter().map(|(_, c)| c.iter().count());
            let carriers = m.carriers.iter().flat_map(|(_, c)| {
                [&c.required_anti_affinity, &c.required_affinity, &c.preferred].map(|c| c.iter().count())
            });
            matching.sum::<usize>() + carriers.sum::<usize>()
        });
        matchers.sum::<usize>() + self.identities.iter().map(|(_, i)| i.placed.len()).sum::<usize>()
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
