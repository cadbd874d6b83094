//! Why a pod is where it is, or is not placed.

use berth_api::syntax::format::counted;
use berth_engine::{BlastRadius, ExcludedNodes, FeasibleNodes, PluginScore, TermSummary, Verdict};
use berth_simulate::{
    CoreTerm, FailingMember, GroupMember, GroupPlacement, PodExplanation, PodPreemption, UnadmittedState,
};

use super::{
    Part, Report, Span, Tone, attention, bad, dim, good, line, named, repairs, rule, strong, toned, verdict,
};

/// Groups of nodes.
const MAX_GROUPS: usize = 10;
/// Rules, and reasons against a group of nodes.
const MAX_RULES: usize = 100;
/// Members of a group.
const MAX_MEMBERS: usize = 100;
/// Lines of a summary.
const MAX_LINES: usize = 20;
/// Rules, hints and commands of a repair in a summary.
const MAX_SUMMARY_RULES: usize = 3;
const MAX_HINTS: usize = 2;
const MAX_COMMANDS: usize = 2;

/// All details. `only` is the node that the explanation is restricted to; `is_node_known` is false for a pod that runs on a node that
/// is not in the cluster.
pub fn report(explained: &PodExplanation, only: Option<&str>, is_node_known: bool) -> Report {
    let PodExplanation { explanation, core, .. } = explained;
    let mut report = outcome(explained, is_node_known);
    if let Some(on) = &explanation.running_on {
        match explanation.broken.as_slice() {
            _ if !is_node_known => report.verdict.push(unknown_node(on)),
            [] => report.verdict.push(line![format!("No rule is violated on {on}")]),
            broken => {
                let part = report.titled(format!("Rules violated on {on}"));
                part.line(0, [dim("only rules required during execution cause an eviction")]);
                add_verdicts(part, 0, broken);
            }
        }
    }
    list(report.titled("Suggestions"), &explained.hints);
    let part = report.titled("These rules together exclude all nodes; without any of them, a node is left");
    // A single rule is also the first one in the list of rules.
    if core.len() > 1 {
        for CoreTerm { plugin, term, detail } in core.iter().take(MAX_RULES) {
            part.line(0, line!["- ", strong(plugin), " ", toned(Tone::Path, term)]);
            part.line(1, line![detail]);
        }
        part.more(core.len().saturating_sub(MAX_RULES));
    }
    if let Some(note) = explained.without_single_repair {
        report.part("").line(0, line![note]);
    }
    report.add(repairs(&explained.repairs));
    let relaxed = match explanation.running_on {
        Some(_) => "Required rules that were relaxed to bind it",
        None => "Required rules that are preferences by now",
    };
    list(report.titled(relaxed), &explained.relaxed);
    let part = report.titled("Members of the group by rank");
    if let Some(GroupPlacement { members, .. }) = &explained.group {
        for GroupMember { name, node } in members.iter().take(MAX_MEMBERS) {
            let on = node.iter().flat_map(|node| [" on ".into(), good(node)]);
            part.line(0, [name.into()].into_iter().chain(on));
        }
        part.more(members.len().saturating_sub(MAX_MEMBERS));
    }
    let n_evaluated = counted(explanation.n_nodes - explanation.n_not_evaluated, "node");
    let part = report.titled(format!("Rules, evaluated individually on {n_evaluated}"));
    explanation.terms.iter().take(MAX_RULES).for_each(|term| rule::add(part, 0, term));
    part.more(explanation.terms.len().saturating_sub(MAX_RULES));
    let (nearest, others) = explanation.excluded.split_at(explanation.nearest().len());
    match only {
        None => {
            excluded(report.titled("Nodes with the fewest reasons"), nearest);
            excluded(report.titled("Other excluded nodes"), others);
        }
        Some(node) => excluded(report.titled(format!("Node {node}")), &explanation.excluded),
    }
    feasible(&mut report, &explanation.feasible);
    if let Some(radius) = &explanation.blast_radius {
        blast_radius(&mut report, radius);
    }
    list(report.titled("Different meaning in v1 fields and in proposal fields"), &explained.dialect_notes);
    report
}

/// An explanation in at most [`MAX_LINES`] lines: the verdict, the first repair, and the rules that matter most.
pub fn summary(explained: &PodExplanation, is_node_known: bool) -> Report {
    let PodExplanation { explanation, .. } = explained;
    let mut report = outcome(explained, is_node_known);
    let lines = &mut report.verdict;
    if let n @ 1.. = explained.relaxed.len() {
        let are = if n == 1 { "is a preference" } else { "are preferences" };
        lines.push(line![format!("{} {are} by now", counted(n, "required rule"))]);
    }
    if let Some(on) = &explanation.running_on {
        match explanation.broken.len() {
            _ if !is_node_known => lines.push(unknown_node(on)),
            0 => lines.push(line![format!("No rule is violated on {on}")]),
            n => {
                let are = if n == 1 { "1 rule is".to_owned() } else { format!("{n} rules are") };
                lines.push(line![bad(are), format!(" violated on {on}")]);
            }
        }
    }
    for Verdict { plugin, term, detail, .. } in explanation.broken.iter().take(MAX_SUMMARY_RULES) {
        let term = term.as_deref().unwrap_or_default();
        lines.push(line!["  - ", strong(plugin.name()), " ", toned(Tone::Path, term), format!(": {detail}")]);
    }
    let hint = |hint: &String| line![strong("suggestion"), format!(": {hint}")];
    lines.extend(explained.hints.iter().take(MAX_HINTS).map(hint));
    lines.extend(explained.without_single_repair.map(|note| line![note]));
    if let Some(repair) = explained.repairs.first() {
        let then = format!(": {repair}: fits on ");
        lines.push(line![strong("repair"), then, good(repair.result())]);
        let command = |command: &_| line![format!("  $ {command}")];
        lines.extend(repair.commands.iter().take(MAX_COMMANDS).map(command));
        let n_more = repair.commands.len().saturating_sub(MAX_COMMANDS);
        lines.extend((n_more > 0).then(|| line![dim(format!("  and {}", counted(n_more, "more command")))]));
    }
    let n_nodes: usize = explanation.feasible.iter().map(|group| group.nodes.len()).sum();
    if let (Some(best), Some(_)) = (explanation.feasible.first(), explanation.outcome.node()) {
        let first = best.nodes.first().map_or("", String::as_str);
        let nodes = format!("{}; the best is ", counted(n_nodes, "feasible node"));
        lines.push(line![nodes, good(first), format!(" with the score {}", best.total)]);
    }
    // The heading and the empty line before it, and the line about --all.
    let mut n_lines = lines.len() + 3;
    let part = report.titled("Rules that exclude most nodes");
    let mut n_rules = 0;
    for term in explanation.terms.iter().filter(|term| term.excludes > 0).take(MAX_SUMMARY_RULES) {
        n_lines += 2 + usize::from(!term.domains.is_empty());
        if n_lines > MAX_LINES {
            break;
        }
        add_briefly(part, term);
        n_rules += 1;
    }
    let more = |n: usize, what: &str| (n > 0).then(|| counted(n, what));
    let has_radius = explanation.blast_radius.as_ref().is_some_and(|radius| !radius.is_empty());
    let left = [
        more(explanation.terms.len() - n_rules, "more rule"),
        more(explanation.excluded.iter().map(|group| group.nodes.len()).sum(), "excluded node"),
        more(n_nodes, "score"),
        more(explained.repairs.len().saturating_sub(1), "more repair"),
        more(explained.dialect_notes.len(), "dialect note"),
        has_radius.then(|| "the blast radius".to_owned()),
    ];
    let left: Vec<_> = left.into_iter().flatten().collect();
    if !left.is_empty() {
        let left = line![dim(format!("--all shows {}", left.join(", ")))];
        if n_rules > 0 { part.line(0, left) } else { report.verdict.push(left) }
    }
    report
}

fn add_briefly(part: &mut Part, term: &TermSummary) {
    let space = if term.term.is_empty() { "" } else { " " };
    let path = toned(Tone::Path, &term.term);
    part.line(0, line![strong(term.plugin.name()), space, path, ": ", bad(rule::counts(term))]);
    part.line(1, line![&term.detail]);
    if let Some(first) = term.domains.first() {
        let more = match term.domains.len() - 1 {
            0 => String::new(),
            n => format!(" (and {})", counted(n, "more domain")),
        };
        part.line(1, ["- ".into()].into_iter().chain(rule::domain(first)).chain([more.into()]));
    }
}

fn unknown_node(node: &str) -> Vec<Span> {
    line![format!("Its rules cannot be checked: {node} is not in the input")]
}

fn list(part: &mut Part, items: &[String]) {
    items.iter().for_each(|item| part.line(0, line![format!("- {item}")]));
}

/// Whether the pod is placed, with its group if it has one, and whom it preempts. It is good if the pod fits, or keeps its rules on its
/// node.
fn outcome(explained: &PodExplanation, is_node_known: bool) -> Report {
    let PodExplanation { explanation, unadmitted, preemption, group, .. } = explained;
    let (message, node) = (explanation.outcome.message(), explanation.outcome.node());
    let is_pending = explanation.running_on.is_none();
    let mut lines = Vec::new();
    if let Some(group) = group {
        let name = strong(format!("Pod group {}/{}", group.namespace, group.name));
        let verdict = if group.message.is_some() { bad(group.verdict()) } else { good(group.verdict()) };
        lines.push(line![name, " ", verdict]);
        let fact = |(name, text)| line![dim(format!("  {name}:")), format!(" {text}")];
        lines.extend(group.facts().into_iter().map(fact));
        if is_pending && group.message.is_none() {
            let about = "what follows is about the pod alone, without the other pending members";
            lines.push(line![dim(about)]);
        }
    }
    let pod = strong(format!("Pod {}/{} ", explanation.namespace, explanation.name));
    let failing = group.as_ref().filter(|group| is_pending && group.message.is_some());
    match (unadmitted, failing, &explanation.running_on, node) {
        (Some(why), ..) => {
            let condition = if why.state == UnadmittedState::NotCreated {
                lines.push(line![pod, "is ", bad(why)]);
                "Once it is created,"
            } else {
                lines.push(line![pod, "is ", bad(why.short())]);
                lines.push(line![&why.message]);
                "Without spec.nodeName,"
            };
            match node {
                Some(node) => {
                    lines.push(line![format!("{condition} a scheduler would place it on "), good(node)]);
                }
                None => {
                    lines.push(line![format!("{condition} it would "), bad("fit on no node")]);
                    lines.push(line![message]);
                }
            }
        }
        (None, Some(GroupPlacement { failing: Some(FailingMember { n_others, .. }), .. }), ..) => {
            let with = format!(" together with {} of its group", counted(*n_others, "other member"));
            lines.push(line![pod, bad("fits on no node"), with]);
            lines.push(line![message]);
        }
        (None, Some(group), ..) => {
            let until = format!(": no member of {} is, until all that it requires can be", group.name);
            lines.push(line![pod, "is ", bad("not placed"), until]);
        }
        (None, None, Some(on), Some(node)) if on == node => {
            lines.push(line![pod, "runs on ", good(on), ", and would be placed there again"]);
        }
        (None, None, Some(on), Some(node)) => {
            lines.push(line![pod, "runs on ", good(on), "; it would now be placed on ", good(node)]);
        }
        (None, None, Some(on), None) => {
            lines.push(line![pod, "runs on ", good(on), "; it would now ", bad("fit on no node")]);
            lines.push(line![message]);
        }
        (None, None, None, Some(node)) => lines.push(line![pod, "is placed on ", good(node)]),
        (None, None, None, None) => {
            lines.push(line![pod, bad("fits on no node")]);
            lines.push(line![message]);
        }
    }
    if let Some(preemption @ PodPreemption { node, n_pdb_violations, is_cut, .. }) = preemption {
        let budgets = match n_pdb_violations {
            0 => String::new(),
            n => format!(", which violates PodDisruptionBudgets for {}", counted(*n, "pod")),
        };
        let victims = format!("It preempts {} on ", preemption.listed_victims());
        lines.push(line![victims, good(node), format!("{budgets}: it fits there then")]);
        let cut = "The search for victims was ended at its limit: fewer victims may be enough";
        lines.extend(is_cut.then(|| line![cut]));
    }
    let is_good = match (&explanation.running_on, group) {
        _ if unadmitted.is_some() => false,
        (Some(_), _) => is_node_known && explanation.broken.is_empty(),
        (None, Some(group)) => group.message.is_none(),
        (None, None) => node.is_some() || preemption.is_some(),
    };
    Report { verdict: lines, is_good, parts: Vec::new() }
}

fn add_verdicts(part: &mut Part, depth: usize, verdicts: &[Verdict]) {
    for of in verdicts.iter().take(MAX_RULES) {
        let [rule, why] = verdict(of);
        part.line(depth, ["- ".into()].into_iter().chain(rule));
        part.line(depth + 1, why);
    }
    part.more(verdicts.len().saturating_sub(MAX_RULES));
}

fn excluded(part: &mut Part, groups: &[ExcludedNodes]) {
    for ExcludedNodes { nodes, verdicts } in groups.iter().take(MAX_GROUPS) {
        let each = match nodes.as_slice() {
            [] | [_] => String::new(),
            [first, ..] => format!(" each, shown for {first}"),
        };
        part.line(
            0,
            line![attention(named(nodes)), format!(": {}{each}", counted(verdicts.len(), "reason"))],
        );
        add_verdicts(part, 1, verdicts);
    }
    more_groups(part, groups.iter().map(|group| group.nodes.len()));
}

/// Counts the groups that are not shown.
fn more_groups(part: &mut Part, sizes: impl Iterator<Item = usize>) {
    let (n_groups, n_nodes) = sizes.skip(MAX_GROUPS).fold((0, 0), |(n, sum), size| (n + 1, sum + size));
    if n_groups > 0 {
        let (groups, nodes) = (counted(n_groups, "group"), counted(n_nodes, "node"));
        part.line(0, [dim(format!("{groups} more with {nodes}; -o json has all"))]);
    }
}

fn feasible(report: &mut Report, groups: &[FeasibleNodes]) {
    let part = report.titled("Feasible nodes by score; among the best, the first by name is selected");
    let shown = groups.iter().take(MAX_GROUPS);
    let headings = ["Nodes", "Total", "Plugin", "Score", "Normalized", "Weight", "Raw", "Breakdown"];
    part.table(&headings, shown.flat_map(scores), usize::MAX, |row| row);
    more_groups(part, groups.iter().map(|group| group.nodes.len()));
}

/// A row for each plugin; the first one has the nodes and their total.
fn scores(FeasibleNodes { nodes, total, scores }: &FeasibleNodes) -> Vec<Vec<Span>> {
    let mut rows: Vec<Vec<Span>> = vec![line![good(named(nodes)), strong(total)]];
    for (i, PluginScore { plugin, score, weight, raw, parts }) in scores.iter().enumerate() {
        let parts: Vec<_> = parts.iter().map(|part| format!("{}: {}", part.what, part.value)).collect();
        let normalized = if *weight == 0 { 0 } else { score / weight };
        let of_plugin = line![plugin.name(), score, normalized, weight, raw, dim(parts.join("; "))];
        match i {
            0 => rows[0].extend(of_plugin),
            _ => rows.push(line!["", ""].into_iter().chain(of_plugin).collect()),
        }
    }
    rows[0].resize(8, Span::default());
    rows
}

/// What its anti-affinity does to other pods.
fn blast_radius(report: &mut Report, radius: &BlastRadius) {
    let part = report.titled("Blast radius of its anti-affinity: the largest domain that it may go to");
    let terms = || radius.terms.iter().chain(&radius.preferred);
    for term in terms().take(MAX_RULES) {
        let weight = if term.weight == 0 { String::new() } else { format!(", weight {}", term.weight) };
        part.line(0, line![strong(&term.term), weight]);
        let verb = if term.weight == 0 { "blocks" } else { "lowers the scores of" };
        let Some(largest) = &term.largest else {
            let none = format!("{verb} no node: no node that the pod may go to has the topology key");
            part.line(1, line![none]);
            continue;
        };
        let domain = largest.domain.as_ref().map(|domain| format!(" ({domain})")).unwrap_or_default();
        let after = match term.limit {
            0 => String::new(),
            n => format!(", once it has {}", counted(n as usize, "matching pod")),
        };
        let nodes = counted(largest.n_nodes, "node");
        let pods = counted(term.n_matching_pods, "running pod");
        let matching = if term.n_matching_pods == 1 { "matches it" } else { "match it" };
        part.line(
            1,
            line![format!("{verb} {nodes}{domain} for pods that match the term{after}; {pods} {matching}")],
        );
    }
    part.more(terms().count().saturating_sub(MAX_RULES));
}
