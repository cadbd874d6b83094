//! Rules that do not hold, and what would be done about them.

use std::collections::BTreeSet;
use std::io::{self, Write};

use berth_engine::{Remedies, Remedy, Stays, Target, Violation, ViolationKey};
use serde::Serialize;

use super::explanation::{heading, write_verdict};
use super::names::{abbreviated, counted, grouped};
use super::table::{Cell, Table};
use crate::output::{BAD, BOLD, DIM, GOOD};

/// This many other pods whose rules a pod's going cures are named.
const MAX_CURED: usize = 3;

/// What an audit found. As JSON its form is stable: docs/audit.md.
#[derive(Debug, Serialize)]
pub struct Audit {
    /// Rules that do not hold, by pod.
    pub violations: Vec<Violation>,
    /// Who would go, in order.
    pub remedies: Vec<Remedy>,
    /// Rules required during execution for which nobody goes.
    pub stays: Vec<Stays>,
    /// In numbers.
    pub summary: Summary,
    /// Whether pods with no place to go to would go all the same.
    #[serde(skip)]
    pub evict_without_target: bool,
}

/// An audit in numbers.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    n_nodes: usize,
    /// Pods that are assigned.
    n_pods: usize,
    /// Those with a rule that does not hold.
    n_pods_with_violations: usize,
    n_violations: usize,
    /// Those required during execution.
    n_executing_violations: usize,
    /// Pods that would go.
    n_evictions: usize,
    /// Pods that have no place to go to: they stay, unless they are to go all the same.
    n_without_target: usize,
}

impl Summary {
    /// Counts; of the cluster it is told how many pods and nodes it has.
    pub fn new(
        (n_pods, n_nodes): (usize, usize),
        violations: &[Violation],
        found: &Remedies,
        evict_without_target: bool,
    ) -> Summary {
        let concerned: BTreeSet<_> = violations.iter().map(|v| (&v.namespace, &v.name)).collect();
        let n_without_target =
            found.remedies.iter().filter(|r| matches!(r.target, Target::Nowhere(_))).count();
        Summary {
            n_nodes,
            n_pods,
            n_pods_with_violations: concerned.len(),
            n_violations: violations.len(),
            n_executing_violations: violations.iter().filter(|v| v.required_during_execution).count(),
            n_evictions: found.remedies.len() - if evict_without_target { 0 } else { n_without_target },
            n_without_target,
        }
    }
}

/// Writes all of it; the last line is the summary.
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
    write_summary(out, &audit.summary, audit.evict_without_target)
}

/// What would be done about a rule.
fn write_answer(out: &mut impl Write, audit: &Audit, key: &ViolationKey) -> io::Result<()> {
    let named = |r: &Remedy| format!("{}/{}", r.victim.namespace, r.victim.name);
    let carrier = format!("{}/{}", key.namespace, key.name);
    for remedy in audit.remedies.iter().filter(|r| r.cures.contains(key)) {
        let who = if named(remedy) == carrier { "it".to_owned() } else { named(remedy) };
        match &remedy.target {
            Target::Node(node) => {
                writeln!(out, "      {BAD}required during execution{BAD:#}: {who} would go to {node}")?
            }
            Target::Nowhere(why) => {
                let goes = if audit.evict_without_target { "would go, and" } else { "would have to go, but" };
                writeln!(
                    out,
                    "      {BAD}required during execution{BAD:#}: {who} {goes} has no place: {why}"
                )?;
            }
            Target::NotAsked => writeln!(out, "      {BAD}required during execution{BAD:#}: {who} would go")?,
        }
    }
    for stays in audit.stays.iter().filter(|s| s.key == *key) {
        writeln!(out, "      {BAD}required during execution{BAD:#}, but nobody goes: {}", stays.reason)?;
    }
    Ok(())
}

fn write_evictions(out: &mut impl Write, audit: &Audit) -> io::Result<()> {
    if audit.remedies.is_empty() {
        return Ok(());
    }
    heading(out, "What the enforcer would do once its patience is over, in this order")?;
    let mut table = Table::new(["POD", "NODE", "PRIORITY", "GOES TO", "SO THAT THE RULES HOLD OF"]);
    for remedy in &audit.remedies {
        let victim = &remedy.victim;
        let target = match &remedy.target {
            Target::Node(node) => Cell::styled(node, GOOD),
            Target::Nowhere(_) if audit.evict_without_target => Cell::styled("nowhere", BAD),
            Target::Nowhere(_) => Cell::styled("stays: no place", DIM),
            Target::NotAsked => Cell::styled("not asked", DIM),
        };
        let cured: BTreeSet<String> =
            remedy.cures.iter().map(|k| format!("{}/{}", k.namespace, k.name)).collect();
        let cured: Vec<String> = cured.into_iter().collect();
        table.row([
            format!("{}/{}", victim.namespace, victim.name).into(),
            victim.node.as_str().into(),
            victim.priority.into(),
            target,
            abbreviated(&cured, MAX_CURED).into(),
        ]);
    }
    table.write(out, "  ")
}

fn write_summary(out: &mut impl Write, summary: &Summary, evict_without_target: bool) -> io::Result<()> {
    let of = format!("{} on {}", counted(summary.n_pods, "pod"), counted(summary.n_nodes, "node"));
    if summary.n_violations == 0 {
        return writeln!(out, "{GOOD}All required rules hold{GOOD:#}: {of}");
    }
    let rules = counted(summary.n_violations, "rule");
    let do_not = if summary.n_violations == 1 { "does not" } else { "do not" };
    let pods = counted(summary.n_pods_with_violations, "pod");
    write!(out, "{BAD}{rules} of {pods} {do_not} hold{BAD:#}: {of}")?;
    write!(out, "; {} required during execution", grouped(summary.n_executing_violations))?;
    if summary.n_executing_violations > 0 {
        write!(out, ": {} would go", counted(summary.n_evictions, "pod"))?;
    }
    match (summary.n_without_target, evict_without_target) {
        (0, _) => {}
        (n, true) => write!(out, ", {} of them with no place to go to", grouped(n))?,
        (n, false) => write!(out, ", {} would have to and cannot", grouped(n))?,
    }
    writeln!(out)
}
