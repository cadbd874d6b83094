//! Remedies: which pods have to be evicted so that broken rules hold again, and where they would be placed.
//!
//! Victim selection:
//!
//! 1. For node affinity and pod affinity, the pod whose rule is broken. Node affinity comes first. Pods with broken pod
//!    affinity are evaluated again after each eviction, since a replacement may match their terms: of two pods of a group
//!    with affinity to itself, in two domains, only one is evicted.
//! 2. For anti-affinity, the pod that owns the broken term, unless all pods that conflict with it have lower priority:
//!    then all of these. With a limit, unless enough of them have lower priority: then those that exceed the limit.
//!    A pod that was bound against a rule has the lowest priority.
//! 3. A pod is not evicted if its eviction fixes nothing, or if other evictions are enough.
//! 4. Where any of several pods would do: lower priority first, then the younger (the later `status.startTime`; a pod
//!    that has not started is the youngest), then by namespace and name.
//!
//! Pods in exempt namespaces, mirror pods, and pods that have ended or are being deleted are never evicted. Of a group that is
//! disrupted as a whole, all running pods are evicted, or none: their replacements are placed as a group ([`group`]). Where all pods
//! that conflict with a term are being deleted already, no pod is evicted for it.
//!
//! Targets: each victim is removed hypothetically, and placed by the rules of its scheduling profile (of the first one,
//! if its scheduler name has none), with all earlier victims removed and their replacements placed. The replacement is
//! the same pod without a node. The engine does not see the pod template of a controller: a pod that was relabelled by
//! hand is placed with the labels that it has. A node where the replacement would break a rule of another pod that is
//! required during execution is no target. Rules of other pods that the eviction breaks do not count, unless a remedy
//! has fixed them before: they have their own grace period.

mod choice;
mod group;
mod result;
mod speculation;
mod unneeded;

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use self::choice::{Answer, Conflicts, Stuck};
use self::result::text_of;
use self::speculation::{Savepoint, Speculation};
use super::tracker::{Evaluated, ViolationTracker};
use super::types::{Remedies, RemedyOptions, Stays, Target, ViolationKey};
use crate::cycle::nomination::Nominations;
use crate::state::State;
use crate::state::group::GroupId;
use crate::state::interned::intern::Symbol;
use crate::state::pod::PodId;
use crate::state::pod::prepared::PreparedPod;
use crate::state::rule_set::RuleAt;
use crate::view::Views;

/// The order in which pods are evicted: lower priority first, then the later start, then by namespace and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Rank(i32, Reverse<i64>, String, String);

impl Rank {
    fn of(state: &State, id: PodId) -> Rank {
        let pod = state.pods.get(id);
        let namespace = state.symbols.text(pod.namespace).to_owned();
        Rank(pod.precedence.priority, Reverse(pod.precedence.started), namespace, pod.name.to_string())
    }
}

/// A broken rule for which a remedy is looked for.
struct Pending {
    key: ViolationKey,
    rank: Rank,
    name: PodName,
    /// Keeps its id until it is evicted.
    pod: PodId,
    rule: RuleAt,
}

/// Namespace and name.
type PodName = (Symbol, Box<str>);

/// A pod that is not evicted, its node and the reason.
type StuckPod = (PreparedPod, Arc<str>, String);

/// A hypothetical eviction.
#[derive(Clone)]
struct Step {
    pod: PreparedPod,
    node: Arc<str>,
    target: Target,
    /// The state before it.
    savepoint: Savepoint,
    /// Its affinity was broken: no other pod matched.
    needs_match: bool,
    /// Pods whose rules later steps must not break: its replacement, and those whose rules it fixed.
    guarded: Vec<PodId>,
    /// The group that it is evicted with.
    group: Option<GroupId>,
}

impl Step {
    fn name(&self) -> PodName {
        (self.pod.namespace, self.pod.name.clone())
    }
}

struct Plan<'a, 'o> {
    speculation: Speculation<'a>,
    options: &'o RemedyOptions,
    exempt: FxHashSet<Symbol>,
    /// Pods that were bound against a rule.
    intruders: FxHashSet<PodId>,
    /// Pods that go also without a target, with these.
    released: FxHashSet<PodId>,
    pending: Vec<Pending>,
    by_rule: FxHashMap<(PodId, RuleAt), usize>,
    steps: Vec<Step>,
    evicted: HashSet<PodName>,
    /// Pods that would have to be evicted and cannot be.
    nowhere: HashMap<PodName, StuckPod>,
    /// Pods that could go without a target, and stay with others that cannot.
    waiting: HashMap<PodName, StuckPod>,
    /// By index of the rule, the pods that would all have to go for it.
    needed: FxHashMap<usize, Vec<PodName>>,
    /// By index of the rule, the pod whose eviction fixed it.
    cured: FxHashMap<usize, PodName>,
    guarded: FxHashSet<PodId>,
    /// What happens to terms of anti-affinity whose owners stay.
    answers: FxHashMap<usize, Answer>,
    /// Why no pod is evicted, by index of the rule.
    reasons: FxHashMap<usize, String>,
    stays: Vec<Stays>,
}

/// Which pods have to be evicted so that these broken rules hold again, and where they would go:
/// [`Cluster::remedy`](crate::Cluster::remedy).
pub(crate) fn remedy(
    state: &mut State,
    views: &mut Views,
    nominations: &Nominations,
    tracker: &mut Option<Box<ViolationTracker>>,
    broken: &[ViolationKey],
    options: &RemedyOptions,
) -> Remedies {
    let mut exempt = state.exempt_namespaces.clone();
    exempt.extend(options.exempt_namespaces.iter().filter_map(|name| state.symbols.get(name)));
    let ids = |names: &[(String, String)]| -> FxHashSet<PodId> {
        names.iter().filter_map(|(ns, name)| state.pods.find(state.symbols.get(ns)?, name)).collect()
    };
    let intruders = ids(&options.bound_against_rule);
    let released = &ids(&options.evict_without_target) | &intruders;
    let mut plan = Plan {
        speculation: Speculation::new(state, views, nominations, tracker),
        options,
        exempt,
        intruders,
        released,
        pending: Vec::new(),
        by_rule: FxHashMap::default(),
        steps: Vec::new(),
        evicted: HashSet::new(),
        nowhere: HashMap::new(),
        waiting: HashMap::new(),
        needed: FxHashMap::default(),
        cured: FxHashMap::default(),
        guarded: FxHashSet::default(),
        answers: FxHashMap::default(),
        reasons: FxHashMap::default(),
        stays: Vec::new(),
    };
    plan.take(broken);
    plan.evict_for_own_rules(|rule| matches!(rule, RuleAt::Node(_)));
    plan.evict_for_own_rules(|rule| matches!(rule, RuleAt::Affinity(_)));
    plan.separate();
    plan.leave_out_unneeded();
    let found = plan.found();
    state.remedies(found)
}

impl State {
    /// The rule that a key means, if it is broken now.
    fn broken_rule(&self, key: &ViolationKey) -> Result<(PodId, RuleAt), &'static str> {
        let id = self.symbols.get(&key.namespace).and_then(|n| self.pods.find(n, &key.name));
        let Some(id) = id.filter(|id| self.pods.get(*id).node.is_some()) else {
            return Err("there is no such pod on a known node");
        };
        let pod = self.pods.get(id);
        if pod.terminating {
            return Err("the pod is being deleted already");
        }
        let Some(rule) = RuleAt::find(self.rule_sets.get(pod.rule_set), &key.term) else {
            return Err("the pod has no such rule that is required during execution");
        };
        if self.broken_rules(pod).any(|(_, broken)| broken == rule) {
            Ok((id, rule))
        } else {
            Err("the rule holds now")
        }
    }
}

impl Plan<'_, '_> {
    /// Takes the rules that are broken; gives the reason for the others.
    fn take(&mut self, broken: &[ViolationKey]) {
        let keys: BTreeSet<&ViolationKey> = broken.iter().collect();
        for key in keys {
            let state = self.speculation.state();
            match state.broken_rule(key) {
                Ok((pod, rule)) => {
                    let name = name_of(state, pod);
                    let rank = Rank::of(state, pod);
                    self.by_rule.insert((pod, rule), self.pending.len());
                    self.pending.push(Pending { key: key.clone(), rank, name, pod, rule });
                }
                Err(reason) => self.stays.push(Stays { key: key.clone(), reason: reason.to_owned() }),
            }
        }
    }

    /// Whether the pod of a rule is not evicted, and the rule is still broken.
    fn is_broken(&self, rule: &Pending) -> bool {
        let state = self.speculation.state();
        !self.evicted.contains(&rule.name) && {
            let pod = state.pods.get(rule.pod);
            pod.node.is_some_and(|node| state.is_broken(pod.likeness(), node, rule.rule))
        }
    }

    /// The rules of a kind that are broken, in the order in which their pods would be evicted.
    fn due(&self, kind: impl Fn(RuleAt) -> bool) -> Vec<usize> {
        let of_kind = (0..self.pending.len()).filter(|i| kind(self.pending[*i].rule));
        let mut due: Vec<_> = of_kind.filter(|i| self.is_broken(&self.pending[*i])).collect();
        due.sort_by(|a, b| self.pending[*a].rank.cmp(&self.pending[*b].rank));
        due
    }

    /// Evicts pods whose own rules of a kind are broken.
    fn evict_for_own_rules(&mut self, kind: impl Fn(RuleAt) -> bool) {
        for i in self.due(kind) {
            let rule = &self.pending[i];
            let (pod, needs_match) = (rule.pod, matches!(rule.rule, RuleAt::Affinity(_)));
            // Earlier replacements may have fixed it.
            if !self.is_broken(rule) {
                continue;
            }
            match self.stuck(pod) {
                None => _ = self.evict(pod, needs_match),
                Some(Stuck::Never(why)) => _ = self.reasons.insert(i, why),
                Some(Stuck::Nowhere) => {}
            }
        }
    }

    /// Evicts pods that must not be together. If some of them turn out not to be evictable, the victims are selected
    /// again: the others may be unnecessary.
    fn separate(&mut self) {
        loop {
            let terms = self.due(|rule| matches!(rule, RuleAt::AntiAffinity(_)));
            let stuck = |id| self.stuck(id);
            let state = self.speculation.state();
            let choice = Conflicts::new(state, &self.pending, &terms, &self.intruders, &stuck).choose(&terms);
            let n_steps = self.steps.len();
            let mut all_evicted = true;
            let victims: Vec<PodName> = choice.victims.iter().map(|pod| name_of(state, *pod)).collect();
            for victim in &victims {
                // It may have left with its group.
                let pod = self.speculation.state().pods.find(victim.0, &victim.1);
                let pod = pod.filter(|_| !self.evicted.contains(victim));
                all_evicted &= pod.is_none_or(|pod| self.evict(pod, false));
            }
            if all_evicted {
                self.answers = choice.answers;
                return;
            }
            for Step { pod, node, target, .. } in &self.steps[n_steps..] {
                if let Target::Nowhere(why) = target {
                    let name = (pod.namespace, pod.name.clone());
                    self.waiting.insert(name, (pod.clone(), node.clone(), why.clone()));
                }
            }
            for (rule, answer) in choice.answers {
                if let Answer::Others(others) = answer {
                    self.needed.entry(rule).or_insert(others);
                }
            }
            self.take_back(n_steps);
        }
    }

    /// Why a pod cannot be evicted.
    fn stuck(&self, id: PodId) -> Option<Stuck> {
        let state = self.speculation.state();
        if let Some(why) = self.never(id) {
            return Some(Stuck::Never(why));
        }
        if let Some(group) = self.whole_group(id) {
            let stays = state.groups.members(group).find_map(|member| self.never(member));
            if let Some(why) = stays {
                let group = state.groups.key(group);
                return Some(Stuck::Never(format!("{group} is evicted as a whole or not at all, and {why}")));
            }
        }
        self.nowhere.contains_key(&name_of(state, id)).then_some(Stuck::Nowhere)
    }

    /// Why a pod is never evicted.
    fn never(&self, id: PodId) -> Option<String> {
        let state = self.speculation.state();
        let pod = state.pods.get(id);
        if self.exempt.contains(&pod.namespace) {
            let namespace = state.symbols.text(pod.namespace);
            return Some(format!("pods in namespace {namespace} are exempt from eviction"));
        }
        let name = || text_of(state, &name_of(state, id));
        pod.precedence.is_mirror.then(|| format!("{} is a mirror pod: only its node can end it", name()))
    }

    /// Evicts a pod, and places its replacement. Returns whether it did.
    fn evict(&mut self, id: PodId, needs_match: bool) -> bool {
        if let Some(group) = self.whole_group(id) {
            return self.evict_group(id, group);
        }
        let savepoint = self.speculation.savepoint();
        let (pod, node, replacement) = self.speculation.remove(id);
        let name = (pod.namespace, pod.name.clone());
        let mut evaluated = self.speculation.evaluate();
        let target = if self.options.seek_targets {
            let (target, by_placing) = self.speculation.seek(&replacement);
            evaluated.then(by_placing);
            target
        } else {
            Target::NotRequested
        };
        let obstacle = match &target {
            Target::Nowhere(why) if !self.released.contains(&id) => Some(why.clone()),
            _ => self.broken_again(&evaluated),
        };
        if let Some(why) = obstacle {
            self.speculation.undo_to(savepoint);
            self.speculation.evaluate();
            self.nowhere.insert(name, (pod, node, why));
            return false;
        }
        let mut guarded: Vec<PodId> = Vec::new();
        if matches!(target, Target::Node(_)) {
            guarded.extend(self.speculation.state().pods.find(pod.namespace, &pod.name));
        }
        guarded.extend(self.cured_by(&name, evaluated));
        guarded.retain(|pod| self.guarded.insert(*pod));
        self.evicted.insert(name);
        self.steps.push(Step { pod, node, target, savepoint, needs_match, guarded, group: None });
        true
    }

    /// The pods whose rules hold again since an eviction.
    fn cured_by(&mut self, name: &PodName, evaluated: Evaluated) -> Vec<PodId> {
        let mut cured = Vec::new();
        for (pod, rule) in evaluated.ended {
            if let Some(i) = self.by_rule.get(&(pod, rule)) {
                self.cured.insert(*i, name.clone());
                cured.push(pod);
            }
        }
        cured
    }

    /// A rule that an earlier step fixed, and that is broken again.
    fn broken_again(&self, evaluated: &Evaluated) -> Option<String> {
        let state = self.speculation.state();
        let broken =
            evaluated.began.iter().filter(|(pod, _)| self.guarded.contains(pod)).find(|(pod, rule)| {
                let found = state.pods.find_by_id(*pod).and_then(|pod| Some((pod, pod.node?)));
                found.is_some_and(|(pod, node)| state.is_broken(pod.likeness(), node, *rule))
            });
        let (pod, _) = broken?;
        let other = text_of(state, &name_of(state, *pod));
        Some(format!("its eviction would break a rule of {other} again that other evictions fix"))
    }

    /// Undoes steps.
    fn take_back(&mut self, n_left: usize) {
        for step in self.steps.drain(n_left..).rev() {
            self.speculation.undo_to(step.savepoint);
            self.evicted.remove(&step.name());
            step.guarded.iter().for_each(|pod| _ = self.guarded.remove(pod));
        }
        self.speculation.evaluate();
        let evicted = &self.evicted;
        self.cured.retain(|_, by| evicted.contains(by));
    }
}

fn name_of(state: &State, id: PodId) -> PodName {
    let pod = state.pods.get(id);
    (pod.namespace, pod.name.clone())
}
