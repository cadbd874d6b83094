//! Victim selection: the engine selects the pods to be evicted, whenever something could have changed, and right before
//! every request.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use berth_engine::{Remedies, Remedy, Stays, Target, ViolationKey};
use jiff::Timestamp;
use tokio::time::Instant;

use super::enforcer::Enforcer;
use crate::completion::Sent;
use crate::evict::Eviction;
use crate::held_pods::EndedHold;
use crate::limiter::{Candidate, ClusterStop, GroupMember, LimitKind, Throttled};
use crate::message;
use crate::metrics::EvictionResult;
use crate::pods::Workload;
use crate::time::Time;

/// A pod that the engine selected.
struct Victim {
    workload: Arc<Workload>,
    seen_at: Timestamp,
    n_workload_pods: usize,
    /// Until when it is held without a feasible node; none: until there is one.
    held_until: Option<Timestamp>,
    /// Whether the engine knew that it is held no longer.
    is_released: bool,
    /// Path of the term that its eviction fixes.
    term: String,
}

impl Victim {
    fn candidate<'a>(&'a self, remedy: &'a Remedy) -> Candidate<'a> {
        Candidate {
            uid: &remedy.victim.uid,
            node: &remedy.victim.node,
            namespace: &remedy.victim.namespace,
            workload: &self.workload.name,
            term: &self.term,
            seen_at: self.seen_at,
            n_workload_pods: self.n_workload_pods,
        }
    }
}

/// A pod to be evicted, or all pods of a group that is evicted as a whole. It counts as one eviction, that of its first pod.
struct Unit(Vec<(Remedy, Victim)>);

impl Unit {
    /// Puts the pods of each group together. A group stays if one of its pods is not evicted now.
    fn all(candidates: Vec<(Remedy, Victim)>, n_members: &HashMap<String, usize>) -> Vec<Unit> {
        let mut units: Vec<Unit> = Vec::new();
        let mut of_group: HashMap<String, usize> = HashMap::new();
        for (remedy, victim) in candidates {
            let group = remedy.group.clone();
            match group.as_ref().and_then(|group| of_group.get(group)) {
                Some(unit) => units[*unit].0.push((remedy, victim)),
                None => {
                    of_group.extend(group.map(|group| (group, units.len())));
                    units.push(Unit(vec![(remedy, victim)]));
                }
            }
        }
        units.retain(|unit| unit.group().is_none_or(|group| n_members.get(group) == Some(&unit.0.len())));
        units
    }

    fn group(&self) -> Option<&String> {
        self.0.first()?.0.group.as_ref()
    }

    fn members(&self) -> Vec<GroupMember> {
        let member = |(Remedy { victim, .. }, _): &(Remedy, Victim)| GroupMember {
            name: victim.name.clone(),
            uid: victim.uid.clone(),
        };
        self.0.iter().map(member).collect()
    }

    /// Of its first pod.
    fn uid(&self) -> &str {
        self.0.first().map_or("", |(remedy, _)| &remedy.victim.uid)
    }
}

fn sent((remedy, victim): &(Remedy, Victim)) -> Sent {
    Sent {
        eviction: Eviction {
            namespace: remedy.victim.namespace.clone(),
            name: remedy.victim.name.clone(),
            uid: remedy.victim.uid.clone(),
            message: message::evicted(remedy),
            moves_to: None,
            is_move: false,
        },
        node: remedy.victim.node.clone(),
        workload: victim.workload.clone(),
    }
}

/// Why due pods and rules have no eviction now, and when to select again.
#[derive(Default)]
struct Delays {
    held: BTreeMap<&'static str, usize>,
    again_at: Option<Instant>,
}

impl Delays {
    fn add(&mut self, reason: &'static str, again_at: Instant) {
        *self.held.entry(reason).or_default() += 1;
        self.again_at = Some(self.again_at.map_or(again_at, |at| at.min(again_at)));
    }
}

/// Number of pods that have these rules, which are sorted.
fn n_owners(keys: &[ViolationKey]) -> usize {
    keys.chunk_by(|a, b| (&a.namespace, &a.name) == (&b.namespace, &b.name)).count()
}

impl Enforcer {
    /// The violations that evictions are to fix now. A pod is left to its node until that has accepted or rejected it: what the node
    /// rejects has failed.
    fn due(&mut self, time: Time) -> Vec<ViolationKey> {
        let (due, again_at) = self.violations.due(&self.pods, time.timestamp);
        if let Some(again_at) = again_at {
            self.timer.set(time.instant_of(again_at));
        }
        due
    }

    /// Selects victims. Those in the ledger are evicted, the others are added to it.
    pub(super) fn select_victims(&mut self, now: Instant) {
        let time = Time::at(now);
        let due = self.due(time);
        if due.is_empty() {
            self.release(HashSet::new());
            self.check_cluster_limit(0, now);
            self.reporter.current.held.clear();
            let ended = self.hold(&[], time);
            self.write_conditions(&ended, time);
            return;
        }
        if let Some(throttled) = self.limits.limiter.stops_all(n_owners(&due), time.timestamp) {
            // With wrong labels on the whole cluster, a selection would be expensive and useless.
            self.release(HashSet::new());
            self.reporter.current.held = BTreeMap::from([(throttled.limit_kind.name(), n_owners(&due))]);
            self.timer.set(time.instant_of(throttled.until));
            self.held.delay_all(throttled.limit_kind.delay());
            self.write_conditions(&[], time);
            return;
        }
        self.remedy_options.bound_against_rule = self.violations.intruders(&due);
        let owners = due.iter().map(|key| (key.namespace.clone(), key.name.clone())).collect();
        self.remedy_options.evict_without_target = self.held.released(&self.pods, owners, time.timestamp);
        let Remedies { mut remedies, stays } = self.cluster.remedy(&due, &self.remedy_options);
        self.held.leave_out_blocked(&self.pods, &mut remedies);
        let ended = self.hold(&remedies, time);
        self.metrics.selected(now.elapsed());
        let mut delays = Delays::default();
        let look_again = now + self.options.look_again;
        let fixed = self.evictions.fixed_rules();
        for Stays { key, reason } in stays.iter().filter(|s| !fixed.contains(&s.key)) {
            delays.add("nobody_helps", look_again);
            self.events.no_remedy(key, reason, &self.pods);
        }
        let candidates = self.candidates(remedies, &mut delays, time, look_again);
        let is_new = |unit: &&Unit| !self.limits.limiter.is_reserved(unit.uid());
        let n_new = candidates.iter().filter(is_new).map(|unit| unit.0.len()).sum();
        self.check_cluster_limit(n_new, now);
        let planned: HashSet<String> = candidates.iter().map(|unit| unit.uid().to_owned()).collect();
        self.release(planned);
        for unit in candidates {
            let n = self.limits.n_reserved() + self.evictions.n_in_flight();
            if n >= self.options.eviction_concurrency.max(1) && !self.limits.has_reserved(unit.uid()) {
                // The completion of those in flight causes another selection.
                continue;
            }
            if let Err(throttled) = self.evict(&unit, time) {
                let (remedy, victim) = &unit.0[0];
                let again_at = time.instant_of(throttled.until);
                delays.add(throttled.limit_kind.name(), again_at);
                // A stop of all evictions is reported once.
                let is_quiet = matches!(
                    throttled.limit_kind,
                    LimitKind::Rate | LimitKind::Cluster | LimitKind::OtherProcess
                );
                if !is_quiet {
                    self.events.delayed(remedy, &victim.workload, &throttled);
                }
                if throttled.limit_kind != LimitKind::Rate {
                    self.held.delay(&remedy.victim.uid, || throttled.limit_kind.delay().to_owned());
                }
            }
        }
        self.write_conditions(&ended, time);
        // One write for all of them.
        if self.keeps_ledger() {
            self.limits.sync(now);
        }
        self.reporter.current.held = delays.held;
        if let Some(at) = delays.again_at {
            self.timer.set(at);
        }
    }

    /// Cancels what is counted and not planned any more.
    fn release(&mut self, mut planned: HashSet<String>) {
        planned.extend(self.rebalancer.as_ref().and_then(|r| r.counted()).map(str::to_owned));
        self.limits.release(&planned);
    }

    /// The pods, and groups of pods, that would be evicted without limits.
    fn candidates(
        &mut self,
        remedies: Vec<Remedy>,
        delays: &mut Delays,
        time: Time,
        look_again: Instant,
    ) -> Vec<Unit> {
        let mut candidates = Vec::new();
        let groups =
            remedies.iter().filter(|remedy| !remedy.is_held).filter_map(|remedy| remedy.group.clone());
        let n_members = groups.fold(HashMap::new(), |mut n: HashMap<String, usize>, group| {
            *n.entry(group).or_default() += 1;
            n
        });
        for remedy in remedies {
            let uid = &remedy.victim.uid;
            if self.evictions.contains(uid) || self.violations.is_exempt(&remedy.victim.namespace) {
                continue;
            }
            let (namespace, name) = (&remedy.victim.namespace, &remedy.victim.name);
            if let Some(again_at) = self.pods.node_decides_until(namespace, name, time.timestamp) {
                self.timer.set(time.instant_of(again_at));
                continue;
            }
            // Deleted or replaced since.
            let Some(victim) = self.victim(&remedy, time.timestamp) else { continue };
            if let Some(why) = self.unreadable(&remedy) {
                delays.add("no_permission", look_again);
                self.held.delay(uid, || why.clone());
                self.events.unreadable(&remedy, &victim.workload, &why);
                continue;
            }
            if let (Target::Nowhere(why), true) = (&remedy.target, remedy.is_held) {
                let Victim { held_until, is_released, .. } = victim;
                let again_at = held_until.filter(|_| !is_released).map(|until| time.instant_of(until));
                delays.add("no_target", again_at.map_or(look_again, |at| at.min(look_again)));
                self.events.no_target(&remedy, &victim.workload, held_until, time.timestamp, why);
                continue;
            }
            if let Some((reason, why, until)) = self.evictions.waits(uid, time.instant) {
                delays.add(reason, until);
                self.held.delay(uid, || why.to_owned());
                continue;
            }
            if let Some(throttled) = self.limits.repeats(&victim.candidate(&remedy), time.timestamp) {
                delays.add(throttled.limit_kind.name(), time.instant_of(throttled.until));
                self.held.delay(uid, || throttled.limit_kind.delay().to_owned());
                self.events.delayed(&remedy, &victim.workload, &throttled);
                continue;
            }
            candidates.push((remedy, victim));
        }
        Unit::all(candidates, &n_members)
    }

    /// Pods without a feasible node are held. Returns those that were and are not any more.
    fn hold(&mut self, remedies: &[Remedy], time: Time) -> Vec<EndedHold> {
        self.held.selected(remedies, &self.pods, time.timestamp);
        if !self.keeps_ledger() || !self.held.may_have_ended(&self.pods) {
            return Vec::new();
        }
        // After a restart, the grace period of a rule starts again, and the hold goes on.
        let later = match self.violations.len() > self.violations.n_due() {
            true => self.cluster.remedy(&self.violations.all(), &self.remedy_options).remedies,
            false => Vec::new(),
        };
        self.held.ended(&self.pods, remedies, &later)
    }

    /// Pods that are held, and those that are not any more, show it.
    fn write_conditions(&mut self, ended: &[EndedHold], time: Time) {
        if let Some(again_at) =
            self.keeps_ledger().then(|| self.held.write_conditions(&self.pods, ended, time)).flatten()
        {
            self.timer.set(again_at);
        }
    }

    /// Why it is not known where a victim fits: it needs what may not be read.
    fn unreadable(&self, remedy: &Remedy) -> Option<String> {
        let pod = self.pods.get(&remedy.victim.namespace, &remedy.victim.name)?;
        self.mirror.unreadable_for(|| pod.needs).map(str::to_owned)
    }

    fn victim(&self, remedy: &Remedy, now: Timestamp) -> Option<Victim> {
        let (namespace, name) = (&remedy.victim.namespace, &remedy.victim.name);
        let facts = self.pods.get(namespace, name)?;
        let released = &self.remedy_options.evict_without_target;
        (*facts.uid == *remedy.victim.uid && !remedy.victim.uid.is_empty()).then(|| Victim {
            workload: facts.workload.clone(),
            seen_at: facts.seen_at,
            n_workload_pods: self.pods.n_of(&facts.workload),
            held_until: self.held.until(&self.pods, facts, namespace, now),
            is_released: released.binary_search(&(namespace.clone(), name.clone())).is_ok(),
            term: remedy.cures.first().map(|key| key.term.clone()).unwrap_or_default(),
        })
    }

    fn check_cluster_limit(&mut self, n_would_evict: usize, now: Instant) {
        let time = Time::at(now);
        match self.limits.check_cluster_limit(self.pods.n_running(), n_would_evict, time.timestamp) {
            Some(ClusterStop::Started(throttled)) => {
                tracing::warn!(
                    would_evict = throttled.n,
                    limit = throttled.limit,
                    "all evictions are stopped: {throttled}"
                );
                self.events.stopped(self.limits.ledger.reference(), &throttled);
                self.timer.set(time.instant_of(throttled.until));
            }
            Some(ClusterStop::Ended) => tracing::info!("evictions continue"),
            None => {}
        }
    }

    /// The next step of an eviction.
    fn evict(&mut self, unit: &Unit, time: Time) -> Result<(), Throttled> {
        let (first, victim) = &unit.0[0];
        self.limits.reserve(&victim.candidate(first), time.timestamp)?;
        if unit.0.len() > 1 {
            self.limits.limiter.set_group(unit.uid(), unit.members());
        }
        if self.options.dry_run {
            unit.0.iter().for_each(|(remedy, _)| self.report_dry_run(remedy));
        } else if self.limits.is_stored(unit.uid()) {
            unit.0.iter().for_each(|(remedy, _)| self.evictions.add(remedy));
            self.evictions.send(unit.0.iter().map(sent).collect(), false);
        }
        Ok(())
    }

    /// A dry run logs the eviction.
    fn report_dry_run(&mut self, remedy: &Remedy) {
        self.evictions.add(remedy);
        self.reporter.current.n_would_evict += 1;
        self.metrics.evicted(EvictionResult::DryRun);
        let victim = &remedy.victim;
        tracing::info!(
            pod = format!("{}/{}", victim.namespace, victim.name),
            node = victim.node,
            target = ?remedy.target,
            "would be evicted: {}",
            message::verdict(&remedy.verdict)
        );
    }
}
