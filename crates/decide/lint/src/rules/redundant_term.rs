//! Required terms between pods that other terms imply.

use std::time::Duration;

use berth_rules::{Dialect, PodRules, PodSet, PodTerm, SetRelation};

use super::affinity_conflicts::covers;
use crate::finding::Findings;
use crate::input::LintInput;

/// How many terms of a list are compared with each other: as many as the scheduler accepts by default.
const MAX_TERMS: usize = 100;

pub(crate) fn check(input: &LintInput<'_>, findings: &mut Findings) {
    for subject in input.subjects() {
        let lists = [
            (false, &subject.pod.rules.required_affinity),
            (true, &subject.pod.rules.required_anti_affinity),
        ];
        for (anti, terms) in lists {
            let terms = &terms[..terms.len().min(MAX_TERMS)];
            for (i, term) in terms.iter().enumerate() {
                let is_implied = |term: &PodTerm, by: &PodTerm| {
                    holds_as_long(&subject.pod.rules, by, term) && is_implied(input, term, by, anti)
                };
                let implies = |(j, other): &(usize, &PodTerm)| {
                    // Of two terms that imply each other, the second one is redundant.
                    *j != i && is_implied(term, other) && (*j < i || !is_implied(other, term))
                };
                if let Some((_, other)) = terms.iter().enumerate().find(implies) {
                    let message = format!("{} implies the term", subject.path(&other.path));
                    findings.add(&subject.object, subject.path(&term.path), message);
                }
            }
        }
    }
}

/// Whether a term is in force wherever and whenever another one is.
fn holds_as_long(rules: &PodRules, by: &PodTerm, term: &PodTerm) -> bool {
    let relaxed_after = |term: &PodTerm| {
        rules.relaxable.iter().find(|rule| rule.path == term.path).map_or(Duration::MAX, |rule| rule.after)
    };
    relaxed_after(by) >= relaxed_after(term)
        && (by.required_during_execution || !term.required_during_execution)
}

/// Whether a term holds wherever another one does. Terms of two dialects have other exemptions, and one pod has to match those of v1.
fn is_implied(input: &LintInput<'_>, term: &PodTerm, by: &PodTerm, anti: bool) -> bool {
    let (fewer, more) = if anti { (term, by) } else { (by, term) };
    let relation = input.relation(&PodSet::of(fewer), &PodSet::of(more));
    // The first pod disregards a requirement of its own: each term of the proposals is one.
    let may_be_disregarded = !anti && term.dialect != Dialect::V1;
    by.dialect == term.dialect
        && by.limit <= term.limit
        && covers(input, &fewer.topology, &more.topology)
        && (relation == SetRelation::Equal || (relation == SetRelation::ContainedIn && !may_be_disregarded))
}
