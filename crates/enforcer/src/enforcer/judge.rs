//! Who goes now: asked of the engine whenever something could have changed, and right before every request.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use berth_engine::{Remedies, Remedy, Stays, Target, ViolationKey};
use jiff::Timestamp;
use tokio::time::Instant;

use super::completions::{Completion, Sent};
use super::{Enforcer, Going};
use crate::evict::Eviction;
use crate::limiter::{Brake, Candidate, ClusterBrake, Throttled};
use crate::message;
use crate::metrics::EvictionResult;
use crate::pods::Workload;

/// What is known of a pod that would have to go.
struct Victim {
    workload: Arc<Workload>,
    seen_at: Timestamp,
    n_workload_pods: usize,
    /// Path of the term for which it goes.
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

/// Why those stay who do, and when to ask again.
#[derive(Default)]
struct Stay {
    held: BTreeMap<&'static str, usize>,
    again_at: Option<Instant>,
}

impl Stay {
    fn hold(&mut self, reason: &'static str, again_at: Instant) {
        *self.held.entry(reason).or_default() += 1;
        self.again_at = Some(self.again_at.map_or(again_at, |at| at.min(again_at)));
    }
}

/// A moment of the wall clock as one of this process.
fn instant(until: Timestamp, now: (Instant, Timestamp)) -> Instant {
    let wait = Duration::try_from(until.duration_since(now.1)).unwrap_or(Duration::ZERO);
    now.0 + wait
}

/// How many pods carry these rules, which are sorted.
fn n_carriers(keys: &[ViolationKey]) -> usize {
    keys.chunk_by(|a, b| (&a.namespace, &a.name) == (&b.namespace, &b.name)).count()
}

impl Enforcer {
    /// Finds out who goes now. Those that are written down are told to go, the others are put down to be written.
    pub(super) fn judge(&mut self, now: Instant) {
        let due: Vec<ViolationKey> = self.patience.due().cloned().collect();
        if due.is_empty() {
            self.give_back(&HashSet::new());
            self.survey(0, now);
            self.shown.held.clear();
            return;
        }
        let time = (now, Timestamp::now());
        if let Some(held) = self.brakes.holds_all(n_carriers(&due), time.1) {
            // A cluster that is relabelled as a whole is not judged again and again to no end.
            self.give_back(&HashSet::new());
            self.shown.held = BTreeMap::from([(held.brake.name(), n_carriers(&due))]);
            self.judge_soon(instant(held.until, time));
            return;
        }
        let Remedies { remedies, stays } = self.cluster.remedy(&due, &self.remedy_options);
        self.metrics.judged(now.elapsed());
        let mut stay = Stay::default();
        let look_again = now + self.options.look_again;
        let going: HashSet<ViolationKey> =
            self.going.values().flat_map(|g| g.cures.iter().cloned()).collect();
        for Stays { key, reason } in stays.iter().filter(|s| !going.contains(&s.key)) {
            stay.hold("nobody_helps", look_again);
            self.say_rule_stays(key, reason);
        }
        let candidates = self.candidates(remedies, &mut stay, time, look_again);
        let n_new = candidates.iter().filter(|(r, _)| !self.brakes.is_reserved(&r.victim.uid)).count();
        self.survey(n_new, now);
        let planned: HashSet<String> = candidates.iter().map(|(r, _)| r.victim.uid.clone()).collect();
        self.give_back(&planned);
        for (remedy, victim) in candidates {
            if self.reserved.len() + self.n_in_flight >= self.options.eviction_concurrency.max(1)
                && !self.reserved.contains(&remedy.victim.uid)
            {
                // The end of those under way is a reason to judge again.
                continue;
            }
            if let Err(held) = self.proceed(&remedy, &victim, time) {
                let again_at = instant(held.until, time);
                stay.hold(held.brake.name(), again_at);
                // Of the cluster's brake it is said once for all of them.
                if !matches!(held.brake, Brake::Rate | Brake::Cluster) {
                    self.say_held(&remedy, &victim.workload, &held);
                }
            }
        }
        // All of them with one write.
        self.keep_ledger(now);
        self.shown.held = stay.held;
        if let Some(at) = stay.again_at {
            self.judge_soon(at);
        }
    }

    /// The pods that would go if no brake held them.
    fn candidates(
        &mut self,
        remedies: Vec<Remedy>,
        stay: &mut Stay,
        time: (Instant, Timestamp),
        look_again: Instant,
    ) -> Vec<(Remedy, Victim)> {
        let mut candidates = Vec::new();
        for remedy in remedies {
            let uid = &remedy.victim.uid;
            if self.going.contains_key(uid) || self.exempt_namespaces.contains(&remedy.victim.namespace) {
                continue;
            }
            // Told of under another uid by now, or not at all: what is judged has passed.
            let Some(victim) = self.victim(&remedy) else { continue };
            if let Target::Nowhere(why) = &remedy.target
                && !self.options.evict_without_target
            {
                stay.hold("no_target", look_again);
                self.say_no_target(&remedy, &victim.workload, why);
                continue;
            }
            if let Some(retry) = self.retries.get(uid).filter(|retry| time.0 < retry.not_before) {
                stay.hold(if retry.is_refused { "refused" } else { "failed" }, retry.not_before);
                continue;
            }
            if let Some(held) = self.brakes.repeats(&victim.candidate(&remedy), time.1)
                && !self.brakes.is_reserved(uid)
            {
                stay.hold(held.brake.name(), instant(held.until, time));
                self.say_held(&remedy, &victim.workload, &held);
                continue;
            }
            candidates.push((remedy, victim));
        }
        candidates
    }

    fn victim(&self, remedy: &Remedy) -> Option<Victim> {
        let facts = self.pods.get(&remedy.victim.namespace, &remedy.victim.name)?;
        (*facts.uid == *remedy.victim.uid && !remedy.victim.uid.is_empty()).then(|| Victim {
            workload: facts.workload.clone(),
            seen_at: facts.seen_at,
            n_workload_pods: self.pods.n_of(&facts.workload),
            term: remedy.cures.first().map(|key| key.term.clone()).unwrap_or_default(),
        })
    }

    fn survey(&mut self, n_would_go: usize, now: Instant) {
        let time = Timestamp::now();
        match self.brakes.survey(self.pods.n_stay(), n_would_go, time) {
            Some(ClusterBrake::Engaged(held)) => {
                tracing::warn!(would_go = held.n, limit = held.limit, "the brake holds: {held}");
                self.say_brake(&held);
                self.judge_soon(instant(held.until, (now, time)));
            }
            Some(ClusterBrake::Released) => tracing::info!("the brake is released"),
            None => {}
        }
    }

    /// Reservations of pods that need not go any more are taken back.
    fn give_back(&mut self, planned: &HashSet<String>) {
        let void: Vec<String> = self.reserved.iter().filter(|uid| !planned.contains(*uid)).cloned().collect();
        for uid in void {
            self.reserved.remove(&uid);
            self.cancel(&uid);
        }
    }

    /// An eviction was not sent, or not carried out. One that may yet be stays counted.
    pub(super) fn cancel(&mut self, uid: &str) {
        if !self.uncertain.contains(uid) {
            self.brakes.cancel(uid);
            self.written.took_back(uid);
        }
    }

    /// The next step of an eviction.
    fn proceed(
        &mut self,
        remedy: &Remedy,
        victim: &Victim,
        time: (Instant, Timestamp),
    ) -> Result<(), Throttled> {
        self.brakes.reserve(&victim.candidate(remedy), time.1)?;
        let uid = &remedy.victim.uid;
        if self.options.dry_run {
            self.report(remedy);
        } else if self.written.has(uid) {
            self.reserved.remove(uid);
            self.send(remedy, victim);
        } else {
            self.reserved.insert(uid.clone());
            self.written.want();
        }
        Ok(())
    }

    fn goes(&mut self, remedy: &Remedy, is_in_flight: bool) {
        let going = Going { cures: remedy.cures.clone(), is_in_flight };
        self.going.insert(remedy.victim.uid.clone(), going);
    }

    /// A dry run says what would be done.
    fn report(&mut self, remedy: &Remedy) {
        self.goes(remedy, false);
        self.shown.n_would_evict += 1;
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

    fn send(&mut self, remedy: &Remedy, victim: &Victim) {
        self.goes(remedy, true);
        self.n_in_flight += 1;
        let eviction = Eviction {
            namespace: remedy.victim.namespace.clone(),
            name: remedy.victim.name.clone(),
            uid: remedy.victim.uid.clone(),
            message: message::evicted(remedy),
        };
        let sent = Sent {
            eviction: eviction.clone(),
            node: remedy.victim.node.clone(),
            workload: victim.workload.clone(),
        };
        let (evictor, ended) = (self.evictor.clone(), self.ended.clone());
        self.tasks.spawn(async move {
            let end = evictor.evict(&eviction).await;
            // Nobody takes it when the enforcer has ended.
            let _ = ended.send(Completion::Eviction { sent, end });
        });
    }
}
