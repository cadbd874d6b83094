//! Violated rules, and what the enforcer would do about them.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::io::{self, Write};

use berth_api::syntax::format::{abbreviated, counted, grouped};
use berth_enforcer::{EnforcerOptions, HoldForecast, HoldPeriod, PodHold};
use berth_engine::{Remedies, Remedy, Stays, Target, Violation, ViolationKey};
use berth_simulate::{NotRunning, UnadmittedState};
use berth_terminal::output::{ATTENTION, BAD, BOLD, DIM, GOOD};
use berth_terminal::table::{Cell, Table};
use jiff::Timestamp;
use serde::Serialize;

use super::explanation::write_verdict;
use super::heading::heading;
use super::not_running;

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
    /// The limit.
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

/// Writes the report; the last line is the summary.
pub fn write(out: &mut impl Write, audit: &Audit) -> io::Result<()> {
    let mut pod = None;
    for violation in &audit.violations {
        let this = Some((&violation.namespace, &violation.name));
        if pod != this {
            pod = this;
            writeln!(
                out,
                "{BOLD}Pod {}/{}{BOLD:#} on {}",
                violation.namespace, violation.name, violation.node
            )?;
        }
        write_verdict(out, &violation.verdict, "  ")?;
        if violation.required_during_execution {
            write_answer(out, audit, &violation.key())?;
        }
    }
    write_evictions(out, audit)?;
    if !audit.violations.is_empty() {
        writeln!(out)?;
    }
    write_totals(out, audit)
}

/// Writes the numbers of violated rules of each workload; `workloads` are those of the pods.
pub fn write_by_workload(
    out: &mut impl Write,
    audit: &Audit,
    workloads: &HashMap<String, Option<String>>,
) -> io::Result<()> {
    let mut counts: BTreeMap<(&str, &str, &str), (usize, usize)> = BTreeMap::new();
    for violation in &audit.violations {
        let Violation { namespace, name, term, required_during_execution, .. } = violation;
        let workload = workloads.get(&format!("{namespace}/{name}")).and_then(Option::as_deref);
        let rule = if term.is_empty() { violation.verdict.plugin.name() } else { term };
        let count = counts.entry((namespace, workload.unwrap_or("(single pods)"), rule)).or_default();
        count.0 += 1;
        count.1 += usize::from(*required_during_execution);
    }
    let mut table = Table::new(["NAMESPACE", "WORKLOAD", "PODS", "DURING EXECUTION", "VIOLATED RULE"]);
    for ((namespace, workload, rule), (n_pods, n_executing)) in counts {
        table.row([namespace.into(), workload.into(), n_pods.into(), n_executing.into(), rule.into()]);
    }
    if !audit.violations.is_empty() {
        table.write_paragraph(out)?;
    }
    write_totals(out, audit)
}

fn write_totals(out: &mut impl Write, audit: &Audit) -> io::Result<()> {
    not_running::write(out, &audit.not_running)?;
    write_summary(out, &audit.summary)
}

/// Writes what the enforcer would do about a rule.
fn write_answer(out: &mut impl Write, audit: &Audit, key: &ViolationKey) -> io::Result<()> {
    let named = |r: &Remedy| format!("{}/{}", r.victim.namespace, r.victim.name);
    let owner = format!("{}/{}", key.namespace, key.name);
    for remedy in audit.remedies.iter().filter(|r| r.cures.contains(key)) {
        let victim = if named(remedy) == owner { "the pod".to_owned() } else { named(remedy) };
        match &remedy.target {
            Target::Node(node) => {
                writeln!(
                    out,
                    "      {BAD}required during execution{BAD:#}: the enforcer would evict {victim}, which fits on {node}"
                )?;
            }
            Target::Nowhere(why) => {
                let would = match audit.held_until(remedy) {
                    None if remedy.is_held => format!("would not evict {victim}"),
                    None => format!("would evict {victim}"),
                    Some(PodHold { period: HoldPeriod::Always, .. }) => format!("would hold {victim}"),
                    Some(until) => format!("would hold {victim} until {until} and then evict it"),
                };
                writeln!(
                    out,
                    "      {BAD}required during execution{BAD:#}: the enforcer {would}; it fits on no node: {why}"
                )?;
            }
            Target::NotRequested => writeln!(
                out,
                "      {BAD}required during execution{BAD:#}: the enforcer would evict {victim}"
            )?,
        }
    }
    for stays in audit.stays.iter().filter(|s| s.key == *key) {
        writeln!(out, "      {BAD}required during execution{BAD:#}: no eviction: {}", stays.reason)?;
    }
    Ok(())
}

fn write_evictions(out: &mut impl Write, audit: &Audit) -> io::Result<()> {
    if audit.remedies.is_empty() {
        return Ok(());
    }
    heading(out, "Evictions by the enforcer after the grace periods, in this order")?;
    let mut headers = vec!["POD", "NODE", "PRIORITY", "TARGET"];
    headers.extend((!audit.held.is_empty()).then_some("HELD UNTIL"));
    headers.push("FIXES RULES OF");
    let mut table = Table::new(headers);
    for remedy in &audit.remedies {
        let victim = &remedy.victim;
        let target = match &remedy.target {
            Target::Node(node) => Cell::styled(node, GOOD),
            Target::Nowhere(_) => Cell::styled("<none>", if remedy.is_held { DIM } else { BAD }),
            Target::NotRequested => Cell::styled("<unknown>", DIM),
        };
        let cured: BTreeSet<String> =
            remedy.cures.iter().map(|k| format!("{}/{}", k.namespace, k.name)).collect();
        let cured: Vec<String> = cured.into_iter().collect();
        let mut row = vec![
            format!("{}/{}", victim.namespace, victim.name).into(),
            victim.node.as_str().into(),
            victim.priority.into(),
            target,
        ];
        if !audit.held.is_empty() {
            row.push(audit.held_until(remedy).map(|until| until.to_string()).unwrap_or_default().into());
        }
        row.push(abbreviated(&cured, MAX_FIXED).into());
        table.row(row);
    }
    table.write(out, "  ")?;
    let mut by_reason: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for Delayed { namespace, name, reason } in &audit.delayed {
        by_reason.entry(reason).or_default().push(format!("{namespace}/{name}"));
    }
    for (reason, pods) in by_reason {
        let pods = abbreviated(&pods, MAX_FIXED);
        writeln!(
            out,
            "  {ATTENTION}delayed by the default limits of the enforcer{ATTENTION:#}: {pods}: {reason}"
        )?;
    }
    Ok(())
}

fn write_summary(out: &mut impl Write, summary: &AuditSummary) -> io::Result<()> {
    let not_running = not_running::counts(summary.n_rejected, summary.n_waiting, 0);
    let (pods, nodes) = (counted(summary.n_pods, "pod"), counted(summary.n_nodes, "node"));
    let of = fmt::from_fn(|f| write!(f, "{pods} on {nodes}{not_running}"));
    if summary.n_violations == 0 {
        return writeln!(out, "{GOOD}No required rule is violated{GOOD:#}: {of}");
    }
    let rules = counted(summary.n_violations, "rule");
    let are = if summary.n_violations == 1 { "is" } else { "are" };
    let pods = counted(summary.n_pods_with_violations, "pod");
    write!(out, "{BAD}{rules} of {pods} {are} violated{BAD:#}: {of}")?;
    write!(out, "; {} required during execution", grouped(summary.n_executing_violations))?;
    if summary.n_executing_violations > 0 {
        write!(out, ": {} would be evicted", counted(summary.n_evictions, "pod"))?;
    }
    if summary.n_delayed > 0 {
        write!(out, ", {} of them later because of a limit", grouped(summary.n_delayed))?;
    }
    if summary.n_without_target > 0 {
        write!(out, ", {} of them without a feasible node", grouped(summary.n_without_target))?;
    }
    if summary.n_held > 0 {
        write!(out, ", {} held because no node is feasible", grouped(summary.n_held))?;
    }
    writeln!(out)
}
