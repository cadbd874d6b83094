//! Following which rules required during execution are broken, at a cost that follows what changes.
//!
//! The state tells of pods that come and go, of nodes whose labels change, and of counts that cross from "nobody"
//! to "one" to "several": only these can make a rule hold or not, since the pod that carries a rule counts at most
//! once itself. What they touch is noted, and judged when somebody asks. While nobody watches, the state tells
//! nothing.

use std::collections::{BTreeSet, HashMap};

use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use super::rule::RuleAt;
use super::types::{ViolationChanges, ViolationKey};
use crate::state::class::ClassId;
use crate::state::cluster::Cluster;
use crate::state::counter::Counter;
use crate::state::identity::IdentityId;
use crate::state::intern::Symbol;
use crate::state::matcher::MatcherId;
use crate::state::node::NodeId;
use crate::state::pod::{PodId, PodRecord};
use crate::state::topology::{DomainId, TopologyId};
use crate::state::uid::Uid;
use crate::state::witness::WitnessCache;

type Rules = SmallVec<[RuleAt; 2]>;
type Place = (MatcherId, TopologyId, DomainId);

/// What is kept while violations are watched.
#[derive(Default)]
pub(crate) struct Watch {
    /// Pods with a rule between pods required during execution, by what it asks and the domain they are in.
    carriers: FxHashMap<Place, FxHashSet<PodId>>,
    /// By number of the matcher, how many entries of `carriers` it has.
    n_carried: Vec<u32>,
    /// Pods to be judged.
    pods: FxHashSet<PodId>,
    /// Where carriers are to be judged.
    places: FxHashSet<Place>,
    /// Questions that few pods match: who is the first of its group may be another one now.
    groups: FxHashSet<MatcherId>,
    /// Rules that were broken when they were last judged.
    broken: FxHashMap<PodId, Rules>,
    /// What was last told about pods of which something else is true now, or was in between.
    told: HashMap<(Symbol, Box<str>), Told>,
}

/// What judging anew found, of pods that are there before and after.
#[derive(Default)]
pub(crate) struct Judged {
    /// Rules that are broken and were not.
    pub(crate) began: Vec<(PodId, RuleAt)>,
    /// Rules that hold and did not.
    pub(crate) ended: Vec<(PodId, RuleAt)>,
}

impl Judged {
    /// What was found later.
    pub(super) fn then(&mut self, later: Judged) {
        self.began.extend(later.began);
        self.ended.extend(later.ended);
    }
}

/// What was told about a pod.
struct Told {
    uid: Uid,
    class: ClassId,
    broken: Rules,
}

impl Cluster {
    /// Begins to follow which rules required during execution are broken. The first
    /// [`Cluster::violation_changes`] then tells all that are. Asked again, it changes nothing.
    pub fn watch_violations(&mut self) {
        if self.watch.is_some() {
            return;
        }
        let mut watch = Box::<Watch>::default();
        for (id, pod) in self.pods.iter() {
            watch.place(self, id, pod);
        }
        self.watch = Some(watch);
    }

    /// What changed since this was last asked; nothing while violations are not watched
    /// ([`Cluster::watch_violations`]).
    ///
    /// The cost follows what changed in the cluster meanwhile: the pods that came, the pods on nodes whose labels
    /// changed, and those with rules about pods whose number in their domain crossed from none to one or from one
    /// to several.
    pub fn violation_changes(&mut self) -> ViolationChanges {
        let Some(mut watch) = self.watch.take() else { return ViolationChanges::default() };
        watch.refresh(self);
        let changes = watch.changes(self);
        self.watch = Some(watch);
        changes
    }

    /// A pod came to a node, or its node has other labels.
    pub(crate) fn watch_placed(&mut self, pod: PodId) {
        if let Some(mut watch) = self.watch.take() {
            watch.place(self, pod, self.pods.get(pod));
            self.watch = Some(watch);
        }
    }

    /// A pod is about to leave its node.
    pub(crate) fn watch_left(&mut self, pod: PodId) {
        if let Some(mut watch) = self.watch.take() {
            let record = self.pods.get(pod);
            watch.displace(self, pod, record);
            if let Some(broken) = watch.broken.remove(&pod) {
                watch.note(record, broken);
            }
            self.watch = Some(watch);
        }
    }

    /// A pod's node is about to get other labels.
    pub(crate) fn watch_displaced(&mut self, pod: PodId) {
        if let Some(mut watch) = self.watch.take() {
            watch.displace(self, pod, self.pods.get(pod));
            self.watch = Some(watch);
        }
    }

    /// Pods of an identity match a question now, or do no longer.
    pub(crate) fn watch_matching(&mut self, matcher: MatcherId, identity: IdentityId) {
        let Some(watch) = self.watch.as_mut().filter(|w| w.is_carried(matcher)) else { return };
        for (topology, _) in &self.matchers.get(matcher).matching {
            for node in self.identities.get(identity).placed.keys() {
                if let Some(domain) = self.topologies.domain(*topology, *node) {
                    watch.places.insert((matcher, *topology, domain));
                }
            }
        }
        watch.groups.insert(matcher);
    }
}

impl Watch {
    fn is_carried(&self, matcher: MatcherId) -> bool {
        self.n_carried.get(matcher.0 as usize).is_some_and(|n| *n > 0)
    }

    /// The count of matching pods in a domain is one more or one fewer now.
    #[inline]
    pub(crate) fn counted(
        &mut self,
        matcher: MatcherId,
        topology: TopologyId,
        domain: DomainId,
        counter: &Counter,
        sign: i64,
    ) {
        if !self.is_carried(matcher) {
            return;
        }
        let now = counter.get(domain).count;
        let fewer = now.min(now - sign);
        // From none to one, or from one to two, or back: beyond that there is somebody else in any case.
        if fewer > 1 {
            return;
        }
        self.places.insert((matcher, topology, domain));
        if counter.n_domains() <= 2 {
            self.groups.insert(matcher);
        }
    }

    fn place(&mut self, cluster: &Cluster, id: PodId, pod: &PodRecord) {
        let class = cluster.classes.get(pod.class);
        if class.executing.is_empty() || pod.node.is_none() || pod.terminating {
            return;
        }
        self.pods.insert(id);
        for place in places(cluster, pod) {
            if self.carriers.entry(place).or_default().insert(id) {
                let index = place.0.0 as usize;
                if self.n_carried.len() <= index {
                    self.n_carried.resize(index + 1, 0);
                }
                self.n_carried[index] += 1;
            }
        }
    }

    fn displace(&mut self, cluster: &Cluster, id: PodId, pod: &PodRecord) {
        if pod.terminating {
            return;
        }
        for place in places(cluster, pod) {
            let Some(carriers) = self.carriers.get_mut(&place) else { continue };
            if carriers.remove(&id) {
                self.n_carried[place.0.0 as usize] -= 1;
            }
            if carriers.is_empty() {
                self.carriers.remove(&place);
            }
        }
    }

    /// Remembers what was told about a pod, unless that is remembered already.
    fn note(&mut self, pod: &PodRecord, broken: Rules) {
        let told = || Told { uid: pod.uid.clone(), class: pod.class, broken };
        self.told.entry((pod.namespace, pod.name.clone())).or_insert_with(told);
    }

    /// Judges all that was touched.
    pub(super) fn refresh(&mut self, cluster: &Cluster) -> Judged {
        let mut judged = Judged::default();
        let mut pods = std::mem::take(&mut self.pods);
        for matcher in std::mem::take(&mut self.groups) {
            for (topology, counter) in &cluster.matchers.get(matcher).matching {
                // Where several match, each has another one.
                let alone = counter.iter().filter(|(_, tally)| tally.count == 1);
                self.places.extend(alone.map(|(domain, _)| (matcher, *topology, domain)));
            }
        }
        for place in std::mem::take(&mut self.places) {
            pods.extend(self.carriers.get(&place).into_iter().flatten());
        }
        for id in pods {
            let Some(pod) = cluster.pods.find_by_id(id) else { continue };
            let broken: Rules = cluster.broken_rules(pod).map(|(_, rule)| rule).collect();
            let before = self.broken.get(&id).cloned().unwrap_or_default();
            if broken == before {
                continue;
            }
            judged.began.extend(broken.iter().filter(|rule| !before.contains(rule)).map(|rule| (id, *rule)));
            judged.ended.extend(before.iter().filter(|rule| !broken.contains(rule)).map(|rule| (id, *rule)));
            self.note(pod, before);
            if broken.is_empty() {
                self.broken.remove(&id);
            } else {
                self.broken.insert(id, broken);
            }
        }
        judged
    }

    /// How what is true now differs from what was last told.
    fn changes(&mut self, cluster: &Cluster) -> ViolationChanges {
        let cache = WitnessCache::default();
        let mut changes = ViolationChanges::default();
        for ((namespace, name), told) in self.told.drain() {
            let id = cluster.pods.find(namespace, &name);
            let now = id.map(|id| (id, cluster.pods.get(id)));
            let is_same = now.is_some_and(|(_, pod)| pod.uid == told.uid);
            let path = |class, rule: RuleAt| rule.path(cluster.classes.get(class));
            let told_paths: BTreeSet<&str> = told.broken.iter().map(|r| path(told.class, *r)).collect();
            let mut now_paths = BTreeSet::new();
            if let Some((id, pod)) = now {
                for rule in self.broken.get(&id).into_iter().flatten() {
                    let path = path(pod.class, *rule);
                    now_paths.insert(path);
                    if let Some(node) = pod.node.filter(|_| !is_same || !told_paths.contains(path)) {
                        changes.began.push(cluster.violation_of(id, node, *rule, &cache));
                    }
                }
            }
            let ended = told_paths.into_iter().filter(|path| !is_same || !now_paths.contains(path));
            changes.ended.extend(ended.map(|path| ViolationKey {
                namespace: cluster.symbols.text(namespace).to_owned(),
                name: name.to_string(),
                term: path.to_owned(),
            }));
        }
        super::audit::sort(&mut changes.began);
        changes.ended.sort_unstable();
        changes
    }
}

/// Where a pod's rules between pods that are required during execution look for others.
fn places<'a>(cluster: &'a Cluster, pod: &'a PodRecord) -> impl Iterator<Item = Place> + 'a {
    let class = cluster.classes.get(pod.class);
    let node: Option<NodeId> = pod.node;
    let terms = class.executing.iter().filter_map(|rule| match rule {
        RuleAt::Node(_) => None,
        RuleAt::Affinity(i) => Some(class.affinity_of_running(*i as usize).0),
        RuleAt::AntiAffinity(i) => Some(&class.required_anti_affinity[*i as usize]),
    });
    terms.flat_map(move |term| {
        let domain = move |t: &TopologyId| Some((term.matcher, *t, cluster.topologies.domain(*t, node?)?));
        term.topologies.iter().filter_map(domain)
    })
}
