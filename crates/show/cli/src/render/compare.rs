//! The difference of two placements.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

use berth_api::syntax::format::{counted, grouped};
use berth_api::syntax::quantity::with_unit;
use berth_simulate::compare::{Comparison, MovedPod, Pair, Summary, Utilization};
use berth_terminal::output::{ATTENTION, BAD, DIM, GOOD};
use berth_terminal::table::{Cell, Table};

use super::placement::domain_name;
use super::what_if::write_more;

/// Number of pods and workloads with a row each.
const MAX_ROWS: usize = 20;
/// Number of domains with a column each.
const MAX_DOMAINS: usize = 8;

/// Writes the difference; the last line is the summary.
pub fn write(out: &mut impl Write, comparison: &Comparison) -> io::Result<()> {
    if !comparison.moved.is_empty() {
        write_moved(out, &comparison.moved)?;
        writeln!(out)?;
    }
    if !comparison.spread.is_empty() {
        write_spread(out, comparison)?;
        writeln!(out)?;
    }
    if !comparison.utilization.is_empty() {
        let mut table = Table::new(["RESOURCE", "REQUESTED", "OF", "PERCENT", "FULLEST NODE"]);
        for change in &comparison.utilization {
            let Pair { from, to } = &change.utilization;
            let show = |value: &dyn Fn(&Utilization) -> String| arrow(&value(from), &value(to));
            table.row([
                Cell::from(&change.resource),
                show(&|u| with_unit(&change.resource, u.requested)).into(),
                show(&|u| with_unit(&change.resource, u.allocatable)).into(),
                show(&|u| percent(u)).into(),
                show(&|u| format!("{} %", u.fullest_node_percent)).into(),
            ]);
        }
        table.write_paragraph(out)?;
    }
    let Pair { from, to } = &comparison.summary;
    let style = if comparison.moved.is_empty() { GOOD } else { ATTENTION };
    let count = |of: fn(&Summary) -> usize, what: &str| match (of(from), of(to)) {
        (0, 0) => String::new(),
        (from, to) => format!(", {what} {}", arrow(&grouped(from), &grouped(to))),
    };
    let not_running = count(|side| side.rejected, "rejected by their nodes")
        + &count(|side| side.waiting, "waiting for nodes or claims")
        + &count(|side| side.not_created, "not created");
    writeln!(
        out,
        "{style}{} placed differently{style:#}, {} unmoved; placed {}, unplaced {}{not_running}, nodes with pods {} of {}",
        counted(comparison.moved.len(), "pod"),
        grouped(comparison.unmoved),
        arrow(&grouped(from.placed), &grouped(to.placed)),
        arrow(&grouped(from.unplaced), &grouped(to.unplaced)),
        arrow(&grouped(from.used_nodes), &grouped(to.used_nodes)),
        arrow(&grouped(from.nodes), &grouped(to.nodes)),
    )
}

/// `1 -> 2`, or one of them if they are equal.
fn arrow(from: &str, to: &str) -> String {
    if from == to { from.to_owned() } else { format!("{from} -> {to}") }
}

fn percent(utilization: &Utilization) -> String {
    match utilization.allocatable {
        0 => "-".to_owned(),
        allocatable => format!("{} %", i128::from(utilization.requested) * 100 / i128::from(allocatable)),
    }
}

pub fn write_moved(out: &mut impl Write, moved: &[MovedPod]) -> io::Result<()> {
    let mut table = Table::new(["POD", "FROM", "TO", "SCORE", "BECAUSE OF"]);
    for pod in moved.iter().take(MAX_ROWS) {
        let node = |node: &Option<String>, style| match node {
            Some(node) => Cell::styled(node, style),
            None => Cell::styled("<none>", BAD),
        };
        let total = |value: fn(&berth_simulate::compare::ScorePair) -> Option<i64>| {
            let scores: Vec<i64> = pod.scores.iter().filter_map(value).collect();
            if scores.is_empty() { "-".to_owned() } else { scores.iter().sum::<i64>().to_string() }
        };
        let different = pod.scores.iter().filter(|score| score.from != score.to);
        let different: Vec<String> = different
            .map(|score| {
                let value =
                    |value: Option<i64>| value.map_or_else(|| "-".to_owned(), |value| value.to_string());
                format!("{} {}", score.plugin, arrow(&value(score.from), &value(score.to)))
            })
            .collect();
        let total = arrow(&total(|score| score.from), &total(|score| score.to));
        table.row([
            match &pod.new_name {
                Some(new_name) => format!("{}/{} (then {new_name})", pod.namespace, pod.name).into(),
                None => format!("{}/{}", pod.namespace, pod.name).into(),
            },
            node(&pod.from, DIM),
            node(&pod.to, GOOD),
            total.into(),
            Cell::styled(different.join(", "), DIM),
        ]);
    }
    table.write(out, "")?;
    write_more(out, moved.len().saturating_sub(MAX_ROWS))
}

fn write_spread(out: &mut impl Write, comparison: &Comparison) -> io::Result<()> {
    let spread = &comparison.spread;
    let domains: BTreeSet<&String> =
        spread.iter().flat_map(|change| change.pods.from.keys().chain(change.pods.to.keys())).collect();
    let few = domains.len() <= MAX_DOMAINS;
    let mut headings = vec!["NAMESPACE".to_owned(), "WORKLOAD".to_owned()];
    if few {
        headings.extend(domains.iter().map(|domain| (*domain).clone()));
    } else {
        headings.extend([format!("{}S USED", domain_name(&comparison.topology_key)), "MAX PODS".to_owned()]);
    }
    let mut table = Table::new(headings);
    for change in spread.iter().take(MAX_ROWS) {
        let Pair { from, to } = &change.pods;
        let mut row =
            vec![Cell::from(&change.namespace), change.workload.as_deref().unwrap_or("(single pods)").into()];
        let show = |value: &dyn Fn(&BTreeMap<String, usize>) -> usize| {
            Cell::from(arrow(&grouped(value(from)), &grouped(value(to))))
        };
        if few {
            row.extend(domains.iter().map(|domain| show(&|pods| pods.get(*domain).copied().unwrap_or(0))));
        } else {
            row.push(show(&|pods| pods.len()));
            row.push(show(&|pods| pods.values().copied().max().unwrap_or(0)));
        }
        table.row(row);
    }
    table.write(out, "")?;
    match spread.len().saturating_sub(MAX_ROWS) {
        0 => Ok(()),
        more => writeln!(out, "and {} more workloads", grouped(more)),
    }
}
