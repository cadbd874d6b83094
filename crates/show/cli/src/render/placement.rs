//! The placement of pods, their distribution over topology domains, and the reasons for unplaced pods.

use std::io::{self, Write};

use berth_api::syntax::format::{abbreviated, counted, grouped};
use berth_console::report::not_running;
use berth_simulate::{GroupPlacement, NotRunning};
use berth_terminal::output::{BAD, BOLD, DIM, GOOD, NL};
use berth_terminal::table::{Cell, Table};

use super::report;
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

/// Writes pods, summary, groups and reasons.
pub fn write(
    out: &mut impl Write,
    rows: &[Row],
    columns: Columns,
    summary: &Summary,
    groups: &[&GroupPlacement],
    reasons: Reasons<'_>,
) -> io::Result<()> {
    let Reasons { failures, not_running, preemptions } = reasons;
    if !rows.is_empty() && columns != Columns::None {
        pods(rows, columns, &summary.topology_key).write_paragraph(out)?;
    }
    if !summary.workloads.is_empty() {
        workloads(summary).write_paragraph(out)?;
    }
    if rows.iter().any(|row| !row.relaxed.is_empty()) {
        relaxed_table(rows).write_paragraph(out)?;
    }
    if !groups.is_empty() {
        group_table(groups).write_paragraph(out)?;
    }
    let n_shown = if columns == Columns::None { MAX_FAILURES } else { failures.len() };
    write_reasons(out, failures, (n_shown, "; -o json has all"), preemptions)?;
    report::write_parts(out, &not_running::parts(not_running))?;
    write_totals(out, summary)
}

/// Writes preemptions and failures. Of these, at most `n_shown`; `hint` says where the others are.
fn write_reasons(
    out: &mut impl Write,
    failures: &[Failure],
    (n_shown, hint): (usize, &str),
    preemptions: &[PreemptionRow],
) -> io::Result<()> {
    if !preemptions.is_empty() {
        preemption_table(preemptions).write_paragraph(out)?;
    }
    let (shown, left_out) = failures.split_at(n_shown.min(failures.len()));
    for failure in shown {
        write_failure(out, failure)?;
        writeln!(out)?;
    }
    let left_out: usize = left_out.iter().map(|failure| failure.pods.len()).sum();
    if left_out > 0 {
        writeln!(out, "and {} with other reasons{hint}{NL}", counted(left_out, "unplaced pod"))?;
    }
    Ok(())
}

/// Why pods of a running cluster do not run: of unplaced pods, the first reasons.
pub fn write_running(out: &mut impl Write, reasons: Reasons<'_>) -> io::Result<()> {
    let Reasons { failures, not_running, preemptions } = reasons;
    write_reasons(out, failures, (MAX_FAILURES, ""), preemptions)?;
    report::write_parts(out, &not_running::parts(not_running))
}

fn pods(rows: &[Row], columns: Columns, topology_key: &str) -> Table {
    let node_cell = |row: &Row| match (&row.node, &row.unadmitted) {
        (Some(node), _) => Cell::styled(node, GOOD),
        (None, Some(why)) => Cell::styled(format!("<{why}>"), BAD),
        (None, None) => Cell::styled("<none>", BAD),
    };
    let has_devices = rows.iter().any(|row| !row.devices.is_empty());
    let devices_cell = |row: &Row| match row.devices.as_slice() {
        [] => "<none>".into(),
        devices if columns == Columns::Narrow => abbreviated(devices, MAX_DEVICES).into(),
        devices => devices.join(", ").into(),
    };
    if columns == Columns::Narrow {
        let mut table = Table::new(["POD", "NODE"].into_iter().chain(has_devices.then_some("DEVICES")));
        for row in rows {
            let cells = [format!("{}/{}", row.namespace, row.name).into(), node_cell(row)];
            table.row(cells.into_iter().chain(has_devices.then(|| devices_cell(row))));
        }
        return table;
    }
    let domain = domain_name(topology_key);
    let headings = ["NAMESPACE", "POD", "PRIORITY", "NODE", "SCORE", &domain, "WORKLOAD"];
    let mut table = Table::new(headings.into_iter().chain(has_devices.then_some("DEVICES")));
    for row in rows {
        let cells = [
            Cell::from(&row.namespace),
            Cell::from(&row.name),
            row.priority.into(),
            node_cell(row),
            row.score.map_or_else(|| "<none>".into(), Cell::from),
            row.domain.as_deref().unwrap_or("<none>").into(),
            row.workload.as_deref().unwrap_or("<none>").into(),
        ];
        table.row(cells.into_iter().chain(has_devices.then(|| devices_cell(row))));
    }
    table
}

fn group_table(groups: &[&GroupPlacement]) -> Table {
    let mut table = Table::new(["NAMESPACE", "POD GROUP", "REQUIRED", "PODS", "PLACED", "DOMAIN"]);
    for GroupPlacement { namespace, name, min, n_pods, n_placed, domain, .. } in groups {
        let placed = Cell::styled(n_placed.to_string(), if n_placed < min { BAD } else { GOOD });
        let domain = domain.as_deref().unwrap_or("<none>");
        table.row([namespace.into(), name.into(), (*min).into(), (*n_pods).into(), placed, domain.into()]);
    }
    table
}

fn relaxed_table(rows: &[Row]) -> Table {
    let mut table = Table::new(["POD", "RELAXED RULES"]);
    for row in rows.iter().filter(|row| !row.relaxed.is_empty()) {
        table.row([format!("{}/{}", row.namespace, row.name).into(), row.relaxed.join(", ").into()]);
    }
    table
}

fn preemption_table(rows: &[PreemptionRow]) -> Table {
    let mut table = Table::new(["PREEMPTING POD", "NODE", "VICTIMS"]);
    for PreemptionRow { pod, node, victims } in rows {
        let node = node.as_deref().unwrap_or("<none>");
        table.row([Cell::from(pod), node.into(), victims.join(", ").into()]);
    }
    table
}

/// `ZONE` for `topology.kubernetes.io/zone`.
pub fn domain_name(topology_key: &str) -> String {
    topology_key.rsplit('/').next().unwrap_or(topology_key).to_uppercase()
}

fn workloads(summary: &Summary) -> Table {
    let domains = &summary.domains;
    let few = domains.len() <= MAX_DOMAIN_COLUMNS;
    let name = domain_name(&summary.topology_key);
    let mut headings = vec!["NAMESPACE".to_owned(), "WORKLOAD".to_owned(), "PODS".to_owned()];
    if few {
        headings.extend(domains.iter().cloned());
    } else {
        headings.extend([
            format!("{name}S USED OF {}", domains.len()),
            "MIN PODS".to_owned(),
            "MAX PODS".to_owned(),
        ]);
    }
    let has_others =
        !domains.is_empty() && summary.workloads.iter().any(|workload| workload.n_without_domain > 0);
    if has_others {
        headings.push("OTHER NODES".to_owned());
    }
    headings.push("UNPLACED".to_owned());
    type Count = fn(&WorkloadSummary) -> usize;
    let counts: [(&str, Count); 2] =
        [("REJECTED", |workload| workload.n_rejected), ("WAITING", |workload| workload.n_waiting)];
    let is_used = |of: Count| summary.workloads.iter().any(|workload| of(workload) > 0);
    let counts: Vec<_> = counts.into_iter().filter(|(_, of)| is_used(*of)).collect();
    headings.extend(counts.iter().map(|(name, _)| (*name).to_owned()));
    let mut table = Table::new(headings);
    for workload in &summary.workloads {
        let WorkloadSummary { namespace, n_pods, n_unplaced, by_domain, n_without_domain, .. } = workload;
        let counts = counts.iter().map(|(_, of)| of(workload));
        let workload = workload.workload.as_deref().unwrap_or("(single pods)");
        let mut row = vec![Cell::from(namespace), workload.into(), n_pods.into()];
        let count = |domain| by_domain.get(domain).copied().unwrap_or(0);
        if few {
            row.extend(domains.iter().map(|d| Cell::from(count(d))));
        } else {
            let fewest = domains.iter().map(count).min().unwrap_or(0);
            let most = domains.iter().map(count).max().unwrap_or(0);
            row.extend([by_domain.len(), fewest, most].map(Cell::from));
        }
        if has_others {
            row.push(n_without_domain.into());
        }
        let bad = |n: usize| if n > 0 { Cell::styled(n.to_string(), BAD) } else { 0.into() };
        row.extend([*n_unplaced].into_iter().chain(counts).map(bad));
        table.row(row);
    }
    table
}

fn write_failure(out: &mut impl Write, failure: &Failure) -> io::Result<()> {
    let Failure { workload, pods, message, bottleneck, n_not_evaluated, rollout } = failure;
    let pods_named = abbreviated(pods, MAX_PODS);
    match (workload, pods.len()) {
        (Some(workload), n) => writeln!(
            out,
            "{BOLD}{workload}{BOLD:#}: {} {BAD}unplaced{BAD:#}: {pods_named}",
            counted(n, "pod")
        )?,
        (None, 1) => writeln!(out, "{BOLD}Pod {pods_named}{BOLD:#}: {BAD}unplaced{BAD:#}")?,
        (None, n) => writeln!(out, "{} {BAD}unplaced{BAD:#}: {pods_named}", counted(n, "pod"))?,
    }
    writeln!(out, "  {message}")?;
    if let Some(term) = bottleneck {
        match n_not_evaluated {
            0 => writeln!(out, "  {DIM}bottleneck:{DIM:#}")?,
            n => writeln!(out, "  {DIM}bottleneck, by a sample without {}:{DIM:#}", counted(*n, "node"))?,
        }
        report::write_term(out, term)?;
    }
    rollout.as_ref().map_or(Ok(()), |rollout| writeln!(out, "  {rollout}"))
}

fn write_totals(out: &mut impl Write, summary: &Summary) -> io::Result<()> {
    let Summary { n_nodes, n_running, n_orphaned, n_placed, n_unplaced, .. } = summary;
    let style = if *n_unplaced == 0 { GOOD } else { BAD };
    let running = if *n_running > 0 { format!("{} running, ", grouped(*n_running)) } else { String::new() };
    let orphaned = match n_orphaned {
        0 => String::new(),
        n => format!("{} on nodes that do not exist, ", grouped(*n)),
    };
    let not_running = not_running::counts(summary.n_rejected, summary.n_waiting, summary.n_not_created);
    writeln!(
        out,
        "{}: {running}{orphaned}{} placed, {style}{} unplaced{style:#}{BAD}{not_running}{BAD:#}; {}",
        counted(n_running + n_orphaned + n_placed + summary.n_not_running(), "pod"),
        grouped(*n_placed),
        grouped(*n_unplaced),
        counted(*n_nodes, "node"),
    )
}
