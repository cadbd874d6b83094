//! The placement of pods, their distribution over topology domains, and the reasons for unplaced pods.

use std::cmp::Reverse;

use berth_api::syntax::format::{abbreviated, counted, grouped};
use berth_console::report::{
    Part, Report, Span, bad, dim, domain_name, good, line, not_running, rule, strong,
};
use berth_simulate::{GroupPlacement, NotRunning};

use crate::summary::{Failure, Summary, WorkloadSummary};

const MAX_DOMAIN_COLUMNS: usize = 8;
/// Number of reasons shown in a summary.
const MAX_FAILURES: usize = 5;
const MAX_DEVICES: usize = 4;
const MAX_PODS: usize = 4;

/// Columns of the table of pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Columns {
    None,
    Narrow,
    Wide,
}

/// A pod and its placement.
#[derive(Clone, Debug)]
pub struct Row {
    pub namespace: String,
    pub name: String,
    pub priority: i32,
    /// The node; none for an unplaced pod.
    pub node: Option<String>,
    /// Why it does not run on the node that it names.
    pub unadmitted: Option<String>,
    /// The node's score when it was selected, if known.
    pub score: Option<i64>,
    pub domain: Option<String>,
    /// Kind and name of its workload.
    pub workload: Option<String>,
    /// The paths of its rules that were relaxed.
    pub relaxed: Vec<String>,
    /// The devices that are allocated to its claims.
    pub devices: Vec<String>,
}

#[derive(Clone, Debug)]
pub struct PreemptionRow {
    /// `namespace/name`.
    pub pod: String,
    /// The node of the victims; none if the pod did not fit there after all.
    pub node: Option<String>,
    /// `namespace/name`, the most important first.
    pub victims: Vec<String>,
}

/// Why pods do not run.
#[derive(Clone, Copy)]
pub struct Reasons<'a> {
    /// Unplaced pods.
    pub failures: &'a [Failure],
    /// Pods that do not run on the node that they name.
    pub not_running: &'a [NotRunning],
    /// Pods that were evicted for others.
    pub preemptions: &'a [PreemptionRow],
}

/// Why pods do not run, then groups, workloads and pods.
pub fn report(
    rows: &[Row],
    columns: Columns,
    summary: &Summary,
    groups: &[&GroupPlacement],
    reasons: Reasons<'_>,
) -> Report {
    let mut report = Report { is_good: summary.n_not_running() == 0, ..Report::default() };
    report.verdict.push(totals(summary));
    let n_shown = if columns == Columns::None { MAX_FAILURES } else { usize::MAX };
    add_reasons(&mut report, reasons, n_shown);
    let headings = ["Namespace", "Pod group", "Required", "Pods", "Placed", "Domain"];
    report.part("Pod groups").table(&headings, groups, usize::MAX, |group| {
        let GroupPlacement { namespace, name, min, n_pods, n_placed, domain, .. } = group;
        let placed = if n_placed < min { bad(n_placed) } else { good(n_placed) };
        line![namespace, name, min, n_pods, placed, domain.as_deref().unwrap_or("<none>")]
    });
    workloads(report.part("Workloads"), summary);
    if columns != Columns::None {
        pods(report.part("Pods"), rows, columns, &summary.topology_key);
    }
    let relaxed = rows.iter().filter(|row| !row.relaxed.is_empty());
    report.part("Relaxed rules").table(&["Pod", "Relaxed rules"], relaxed, usize::MAX, |row| {
        line![format!("{}/{}", row.namespace, row.name), row.relaxed.join(", ")]
    });
    report
}

/// All pods that do not run, by cause: those of most pods first.
pub fn pending(mut failures: Vec<Failure>, not_running: &[NotRunning]) -> Report {
    failures.sort_by_key(|failure| Reverse(failure.pods.len()));
    let n_pods = failures.iter().map(|failure| failure.pods.len()).sum::<usize>()
        + not_running.iter().map(|group| group.pods.len()).sum::<usize>();
    let mut report = Report { is_good: n_pods == 0, ..Report::default() };
    report.verdict.push(match (n_pods, failures.len() + not_running.len()) {
        (0, _) => vec![good("No pod is unplaced")],
        (_, n) => vec![bad(format!("{} without a node: {}", counted(n_pods, "pod"), counted(n, "cause")))],
    });
    add_reasons(&mut report, Reasons { failures: &failures, not_running, preemptions: &[] }, usize::MAX);
    if let Some(pod) = failures.first().and_then(|failure| failure.pods.first()) {
        let hint = format!("Name a pod, such as {pod}, for its rules and for changes that help");
        report.part("").line(0, line![dim(hint)]);
    }
    report
}

/// Why pods of a running cluster do not run: of unplaced pods, the first reasons.
pub fn running(reasons: Reasons<'_>) -> Report {
    let mut report = Report::default();
    add_reasons(&mut report, reasons, MAX_FAILURES);
    report
}

/// Adds at most `n_shown` failures, pods that do not run, and preemptions.
fn add_reasons(report: &mut Report, reasons: Reasons<'_>, n_shown: usize) {
    let Reasons { failures, not_running, preemptions } = reasons;
    let (shown, left_out) = failures.split_at(n_shown.min(failures.len()));
    shown.iter().for_each(|failure| add_failure(report.part(""), failure));
    if let n @ 1.. = left_out.iter().map(|failure| failure.pods.len()).sum::<usize>() {
        let more = format!("and {} with other reasons", counted(n, "unplaced pod"));
        report.part("").line(0, line![more]);
    }
    report.parts.extend(not_running::parts(not_running));
    let part = report.part("Preemptions");
    part.table(&["Preempting pod", "Node", "Victims"], preemptions, usize::MAX, |row| {
        line![&row.pod, row.node.as_deref().unwrap_or("<none>"), row.victims.join(", ")]
    });
}

fn pods(part: &mut Part, rows: &[Row], columns: Columns, topology_key: &str) {
    let domain = domain_name(topology_key);
    let is_wide = columns == Columns::Wide;
    let mut headings = match is_wide {
        true => vec!["Namespace", "Pod", "Priority", "Node", "Score", domain, "Workload"],
        false => vec!["Pod", "Node"],
    };
    let has_devices = rows.iter().any(|row| !row.devices.is_empty());
    headings.extend(has_devices.then_some("Devices"));
    part.table(&headings, rows, usize::MAX, |row| {
        let node = match (&row.node, &row.unadmitted) {
            (Some(node), _) => good(node),
            (None, Some(why)) => bad(format!("<{why}>")),
            (None, None) => bad("<none>"),
        };
        let none = |text: &Option<String>| Span::from(text.as_deref().unwrap_or("<none>"));
        let mut cells = if is_wide {
            let score = none(&row.score.map(|score| score.to_string()));
            let (domain, workload) = (none(&row.domain), none(&row.workload));
            line![&row.namespace, &row.name, row.priority, node, score, domain, workload]
        } else {
            line![format!("{}/{}", row.namespace, row.name), node]
        };
        let devices = match row.devices.as_slice() {
            [] => "<none>".to_owned(),
            devices if is_wide => devices.join(", "),
            devices => abbreviated(devices, MAX_DEVICES),
        };
        cells.extend(has_devices.then(|| devices.into()));
        cells
    });
}

fn workloads(part: &mut Part, summary: &Summary) {
    let domains = &summary.domains;
    let is_few = domains.len() <= MAX_DOMAIN_COLUMNS;
    let mut headings = line![strong("Namespace"), strong("Workload"), strong("Pods")];
    if is_few {
        headings.extend(domains.iter().map(Span::from));
    } else {
        let used = format!("{}s used of {}", domain_name(&summary.topology_key), domains.len());
        headings.extend([strong(used), strong("Min pods"), strong("Max pods")]);
    }
    let has_others =
        !domains.is_empty() && summary.workloads.iter().any(|workload| workload.n_without_domain > 0);
    headings.extend(has_others.then(|| strong("Other nodes")));
    headings.push(strong("Unplaced"));
    type Count = fn(&WorkloadSummary) -> usize;
    let counts: [(&str, Count); 2] =
        [("Rejected", |workload| workload.n_rejected), ("Waiting", |workload| workload.n_waiting)];
    let is_used = |of: Count| summary.workloads.iter().any(|workload| of(workload) > 0);
    let counts: Vec<_> = counts.into_iter().filter(|(_, of)| is_used(*of)).collect();
    headings.extend(counts.iter().map(|(name, _)| strong(name)));
    part.table_with(headings, &summary.workloads, usize::MAX, |workload| {
        let WorkloadSummary { namespace, n_pods, by_domain, n_without_domain, .. } = workload;
        let name = workload.workload.as_deref().unwrap_or("(single pods)");
        let mut row = line![namespace, name, n_pods];
        let count = |domain| by_domain.get(domain).copied().unwrap_or(0);
        if is_few {
            row.extend(domains.iter().map(|domain| count(domain).into()));
        } else {
            let fewest = domains.iter().map(count).min().unwrap_or(0);
            let most = domains.iter().map(count).max().unwrap_or(0);
            row.extend(line![by_domain.len(), fewest, most]);
        }
        row.extend(has_others.then(|| n_without_domain.into()));
        let numbers = [workload.n_unplaced].into_iter().chain(counts.iter().map(|(_, of)| of(workload)));
        row.extend(numbers.map(|n| if n > 0 { bad(n) } else { n.into() }));
        row
    });
}

fn add_failure(part: &mut Part, failure: &Failure) {
    let Failure { workload, pods, message, bottleneck, n_not_evaluated, rollout } = failure;
    let names = format!(": {}", abbreviated(pods, MAX_PODS));
    let n_pods = format!("{} ", counted(pods.len(), "pod"));
    part.line(
        0,
        match (workload, pods.as_slice()) {
            (Some(workload), _) => line![strong(workload), ": ", n_pods, bad("unplaced"), names],
            (None, [pod]) => line![strong(format!("Pod {pod}")), ": ", bad("unplaced")],
            (None, _) => line![n_pods, bad("unplaced"), names],
        },
    );
    part.line(1, line![message]);
    if let Some(term) = bottleneck {
        let sample = match n_not_evaluated {
            0 => String::new(),
            n => format!(", by a sample without {}", counted(*n, "node")),
        };
        part.line(1, line![dim(format!("bottleneck{sample}:"))]);
        rule::add(part, 1, term);
    }
    if let Some(rollout) = rollout {
        part.line(1, line![rollout]);
    }
}

/// `1 of 6 pods is unplaced; 5 placed; 3 nodes`.
fn totals(summary: &Summary) -> Vec<Span> {
    let Summary { n_nodes, n_running, n_orphaned, n_placed, n_unplaced, .. } = summary;
    let n_pods = n_running + n_orphaned + n_placed + summary.n_not_running();
    let verdict = match (summary.n_not_running(), n_pods) {
        (0, 0) => Span::from("No pods"),
        (0, 1) => good("The pod is placed"),
        (0, _) => good(format!("All {} pods are placed", grouped(n_pods))),
        (n, _) => {
            let unplaced = (*n_unplaced > 0).then(|| format!(", {} unplaced", grouped(*n_unplaced)));
            let others = not_running::counts(summary.n_rejected, summary.n_waiting, summary.n_not_created);
            let (is, does) = if n == 1 { ("is", "does") } else { ("are", "do") };
            let of = format!("{} of {}", grouped(n), counted(n_pods, "pod"));
            bad(match n == *n_unplaced {
                true => format!("{of} {is} unplaced"),
                false => {
                    let why = unplaced.unwrap_or_default() + &others;
                    format!("{of} {does} not run: {}", why.trim_start_matches(", "))
                }
            })
        }
    };
    let parts = [(*n_running, "running"), (*n_orphaned, "on nodes that do not exist"), (*n_placed, "placed")];
    let is_all = |n: usize| n == n_pods && *n_placed == n;
    let parts = parts.into_iter().filter(|(n, _)| *n > 0 && !is_all(*n));
    let parts: Vec<_> = parts.map(|(n, what)| format!("{} {what}", grouped(n))).collect();
    let separator = if parts.is_empty() { "" } else { "; " };
    line![verdict, separator, parts.join(", "), format!("; {}", counted(*n_nodes, "node"))]
}
