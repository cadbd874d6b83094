//! Explanations of placements.

use std::io::{self, Write};

use berth_api::syntax::format::{abbreviated, counted, grouped};
use berth_engine::{
    BlastRadius, Counts, DomainSummary, ExcludedNodes, Explanation, FeasibleNodes, PluginScore, TermSummary,
    TopologyPair, Verdict, Witness,
};
use berth_simulate::{
    CoreTerm, GroupPlacement, PodExplanation, PodPreemption, Repair, Unadmitted, UnadmittedState,
};
use berth_terminal::output::{ATTENTION, BAD, BOLD, DIM, GOOD, NL};
use berth_terminal::table::{Cell, Table};

use super::heading::heading;
use super::pod_group::{write_failing, write_group, write_members};

/// Number of nodes of a group named.
const MAX_NODES: usize = 4;
/// Number of domains of a rule shown.
const MAX_DOMAINS: usize = 10;
/// Number of groups of nodes shown.
const MAX_GROUPS: usize = 10;
/// Rules, and reasons against a group of nodes.
const MAX_RULES: usize = 100;

/// Writes an explanation with all details. `only` is the node that the explanation is restricted to; `is_node_known` is false for a
/// pod that runs on a node that is not in the cluster.
pub fn write(
    out: &mut impl Write,
    explained: &PodExplanation,
    only: Option<&str>,
    is_node_known: bool,
) -> io::Result<()> {
    let PodExplanation {
        explanation,
        unadmitted,
        dialect_notes,
        relaxed,
        preemption,
        group,
        hints,
        core,
        repairs,
        without_single_repair,
        rollout: _,
    } = explained;
    write_verdict_of_pod(out, group.as_ref(), explanation, unadmitted.as_ref())?;
    write_preemption(out, preemption.as_ref())?;
    write_members(out, group.as_ref())?;
    let title = match explanation.running_on {
        Some(_) => "Required rules that were relaxed to bind it",
        None => "Required rules that are preferences by now",
    };
    write_list(out, title, relaxed)?;
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
    write_blast_radius(out, explanation.blast_radius.as_ref())?;
    write_list(out, "Different meaning in v1 fields and in proposal fields", dialect_notes)?;
    write_list(out, "Suggestions", hints)?;
    write_core(out, core)?;
    if let Some(note) = without_single_repair {
        writeln!(out, "{NL}{note}")?;
    }
    write_repairs(out, repairs)
}

/// Whether the pod is placed, with its group if it has one.
pub(super) fn write_verdict_of_pod(
    out: &mut impl Write,
    group: Option<&GroupPlacement>,
    explanation: &Explanation,
    unadmitted: Option<&Unadmitted>,
) -> io::Result<()> {
    let is_pending = explanation.running_on.is_none();
    write_group(out, group, is_pending)?;
    match (unadmitted, group.filter(|group| is_pending && group.message.is_some())) {
        (Some(why), _) => write_unadmitted(out, explanation, why),
        (None, Some(group)) => write_failing(out, explanation, group),
        (None, None) => write_outcome(out, explanation),
    }
}

/// What its anti-affinity does to other pods.
fn write_blast_radius(out: &mut impl Write, radius: Option<&BlastRadius>) -> io::Result<()> {
    let Some(radius) = radius.filter(|radius| !radius.is_empty()) else { return Ok(()) };
    heading(out, "Blast radius of its anti-affinity: the largest domain that it may go to")?;
    let terms = || radius.terms.iter().chain(&radius.preferred);
    for term in terms().take(MAX_RULES) {
        let weight = if term.weight == 0 { String::new() } else { format!(", weight {}", term.weight) };
        writeln!(out, "  {BOLD}{}{BOLD:#}{weight}", term.term)?;
        let verb = if term.weight == 0 { "blocks" } else { "lowers the scores of" };
        let Some(largest) = &term.largest else {
            writeln!(out, "    {verb} no node: no node that the pod may go to has the topology key")?;
            continue;
        };
        let domain = largest.domain.as_ref().map(|domain| format!(" ({domain})")).unwrap_or_default();
        let after = match term.limit {
            0 => String::new(),
            n => format!(", once it has {}", counted(n as usize, "matching pod")),
        };
        writeln!(
            out,
            "    {verb} {}{domain} for pods that match the term{after}; {} {}",
            counted(largest.n_nodes, "node"),
            counted(term.n_matching_pods, "running pod"),
            if term.n_matching_pods == 1 { "matches it" } else { "match it" }
        )?;
    }
    write_cut(out, terms().count(), "term")
}

fn write_core(out: &mut impl Write, core: &[CoreTerm]) -> io::Result<()> {
    // A single rule is also the first one in the list of rules.
    if core.len() < 2 {
        return Ok(());
    }
    heading(out, "These rules together exclude all nodes; without any of them, a node is left")?;
    core.iter().take(MAX_RULES).try_for_each(|CoreTerm { plugin, term, detail }| {
        writeln!(out, "  - {BOLD}{plugin}{BOLD:#} {term}{NL}    {detail}")
    })?;
    write_cut(out, core.len(), "rule")
}

/// How many rows of many there are beyond [`MAX_RULES`].
fn write_cut(out: &mut impl Write, n: usize, what: &str) -> io::Result<()> {
    match n.saturating_sub(MAX_RULES) {
        0 => Ok(()),
        more => writeln!(out, "  {DIM}{} more; -o json has all{DIM:#}", counted(more, what)),
    }
}

pub fn write_repairs(out: &mut impl Write, repairs: &[Repair]) -> io::Result<()> {
    if repairs.is_empty() {
        return Ok(());
    }
    heading(out, "Repairs, those that change least first; each was verified")?;
    for repair in repairs {
        writeln!(out, "  - {repair}: then it fits on {GOOD}{}{GOOD:#}", repair.result())?;
        repair.commands.iter().try_for_each(|command| writeln!(out, "    $ {command}"))?;
    }
    Ok(())
}

fn write_list(out: &mut impl Write, title: &str, lines: &[String]) -> io::Result<()> {
    if !lines.is_empty() {
        heading(out, title)?;
    }
    lines.iter().try_for_each(|line| writeln!(out, "  - {line}"))
}

fn write_outcome(out: &mut impl Write, explanation: &Explanation) -> io::Result<()> {
    let Explanation { namespace, name, outcome, running_on, .. } = explanation;
    let (node, message) = (outcome.node(), outcome.message());
    write!(out, "{BOLD}Pod {namespace}/{name}{BOLD:#} ")?;
    match (running_on, node) {
        (Some(on), Some(node)) if on == node => {
            writeln!(out, "runs on {GOOD}{on}{GOOD:#}, and would be placed there again")
        }
        (Some(on), Some(node)) => {
            writeln!(out, "runs on {GOOD}{on}{GOOD:#}; it would now be placed on {GOOD}{node}{GOOD:#}")
        }
        (Some(on), None) => {
            writeln!(out, "runs on {GOOD}{on}{GOOD:#}; it would now {BAD}fit on no node{BAD:#}{NL}{message}")
        }
        (None, Some(node)) => writeln!(out, "is placed on {GOOD}{node}{GOOD:#}"),
        (None, None) => writeln!(out, "{BAD}fits on no node{BAD:#}{NL}{message}"),
    }
}

/// A pod that does not run on the node that it names.
fn write_unadmitted(out: &mut impl Write, explanation: &Explanation, why: &Unadmitted) -> io::Result<()> {
    let Explanation { namespace, name, outcome, .. } = explanation;
    if why.state == UnadmittedState::NotCreated {
        writeln!(out, "{BOLD}Pod {namespace}/{name}{BOLD:#} is {BAD}{why}{BAD:#}")?;
        return match outcome.node() {
            Some(node) => {
                writeln!(out, "Once it is created, a scheduler would place it on {GOOD}{node}{GOOD:#}")
            }
            None => {
                let message = outcome.message();
                writeln!(out, "Once it is created, it would {BAD}fit on no node{BAD:#}{NL}{message}")
            }
        };
    }
    writeln!(out, "{BOLD}Pod {namespace}/{name}{BOLD:#} is {BAD}{}{BAD:#}{NL}{}", why.short(), why.message)?;
    match outcome.node() {
        Some(node) => {
            writeln!(out, "Without spec.nodeName, a scheduler would place it on {GOOD}{node}{GOOD:#}")
        }
        None => {
            writeln!(
                out,
                "Without spec.nodeName, it would {BAD}fit on no node{BAD:#}{NL}{}",
                outcome.message()
            )
        }
    }
}

pub(super) fn write_preemption(out: &mut impl Write, preemption: Option<&PodPreemption>) -> io::Result<()> {
    let Some(preemption) = preemption else { return Ok(()) };
    let PodPreemption { node, n_pdb_violations, is_cut, .. } = preemption;
    let budgets = match n_pdb_violations {
        0 => String::new(),
        n => format!(", which violates PodDisruptionBudgets for {}", counted(*n, "pod")),
    };
    let victims = preemption.listed_victims();
    writeln!(out, "It preempts {victims} on {GOOD}{node}{GOOD:#}{budgets}: it fits there then")?;
    if *is_cut {
        writeln!(out, "The search for victims was ended at its limit: fewer victims may be enough")?;
    }
    Ok(())
}

fn write_running(out: &mut impl Write, explanation: &Explanation, is_node_known: bool) -> io::Result<()> {
    let Some(node) = &explanation.running_on else { return Ok(()) };
    if !is_node_known {
        return writeln!(out, "Its rules cannot be checked: {node} is not in the input");
    }
    if explanation.broken.is_empty() {
        return writeln!(out, "No rule is violated on {node}");
    }
    heading(out, &format!("Rules violated on {node}"))?;
    writeln!(out, "  {DIM}only rules required during execution cause an eviction{DIM:#}")?;
    write_verdicts(out, &explanation.broken)
}

fn write_terms(out: &mut impl Write, explanation: &Explanation) -> io::Result<()> {
    if explanation.terms.is_empty() {
        return Ok(());
    }
    let n_evaluated = explanation.n_nodes - explanation.n_not_evaluated;
    heading(out, &format!("Rules, evaluated individually on {}", counted(n_evaluated, "node")))?;
    for term in explanation.terms.iter().take(MAX_RULES) {
        write_term(out, term)?;
    }
    write_cut(out, explanation.terms.len(), "rule")
}

/// `excludes 3 nodes; 1 is excluded by this rule alone`.
pub(super) fn rule_counts(TermSummary { excludes, excludes_alone, .. }: &TermSummary) -> String {
    let alone = match *excludes_alone {
        0 => String::new(),
        1 => "; 1 is excluded by this rule alone".to_owned(),
        n => format!("; {} are excluded by this rule alone", grouped(n)),
    };
    match *excludes {
        0 => "excludes no node".to_owned(),
        n => format!("excludes {}{alone}", counted(n, "node")),
    }
}

/// A domain with its numbers and the pods that cause the rejections.
pub(super) fn domain_text(domain: &DomainSummary) -> String {
    let DomainSummary { topology, n_nodes, counts, witnesses, more_witnesses } = domain;
    let counts = counts_text(counts.as_ref(), Some(topology));
    let cause = cause_text(witnesses, *more_witnesses);
    format!("{topology}: {}{counts}{cause}", counted(*n_nodes, "node"))
}

/// Writes a rule with the domains and pods that cause its rejections.
pub fn write_term(out: &mut impl Write, summary: &TermSummary) -> io::Result<()> {
    let TermSummary { plugin, term: path, detail, excludes, domains, .. } = summary;
    let path = if path.is_empty() { String::new() } else { format!(" {path}") };
    writeln!(out, "  {BOLD}{}{BOLD:#}{path}", plugin.name())?;
    writeln!(out, "    {detail}")?;
    let style = if *excludes == 0 { GOOD } else { BAD };
    writeln!(out, "    {style}{}{style:#}", rule_counts(summary))?;
    for domain in domains.iter().take(MAX_DOMAINS) {
        writeln!(out, "    - {}", domain_text(domain))?;
    }
    match domains.len().saturating_sub(MAX_DOMAINS) {
        0 => Ok(()),
        more => writeln!(out, "    - {} more; -o json has all", counted(more, "domain")),
    }
}

fn write_excluded(out: &mut impl Write, explanation: &Explanation) -> io::Result<()> {
    let (nearest, others) = explanation.excluded.split_at(explanation.nearest().len());
    if !nearest.is_empty() {
        heading(out, "Nodes with the fewest reasons")?;
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
            [] | [_] => String::new(),
            [first, ..] => format!(" each, shown for {first}"),
        };
        let nodes = abbreviated(nodes, MAX_NODES);
        writeln!(out, "  {ATTENTION}{nodes}{ATTENTION:#}: {reasons}{each}")?;
        write_verdicts(out, verdicts)?;
    }
    write_more(out, groups, |g| &g.nodes)
}

/// Counts the groups that are not shown.
fn write_more<T>(out: &mut impl Write, groups: &[T], nodes: impl Fn(&T) -> &Vec<String>) -> io::Result<()> {
    let Some(left_out) = groups.get(MAX_GROUPS..).filter(|g| !g.is_empty()) else { return Ok(()) };
    let n_nodes = left_out.iter().map(|g| nodes(g).len()).sum();
    let (groups, nodes) = (counted(left_out.len(), "group"), counted(n_nodes, "node"));
    writeln!(out, "  {DIM}{groups} more with {nodes}; -o json has all{DIM:#}")
}

fn write_verdicts(out: &mut impl Write, verdicts: &[Verdict]) -> io::Result<()> {
    verdicts.iter().take(MAX_RULES).try_for_each(|verdict| write_verdict(out, verdict, "    "))?;
    write_cut(out, verdicts.len(), "reason")
}

/// Writes one verdict, each line after `indent`.
pub fn write_verdict(out: &mut impl Write, verdict: &Verdict, indent: &str) -> io::Result<()> {
    let term = verdict.term.as_ref().map(|t| format!(" {t}")).unwrap_or_default();
    writeln!(out, "{indent}- {BOLD}{}{BOLD:#}{term}: {}", verdict.plugin.name(), verdict.reason)?;
    let topology = verdict.topology.as_ref().map(|t| format!("; {t}")).unwrap_or_default();
    let counts = counts_text(verdict.counts.as_ref(), verdict.topology.as_ref());
    let cause = cause_text(&verdict.witnesses, verdict.more_witnesses);
    writeln!(out, "{indent}  {}{topology}{counts}{cause}", verdict.detail)
}

fn write_feasible(out: &mut impl Write, explanation: &Explanation, only: Option<&str>) -> io::Result<()> {
    if explanation.feasible.is_empty() {
        return Ok(());
    }
    if only.is_none() {
        heading(out, "Feasible nodes by score; among the best, the first by name is selected")?;
    }
    for FeasibleNodes { nodes, total, scores } in explanation.feasible.iter().take(MAX_GROUPS) {
        writeln!(out, "  {BOLD}{total}{BOLD:#}  {GOOD}{}{GOOD:#}", abbreviated(nodes, MAX_NODES))?;
        if scores.is_empty() {
            continue;
        }
        let mut table = Table::new(["PLUGIN", "SCORE", "NORMALIZED x WEIGHT", "RAW", "BREAKDOWN"]);
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

/// `; 0 matching pods in zone-1, 2 elsewhere`.
fn counts_text(counts: Option<&Counts>, topology: Option<&TopologyPair>) -> String {
    counts.map(|counts| format!("; {}", counts.text(topology))).unwrap_or_default()
}

fn cause_text(witnesses: &[Witness], more: usize) -> String {
    if witnesses.is_empty() {
        return String::new();
    }
    let names: Vec<_> =
        witnesses.iter().map(|w| format!("{}/{} on {}", w.namespace, w.name, w.node)).collect();
    let more = if more > 0 { format!(" and {} more", grouped(more)) } else { String::new() };
    format!("; caused by {}{more}", names.join(", "))
}
