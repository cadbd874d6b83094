//! The difference of two placements.

use std::collections::{BTreeMap, BTreeSet};

use berth_api::syntax::format::{counted, grouped};
use berth_api::syntax::quantity::with_unit;
use berth_simulate::compare::{Comparison, MovedPod, Pair, ScorePair, Summary, Utilization};

use super::{Part, Report, Span, Tone, bad, dim, domain_name, good, line, strong, toned, workload};

/// Number of pods and workloads with a row each.
const MAX_ROWS: usize = 20;
const MAX_DOMAINS: usize = 8;

pub fn report(comparison: &Comparison) -> Report {
    let Comparison { moved, spread, utilization, summary: Pair { from, to }, .. } = comparison;
    let mut report = Report { is_good: moved.is_empty(), ..Report::default() };
    moved_pods(report.part("Pods that are placed differently"), moved);
    if !spread.is_empty() {
        add_spread(report.part("Pods of workloads by domain"), comparison);
    }
    let headings = ["Resource", "Requested", "Of", "Percent", "Fullest node"];
    report.part("Utilization").table(&headings, utilization, usize::MAX, |change| {
        let Pair { from, to } = &change.utilization;
        let show = |value: &dyn Fn(&Utilization) -> String| arrow(&value(from), &value(to));
        line![
            &change.resource,
            show(&|of| with_unit(&change.resource, of.requested)),
            show(&|of| with_unit(&change.resource, of.allocatable)),
            show(&percent),
            show(&|of| format!("{} %", of.fullest_node_percent))
        ]
    });
    let n_pods = comparison.unmoved + moved.len();
    report.verdict.push(match moved.len() {
        0 => vec![good("No pod is placed differently")],
        n => {
            let are = if n == 1 { "is" } else { "are" };
            let moved = format!("{} of {} {are} placed differently", grouped(n), counted(n_pods, "pod"));
            vec![toned(Tone::Attention, moved)]
        }
    });
    let count = |of: fn(&Summary) -> usize, what: &str| match (of(from), of(to)) {
        (0, 0) => None,
        (from, to) => Some(format!("{what} {}", numbers(from, to))),
    };
    let nodes = format!(
        "nodes with pods {} of {}",
        numbers(from.used_nodes, to.used_nodes),
        numbers(from.nodes, to.nodes)
    );
    let counts = [
        count(|side| side.unplaced, "unplaced"),
        count(|side| side.rejected, "rejected by their nodes"),
        count(|side| side.waiting, "waiting for nodes or claims"),
        count(|side| side.not_created, "not created"),
        count(|side| side.placed, "placed"),
        Some(nodes),
    ];
    report.verdict.push(vec![dim(counts.into_iter().flatten().collect::<Vec<_>>().join(", "))]);
    report
}

/// `1 -> 2`, or one of them if they are equal.
fn arrow(from: &str, to: &str) -> String {
    if from == to { from.to_owned() } else { format!("{from} -> {to}") }
}

fn numbers(from: usize, to: usize) -> String {
    arrow(&grouped(from), &grouped(to))
}

fn percent(utilization: &Utilization) -> String {
    match utilization.allocatable {
        0 => "-".to_owned(),
        allocatable => format!("{} %", i128::from(utilization.requested) * 100 / i128::from(allocatable)),
    }
}

/// The pods with their nodes on both sides, and what scores them differently.
pub(super) fn moved_pods(part: &mut Part, moved: &[MovedPod]) {
    let headings = ["Pod", "From", "To", "Score", "Because of"];
    part.table(
        &headings,
        moved,
        MAX_ROWS,
        |MovedPod { namespace, name, from, to, scores, new_name, message }| {
            let node = |node: &Option<String>, tone| match node {
                Some(node) => toned(tone, node),
                None => bad("<none>"),
            };
            let total = |value: fn(&ScorePair) -> Option<i64>| {
                let scores: Vec<i64> = scores.iter().filter_map(value).collect();
                if scores.is_empty() { "-".to_owned() } else { scores.iter().sum::<i64>().to_string() }
            };
            let value = |value: Option<i64>| value.map_or_else(|| "-".to_owned(), |value| value.to_string());
            let different = scores.iter().filter(|score| score.from != score.to);
            let different: Vec<String> = different
                .map(|score| format!("{} {}", score.plugin, arrow(&value(score.from), &value(score.to))))
                .collect();
            let because = message.clone().unwrap_or_else(|| different.join(", "));
            let then = new_name.as_ref().map(|name| format!(" (then {name})")).unwrap_or_default();
            line![
                format!("{namespace}/{name}{then}"),
                node(from, Tone::Dim),
                node(to, Tone::Good),
                arrow(&total(|score| score.from), &total(|score| score.to)),
                dim(because)
            ]
        },
    );
}

fn add_spread(part: &mut Part, Comparison { spread, topology_key, .. }: &Comparison) {
    let domains: BTreeSet<&String> =
        spread.iter().flat_map(|change| change.pods.from.keys().chain(change.pods.to.keys())).collect();
    let is_few = domains.len() <= MAX_DOMAINS;
    let mut headings = vec![strong("Namespace"), strong("Workload")];
    if is_few {
        headings.extend(domains.iter().map(Span::from));
    } else {
        let used = format!("{}s used", domain_name(topology_key));
        headings.extend([strong(used), strong("Max pods")]);
    }
    part.table_with(headings, spread, MAX_ROWS, |change| {
        let Pair { from, to } = &change.pods;
        let show = |value: &dyn Fn(&BTreeMap<String, usize>) -> usize| numbers(value(from), value(to)).into();
        let of = workload(&change.namespace, change.workload.as_deref(), "(single pods)");
        let mut row: Vec<Span> = line![&change.namespace, of];
        if is_few {
            row.extend(domains.iter().map(|domain| show(&|pods| pods.get(*domain).copied().unwrap_or(0))));
        } else {
            row.extend([show(&|pods| pods.len()), show(&|pods| pods.values().copied().max().unwrap_or(0))]);
        }
        row
    });
}
