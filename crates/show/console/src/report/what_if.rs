//! The effect of changes of a cluster, and what is lost with each domain.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use berth_api::syntax::format::{counted, grouped};
use berth_simulate::what_if::{
    BlockedEviction, BrokenRule, Counts, DomainLoss, EvictedPod, LossesAfterChanges, MovedPod, StepOutcome,
    StuckRollout, Summary, UnplacedPod, WhatIfOutcome,
};

use super::{
    Part, Report, Span, Tone, attention, bad, count, dim, good, line, listed, named, not_running, repairs,
    strong, verdict, workload,
};

/// Evictions, rollouts and workloads.
const MAX_ROWS: usize = 20;
const MAX_STEPS: usize = 40;
/// Number of pods whose broken rules are shown.
const MAX_BROKEN: usize = 10;

/// At most `max` pods that are moved or evicted have a row each; of more, the moved ones are counted by workload.
pub fn report(outcome: &WhatIfOutcome, max: usize) -> Report {
    let mut report = Report { is_good: outcome.is_harmless(), ..Report::default() };
    report.verdict.push(summary(outcome));
    undone(&mut report, outcome);
    unplaced(&mut report, &outcome.unplaced);
    report.parts.extend(not_running::parts(&outcome.not_running));
    let units = EvictedPod::units(&outcome.evicted);
    let part = report.part(counted(outcome.evicted.len(), "evicted pod"));
    part.table(&["Evicted pod", "By"], units, max, |unit| {
        line![EvictedPod::name_of_unit(unit), unit[0].cause()]
    });
    broken_rules(&mut report, &outcome.broken_rules);
    steps(&mut report, &outcome.steps);
    moved(&mut report, &outcome.moved, max);
    if let n @ 1.. = outcome.scaled_down.len() {
        let text = format!("{} deleted by controllers: {}", counted(n, "pod"), named(&outcome.scaled_down));
        report.part("").line(0, line![text]);
    }
    baseline(&mut report, &outcome.summary);
    report
}

/// The pods that move, or of many their numbers by workload.
fn moved(report: &mut Report, moved: &[MovedPod], max: usize) {
    let part = report.part(counted(moved.len(), "moved pod"));
    if moved.len() <= max {
        return part.table(&["Moved pod", "From", "To", "Workload"], moved, max, |pod| {
            line![
                format!("{}/{}", pod.namespace, pod.name),
                pod.from.as_deref().unwrap_or("<none>"),
                good(&pod.to),
                workload(&pod.namespace, pod.workload.as_deref(), "<none>")
            ]
        });
    }
    let mut workloads: BTreeMap<_, Vec<&str>> = BTreeMap::new();
    for pod in moved {
        workloads.entry((&pod.namespace, pod.workload.as_deref())).or_default().push(&pod.to);
    }
    let headings = ["Namespace", "Workload", "Moved", "To"];
    part.table(&headings, workloads, usize::MAX, |((namespace, name), mut targets)| {
        let n_moved = targets.len();
        targets.sort_unstable();
        targets.dedup();
        let of = workload(namespace, name, "(single pods)");
        line![namespace, of, grouped(n_moved), named(&targets)]
    });
}

/// The cluster after each step, if there are several, and the worst moment.
fn steps(report: &mut Report, steps: &[StepOutcome]) {
    let Some((at, worst)) = steps.iter().enumerate().rev().max_by_key(|(_, step)| step.severity()) else {
        return;
    };
    let headings = ["Step", "Changes", "Unplaced", "Not running", "Blocked", "Budgets at 0"];
    report.part("Steps").table(&headings, steps.iter().enumerate(), MAX_STEPS, |(i, step)| {
        let budgets = match step.exhausted_budgets.as_slice() {
            [] => "<none>".to_owned(),
            budgets => named(budgets),
        };
        let unplaced = match step.unplaced_before {
            0 => count(step.unplaced.len()),
            n => format!("{} ({} before)", grouped(step.unplaced.len()), grouped(n)).into(),
        };
        line![
            grouped(i + 1),
            named(&step.changes),
            unplaced,
            count(step.not_running.len()),
            count(step.blocked.len()),
            budgets
        ]
    });
    if worst.severity() <= (0, 0, 0) {
        return;
    }
    let mut text = format!("Worst moment: after step {}: ", grouped(at + 1));
    text += &format!("{} unplaced", counted(worst.unplaced.len(), "pod"));
    match worst.unplaced.as_slice() {
        [] => {}
        [pod] => text += &format!(" ({pod}: {})", worst.message),
        [first, ..] => text += &format!(" ({}; {first}: {})", named(&worst.unplaced), worst.message),
    }
    if let n @ 1.. = worst.not_running.len() {
        text += &format!(", {} not running ({})", counted(n, "pod"), named(&worst.not_running));
    }
    let blocked = counted(worst.blocked.len(), "eviction");
    text += &format!(", {blocked} blocked, {} at 0", counted(worst.exhausted_budgets.len(), "budget"));
    report.part("").line(0, line![text]);
}

/// What the changes do not reach: evictions that budgets refuse, and rollouts that do not complete.
fn undone(report: &mut Report, outcome: &WhatIfOutcome) {
    let part = report.part("Evictions that the API server refuses");
    for (evictions, until) in [(&outcome.blocked, ""), (&outcome.delayed, " until a later change")] {
        for BlockedEviction { namespace, name, node, message, .. } in evictions.iter().take(MAX_ROWS) {
            let stays = format!("Pod {namespace}/{name} stays on {node}{until}: ");
            part.line(0, line![stays, bad(message)]);
        }
        part.more(evictions.len().saturating_sub(MAX_ROWS));
    }
    for StuckRollout { kind, namespace, name, reason, fix } in outcome.stuck_rollouts.iter().take(MAX_ROWS) {
        let part = report.part("");
        let object = strong(format!("{kind} {namespace}/{name}"));
        let stuck = bad("stuck");
        part.line(0, line![object, ": the rollout is ", stuck, format!(": {reason}")]);
        part.line(1, line![format!("fix: {fix}")]);
    }
    report.part("").more(outcome.stuck_rollouts.len().saturating_sub(MAX_ROWS));
}

/// The unplaced pods: those with equal workloads and messages together.
fn unplaced(report: &mut Report, unplaced: &[UnplacedPod]) {
    let mut groups: Vec<(&UnplacedPod, Vec<String>)> = Vec::new();
    let mut positions = HashMap::new();
    for pod in unplaced {
        let at = *positions.entry((&pod.workload, &pod.message, pod.before)).or_insert(groups.len());
        if at == groups.len() {
            groups.push((pod, Vec::new()));
        }
        groups[at].1.push(format!("{}/{}", pod.namespace, pod.name));
    }
    for (first, pods) in groups {
        let part = report.part("");
        let mut line = Vec::new();
        if let Some(name) = &first.workload {
            line.extend([
                Span { tone: Tone::Strong, ..workload(&first.namespace, Some(name), "") },
                ": ".into(),
            ]);
        }
        line.extend([
            format!("{} ", counted(pods.len(), "pod")).into(),
            if first.before { attention("unplaced as before") } else { bad("unplaced") },
            format!(": {}", named(&pods)).into(),
        ]);
        part.line(0, line);
        part.line(1, line![&first.message]);
        report.add(repairs(&first.repairs));
    }
}

fn broken_rules(report: &mut Report, broken: &[BrokenRule]) {
    let (before, new): (Vec<_>, Vec<_>) = broken.iter().partition(|pod| pod.before);
    let part = report.titled("Rules that break");
    for BrokenRule { namespace, name, violations, .. } in new.iter().take(MAX_BROKEN) {
        let node = violations.first().map_or("", |violation| violation.node.as_str());
        part.line(0, line![strong(format!("Pod {namespace}/{name}")), format!(" on {node}")]);
        for violation in violations {
            let [rule, why] = verdict(&violation.verdict);
            part.line(1, line!["- "].into_iter().chain(rule));
            part.line(2, why);
        }
    }
    part.more(new.len().saturating_sub(MAX_BROKEN));
    if !before.is_empty() {
        let pods: Vec<_> = before.iter().map(|pod| format!("{}/{}", pod.namespace, pod.name)).collect();
        report.part("").line(
            0,
            line![
                format!("{} with ", counted(pods.len(), "pod")),
                attention("broken rules as before"),
                format!(": {}", named(&pods))
            ],
        );
    }
}

/// The numbers before and after, if something was not as it should be before.
fn baseline(report: &mut Report, Summary { unplaced, not_running, broken_rules }: &Summary) {
    let rows = [
        ("unplaced", unplaced),
        ("not running on their node, or not created", not_running),
        ("with broken rules", broken_rules),
    ];
    if rows.iter().all(|(_, counts)| counts.before == 0) {
        return;
    }
    let rows = rows.into_iter().filter(|(_, counts)| counts.before + counts.after > 0);
    let part = report.part("Before and after the changes");
    part.table(&["Pods", "Before", "After", "New"], rows, usize::MAX, |(what, counts)| {
        let numbers = [counts.before, counts.after, counts.new].map(|n| grouped(n).into());
        [what.into()].into_iter().chain(numbers).collect()
    });
}

/// `Not safe: 2 new unplaced pods, 1 blocked eviction; 3 pods moved`.
fn summary(outcome: &WhatIfOutcome) -> Vec<Span> {
    let Summary { unplaced, not_running, broken_rules } = &outcome.summary;
    let worse = [
        (unplaced.new, "new unplaced pod", ""),
        (not_running.new, "pod", " that newly cannot run"),
        (broken_rules.new, "pod", " with newly broken rules"),
        (outcome.blocked.len(), "eviction", &blocked_by(&outcome.blocked)),
        (outcome.delayed.len(), "eviction", " blocked until a later change"),
        (outcome.stuck_rollouts.len(), "stuck rollout", ""),
        (outcome.evicted.len(), "evicted pod", ""),
    ];
    let verdict = match outcome.is_harmless() {
        true => good("Safe: no new unplaced pods"),
        false => bad(format!("Not safe: {}", listed(&worse))),
    };
    let n_new = outcome.moved.iter().filter(|pod| pod.from.is_none()).count();
    let effects = [(outcome.moved.len() - n_new, "pod", " moved"), (n_new, "pod", " newly placed")];
    let before = |counts: &Counts| counts.after - counts.new;
    let as_before = [
        (before(unplaced), "pod", " unplaced as before"),
        (before(not_running), "pod", " not running as before"),
        (before(broken_rules), "pod", " with broken rules as before"),
    ];
    let others = [listed(&effects), listed(&as_before)].into_iter().filter(|text| !text.is_empty());
    line![verdict, others.map(|text| format!("; {text}")).collect::<String>()]
}

fn blocked_by(evictions: &[BlockedEviction]) -> String {
    let budgets: BTreeSet<_> =
        evictions.iter().map(|eviction| (&eviction.namespace, &eviction.budget)).collect();
    match budgets.first() {
        Some((_, budget)) if budgets.len() == 1 => format!(" blocked by PodDisruptionBudget {budget}"),
        _ => format!(" blocked by {}", counted(budgets.len(), "PodDisruptionBudget")),
    }
}

/// What is lost with each domain; at most `max` domains have their workloads.
pub fn losses(LossesAfterChanges { losses, changes }: &LossesAfterChanges, max: usize) -> Report {
    let (lost, survived): (Vec<_>, Vec<_>) = losses.domains.iter().partition(|loss| !loss.survives);
    let mut report = Report { is_good: lost.is_empty(), ..Report::default() };
    undone(&mut report, changes);
    if let n @ 1.. = changes.summary.unplaced.after {
        let unplaced = format!("{} unplaced before a domain is lost", counted(n, "pod"));
        report.part("").line(0, line![unplaced]);
    }
    report.parts.extend(not_running::parts(&changes.not_running));
    lost.iter().take(max).for_each(|loss| domain(report.part(&loss.domain), loss));
    report.part("").more(lost.len().saturating_sub(max));
    let headings = ["Survived domain", "Nodes", "Moved", "Evicted", "Broken rules", "Not replaced"];
    let part = report.part("Survived domains");
    part.table(&headings, &survived, max, |loss| {
        let (evicted, broken) = (loss.evicted.len(), loss.broken_rules.len());
        let stranded = loss.stranded_while_unreachable.len();
        let numbers = [loss.nodes, loss.moved, evicted, broken, stranded].map(|n| grouped(n).into());
        [(&loss.domain).into()].into_iter().chain(numbers).collect()
    });
    let n_domains = counted(losses.domains.len(), "domain");
    let stranded = match losses.domains.iter().map(|loss| loss.stranded_while_unreachable.len()).max() {
        None | Some(0) => String::new(),
        Some(n) => format!("; up to {} not created again while they are unreachable", counted(n, "pod")),
    };
    report.verdict.push(line![
        match lost.len() {
            0 => good(format!("Safe: the loss of each of {n_domains} is survived")),
            n => bad(format!("Not safe: the loss of {} of {n_domains} leaves pods without a node", grouped(n))),
        },
        stranded
    ]);
    let means = "Survived means that each pod that is created again has a node, while the lost nodes are unreachable and when they are removed";
    report.part("").line(0, line![dim(means)]);
    report
}

fn domain(part: &mut Part, loss: &DomainLoss) {
    let DomainLoss { domain, nodes, moved, unplaced, evicted, broken_rules, workloads, .. } = loss;
    let worse = listed(&[
        (unplaced.len(), "pod", " unplaced"),
        (evicted.len(), "pod", " evicted"),
        (broken_rules.len(), "pod", " with rules that break"),
    ]);
    let moved = listed(&[(*moved, "pod", " moved")]);
    let separator = if worse.is_empty() || moved.is_empty() { "" } else { "; " };
    let place = format!(" ({}): ", counted(*nodes, "node"));
    part.line(0, line![strong(domain), place, bad(worse), separator, moved]);
    let failing = workloads.iter().filter(|workload| workload.unplaced > 0);
    let headings = ["Namespace", "Workload", "Pods", "On lost nodes", "Unplaced"];
    part.table(&headings, failing, MAX_ROWS, |of| {
        line![
            &of.namespace,
            workload(&of.namespace, of.workload.as_deref(), "(single pods)"),
            grouped(of.pods),
            grouped(of.displaced),
            count(of.unplaced)
        ]
    });
    let first = |part: &mut Part, pods: &[UnplacedPod]| {
        if let Some(pod) = pods.first() {
            part.line(1, line![format!("{}/{}: {}", pod.namespace, pod.name, pod.message)]);
        }
    };
    first(part, unplaced);
    let (without, stranded) = (&loss.unplaced_while_unreachable, &loss.stranded_while_unreachable);
    if without.len() != unplaced.len() {
        part.line(
            1,
            line![
                "while the nodes are unreachable: ",
                bad(format!("{} unplaced", counted(without.len(), "pod"))),
                format!("; when they are removed: {}", unplaced.len())
            ],
        );
        first(part, without);
    }
    if let Some(pod) = stranded.first() {
        part.line(
            1,
            line![
                format!("{} ", counted(stranded.len(), "pod")),
                attention("not replaced while the nodes are unreachable"),
                format!(": {}/{}: {}", pod.namespace, pod.name, pod.message)
            ],
        );
    }
}
