//! An explanation in at most [`MAX_LINES`] lines: the verdict, the first repair, and the rules that matter most.

use std::io::{self, Write};

use berth_api::syntax::format::counted;
use berth_engine::{Explanation, TermSummary, Verdict};
use berth_simulate::PodExplanation;
use berth_terminal::output::{BAD, BOLD, DIM, GOOD};

use super::explanation::{domain_text, rule_counts, write_preemption, write_verdict_of_pod};
use super::heading::heading;

const MAX_LINES: usize = 20;
const MAX_RULES: usize = 3;
const MAX_HINTS: usize = 2;
/// Number of commands of the repair shown.
const MAX_COMMANDS: usize = 2;

/// Writes the summary. `is_node_known` is false for a pod that runs on a node that is not in the cluster.
pub fn write(out: &mut impl Write, explained: &PodExplanation, is_node_known: bool) -> io::Result<()> {
    let PodExplanation { explanation, unadmitted, preemption, group, .. } = explained;
    let mut text = Vec::new();
    write_verdict_of_pod(&mut text, group.as_ref(), explanation, unadmitted.as_ref())?;
    write_preemption(&mut text, preemption.as_ref())?;
    if let n @ 1.. = explained.relaxed.len() {
        let (rules, are) =
            (counted(n, "required rule"), if n == 1 { "is a preference" } else { "are preferences" });
        writeln!(text, "{rules} {are} by now")?;
    }
    write_running(&mut text, explanation, is_node_known)?;
    for hint in explained.hints.iter().take(MAX_HINTS) {
        writeln!(text, "{BOLD}suggestion{BOLD:#}: {hint}")?;
    }
    write_repair(&mut text, explained)?;
    let is_placed = explanation.outcome.node().is_some();
    let n_nodes: usize = explanation.feasible.iter().map(|group| group.nodes.len()).sum();
    if let Some(best) = explanation.feasible.first().filter(|_| is_placed) {
        let first = best.nodes.first().map_or("", String::as_str);
        let nodes = counted(n_nodes, "feasible node");
        writeln!(text, "{nodes}; the best is {GOOD}{first}{GOOD:#} with the score {}", best.total)?;
    }
    let n_rules = write_rules(&mut text, &explanation.terms)?;
    out.write_all(&text)?;
    let n_more = explanation.terms.len() - n_rules;
    let more = |n: usize, what: &str| (n > 0).then(|| counted(n, what));
    let left = [
        more(n_more, "more rule"),
        more(explanation.excluded.iter().map(|group| group.nodes.len()).sum(), "excluded node"),
        more(n_nodes, "score"),
        more(explained.repairs.len().saturating_sub(1), "more repair"),
        more(explained.dialect_notes.len(), "dialect note"),
        explanation
            .blast_radius
            .as_ref()
            .filter(|radius| !radius.is_empty())
            .map(|_| "the blast radius".to_owned()),
    ];
    let left: Vec<_> = left.into_iter().flatten().collect();
    if left.is_empty() { Ok(()) } else { writeln!(out, "{DIM}--all shows {}{DIM:#}", left.join(", ")) }
}

fn write_running(out: &mut impl Write, explanation: &Explanation, is_node_known: bool) -> io::Result<()> {
    let Some(node) = &explanation.running_on else { return Ok(()) };
    if !is_node_known {
        return writeln!(out, "Its rules cannot be checked: {node} is not in the input");
    }
    match explanation.broken.len() {
        0 => return writeln!(out, "No rule is violated on {node}"),
        n => writeln!(
            out,
            "{BAD}{}{BAD:#} violated on {node}",
            if n == 1 { "1 rule is".to_owned() } else { format!("{n} rules are") }
        )?,
    }
    for Verdict { plugin, term, detail, .. } in explanation.broken.iter().take(MAX_RULES) {
        let term = term.as_deref().unwrap_or_default();
        writeln!(out, "  - {BOLD}{}{BOLD:#} {term}: {detail}", plugin.name())?;
    }
    Ok(())
}

/// The first repair with its commands.
fn write_repair(out: &mut impl Write, explained: &PodExplanation) -> io::Result<()> {
    if let Some(note) = explained.without_single_repair {
        writeln!(out, "{note}")?;
    }
    let Some(repair) = explained.repairs.first() else { return Ok(()) };
    writeln!(out, "{BOLD}repair{BOLD:#}: {repair}: then it fits on {GOOD}{}{GOOD:#}", repair.result())?;
    for command in repair.commands.iter().take(MAX_COMMANDS) {
        writeln!(out, "  $ {command}")?;
    }
    match repair.commands.len().saturating_sub(MAX_COMMANDS) {
        0 => Ok(()),
        more => writeln!(out, "  {DIM}and {}{DIM:#}", counted(more, "more command")),
    }
}

/// The rules that exclude most nodes, as far as there are lines. Returns their number.
fn write_rules(out: &mut Vec<u8>, terms: &[TermSummary]) -> io::Result<usize> {
    let n_lines = |text: &[u8]| text.iter().filter(|c| **c == b'\n').count();
    let excluding = || terms.iter().filter(|term| term.excludes > 0);
    let mut n_rules = 0;
    for term in excluding().take(MAX_RULES) {
        let mut text = Vec::new();
        if n_rules == 0 {
            heading(&mut text, "Rules that exclude most nodes")?;
        }
        let path = if term.term.is_empty() { String::new() } else { format!(" {}", term.term) };
        writeln!(text, "  {BOLD}{}{BOLD:#}{path}: {BAD}{}{BAD:#}", term.plugin.name(), rule_counts(term))?;
        writeln!(text, "    {}", term.detail)?;
        if let Some(first) = term.domains.first() {
            let more = match term.domains.len() - 1 {
                0 => String::new(),
                n => format!(" (and {})", counted(n, "more domain")),
            };
            writeln!(text, "    - {}{more}", domain_text(first))?;
        }
        // The last line is that about --all.
        if n_lines(out) + n_lines(&text) >= MAX_LINES {
            break;
        }
        out.append(&mut text);
        n_rules += 1;
    }
    Ok(n_rules)
}

#[cfg(test)]
mod tests {
    use berth_input::inventory::Inventory;
    use berth_simulate::{Simulation, SimulationOptions};

    use super::*;

    #[test]
    fn an_explanation_has_at_most_20_lines_with_the_verdict_the_repair_and_three_rules() {
        let node = |i: usize| {
            format!(
                "{{apiVersion: v1, kind: Node, metadata: {{name: n{i}, labels: {{zone: z{i}, kubernetes.io/hostname: n{i}}}}},
                  spec: {{taints: [{{key: t{i}, effect: NoSchedule}}]}}, status: {{allocatable: {{cpu: {i}, pods: 9}}}}}}\n---\n
                  {{apiVersion: v1, kind: Pod, metadata: {{name: x{i}, labels: {{app: x}}}}, spec: {{nodeName: n{i}, containers:
                  [{{name: c, image: i}}]}}, status: {{phase: Running}}}}\n---\n"
            )
        };
        let pod = "{apiVersion: v1, kind: Pod, metadata: {name: p, labels: {app: x}}, spec: {nodeSelector: {a: b, c: d},
            topologySpreadConstraints: [{maxSkew: 1, topologyKey: rack, whenUnsatisfiable: DoNotSchedule}],
            affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [
            {topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: x}}}]}},
            containers: [{name: c, image: i}]}}";
        let text = (0..30).map(node).collect::<String>() + pod;
        let inventory = Inventory::from_text(&text).expect("the text is well-formed");
        let simulation = Simulation::new(inventory, SimulationOptions::default());
        let mut simulation = simulation.expect("the objects are valid");
        let explained = simulation.explain("default", "p", None).expect("the pod exists");
        let mut out = Vec::new();
        write(&mut out, &explained, true).expect("it is memory");
        let text = String::from_utf8(out).expect("text");
        assert!(text.lines().count() <= MAX_LINES, "{text}");
        let n_rules = text.lines().filter(|line| line.contains("excludes 30 nodes")).count();
        assert!(n_rules == MAX_RULES && text.contains("repair") && text.contains("--all shows"), "{text}");
    }
}
