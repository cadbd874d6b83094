//! The picture of the nodes by how near they are to being feasible, grouped by the reasons against them; each reason has a color.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use berth_api::syntax::format::{counted, grouped};
use berth_engine::Explanation;
use berth_picture::bars::{Row, Section};
use berth_picture::{Class, N_KINDS};
use maud::{Markup, html};

use crate::components::bars::bars;
use crate::components::{Tone, badge};
use crate::links;
use crate::pictures::common_suffix;
use crate::verdicts::{Group, Reason};

/// Groups that are drawn, reasons in the chart, and nodes of a group with a link each.
const MAX_GROUPS: usize = 12;
const MAX_REASONS: usize = 8;
const MAX_NODES: usize = 16;

pub(super) fn picture(explanation: &Explanation, groups: &[Group<'_>]) -> Markup {
    let mut counts: BTreeMap<&Reason, usize> = BTreeMap::new();
    for group in groups {
        group.reasons.iter().for_each(|reason| *counts.entry(reason).or_default() += group.nodes.len());
    }
    let mut reasons: Vec<(&Reason, usize)> = counts.into_iter().collect();
    reasons.sort_by_key(|(reason, n)| (Reverse(*n), *reason));
    let class = |reason: &Reason| match reasons.iter().position(|(other, _)| *other == reason) {
        Some(i) if i < N_KINDS => Class::Kind(i),
        _ => Class::Other,
    };
    let row = |(reason, n): &(&Reason, usize)| Row {
        name: reason.text(*n).trim_start_matches("are ").trim_start_matches("is ").to_owned(),
        title: format!("{} {}", counted(*n, "node"), reason.text(*n)),
        parts: vec![(class(reason), *n)],
        note: format!("{} of {}", grouped(*n), counted(explanation.n_nodes, "node")),
        limit: None,
    };
    let chart = Section { rows: reasons.iter().take(MAX_REASONS).map(row).collect(), ..Section::default() };
    let suffix = common_suffix(groups.iter().flat_map(|group| group.nodes.iter().copied()));
    html! {
        @if !groups.is_empty() {
            section.card {
                h2 { "What excludes the nodes" }
                (bars(&chart))
                @if reasons.len() > MAX_REASONS { p.detail { "and " (counted(reasons.len() - MAX_REASONS, "more reason")) } }
            }
            section.card {
                h2 { "Nodes by how near they are to taking it" }
                div.reasons.berth-picture {
                    @for group in groups.iter().take(MAX_GROUPS) { (self::group(group, class, &suffix)) }
                }
                @if groups.len() > MAX_GROUPS { p.detail { "and " (counted(groups.len() - MAX_GROUPS, "more group")) " of nodes with more reasons" } }
            }
        }
    }
}

fn group(group: &Group<'_>, class: impl Fn(&Reason) -> Class, suffix: &str) -> Markup {
    let n = group.nodes.len();
    let tone = if group.reasons.len() == 1 { Tone::Info } else { Tone::Neutral };
    html! {
        div.reason {
            h3 { (counted(n, "node")) (badge(tone, &format!("{} away", counted(group.reasons.len(), "rule")))) }
            ul.why {
                @for reason in group.reasons.iter().take(MAX_REASONS) {
                    li { span class={ "swatch " (class(reason).name()) } aria-hidden="true" {} span { (reason.text(n)) } }
                }
                @if group.reasons.len() > MAX_REASONS { li { "and " (counted(group.reasons.len() - MAX_REASONS, "more rule")) } }
            }
            ul.chips {
                @for node in group.nodes.iter().take(MAX_NODES) { li { a.badge href=(links::node(node)) title=(node) { (node.strip_suffix(suffix).unwrap_or(node)) } } }
                @if n > MAX_NODES { li { "and " (grouped(n - MAX_NODES)) " more" } }
            }
        }
    }
}
