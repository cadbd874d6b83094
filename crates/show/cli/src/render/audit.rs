//! Violated rules, and what the enforcer would do about them.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use berth_api::syntax::format::{abbreviated, counted, grouped};
use berth_console::report::{self, Report, Span, attention, bad, dim, good, line, not_running, strong};
use berth_enforcer::{EnforcerOptions, HoldForecast, HoldPeriod, PodHold};
use berth_engine::{Remedies, Remedy, Stays, Target, Violation, ViolationKey};
use berth_simulate::{NotRunning, UnadmittedState};
use jiff::Timestamp;
use serde::Serialize;

/// Number of pods named whose rules an eviction fixes.
const MAX_FIXED: usize = 3;

/// The report of `berth audit`. Its JSON schema is stable: docs/json.md.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Audit {
    /// Violated rules, by pod.
    pub violations: Vec<Violation>,
    /// Evictions, in order.
    pub remedies: Vec<Remedy>,
    /// Violated rules required during execution that cause no eviction.
    pub stays: Vec<Stays>,
    /// Evictions that the default limits of the enforcer delay.
    pub delayed: Vec<Delayed>,
    /// Pods that are to be evicted and stay for now, because no node is feasible.
    pub held: Vec<HeldPod>,
    /// Pods that do not run on the nodes that they name: they break no rule.
    pub not_running: Vec<NotRunning>,
    pub summary: AuditSummary,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HeldPod {
    pub namespace: String,
    pub name: String,
    /// How long, in seconds; null: until a node is feasible.
    pub hold_seconds: Option<u64>,
    /// Until when, if the condition of the pod says since when.
    pub until: Option<Timestamp>,
    #[serde(skip)]
    held: PodHold,
}

#[derive(Debug, Serialize)]
pub struct Delayed {
    pub namespace: String,
    pub name: String,
    pub reason: String,
}

impl Audit {
    /// Finds the evictions that the default limits of the enforcer delay.
    pub fn set_delayed(&mut self, forecast: &HoldForecast<'_>) {
        let is_evicted = |remedy: &&Remedy| !remedy.is_held;
        let evicted: Vec<&Remedy> = self.remedies.iter().filter(is_evicted).collect();
        let delays = forecast.delays(&EnforcerOptions::default().limits, &evicted);
        let delayed = evicted.iter().zip(delays).filter_map(|(remedy, reason)| {
            let (namespace, name) = (remedy.victim.namespace.clone(), remedy.victim.name.clone());
            Some(Delayed { namespace, name, reason: reason? })
        });
        self.delayed = delayed.collect();
        self.summary.n_delayed = self.delayed.len();
    }

    /// Finds out how long the enforcer holds the pods that it does not evict now.
    pub fn set_held(&mut self, hold_forecast: &HoldForecast<'_>) {
        let held = |remedy: &Remedy| {
            let (namespace, name) = (remedy.victim.namespace.clone(), remedy.victim.name.clone());
            let held = hold_forecast.of(&namespace, &name)?;
            let hold_seconds =
                if let HoldPeriod::For(duration) = held.period { Some(duration.as_secs()) } else { None };
            let until = held.since.and_then(|since| held.period.until(since));
            Some(HeldPod { namespace, name, hold_seconds, until, held })
        };
        let is_held = |remedy: &&Remedy| remedy.is_held;
        self.held = self.remedies.iter().filter(is_held).filter_map(held).collect();
    }

    /// Until when the pod that would be evicted is held; none if it is not held.
    fn held_until(&self, remedy: &Remedy) -> Option<PodHold> {
        let is_it =
            |pod: &&HeldPod| (&pod.namespace, &pod.name) == (&remedy.victim.namespace, &remedy.victim.name);
        self.held.iter().find(is_it).map(|pod| pod.held)
    }
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AuditSummary {
    n_nodes: usize,
    /// Pods with a node.
    n_pods: usize,
    /// Pods with a violated rule.
    n_pods_with_violations: usize,
    n_violations: usize,
    /// Violated rules that are required during execution.
    n_executing_violations: usize,
    /// Pods that would be evicted.
    n_evictions: usize,
    /// Pods that are to be evicted and stay for now, because no node is feasible.
    n_held: usize,
    /// Those of the pods that would be evicted that have no feasible node.
    n_without_target: usize,
    /// Pods that would be evicted, but not at once: a limit delays them.
    n_delayed: usize,
    /// Pods that are rejected by the nodes that they name.
    n_rejected: usize,
    /// Pods that wait for the nodes that they name, or for claims.
    n_waiting: usize,
}

impl AuditSummary {
    pub fn new(
        (n_pods, n_nodes): (usize, usize),
        violations: &[Violation],
        found: &Remedies,
        not_running: &[NotRunning],
    ) -> AuditSummary {
        let pods: BTreeSet<_> = violations.iter().map(|v| (&v.namespace, &v.name)).collect();
        let victims = || found.remedies.iter();
        let n_held = victims().filter(|r| r.is_held).count();
        let n_nowhere = victims().filter(|r| matches!(r.target, Target::Nowhere(_))).count();
        AuditSummary {
            n_nodes,
            n_pods,
            n_pods_with_violations: pods.len(),
            n_violations: violations.len(),
            n_executing_violations: violations.iter().filter(|v| v.required_during_execution).count(),
            n_evictions: victims().count() - n_held,
            n_held,
            n_without_target: n_nowhere - n_held,
            n_delayed: 0,
            n_rejected: NotRunning::n_pods(not_running, UnadmittedState::Rejected),
            n_waiting: NotRunning::n_pods(not_running, UnadmittedState::Waiting),
        }
    }
}

/// The violated rules by pod, each with what the enforcer would do.
pub fn report(audit: &Audit) -> Report {
    let mut report = Report { is_good: audit.violations.is_empty(), ..Report::default() };
    report.verdict.push(summary(&audit.summary));
    let part = report.part("Violated rules");
    let mut pod = None;
    for violation in &audit.violations {
        let Violation { namespace, name, node, verdict, .. } = violation;
        if pod.replace((namespace, name)) != Some((namespace, name)) {
            part.line(0, line![strong(format!("Pod {namespace}/{name}")), format!(" on {node}")]);
        }
        let [rule, why] = report::verdict(verdict);
        part.line(1, line!["- "].into_iter().chain(rule));
        part.line(2, why);
        if violation.required_during_execution {
            for text in answers(audit, &violation.key()) {
                part.line(3, line![bad("required during execution"), format!(": {text}")]);
            }
        }
    }
    evictions(&mut report, audit);
    report.parts.extend(not_running::parts(&audit.not_running));
    report
}

/// The numbers of violated rules of each workload; `workloads` are those of the pods.
pub fn by_workload(audit: &Audit, workloads: &HashMap<String, Option<String>>) -> Report {
    let mut report = Report { is_good: audit.violations.is_empty(), ..Report::default() };
    report.verdict.push(summary(&audit.summary));
    let mut counts: BTreeMap<(&str, &str, &str), (usize, usize)> = BTreeMap::new();
    for violation in &audit.violations {
        let Violation { namespace, name, term, required_during_execution, .. } = violation;
        let workload = workloads.get(&format!("{namespace}/{name}")).and_then(Option::as_deref);
        let rule = if term.is_empty() { violation.verdict.plugin.name() } else { term };
        let count = counts.entry((namespace, workload.unwrap_or("(single pods)"), rule)).or_default();
        count.0 += 1;
        count.1 += usize::from(*required_during_execution);
    }
    let headings = ["Namespace", "Workload", "Pods", "During execution", "Violated rule"];
    report.part("Violated rules").table(
        &headings,
        counts,
        usize::MAX,
        |((namespace, workload, rule), (n_pods, n_executing))| {
            line![namespace, workload, n_pods, n_executing, rule]
        },
    );
    report.parts.extend(not_running::parts(&audit.not_running));
    report
}

/// What the enforcer would do about a rule.
fn answers(audit: &Audit, key: &ViolationKey) -> Vec<String> {
    let named = |r: &Remedy| format!("{}/{}", r.victim.namespace, r.victim.name);
    let owner = format!("{}/{}", key.namespace, key.name);
    let evictions = audit.remedies.iter().filter(|remedy| remedy.cures.contains(key)).map(|remedy| {
        let victim = if named(remedy) == owner { "the pod".to_owned() } else { named(remedy) };
        match &remedy.target {
            Target::Node(node) => format!("the enforcer would evict {victim}, which fits on {node}"),
            Target::Nowhere(why) => {
                let would = match audit.held_until(remedy) {
                    None if remedy.is_held => format!("would not evict {victim}"),
                    None => format!("would evict {victim}"),
                    Some(PodHold { period: HoldPeriod::Always, .. }) => format!("would hold {victim}"),
                    Some(until) => format!("would hold {victim} until {until} and then evict it"),
                };
                format!("the enforcer {would}; it fits on no node: {why}")
            }
            Target::NotRequested => format!("the enforcer would evict {victim}"),
        }
    });
    let stays = audit.stays.iter().filter(|stays| stays.key == *key);
    evictions.chain(stays.map(|stays| format!("no eviction: {}", stays.reason))).collect()
}

fn evictions(report: &mut Report, audit: &Audit) {
    let part = report.titled("Evictions by the enforcer after the grace periods, in this order");
    let has_held = !audit.held.is_empty();
    let mut headings = vec!["Pod", "Node", "Priority", "Target"];
    headings.extend(has_held.then_some("Held until"));
    headings.push("Fixes rules of");
    part.table(&headings, &audit.remedies, usize::MAX, |remedy| {
        let victim = &remedy.victim;
        let target = match &remedy.target {
            Target::Node(node) => good(node),
            Target::Nowhere(_) if remedy.is_held => dim("<none>"),
            Target::Nowhere(_) => bad("<none>"),
            Target::NotRequested => dim("<unknown>"),
        };
        let cured: BTreeSet<_> = remedy.cures.iter().map(|k| format!("{}/{}", k.namespace, k.name)).collect();
        let cured: Vec<String> = cured.into_iter().collect();
        let pod = format!("{}/{}", victim.namespace, victim.name);
        let mut row = line![pod, &victim.node, victim.priority, target];
        let until = || audit.held_until(remedy).map(|until| until.to_string()).unwrap_or_default();
        row.extend(has_held.then(|| until().into()));
        row.push(abbreviated(&cured, MAX_FIXED).into());
        row
    });
    let mut by_reason: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for Delayed { namespace, name, reason } in &audit.delayed {
        by_reason.entry(reason).or_default().push(format!("{namespace}/{name}"));
    }
    for (reason, pods) in by_reason {
        let delayed = attention("delayed by the default limits of the enforcer");
        part.line(0, line![delayed, format!(": {}: {reason}", abbreviated(&pods, MAX_FIXED))]);
    }
}

fn summary(summary: &AuditSummary) -> Vec<Span> {
    let not_running = not_running::counts(summary.n_rejected, summary.n_waiting, 0);
    let of = format!(": {} on {}", counted(summary.n_pods, "pod"), counted(summary.n_nodes, "node"));
    if summary.n_violations == 0 {
        return line![good("No required rule is violated"), of, bad(not_running)];
    }
    let (rules, pods) =
        (counted(summary.n_violations, "rule"), counted(summary.n_pods_with_violations, "pod"));
    let are = if summary.n_violations == 1 { "is" } else { "are" };
    let mut text = String::new();
    if summary.n_executing_violations > 0 {
        let evicted = counted(summary.n_evictions, "pod");
        text += &format!(
            "; {} required during execution: {evicted} would be evicted",
            grouped(summary.n_executing_violations)
        );
    }
    for (n, what) in [
        (summary.n_delayed, "of them later because of a limit"),
        (summary.n_without_target, "of them without a feasible node"),
        (summary.n_held, "held because no node is feasible"),
    ] {
        text += &if n > 0 { format!(", {} {what}", grouped(n)) } else { String::new() };
    }
    line![bad(format!("{rules} of {pods} {are} violated")), of, bad(not_running), text]
}
