//! The effect of changes of a cluster, and what is lost with each domain.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write};

use berth_api::syntax::format::{abbreviated, counted, grouped};
use berth_simulate::what_if::{
    BlockedEviction, BrokenRule, Counts, DomainLoss, EvictedPod, LossesAfterChanges, MovedPod, StepOutcome,
    StuckRollout, Summary, UnplacedPod, WhatIfOutcome,
};
use berth_simulate::{NotRunning, UnadmittedState};
use berth_terminal::output::{ATTENTION, BAD, BOLD, GOOD, NL};
use berth_terminal::table::{Cell, Table};

use super::explanation::{write_repairs, write_verdict};
use super::heading::heading;
use super::not_running;

/// Number of pods with a row each; more are counted by workload.
const MAX_ROWS: usize = 20;
/// Number of steps with a row each.
const MAX_STEPS: usize = 40;
/// Number of pods and domains named in a line.
const MAX_NAMED: usize = 4;
/// Number of pods whose broken rules are shown.
const MAX_BROKEN: usize = 10;
/// Number of domains shown with their workloads.
const MAX_DOMAINS: usize = 10;

/// Writes the effect; the last line is the summary.
pub fn write(out: &mut impl Write, outcome: &WhatIfOutcome) -> io::Result<()> {
    if !outcome.moved.is_empty() {
        write_moved(out, &outcome.moved)?;
        writeln!(out)?;
    }
    write_steps(out, &outcome.steps)?;
    write_undone(out, outcome)?;
    for Alike { first, pods } in alike(&outcome.unplaced) {
        if let Some(workload) = &first.workload {
            write!(out, "{BOLD}{workload}{BOLD:#}: ")?;
        }
        let (style, unplaced) = match first.before {
            true => (ATTENTION, "unplaced as before"),
            false => (BAD, "unplaced"),
        };
        let (n_pods, pods) = (counted(pods.len(), "pod"), abbreviated(&pods, MAX_NAMED));
        writeln!(out, "{n_pods} {style}{unplaced}{style:#}: {pods}{NL}  {}", first.message)?;
        write_repairs(out, &first.repairs)?;
        writeln!(out)?;
    }
    not_running::write(out, &outcome.not_running)?;
    if !outcome.evicted.is_empty() {
        let mut table = Table::new(["EVICTED POD", "BY"]);
        let units = EvictedPod::units(&outcome.evicted);
        for unit in units.iter().take(MAX_ROWS) {
            let name = EvictedPod::name_of_unit(unit);
            table.row([name.into(), unit[0].cause().into()]);
        }
        table.write(out, "")?;
        write_more(out, units.len().saturating_sub(MAX_ROWS))?;
        writeln!(out)?;
    }
    write_broken_rules(out, &outcome.broken_rules)?;
    if !outcome.scaled_down.is_empty() {
        let pods = abbreviated(&outcome.scaled_down, MAX_NAMED);
        writeln!(out, "{} deleted by controllers: {pods}{NL}", counted(outcome.scaled_down.len(), "pod"))?;
    }
    write_baseline(out, &outcome.summary)?;
    write_summary(out, outcome)
}

/// Writes the cluster after each step, if there are several, and the worst moment.
fn write_steps(out: &mut impl Write, steps: &[StepOutcome]) -> io::Result<()> {
    let Some((at, worst)) = steps.iter().enumerate().rev().max_by_key(|(_, step)| step.severity()) else {
        return Ok(());
    };
    let mut table = Table::new(["STEP", "CHANGES", "UNPLACED", "NOT RUNNING", "BLOCKED", "BUDGETS AT 0"]);
    for (i, step) in steps.iter().enumerate().take(MAX_STEPS) {
        let count = |n: usize| if n == 0 { Cell::from("0") } else { Cell::styled(grouped(n), BAD) };
        let budgets = match step.exhausted_budgets.as_slice() {
            [] => "<none>".to_owned(),
            budgets => abbreviated(budgets, MAX_NAMED),
        };
        table.row([
            grouped(i + 1).into(),
            abbreviated(&step.changes, MAX_NAMED).into(),
            match step.unplaced_before {
                0 => count(step.unplaced.len()),
                n => format!("{} ({} before)", grouped(step.unplaced.len()), grouped(n)).into(),
            },
            count(step.not_running.len()),
            count(step.blocked.len()),
            budgets.into(),
        ]);
    }
    table.write(out, "")?;
    write_more(out, steps.len().saturating_sub(MAX_STEPS))?;
    if worst.severity() > (0, 0, 0) {
        write!(out, "{NL}Worst moment: after step {}: ", grouped(at + 1))?;
        write!(out, "{} unplaced", counted(worst.unplaced.len(), "pod"))?;
        if !worst.unplaced.is_empty() {
            let (first, pods) = (&worst.unplaced[0], abbreviated(&worst.unplaced, MAX_NAMED));
            match worst.unplaced.len() {
                1 => write!(out, " ({first}: {})", worst.message)?,
                _ => write!(out, " ({pods}; {first}: {})", worst.message)?,
            }
        }
        if !worst.not_running.is_empty() {
            let n_pods = counted(worst.not_running.len(), "pod");
            write!(out, ", {n_pods} not running ({})", abbreviated(&worst.not_running, MAX_NAMED))?;
        }
        let blocked = counted(worst.blocked.len(), "eviction");
        writeln!(out, ", {blocked} blocked, {} at 0", counted(worst.exhausted_budgets.len(), "budget"))?;
    }
    writeln!(out)
}

/// Writes what the changes do not reach: evictions that budgets refuse, and rollouts that do not complete.
fn write_undone(out: &mut impl Write, outcome: &WhatIfOutcome) -> io::Result<()> {
    for BlockedEviction { namespace, name, node, message, .. } in outcome.blocked.iter().take(MAX_ROWS) {
        writeln!(out, "Pod {namespace}/{name} stays on {node}: {BAD}{message}{BAD:#}")?;
    }
    write_more(out, outcome.blocked.len().saturating_sub(MAX_ROWS))?;
    for BlockedEviction { namespace, name, node, message, .. } in outcome.delayed.iter().take(MAX_ROWS) {
        writeln!(out, "Pod {namespace}/{name} stays on {node} until a later change: {BAD}{message}{BAD:#}")?;
    }
    write_more(out, outcome.delayed.len().saturating_sub(MAX_ROWS))?;
    if !outcome.blocked.is_empty() || !outcome.delayed.is_empty() {
        writeln!(out)?;
    }
    for StuckRollout { kind, namespace, name, reason, fix } in outcome.stuck_rollouts.iter().take(MAX_ROWS) {
        writeln!(
            out,
            "{BOLD}{kind} {namespace}/{name}{BOLD:#}: the rollout is {BAD}stuck{BAD:#}: {reason}{NL}  fix: {fix}{NL}"
        )?;
    }
    write_more(out, outcome.stuck_rollouts.len().saturating_sub(MAX_ROWS))
}

fn write_broken_rules(out: &mut impl Write, broken: &[BrokenRule]) -> io::Result<()> {
    let (before, new): (Vec<_>, Vec<_>) = broken.iter().partition(|pod| pod.before);
    if !new.is_empty() {
        write!(out, "{BAD}Rules that break{BAD:#}")?;
        for pod in new.iter().take(MAX_BROKEN) {
            let node = pod.violations.first().map_or("", |violation| violation.node.as_str());
            heading(out, &format!("Pod {}/{} on {node}", pod.namespace, pod.name))?;
            pod.violations.iter().try_for_each(|violation| write_verdict(out, &violation.verdict, "  "))?;
        }
        write_more(out, new.len().saturating_sub(MAX_BROKEN))?;
        writeln!(out)?;
    }
    if !before.is_empty() {
        let pods: Vec<_> = before.iter().map(|pod| format!("{}/{}", pod.namespace, pod.name)).collect();
        let n_pods = counted(pods.len(), "pod");
        let pods = abbreviated(&pods, MAX_NAMED);
        writeln!(out, "{n_pods} with {ATTENTION}broken rules as before{ATTENTION:#}: {pods}{NL}")?;
    }
    Ok(())
}

/// Writes the numbers before and after, if something was not as it should be before.
fn write_baseline(out: &mut impl Write, summary: &Summary) -> io::Result<()> {
    let Summary { unplaced, not_running, broken_rules } = summary;
    let rows = [
        ("unplaced", unplaced),
        ("not running on their node, or not created", not_running),
        ("with broken rules", broken_rules),
    ];
    if rows.iter().all(|(_, counts)| counts.before == 0) {
        return Ok(());
    }
    let mut table = Table::new(["PODS", "BEFORE", "AFTER", "NEW"]);
    for (what, Counts { before, after, new }) in rows {
        if before + after > 0 {
            table.row([
                Cell::from(what),
                grouped(*before).into(),
                grouped(*after).into(),
                grouped(*new).into(),
            ]);
        }
    }
    table.write(out, "")?;
    writeln!(out)
}

fn write_summary(out: &mut impl Write, outcome: &WhatIfOutcome) -> io::Result<()> {
    let new = outcome.moved.iter().filter(|pod| pod.from.is_none()).count();
    let style = if outcome.is_harmless() { GOOD } else { BAD };
    let n_pods = |state| NotRunning::n_pods(&outcome.not_running, state);
    let not_running = not_running::counts(
        n_pods(UnadmittedState::Rejected),
        n_pods(UnadmittedState::Waiting),
        n_pods(UnadmittedState::NotCreated),
    );
    let Summary { unplaced, broken_rules, .. } = &outcome.summary;
    let more = |n: usize, what: &str, state: &str| match n {
        0 => String::new(),
        n => format!(", {} {state}", counted(n, what)),
    };
    writeln!(
        out,
        "{} moved, {} newly placed, {} unmoved; {style}{}{not_running}, {} evicted, {}{}{}{}{style:#}",
        counted(outcome.moved.len() - new, "pod"),
        grouped(new),
        grouped(outcome.n_unmoved),
        with_before(unplaced, "unplaced"),
        grouped(outcome.evicted.len()),
        with_before(broken_rules, "with broken rules"),
        more(outcome.blocked.len(), "eviction", "blocked"),
        more(outcome.delayed.len(), "eviction", "blocked until a later change"),
        more(outcome.stuck_rollouts.len(), "rollout", "stuck"),
    )
}

/// `2 unplaced, 2 of them before`.
fn with_before(counts: &Counts, what: &str) -> String {
    match counts.after - counts.new {
        0 => format!("{} {what}", grouped(counts.after)),
        before => format!("{} {what}, {} of them before", grouped(counts.after), grouped(before)),
    }
}

/// Writes how many rows are not shown, if any.
pub fn write_more(out: &mut impl Write, n: usize) -> io::Result<()> {
    if n > 0 { writeln!(out, "and {} more", grouped(n)) } else { Ok(()) }
}

fn write_moved(out: &mut impl Write, moved: &[MovedPod]) -> io::Result<()> {
    let none = || "<none>".to_owned();
    if moved.len() <= MAX_ROWS {
        let mut table = Table::new(["MOVED POD", "FROM", "TO", "WORKLOAD"]);
        for pod in moved {
            table.row([
                format!("{}/{}", pod.namespace, pod.name).into(),
                pod.from.clone().unwrap_or_else(none).into(),
                Cell::styled(&pod.to, GOOD),
                pod.workload.clone().unwrap_or_else(none).into(),
            ]);
        }
        return table.write(out, "");
    }
    let mut workloads: BTreeMap<_, Vec<&str>> = BTreeMap::new();
    for pod in moved {
        workloads.entry((&pod.namespace, pod.workload.as_deref())).or_default().push(&pod.to);
    }
    let mut table = Table::new(["NAMESPACE", "WORKLOAD", "MOVED", "TO"]);
    for ((namespace, workload), mut targets) in workloads {
        let n_moved = targets.len();
        targets.sort_unstable();
        targets.dedup();
        let workload = workload.unwrap_or("(single pods)");
        table.row([
            namespace.into(),
            workload.into(),
            grouped(n_moved).into(),
            abbreviated(&targets, MAX_NAMED).into(),
        ]);
    }
    table.write(out, "")
}

/// Unplaced pods with equal workloads and messages.
struct Alike<'a> {
    first: &'a UnplacedPod,
    /// `namespace/name`.
    pods: Vec<String>,
}

fn alike(unplaced: &[UnplacedPod]) -> Vec<Alike<'_>> {
    let mut groups: Vec<Alike<'_>> = Vec::new();
    let mut positions = HashMap::new();
    for pod in unplaced {
        let at = *positions.entry((&pod.workload, &pod.message, pod.before)).or_insert(groups.len());
        if at == groups.len() {
            groups.push(Alike { first: pod, pods: Vec::new() });
        }
        groups[at].pods.push(format!("{}/{}", pod.namespace, pod.name));
    }
    groups
}

/// Writes what is lost with each domain; the last line is the summary.
pub fn write_losses(out: &mut impl Write, report: &LossesAfterChanges) -> io::Result<()> {
    let LossesAfterChanges { losses, changes } = report;
    write_undone(out, changes)?;
    let unplaced = &changes.summary.unplaced;
    if unplaced.after > 0 {
        writeln!(out, "Before a domain is lost: {}{NL}", with_before(unplaced, "unplaced"))?;
    }
    not_running::write(out, &changes.not_running)?;
    let (lost, survived): (Vec<_>, Vec<_>) = losses.domains.iter().partition(|loss| !loss.survives);
    for loss in lost.iter().take(MAX_DOMAINS) {
        write_domain(out, loss)?;
    }
    write_more(out, lost.len().saturating_sub(MAX_DOMAINS))?;
    if lost.len() > MAX_DOMAINS {
        writeln!(out)?;
    }
    if !survived.is_empty() {
        let mut table =
            Table::new(["SURVIVED DOMAIN", "NODES", "MOVED", "EVICTED", "BROKEN RULES", "NOT REPLACED"]);
        for loss in survived.iter().take(MAX_DOMAINS) {
            let DomainLoss {
                domain, nodes, moved, evicted, broken_rules, stranded_while_unreachable, ..
            } = loss;
            let stranded = stranded_while_unreachable.len();
            let counts =
                [*nodes, *moved, evicted.len(), broken_rules.len(), stranded].map(|n| Cell::from(grouped(n)));
            table.row([Cell::from(domain)].into_iter().chain(counts));
        }
        table.write(out, "")?;
        write_more(out, survived.len().saturating_sub(MAX_DOMAINS))?;
        writeln!(out)?;
    }
    let style = if lost.is_empty() { GOOD } else { BAD };
    writeln!(
        out,
        "{style}{} of {} survived{style:#} (each pod that is created again has a node, both while the lost nodes are unreachable and when they \
         are removed){}",
        grouped(survived.len()),
        counted(losses.domains.len(), "domain"),
        match losses.domains.iter().map(|loss| loss.stranded_while_unreachable.len()).max() {
            None | Some(0) => String::new(),
            Some(n) => format!("; up to {} not created again while they are unreachable", counted(n, "pod")),
        }
    )
}

fn write_domain(out: &mut impl Write, loss: &DomainLoss) -> io::Result<()> {
    let DomainLoss { domain, nodes, moved, unplaced, evicted, broken_rules, workloads, .. } = loss;
    writeln!(
        out,
        "{BOLD}{domain}{BOLD:#} ({}): {} moved, {BAD}{} unplaced{BAD:#}, {} evicted, {ATTENTION}{} with rules that \
         break{ATTENTION:#}",
        counted(*nodes, "node"),
        counted(*moved, "pod"),
        grouped(unplaced.len()),
        grouped(evicted.len()),
        grouped(broken_rules.len()),
    )?;
    let mut table = Table::new(["NAMESPACE", "WORKLOAD", "PODS", "ON LOST NODES", "UNPLACED"]);
    let failing = workloads.iter().filter(|workload| workload.unplaced > 0);
    for workload in failing.clone().take(MAX_ROWS) {
        table.row([
            Cell::from(&workload.namespace),
            workload.workload.as_deref().unwrap_or("(single pods)").into(),
            grouped(workload.pods).into(),
            grouped(workload.displaced).into(),
            Cell::styled(grouped(workload.unplaced), BAD),
        ]);
    }
    if failing.clone().next().is_some() {
        table.write(out, "  ")?;
    }
    write_more(out, failing.count().saturating_sub(MAX_ROWS))?;
    if let Some(first) = unplaced.first() {
        writeln!(out, "  {}/{}: {}", first.namespace, first.name, first.message)?;
    }
    let (without, stranded) = (&loss.unplaced_while_unreachable, &loss.stranded_while_unreachable);
    if without.len() != unplaced.len() {
        let n_pods = counted(without.len(), "pod");
        writeln!(
            out,
            "  while the nodes are unreachable: {BAD}{n_pods} unplaced{BAD:#}; when they are removed: {}",
            unplaced.len()
        )?;
        if let Some(first) = without.first() {
            writeln!(out, "  {}/{}: {}", first.namespace, first.name, first.message)?;
        }
    }
    if let Some(first) = stranded.first() {
        let n_pods = counted(stranded.len(), "pod");
        writeln!(
            out,
            "  {n_pods} {ATTENTION}not replaced while the nodes are unreachable{ATTENTION:#}: {}/{}: {}",
            first.namespace, first.name, first.message
        )?;
    }
    writeln!(out)
}
