//! Why a pod goes where it goes.

use std::io::{self, Write};

use berth_engine::{
    DomainSummary, ExcludedNodes, Explanation, FeasibleNodes, PluginScore, TermSummary, Verdict, Witness,
};
use berth_simulate::PodExplanation;

use super::names::{abbreviated, counted, grouped};
use super::table::{Cell, Table};
use crate::output::{ATTENTION, BAD, BOLD, DIM, GOOD};

/// This many nodes of a group are named.
const MAX_NODES: usize = 4;
/// This many domains of a term are told.
const MAX_DOMAINS: usize = 10;
/// This many groups of nodes are told.
const MAX_GROUPS: usize = 10;

/// Writes all of it. `only` is the node whose groups alone the explanation holds; `is_node_known` is false for a
/// pod that runs on a node the cluster does not have.
pub fn write(
    out: &mut impl Write,
    explained: &PodExplanation,
    only: Option<&str>,
    is_node_known: bool,
) -> io::Result<()> {
    let PodExplanation { explanation, dialect_notes, hints } = explained;
    write_outcome(out, explanation)?;
    write_running(out, explanation, is_node_known)?;
    write_terms(out, explanation)?;
    match only {
        None => write_excluded(out, explanation)?,
        Some(node) => {
            heading(out, &format!("Node {node}"))?;
            write_groups(out, &explanation.excluded)?;
        }
    }
    write_feasible(out, explanation, only)?;
    write_list(out, "Read differently in v1 fields and in the proposals' fields", dialect_notes)?;
    write_list(out, "What would help", hints)
}

fn write_list(out: &mut impl Write, title: &str, lines: &[String]) -> io::Result<()> {
    if !lines.is_empty() {
        heading(out, title)?;
    }
    lines.iter().try_for_each(|line| writeln!(out, "  - {line}"))
}

/// Writes a heading after an empty line.
pub fn heading(out: &mut impl Write, text: &str) -> io::Result<()> {
    writeln!(out, "\n{BOLD}{text}{BOLD:#}")
}

fn write_outcome(out: &mut impl Write, explanation: &Explanation) -> io::Result<()> {
    let Explanation { namespace, name, outcome, running_on, .. } = explanation;
    let (node, message) = (outcome.node(), outcome.message());
    write!(out, "{BOLD}Pod {namespace}/{name}{BOLD:#} ")?;
    match (running_on, node) {
        (Some(on), Some(node)) if on == node => {
            writeln!(out, "runs on {GOOD}{on}{GOOD:#}, and would go there now")
        }
        (Some(on), Some(node)) => {
            writeln!(out, "runs on {GOOD}{on}{GOOD:#}; now it would go to {GOOD}{node}{GOOD:#}")
        }
        (Some(on), None) => {
            writeln!(out, "runs on {GOOD}{on}{GOOD:#}; now it would {BAD}fit on no node{BAD:#}\n{message}")
        }
        (None, Some(node)) => writeln!(out, "goes to {GOOD}{node}{GOOD:#}"),
        (None, None) => writeln!(out, "{BAD}goes to no node{BAD:#}\n{message}"),
    }
}

fn write_running(out: &mut impl Write, explanation: &Explanation, is_node_known: bool) -> io::Result<()> {
    let Some(node) = &explanation.running_on else { return Ok(()) };
    if !is_node_known {
        return writeln!(out, "Whether its rules hold cannot be told: {node} is not in the input");
    }
    if explanation.broken.is_empty() {
        return writeln!(out, "All its rules still hold on {node}");
    }
    heading(out, &format!("Rules that no longer hold on {node}"))?;
    writeln!(out, "  {DIM}only required-during-execution rules make a running pod leave{DIM:#}")?;
    write_verdicts(out, &explanation.broken)
}

fn write_terms(out: &mut impl Write, explanation: &Explanation) -> io::Result<()> {
    if explanation.terms.is_empty() {
        return Ok(());
    }
    heading(out, &format!("Terms, each on its own against {}", counted(explanation.n_nodes, "node")))?;
    for term in &explanation.terms {
        write_term(out, term)?;
    }
    Ok(())
}

/// Writes a term with the domains and pods that are the reason.
pub fn write_term(out: &mut impl Write, term: &TermSummary) -> io::Result<()> {
    let TermSummary { plugin, term: path, detail, excludes, excludes_alone, domains } = term;
    let path = if path.is_empty() { String::new() } else { format!(" {path}") };
    writeln!(out, "  {BOLD}{}{BOLD:#}{path}", plugin.name())?;
    writeln!(out, "    {detail}")?;
    let alone = match *excludes_alone {
        0 => String::new(),
        1 if *excludes == 1 => "; nothing else excludes it".to_owned(),
        n if n == *excludes => "; nothing else excludes them".to_owned(),
        n => format!("; nothing else excludes {} of them", grouped(n)),
    };
    match *excludes {
        0 => writeln!(out, "    {GOOD}excludes no node{GOOD:#}")?,
        n => writeln!(out, "    {BAD}excludes {}{BAD:#}{alone}", counted(n, "node"))?,
    }
    for domain in domains.iter().take(MAX_DOMAINS) {
        let DomainSummary { topology, n_nodes, counts, witnesses, more_witnesses } = domain;
        let counts = in_parentheses(counts.iter());
        let because = because(witnesses, *more_witnesses);
        writeln!(out, "    - {topology}: {}{counts}{because}", counted(*n_nodes, "node"))?;
    }
    match domains.len().saturating_sub(MAX_DOMAINS) {
        0 => Ok(()),
        more => writeln!(out, "    - and {} more; -o json has all", counted(more, "domain")),
    }
}

fn write_excluded(out: &mut impl Write, explanation: &Explanation) -> io::Result<()> {
    let (nearest, others) = explanation.excluded.split_at(explanation.nearest().len());
    if !nearest.is_empty() {
        heading(out, "Nearest misses")?;
    }
    write_groups(out, nearest)?;
    if !others.is_empty() {
        heading(out, "Other excluded nodes")?;
    }
    write_groups(out, others)
}

fn write_groups(out: &mut impl Write, groups: &[ExcludedNodes]) -> io::Result<()> {
    for ExcludedNodes { nodes, verdicts } in groups.iter().take(MAX_GROUPS) {
        let reasons = counted(verdicts.len(), "reason");
        let each = match nodes.as_slice() {
            [] | [_] => "against it".to_owned(),
            [first, ..] => format!("against each, shown for {first}"),
        };
        let nodes = abbreviated(nodes, MAX_NODES);
        writeln!(out, "  {ATTENTION}{nodes}{ATTENTION:#}: {reasons} {each}")?;
        write_verdicts(out, verdicts)?;
    }
    write_more(out, groups, |g| &g.nodes)
}

/// Says what was left out of a list of groups.
fn write_more<T>(out: &mut impl Write, groups: &[T], nodes: impl Fn(&T) -> &Vec<String>) -> io::Result<()> {
    let Some(left_out) = groups.get(MAX_GROUPS..).filter(|g| !g.is_empty()) else { return Ok(()) };
    let n_nodes = left_out.iter().map(|g| nodes(g).len()).sum();
    let (groups, nodes) = (counted(left_out.len(), "group"), counted(n_nodes, "node"));
    writeln!(out, "  {DIM}and {groups} more with {nodes}; -o json has all{DIM:#}")
}

fn write_verdicts(out: &mut impl Write, verdicts: &[Verdict]) -> io::Result<()> {
    verdicts.iter().try_for_each(|verdict| write_verdict(out, verdict, "    "))
}

/// Writes one verdict, each line after `indent`.
pub fn write_verdict(out: &mut impl Write, verdict: &Verdict, indent: &str) -> io::Result<()> {
    let term = verdict.term.as_ref().map(|t| format!(" {t}")).unwrap_or_default();
    writeln!(out, "{indent}- {BOLD}{}{BOLD:#}{term}: {}", verdict.plugin.name(), verdict.reason)?;
    let topology = verdict.topology.as_ref().map(|t| format!("; {t}")).unwrap_or_default();
    let counts = in_parentheses(verdict.counts.iter());
    let because = because(&verdict.witnesses, verdict.more_witnesses);
    writeln!(out, "{indent}  {}{topology}{counts}{because}", verdict.detail)
}

fn write_feasible(out: &mut impl Write, explanation: &Explanation, only: Option<&str>) -> io::Result<()> {
    if explanation.feasible.is_empty() {
        return Ok(());
    }
    if only.is_none() {
        heading(out, "Feasible nodes by score; of the best, the first by name is taken")?;
    }
    for FeasibleNodes { nodes, total, scores } in explanation.feasible.iter().take(MAX_GROUPS) {
        writeln!(out, "  {BOLD}{total}{BOLD:#}  {GOOD}{}{GOOD:#}", abbreviated(nodes, MAX_NODES))?;
        if scores.is_empty() {
            continue;
        }
        let mut table = Table::new(["RULE", "SCORE", "NORMALIZED x WEIGHT", "RAW", "MADE OF"]);
        for PluginScore { plugin, score, weight, raw, parts } in scores {
            let parts: Vec<_> = parts.iter().map(|p| format!("{}: {}", p.what, p.value)).collect();
            let normalized = if *weight == 0 { 0 } else { score / weight };
            table.row([
                plugin.name().into(),
                score.into(),
                format!("{normalized} x {weight}").into(),
                raw.into(),
                Cell::styled(parts.join("; "), DIM),
            ]);
        }
        table.write(out, "    ")?;
    }
    write_more(out, &explanation.feasible, |g| &g.nodes)
}

fn in_parentheses<'a>(counts: impl Iterator<Item = (&'a &'static str, &'a i64)>) -> String {
    let counts: Vec<_> = counts.map(|(name, n)| format!("{name} {n}")).collect();
    if counts.is_empty() { String::new() } else { format!(" ({})", counts.join(", ")) }
}

fn because(witnesses: &[Witness], more: usize) -> String {
    if witnesses.is_empty() {
        return String::new();
    }
    let names: Vec<_> =
        witnesses.iter().map(|w| format!("{}/{} on {}", w.namespace, w.name, w.node)).collect();
    let more = if more > 0 { format!(" and {} more", grouped(more)) } else { String::new() };
    format!("; because of {}{more}", names.join(", "))
}
