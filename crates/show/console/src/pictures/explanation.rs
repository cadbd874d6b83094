//! Why a pod fits where it fits, or is unschedulable.

use std::borrow::Cow;
use std::collections::BTreeSet;

use berth_engine::{Explanation, FeasibleNodes, TermSummary, Verdict};
use berth_picture::bars::{Bars, Row, Section};
use berth_picture::{Class, Key, N_KINDS};
use berth_simulate::PodExplanation;

use berth_api::syntax::format::counted;

/// Rows of each section.
const MAX_TERMS: usize = 15;
const MAX_NEAREST: usize = 8;
/// Reasons in the text of such nodes.
const MAX_REASONS: usize = 20;
const MAX_FEASIBLE: usize = 10;

/// The explanation of a pod: the nodes that each rule excludes, the nodes nearest to being feasible, and the scores of the
/// best ones.
pub fn explanation(explained: &PodExplanation) -> String {
    explanation_bars(explained).svg()
}

pub(crate) fn explanation_bars(explained: &PodExplanation) -> Bars {
    let explanation = &explained.explanation;
    let outcome = match (&explained.unadmitted, &explanation.running_on, explanation.outcome.node()) {
        (Some(why), ..) => format!("is {}", why.short()),
        (None, Some(node), _) => format!("runs on {node}"),
        (None, None, Some(node)) => format!("fits on {node}"),
        (None, None, None) => "fits on no node".to_owned(),
    };
    let title = format!("{}/{} {outcome}", explanation.namespace, explanation.name);
    let sections = [terms(explanation), nearest(explanation), feasible(explanation)];
    let sections = sections.into_iter().filter(|section| !section.rows.is_empty()).collect();
    let message = match &explained.unadmitted {
        Some(why) => Cow::Borrowed(why.message.as_str()),
        None => explanation.outcome.message(),
    };
    let notes = if message.is_empty() { Vec::new() } else { vec![message.to_string()] };
    Bars { description: format!("{title}. {message}"), title, sections, notes }
}

fn terms(explanation: &Explanation) -> Section {
    let key = |class, text: &str| Key { class, mark: None, text: text.to_owned() };
    let row = |term: &TermSummary| Row {
        name: format!("{}: {}", term.plugin.name(), term.detail),
        title: format!(
            "{} {}: excludes {}, {} by itself alone",
            term.plugin.name(),
            term.term,
            counted(term.excludes, "node"),
            term.excludes_alone
        ),
        parts: vec![(Class::Alert, term.excludes_alone), (Class::Other, term.excludes - term.excludes_alone)],
        note: format!("{} of {}", term.excludes, explanation.n_nodes),
        limit: None,
    };
    let excluding = explanation.terms.iter().filter(|term| term.excludes > 0);
    Section {
        name: format!("Rules that exclude nodes, of {}", counted(explanation.n_nodes, "node")),
        legend: vec![
            key(Class::Alert, "excluded by this rule alone"),
            key(Class::Other, "also excluded by other rules"),
        ],
        rows: excluding.take(MAX_TERMS).map(row).collect(),
    }
}

fn nearest(explanation: &Explanation) -> Section {
    let rows = explanation.excluded.iter().take(MAX_NEAREST).map(|group| {
        let first = &group.nodes[0];
        let name = match group.nodes.len() {
            1 => first.clone(),
            n => format!("{first} and {} more", n - 1),
        };
        let reason = |verdict: &Verdict| format!("{}: {}", verdict.plugin.name(), verdict.detail);
        let reasons: BTreeSet<_> = group.verdicts.iter().map(reason).collect();
        let n_reasons = reasons.len();
        let mut reasons: Vec<_> = reasons.into_iter().take(MAX_REASONS).collect();
        let n_more = n_reasons - reasons.len();
        reasons.extend((n_more > 0).then(|| format!("and {n_more} more")));
        let reasons = reasons.join("; ");
        Row {
            title: format!("{name}: {reasons}"),
            name,
            parts: vec![(Class::Alert, n_reasons)],
            note: reasons,
            limit: None,
        }
    });
    Section {
        name: "Nodes nearest to being feasible, by the number of rules against them".to_owned(),
        legend: Vec::new(),
        rows: rows.collect(),
    }
}

fn feasible(explanation: &Explanation) -> Section {
    let groups = || explanation.feasible.iter().take(MAX_FEASIBLE);
    let mut plugins: Vec<&str> = Vec::new();
    for score in groups().flat_map(|group| &group.scores) {
        if score.score > 0 && !plugins.contains(&score.plugin.name()) {
            plugins.push(score.plugin.name());
        }
    }
    let class = |name: &str| Class::Kind(plugins.iter().position(|plugin| *plugin == name).unwrap_or(0));
    let row = |group: &FeasibleNodes| {
        let name = match group.nodes.len() {
            1 => group.nodes[0].clone(),
            n => format!("{} and {} more", group.nodes[0], n - 1),
        };
        let scores = group.scores.iter().filter(|score| score.score > 0);
        let texts: Vec<_> = scores.clone().map(|s| format!("{} {}", s.plugin.name(), s.score)).collect();
        let part = |score: &berth_engine::PluginScore| {
            (class(score.plugin.name()), usize::try_from(score.score).unwrap_or(0))
        };
        Row {
            title: format!("{name}: {}; total {}", texts.join(", "), group.total),
            name,
            parts: scores.map(part).collect(),
            note: group.total.to_string(),
            limit: None,
        }
    };
    // Scores beyond the number of colors have a color again; titles tell them apart.
    let legend = plugins.iter().take(N_KINDS);
    Section {
        name: "Feasible nodes by score".to_owned(),
        legend: legend.map(|p| Key { class: class(p), mark: None, text: (*p).to_owned() }).collect(),
        rows: groups().map(row).collect(),
    }
}
