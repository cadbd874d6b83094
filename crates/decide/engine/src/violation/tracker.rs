//! Tracks which rules required during execution are broken, at a cost that follows what changes.
//!
//! The state records pods that come and go, nodes whose labels change, and counts that cross from none to one to
//! several: only these can make a rule hold or not, since the pod that has a rule counts at most once itself. The
//! tracker notes what they affect, and evaluates it on request. Without a tracker the state records nothing.

use std::collections::{BTreeSet, HashMap};

use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use super::types::{ViolationChanges, ViolationKey};
use crate::state::State;
use crate::state::change::TrackedChange;
use crate::state::counting::matcher::MatcherId;
use crate::state::counting::topology::{DomainId, TopologyId};
use crate::state::pod::uid::Uid;
use crate::state::pod::{PodId, PodRecord};
use crate::state::rule_set::RuleAt;
use crate::verdict::witness::WitnessCache;

type Place = (MatcherId, TopologyId, DomainId);
type PodName = (Box<str>, Box<str>);

#[derive(Default)]
pub(crate) struct ViolationTracker {
    /// Pods with a rule between pods required during execution, by what it asks and the domain they are in.
    owners: FxHashMap<Place, FxHashSet<PodId>>,
    places_of: FxHashMap<PodId, SmallVec<[Place; 2]>>,
    /// How many entries of `owners` a matcher has.
    n_owned: FxHashMap<MatcherId, u32>,
    pods: FxHashSet<PodId>,
    /// Places where owners are to be evaluated.
    places: FxHashSet<Place>,
    /// Matchers that few pods match: the first of its group may be another pod now.
    groups: FxHashSet<MatcherId>,
    broken: FxHashMap<PodId, BrokenPod>,
    /// What was last reported of pods that may have changed since.
    last_reported: HashMap<PodName, LastReported>,
}

/// Rules of a pod that were broken when they were last evaluated.
struct BrokenPod {
    name: PodName,
    rules: SmallVec<[RuleAt; 2]>,
    paths: BTreeSet<String>,
}

/// What was reported of a pod.
struct LastReported {
    uid: Uid,
    /// Paths of its broken rules.
    paths: BTreeSet<String>,
}

/// What an evaluation found, of pods that exist before and after.
#[derive(Default)]
pub(crate) struct Evaluated {
    /// Rules that are broken and were not.
    pub(crate) began: Vec<(PodId, RuleAt)>,
    /// Rules that hold and did not.
    pub(crate) ended: Vec<(PodId, RuleAt)>,
}

impl Evaluated {
    /// Appends what was found later.
    pub(super) fn then(&mut self, later: Evaluated) {
        self.began.extend(later.began);
        self.ended.extend(later.ended);
    }
}

impl ViolationTracker {
    /// Attaches a tracker to a state: its first changes are all violations.
    pub(crate) fn attach(state: &mut State) -> ViolationTracker {
        let mut tracker = ViolationTracker::default();
        for (id, pod) in state.pods.iter() {
            tracker.place(state, id, pod);
        }
        state.track_changes(true);
        tracker
    }

    /// Takes note of what the state has recorded.
    pub(crate) fn absorb(&mut self, state: &mut State) {
        let changes = state.take_tracked_changes();
        let state = &*state;
        for change in changes {
            match change {
                TrackedChange::Attached(pod) | TrackedChange::Relocated(pod) => {
                    self.displace(pod);
                    if let Some(record) = state.pods.find_by_id(pod) {
                        self.place(state, pod, record);
                    }
                }
                TrackedChange::Detached(pod, uid) => {
                    self.displace(pod);
                    if let Some(BrokenPod { name, paths, .. }) = self.broken.remove(&pod) {
                        self.last_reported.entry(name).or_insert(LastReported { uid, paths });
                    }
                }
                TrackedChange::Count { matcher, topology, domain, few_domains } => {
                    if self.is_owned(matcher) {
                        self.places.insert((matcher, topology, domain));
                        if few_domains {
                            self.groups.insert(matcher);
                        }
                    }
                }
                TrackedChange::Matches(matcher, signature) => {
                    if !self.is_owned(matcher) {
                        continue;
                    }
                    for topology in state.matchers.get(matcher).matching.iter().map(|c| c.topology) {
                        for node in state.signatures.get(signature).placed.keys() {
                            if let Some(domain) = state.topologies.domain(topology, *node) {
                                self.places.insert((matcher, topology, domain));
                            }
                        }
                    }
                    self.groups.insert(matcher);
                }
            }
        }
    }

    fn is_owned(&self, matcher: MatcherId) -> bool {
        self.n_owned.contains_key(&matcher)
    }

    fn place(&mut self, state: &State, id: PodId, pod: &PodRecord) {
        let rule_set = state.rule_sets.get(pod.rule_set);
        if rule_set.executing.is_empty() || pod.node.is_none() || pod.terminating {
            return;
        }
        self.pods.insert(id);
        let mut places = places(state, pod);
        places.sort_unstable();
        places.dedup();
        for place in &places {
            self.owners.entry(*place).or_default().insert(id);
            *self.n_owned.entry(place.0).or_default() += 1;
        }
        if !places.is_empty() {
            self.places_of.insert(id, places);
        }
    }

    fn displace(&mut self, id: PodId) {
        for place in self.places_of.remove(&id).into_iter().flatten() {
            if let Some(n_owned) = self.n_owned.get_mut(&place.0) {
                *n_owned -= 1;
                if *n_owned == 0 {
                    self.n_owned.remove(&place.0);
                }
            }
            if let Some(owners) = self.owners.get_mut(&place) {
                owners.remove(&id);
                if owners.is_empty() {
                    self.owners.remove(&place);
                }
            }
        }
    }

    /// Evaluates everything that changes have affected.
    pub(super) fn refresh(&mut self, state: &mut State) -> Evaluated {
        self.absorb(state);
        let state = &*state;
        let mut evaluated = Evaluated::default();
        let mut pods = std::mem::take(&mut self.pods);
        for matcher in std::mem::take(&mut self.groups) {
            if !self.is_owned(matcher) {
                continue;
            }
            for matching in &state.matchers.get(matcher).matching {
                // Where several match, each has another one.
                let alone = matching.counter.iter().filter(|(_, tally)| tally.count == 1);
                self.places.extend(alone.map(|(domain, _)| (matcher, matching.topology, domain)));
            }
        }
        for place in std::mem::take(&mut self.places) {
            pods.extend(self.owners.get(&place).into_iter().flatten());
        }
        for id in pods {
            let Some(pod) = state.pods.find_by_id(id) else { continue };
            let rules: SmallVec<[RuleAt; 2]> = state.broken_rules(pod).map(|(_, rule)| rule).collect();
            let before = self.broken.remove(&id);
            let rules_before = before.as_ref().map_or(&[][..], |broken| &broken.rules);
            if rules[..] == *rules_before {
                self.broken.extend(before.map(|broken| (id, broken)));
                continue;
            }
            evaluated.began.extend(rules.iter().filter(|r| !rules_before.contains(r)).map(|r| (id, *r)));
            evaluated.ended.extend(rules_before.iter().filter(|r| !rules.contains(r)).map(|r| (id, *r)));
            let name: PodName = (state.symbols.text(pod.namespace).into(), pod.name.clone());
            let paths = before.map(|broken| broken.paths).unwrap_or_default();
            let last = || LastReported { uid: pod.uid.clone(), paths };
            self.last_reported.entry(name.clone()).or_insert_with(last);
            if !rules.is_empty() {
                let rule_set = state.rule_sets.get(pod.rule_set);
                let paths = rules.iter().map(|rule| rule.path(rule_set).to_owned()).collect();
                self.broken.insert(id, BrokenPod { name, rules, paths });
            }
        }
        evaluated
    }

    /// What changed since this was last called.
    pub(crate) fn changes(&mut self, state: &mut State) -> ViolationChanges {
        self.refresh(state);
        let state = &*state;
        let cache = WitnessCache::default();
        let mut changes = ViolationChanges::default();
        for ((namespace, name), last) in self.last_reported.drain() {
            let now = state.find_pod(&namespace, &name).map(|id| (id, state.pods.get(id)));
            let is_same = now.is_some_and(|(_, pod)| pod.uid == last.uid);
            let mut now_paths = BTreeSet::new();
            if let Some((id, pod)) = now {
                for rule in self.broken.get(&id).into_iter().flat_map(|broken| &broken.rules) {
                    let path = rule.path(state.rule_sets.get(pod.rule_set));
                    now_paths.insert(path);
                    if let Some(node) = pod.node.filter(|_| !is_same || !last.paths.contains(path)) {
                        changes.began.push(state.violation_of(id, node, *rule, &cache));
                    }
                }
            }
            let ended = last.paths.iter().filter(|path| !is_same || !now_paths.contains(path.as_str()));
            changes.ended.extend(ended.map(|path| ViolationKey {
                namespace: namespace.to_string(),
                name: name.to_string(),
                term: path.clone(),
            }));
        }
        super::audit::sort(&mut changes.began);
        changes.ended.sort_unstable();
        changes
    }
}

/// Where a pod's rules between pods that are required during execution look for others.
fn places(state: &State, pod: &PodRecord) -> SmallVec<[Place; 2]> {
    let rule_set = state.rule_sets.get(pod.rule_set);
    let Some(node) = pod.node else { return SmallVec::new() };
    let terms = rule_set.executing.iter().filter_map(|rule| match rule {
        RuleAt::Node(_) => None,
        RuleAt::Affinity(i) => Some(&rule_set.required_affinity[*i as usize]),
        RuleAt::AntiAffinity(i) => Some(&rule_set.required_anti_affinity[*i as usize]),
    });
    let of_term = terms.flat_map(|term| {
        let domain = |t: &TopologyId| Some((term.matcher, *t, state.topologies.domain(*t, node)?));
        term.topologies.iter().filter_map(domain)
    });
    of_term.collect()
}
