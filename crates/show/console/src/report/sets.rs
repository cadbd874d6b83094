//! How sets of pods, and of nodes, overlap.

use std::cmp::Reverse;

use berth_api::syntax::format::{abbreviated, counted, grouped};
use berth_rules::SetRelation;
use berth_simulate::sets::nodes::{NodeGroup, NodeRelation, NodeRule, NodeSet, NodeSetComparison};
use berth_simulate::sets::{
    ComparedSet, Conflict, EmptySet, NotCounted, PodGroup, Relation, SelectorRole, SetComparison,
};

use super::{Part, Report, Span, Tone, attention, bad, dim, good, line, strong, toned};
use crate::pictures::{plural, relation_words as words, rule_role, rule_users, selector_owner as owner};

/// Pairs of overlapping sets without a pod in both.
const MAX_POSSIBLE: usize = 10;
/// Selectors of a set; workloads in a line.
const MAX_NAMED: usize = 8;

/// The sets of pods. A table has at most `max` rows.
pub fn of_pods(comparison: &SetComparison, max: usize) -> Report {
    let SetComparison { sets, relations, empty, conflicts, without_service, summary, .. } = comparison;
    let mut report = Report::default();
    for (role, title) in [
        (SelectorRole::Controller, "Controllers that select the same pods"),
        (SelectorRole::DisruptionBudget, "Budgets that select the same pods"),
        (SelectorRole::Service, "Services that select the same pods"),
        (SelectorRole::Monitor, "Monitors that select the same pods"),
    ] {
        let part = report.titled(title);
        let mut of_role = conflicts.iter().filter(|conflict| conflict.role == role);
        of_role.by_ref().take(max).for_each(|conflict| add_conflict(part, conflict));
        part.more(of_role.count());
        if let n @ 1.. = summary.n_conflicts - conflicts.len()
            && !part.blocks.is_empty()
        {
            let hidden = format!("{} in all are not listed", counted(n, "further conflict"));
            part.line(0, [dim(hidden)]);
        }
    }

    let rows = sets.iter().take(max).flat_map(|ComparedSet { id, namespaces, selector, owners, n_pods }| {
        let set = line![id, namespaces, selector, grouped(*n_pods)];
        rows_of_set(set, owners.iter().map(|of| line![owner(of, namespaces)]).collect())
    });
    let part = report.part("Sets of pods");
    part.table(&["Set", "Namespaces", "Selector", "Pods", "Selected by"], rows, usize::MAX, |row| row);
    part.more(sets.len().saturating_sub(max));

    // Sets without a key in common overlap. Such pairs are many, and say little while no pod is in both.
    let is_possible = |of: &&Relation| of.relation == SetRelation::Overlaps && of.n_pods == 0;
    let (possible, mut shown): (Vec<&Relation>, Vec<&Relation>) = relations.iter().partition(is_possible);
    shown.sort_by_key(|relation| Reverse(relation.n_pods));
    shown.extend(possible.iter().take(MAX_POSSIBLE));
    let selector = |id: usize| Span::from(&sets[id - 1].selector);
    let part = report.titled("Sets that are not disjoint");
    part.table(&["Set", "Selector", "Relation", "Set", "Selector", "Pods in both"], shown, max, |of| {
        let both = grouped(of.n_pods);
        line![of.set, selector(of.set), words(of.relation), of.other, selector(of.other), both]
    });
    if let n @ 1.. = possible.len().saturating_sub(MAX_POSSIBLE) {
        let more = format!("and {} more overlaps without a pod in both now", grouped(n));
        part.line(0, [dim(more)]);
    }
    let part = report.titled("Selectors that no pod can match");
    part.table(&["Selected by", "Namespaces", "Selector"], empty, max, |of: &EmptySet| {
        line![owner(&of.owner, ""), &of.namespaces, &of.selector]
    });
    let part = report.titled("Pods that no Service selects");
    part.table(&["Namespace", "Workload", "Pods"], without_service, max, |of: &PodGroup| {
        line![&of.namespace, &of.object, grouped(of.n_pods)]
    });

    let (selectors, n_sets) = (counted(summary.n_selectors, "selector"), counted(summary.n_sets, "set"));
    let pairs = pairs(summary.n_contained, summary.n_overlapping, summary.n_disjoint);
    let line = format!("{selectors}, {n_sets}, {}; {pairs}", counted(summary.n_pods, "pod"));
    let about = line![line];
    not_compared(
        &mut report,
        summary.n_not_compared,
        "set",
        "too many for one comparison; use --namespace or --kind",
    );
    let reason = "too many ServiceMonitors and Services for one comparison";
    not_compared(&mut report, summary.n_monitors_not_compared, "ServiceMonitor", reason);
    report.is_good = true;
    for (n_pods, role) in [
        (summary.n_pods_of_two_controllers, SelectorRole::Controller),
        (summary.n_pods_of_two_budgets, SelectorRole::DisruptionBudget),
        (summary.n_pods_of_two_services, SelectorRole::Service),
        (summary.n_pods_of_two_monitors, SelectorRole::Monitor),
    ] {
        let (are, by) = (if n_pods == 1 { "is" } else { "are" }, plural(role));
        let found = format!("{} {are} selected by two {by}", counted(n_pods, "pod"));
        finding(&mut report, n_pods, &format!("No pod is selected by two {by}"), found);
    }
    finish(report, [about])
}

/// A row for each of the first rules or selectors of a set; the first one has its number and size.
fn rows_of_set(mut set: Vec<Span>, mut rules: Vec<Vec<Span>>) -> Vec<Vec<Span>> {
    let n_columns = set.len() + rules.first().map_or(0, Vec::len);
    let n_more = rules.len().saturating_sub(MAX_NAMED);
    rules.truncate(MAX_NAMED);
    rules.extend((n_more > 0).then(|| line![format!("and {} more", grouped(n_more))]));
    let row = |rule: Vec<Span>| {
        let next = vec![Span::default(); set.len()];
        let mut row: Vec<Span> = std::mem::replace(&mut set, next).into_iter().chain(rule).collect();
        row.resize(n_columns, Span::default());
        row
    };
    rules.into_iter().map(row).collect()
}

fn pairs(n_contained: usize, n_overlapping: usize, n_disjoint: usize) -> String {
    let [contained, overlapping, disjoint] = [n_contained, n_overlapping, n_disjoint].map(grouped);
    format!("pairs of sets: {contained} contained, {overlapping} overlapping, {disjoint} disjoint")
}

fn not_compared(report: &mut Report, n: usize, what: &str, why: &str) {
    let line = || vec![attention(format!("{} not compared: {why}", counted(n, what)))];
    report.verdict.extend((n > 0).then(line));
}

/// Adds what was found to the verdict, or that there is none.
fn finding(report: &mut Report, n: usize, none: &str, found: String) {
    let line = if n == 0 { good(none) } else { bad(found) };
    report.verdict.push(vec![line]);
    report.is_good &= n == 0;
}

/// Puts what was found before what there is not, and the numbers last.
fn finish<const N: usize>(mut report: Report, about: [Vec<Span>; N]) -> Report {
    report.verdict.sort_by_key(|line| line[0].tone == Tone::Good);
    report.verdict.extend(about);
    report
}

fn add_conflict(part: &mut Part, conflict: &Conflict) {
    let Conflict { role, relation, n_pairs, n_pods, pods, example_labels, not_counted, .. } = conflict;
    let [first, second] = [&conflict.first, &conflict.second].map(|of| strong(owner(of, "")));
    let pairs = match n_pairs {
        2.. => format!(" (and {} more)", counted(n_pairs - 1, "such pair")),
        _ => String::new(),
    };
    let mut line = line![first, format!(" {} ", words(*relation)), second, format!("{pairs}: ")];
    if *n_pods == 0 {
        let labels: Vec<_> = example_labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
        line.push(attention("no pod in both now"));
        line.push(format!("; a pod with `{}` would be", labels.join(",")).into());
        return part.line(0, line);
    }
    let pods: Vec<_> = pods.iter().map(|group| format!("{} of {}", group.n_pods, group.object)).collect();
    let why_not = match not_counted {
        None => "",
        Some(NotCounted::Headless) => " (not counted: headless)",
        Some(NotCounted::OtherPorts) if *role == SelectorRole::Monitor => {
            " (not counted: different ports or paths)"
        }
        Some(NotCounted::OtherPorts) => " (not counted: different ports)",
    };
    let tone = if not_counted.is_none() { Tone::Bad } else { Tone::Plain };
    line.push(toned(tone, format!("{} in both", counted(*n_pods, "pod"))));
    line.extend([format!(": {}", abbreviated(&pods, MAX_NAMED)).into(), dim(why_not)]);
    part.line(0, line);
}

/// The sets of nodes. A table has at most `max` rows.
pub fn of_nodes(comparison: &NodeSetComparison, max: usize) -> Report {
    let NodeSetComparison { sets, relations, empty, unselected, unusable, summary, .. } = comparison;
    let mut report = Report::default();
    let part = report.part("Sets of nodes");
    let used = |rule: &NodeRule| line![rule_role(rule.role), &rule.rule, rule_users(rule)];
    let rows = sets.iter().take(max).flat_map(|NodeSet { id, n_nodes, rules }| {
        rows_of_set(line![id, grouped(*n_nodes)], rules.iter().map(used).collect())
    });
    part.table(&["Set", "Nodes", "Kind", "Rule", "Used by"], rows, usize::MAX, |row| row);
    part.more(sets.len().saturating_sub(max));

    let mut relations: Vec<&NodeRelation> = relations.iter().collect();
    relations.sort_by_key(|relation| Reverse(relation.n_nodes));
    let rule = |id: usize| {
        let rules = &sets[id - 1].rules;
        match rules.len() {
            1 => Span::from(&rules[0].rule),
            n => format!("{} and {} more", rules[0].rule, grouped(n - 1)).into(),
        }
    };
    let part = report.titled("Sets that are not disjoint");
    part.table(&["Set", "Rule", "Relation", "Set", "Rule", "Nodes in both"], relations, max, |of| {
        let both = grouped(of.n_nodes);
        line![of.set, rule(of.set), words(of.relation), of.other, rule(of.other), both]
    });
    let part = report.titled("Rules that match no node");
    part.table(&["Kind", "Rule", "Used by"], empty, max, used);
    for (title, groups) in
        [("Nodes that no node selector matches", unselected), ("Nodes that no pod can use", unusable)]
    {
        report.titled(title).table(&["Nodes", "Labels", "Taints", "Names"], groups, max, group);
    }

    let rules = [
        counted(summary.n_node_selectors, "node selector"),
        counted(summary.n_taints, "taint"),
        format!("{} added affinity", grouped(summary.n_added_affinities)),
        counted(summary.n_sets, "set"),
        counted(summary.n_nodes, "node"),
    ];
    let pairs = pairs(summary.n_contained, summary.n_overlapping, summary.n_disjoint);
    let about = line![format!("{}; {pairs}", rules.join(", "))];
    let (n_without, n_pods) = (grouped(summary.n_pods_without_node_selector), counted(summary.n_pods, "pod"));
    let without = vec![dim(format!("{n_without} of {n_pods} without a node selector"))];
    for (n, what) in [(summary.n_not_compared, "set"), (summary.n_rules_not_evaluated, "rule")] {
        not_compared(&mut report, n, what, "too many for one comparison; use --namespace");
    }
    report.is_good = true;
    for (n, none, noun, found) in [
        (summary.n_empty, "Every rule matches a node", "rule", "without a node"),
        (
            summary.n_taints_not_tolerated,
            "Every taint is tolerated by a pod",
            "taint",
            "that no pod tolerates, apart from those of DaemonSets",
        ),
        (summary.n_unusable, "Every node can be used by a pod", "node", "that no pod can use"),
    ] {
        finding(&mut report, n, none, format!("{} {found}", counted(n, noun)));
    }
    finish(report, [about, without])
}

fn group(NodeGroup { labels, taints, n_nodes, nodes }: &NodeGroup) -> Vec<Span> {
    let labels: Vec<_> = labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let names = [labels.as_slice(), taints, nodes].map(|names| abbreviated(names, MAX_NAMED).into());
    [grouped(*n_nodes).into()].into_iter().chain(names).collect()
}
