//! Overlapping sets of pods: tables, and an UpSet plot.

use std::cmp::Reverse;
use std::io::{self, Write};

use berth_api::syntax::format::{abbreviated, counted, grouped};
use berth_console::pictures::{plural, relation_words as words, selector_owner as owner};
use berth_rules::SetRelation;
use berth_simulate::sets::{
    ComparedSet, Conflict, EmptySet, NotCounted, PodGroup, Relation, SelectorRole, SetComparison, SetSummary,
};
use berth_terminal::output::{ATTENTION, BAD, BOLD, DIM, GOOD};
use berth_terminal::table::{Cell, Table};

use super::heading::heading;

/// Rows of each table.
pub(super) const MAX_ROWS: usize = 100;
/// Pairs of overlapping sets without a pod in both.
const MAX_POSSIBLE: usize = 10;
/// Selectors of a set in the table; workloads in a line.
pub(super) const MAX_NAMED: usize = 8;

/// Writes the report; the last line is the summary.
pub fn write(out: &mut impl Write, comparison: &SetComparison) -> io::Result<()> {
    write_sets(out, comparison)?;
    write_relations(out, comparison)?;
    if !comparison.empty.is_empty() {
        heading(out, "Selectors that no pod can match")?;
        let row = |empty: &EmptySet| {
            [owner(&empty.owner, ""), empty.namespaces.clone(), empty.selector.clone()].map(Cell::from)
        };
        write_table(out, ["SELECTED BY", "NAMESPACES", "SELECTOR"], comparison.empty.iter().map(row))?;
    }
    for (role, title) in [
        (SelectorRole::Controller, "Controllers that select the same pods"),
        (SelectorRole::DisruptionBudget, "Budgets that select the same pods"),
        (SelectorRole::Service, "Services that select the same pods"),
        (SelectorRole::Monitor, "Monitors that select the same pods"),
    ] {
        let conflicts: Vec<_> = comparison.conflicts.iter().filter(|c| c.role == role).collect();
        if !conflicts.is_empty() {
            heading(out, title)?;
            conflicts.iter().take(MAX_ROWS).try_for_each(|conflict| write_conflict(out, conflict))?;
            write_more(out, conflicts.len())?;
            let n_hidden = comparison.summary.n_conflicts - comparison.conflicts.len();
            if n_hidden > 0 {
                writeln!(
                    out,
                    "  {DIM}{} in all are not listed{DIM:#}",
                    counted(n_hidden, "further conflict")
                )?;
            }
        }
    }
    if !comparison.without_service.is_empty() {
        heading(out, "Pods that no Service selects")?;
        let row = |group: &PodGroup| {
            [group.namespace.clone(), group.object.clone(), grouped(group.n_pods)].map(Cell::from)
        };
        write_table(out, ["NAMESPACE", "WORKLOAD", "PODS"], comparison.without_service.iter().map(row))?;
    }
    writeln!(out)?;
    write_summary(out, &comparison.summary)
}

fn write_sets(out: &mut impl Write, comparison: &SetComparison) -> io::Result<()> {
    let mut table = Table::new(["SET", "NAMESPACES", "SELECTOR", "PODS", "SELECTED BY"]);
    for set in comparison.sets.iter().take(MAX_ROWS) {
        let ComparedSet { id, namespaces, selector, owners, n_pods } = set;
        let mut owners: Vec<_> = owners.iter().map(|o| owner(o, namespaces)).collect();
        let n_more = owners.len().saturating_sub(MAX_NAMED);
        owners.truncate(MAX_NAMED);
        owners.extend((n_more > 0).then(|| format!("and {} more", grouped(n_more))));
        let mut owners = owners.into_iter();
        table.row([
            id.into(),
            namespaces.into(),
            selector.into(),
            grouped(*n_pods).into(),
            owners.next().unwrap_or_default().into(),
        ]);
        for owner in owners {
            table.row([Cell::default(), Cell::default(), Cell::default(), Cell::default(), owner.into()]);
        }
    }
    table.write(out, "")?;
    write_more(out, comparison.sets.len())
}

fn write_relations(out: &mut impl Write, comparison: &SetComparison) -> io::Result<()> {
    if comparison.relations.is_empty() {
        return Ok(());
    }
    heading(out, "Sets that are not disjoint")?;
    // Sets without a key in common overlap. Such pairs are many, and say little while no pod is in both.
    let is_possible =
        |relation: &&Relation| relation.relation == SetRelation::Overlaps && relation.n_pods == 0;
    let (possible, mut relations): (Vec<&Relation>, Vec<&Relation>) =
        comparison.relations.iter().partition(is_possible);
    relations.sort_by_key(|relation| Reverse(relation.n_pods));
    let n_hidden = possible.len().saturating_sub(MAX_POSSIBLE);
    relations.extend(possible.into_iter().take(MAX_POSSIBLE));
    let rows = relations.into_iter().map(|relation| {
        let selector = |id: usize| comparison.sets[id - 1].selector.clone().into();
        [
            relation.set.into(),
            selector(relation.set),
            words(relation.relation).into(),
            relation.other.into(),
            selector(relation.other),
            grouped(relation.n_pods).into(),
        ]
    });
    write_table(out, ["SET", "SELECTOR", "RELATION", "SET", "SELECTOR", "PODS IN BOTH"], rows)?;
    match n_hidden {
        0 => Ok(()),
        _ => writeln!(
            out,
            "  {DIM}and {} more overlaps without a pod in both now; -o json lists all{DIM:#}",
            grouped(n_hidden)
        ),
    }
}

fn write_conflict(out: &mut impl Write, conflict: &Conflict) -> io::Result<()> {
    let Conflict {
        role, first, second, relation, n_pairs, n_pods, pods, example_labels, not_counted, ..
    } = conflict;
    let (first, second) = (owner(first, ""), owner(second, ""));
    write!(out, "  {BOLD}{first}{BOLD:#} {} {BOLD}{second}{BOLD:#}", words(*relation))?;
    if *n_pairs > 1 {
        write!(out, " (and {} more)", counted(n_pairs - 1, "such pair"))?;
    }
    write!(out, ": ")?;
    if *n_pods > 0 {
        let pods: Vec<_> = pods.iter().map(|group| format!("{} of {}", group.n_pods, group.object)).collect();
        let pods = abbreviated(&pods, MAX_NAMED);
        let n_pods = counted(*n_pods, "pod");
        return match not_counted {
            None => writeln!(out, "{BAD}{n_pods} in both{BAD:#}: {pods}"),
            Some(NotCounted::Headless) => {
                writeln!(out, "{n_pods} in both: {pods} {DIM}(not counted: headless){DIM:#}")
            }
            Some(NotCounted::OtherPorts) => {
                let what = if *role == SelectorRole::Monitor { "ports or paths" } else { "ports" };
                writeln!(out, "{n_pods} in both: {pods} {DIM}(not counted: different {what}){DIM:#}")
            }
        };
    }
    let labels: Vec<_> = example_labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let labels = labels.join(",");
    writeln!(out, "{ATTENTION}no pod in both now{ATTENTION:#}; a pod with `{labels}` would be")
}

/// Writes the first rows, and how many there are more.
pub(super) fn write_table<const N: usize>(
    out: &mut impl Write,
    headings: [&str; N],
    rows: impl ExactSizeIterator<Item = [Cell; N]>,
) -> io::Result<()> {
    let n_rows = rows.len();
    let mut table = Table::new(headings);
    rows.take(MAX_ROWS).for_each(|row| table.row(row));
    table.write(out, "  ")?;
    write_more(out, n_rows)
}

pub(super) fn write_more(out: &mut impl Write, n_rows: usize) -> io::Result<()> {
    match n_rows.saturating_sub(MAX_ROWS) {
        0 => Ok(()),
        n_more => writeln!(out, "  {DIM}and {} more; -o json lists all{DIM:#}", grouped(n_more)),
    }
}

fn write_summary(out: &mut impl Write, summary: &SetSummary) -> io::Result<()> {
    let (selectors, sets) = (counted(summary.n_selectors, "selector"), counted(summary.n_sets, "set"));
    write!(out, "{selectors}, {sets}, {}; pairs of sets: ", counted(summary.n_pods, "pod"))?;
    let pairs = [summary.n_contained, summary.n_overlapping, summary.n_disjoint].map(grouped);
    writeln!(out, "{} contained, {} overlapping, {} disjoint", pairs[0], pairs[1], pairs[2])?;
    if summary.n_not_compared > 0 {
        let n = counted(summary.n_not_compared, "set");
        writeln!(
            out,
            "{ATTENTION}{n} not compared with the others: too many for one comparison; use --namespace or --kind{ATTENTION:#}"
        )?;
    }
    if summary.n_monitors_not_compared > 0 {
        let n = counted(summary.n_monitors_not_compared, "ServiceMonitor");
        writeln!(
            out,
            "{ATTENTION}{n} not compared: too many ServiceMonitors and Services for one comparison{ATTENTION:#}"
        )?;
    }
    for (n_pods, role) in [
        (summary.n_pods_of_two_controllers, SelectorRole::Controller),
        (summary.n_pods_of_two_budgets, SelectorRole::DisruptionBudget),
        (summary.n_pods_of_two_services, SelectorRole::Service),
        (summary.n_pods_of_two_monitors, SelectorRole::Monitor),
    ] {
        let by = plural(role);
        match n_pods {
            0 => writeln!(out, "{GOOD}No pod is selected by two {by}{GOOD:#}")?,
            1 => writeln!(out, "{BAD}1 pod is selected by two {by}{BAD:#}")?,
            _ => writeln!(out, "{BAD}{} pods are selected by two {by}{BAD:#}", grouped(n_pods))?,
        }
    }
    Ok(())
}
