//! Overlapping sets of nodes: tables.

use std::io::{self, Write};

use berth_api::syntax::format::{abbreviated, counted, grouped};
use berth_console::pictures::{relation_words as words, rule_role, rule_users};
use berth_simulate::sets::nodes::{
    NodeGroup, NodeRelation, NodeRule, NodeSet, NodeSetComparison, NodeSetSummary,
};
use berth_terminal::output::{ATTENTION, BAD, DIM, GOOD};
use berth_terminal::table::{Cell, Table};

use super::heading::heading;
use super::sets::{MAX_NAMED, MAX_ROWS, write_more, write_table};

/// Writes the report; the last lines are the summary.
pub fn write(out: &mut impl Write, comparison: &NodeSetComparison) -> io::Result<()> {
    write_sets(out, comparison)?;
    write_relations(out, comparison)?;
    if !comparison.empty.is_empty() {
        heading(out, "Rules that match no node")?;
        let row = |rule: &NodeRule| {
            [rule_role(rule.role).to_owned(), rule.rule.clone(), rule_users(rule)].map(Cell::from)
        };
        write_table(out, ["KIND", "RULE", "USED BY"], comparison.empty.iter().map(row))?;
    }
    for (title, groups) in [
        ("Nodes that no node selector matches", &comparison.unselected),
        ("Nodes that no pod can use", &comparison.unusable),
    ] {
        if !groups.is_empty() {
            heading(out, title)?;
            write_table(out, ["NODES", "LABELS", "TAINTS", "NAMES"], groups.iter().map(group))?;
        }
    }
    writeln!(out)?;
    write_summary(out, &comparison.summary)
}

fn write_sets(out: &mut impl Write, comparison: &NodeSetComparison) -> io::Result<()> {
    let mut table = Table::new(["SET", "NODES", "KIND", "RULE", "USED BY"]);
    for NodeSet { id, n_nodes, rules } in comparison.sets.iter().take(MAX_ROWS) {
        let (mut id, mut n_nodes) = (Cell::from(*id), Cell::from(grouped(*n_nodes)));
        for rule in rules.iter().take(MAX_NAMED) {
            let (id, n_nodes) = (std::mem::take(&mut id), std::mem::take(&mut n_nodes));
            table.row([
                id,
                n_nodes,
                rule_role(rule.role).into(),
                (&rule.rule).into(),
                rule_users(rule).into(),
            ]);
        }
        let n_more = rules.len().saturating_sub(MAX_NAMED);
        if n_more > 0 {
            let more = format!("and {} more", grouped(n_more));
            table.row([Cell::default(), Cell::default(), Cell::default(), more.into(), Cell::default()]);
        }
    }
    table.write(out, "")?;
    write_more(out, comparison.sets.len())
}

fn write_relations(out: &mut impl Write, comparison: &NodeSetComparison) -> io::Result<()> {
    if comparison.relations.is_empty() {
        return Ok(());
    }
    heading(out, "Sets that are not disjoint")?;
    let mut relations: Vec<&NodeRelation> = comparison.relations.iter().collect();
    relations.sort_by_key(|relation| std::cmp::Reverse(relation.n_nodes));
    let rule = |id: usize| {
        let rules = &comparison.sets[id - 1].rules;
        match rules.len() {
            1 => rules[0].rule.clone(),
            n => format!("{} and {} more", rules[0].rule, grouped(n - 1)),
        }
    };
    let rows = relations.into_iter().map(|relation| {
        [
            relation.set.into(),
            rule(relation.set).into(),
            words(relation.relation).into(),
            relation.other.into(),
            rule(relation.other).into(),
            grouped(relation.n_nodes).into(),
        ]
    });
    write_table(out, ["SET", "RULE", "RELATION", "SET", "RULE", "NODES IN BOTH"], rows)
}

fn group(group: &NodeGroup) -> [Cell; 4] {
    let NodeGroup { labels, taints, n_nodes, nodes } = group;
    let labels: Vec<_> = labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let texts = [
        grouped(*n_nodes),
        abbreviated(&labels, MAX_NAMED),
        abbreviated(taints, MAX_NAMED),
        abbreviated(nodes, MAX_NAMED),
    ];
    texts.map(Cell::from)
}

fn write_summary(out: &mut impl Write, summary: &NodeSetSummary) -> io::Result<()> {
    let rules = [
        counted(summary.n_node_selectors, "node selector"),
        counted(summary.n_taints, "taint"),
        format!("{} added affinity", grouped(summary.n_added_affinities)),
        counted(summary.n_sets, "set"),
        counted(summary.n_nodes, "node"),
    ];
    let pairs = [summary.n_contained, summary.n_overlapping, summary.n_disjoint].map(grouped);
    write!(out, "{}; pairs of sets: ", rules.join(", "))?;
    writeln!(out, "{} contained, {} overlapping, {} disjoint", pairs[0], pairs[1], pairs[2])?;
    let without = grouped(summary.n_pods_without_node_selector);
    writeln!(out, "{DIM}{without} of {} without a node selector{DIM:#}", counted(summary.n_pods, "pod"))?;
    for (n, what) in [(summary.n_not_compared, "set"), (summary.n_rules_not_evaluated, "rule")] {
        if n > 0 {
            let n = counted(n, what);
            writeln!(
                out,
                "{ATTENTION}{n} not compared: too many for one comparison; use --namespace{ATTENTION:#}"
            )?;
        }
    }
    let mut finding = |n: usize, none: &str, noun: &str, found: &str| match n {
        0 => writeln!(out, "{GOOD}{none}{GOOD:#}"),
        n => writeln!(out, "{BAD}{} {found}{BAD:#}", counted(n, noun)),
    };
    finding(summary.n_empty, "Every rule matches a node", "rule", "without a node")?;
    finding(
        summary.n_taints_not_tolerated,
        "Every taint is tolerated by a pod",
        "taint",
        "that no pod tolerates, apart from those of DaemonSets",
    )?;
    finding(summary.n_unusable, "Every node can be used by a pod", "node", "that no pod can use")
}
