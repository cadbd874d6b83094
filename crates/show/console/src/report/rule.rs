//! A rule with the nodes that it excludes.

use berth_api::syntax::format::{counted, grouped};
use berth_engine::{DomainSummary, TermSummary};

use super::{Part, Span, Tone, caused_by, line, strong, toned};

/// Number of domains of a rule shown.
const MAX_DOMAINS: usize = 10;

/// Adds a rule with the domains and pods that cause its rejections.
pub fn add(part: &mut Part, depth: usize, summary: &TermSummary) {
    let TermSummary { plugin, term, detail, excludes, domains, .. } = summary;
    let space = if term.is_empty() { "" } else { " " };
    part.line(depth, line![strong(plugin.name()), space, toned(Tone::Path, term)]);
    part.line(depth + 1, line![detail]);
    let tone = if *excludes == 0 { Tone::Good } else { Tone::Bad };
    part.line(depth + 1, [toned(tone, counts(summary))]);
    for of in domains.iter().take(MAX_DOMAINS) {
        part.line(depth + 1, line!["- "].into_iter().chain(domain(of)));
    }
    if let n @ 1.. = domains.len().saturating_sub(MAX_DOMAINS) {
        part.line(depth + 1, line![format!("- {} more; -o json has all", counted(n, "domain"))]);
    }
}

/// `excludes 3 nodes; 1 is excluded by this rule alone`.
pub fn counts(TermSummary { excludes, excludes_alone, .. }: &TermSummary) -> String {
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
pub fn domain(
    DomainSummary { topology, n_nodes, counts, witnesses, more_witnesses }: &DomainSummary,
) -> Vec<Span> {
    let counts = counts.as_ref().map(|counts| format!("; {}", counts.text(Some(topology))));
    let mut line: Vec<Span> =
        line![format!("{topology}: {}{}", counted(*n_nodes, "node"), counts.unwrap_or_default())];
    line.extend(caused_by(witnesses, *more_witnesses));
    line
}
