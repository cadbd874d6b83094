//! Required terms between pods that other terms imply.

use berth_api::rules::{PodTerm, SetRelation};

use super::affinity_conflicts::covers;
use crate::finding::Findings;
use crate::input::LintInput;
use crate::terms::set;

/// How many terms of a list are compared with each other: as many as the scheduler accepts by default.
const MAX_TERMS: usize = 100;

pub(crate) fn check(input: &LintInput<'_>, findings: &mut Findings) {
    for subject in input.subjects() {
        let lists =
            [(false, &subject.rules.required_affinity), (true, &subject.rules.required_anti_affinity)];
        for (anti, terms) in lists {
            let terms = &terms[..terms.len().min(MAX_TERMS)];
            for (i, term) in terms.iter().enumerate() {
                let implies = |(j, other): &(usize, &PodTerm)| {
                    // Of two terms that imply each other, the second one is redundant.
                    let is_first = *j < i || !is_implied(input, other, term, anti);
                    *j != i && is_implied(input, term, other, anti) && is_first
                };
                if let Some((_, other)) = terms.iter().enumerate().find(implies) {
                    let message = format!("{} implies the term", subject.path(&other.path));
                    findings.add(&subject.object, subject.path(&term.path), message);
                }
            }
        }
    }
}

/// Whether a term holds wherever another one does.
fn is_implied(input: &LintInput<'_>, term: &PodTerm, by: &PodTerm, anti: bool) -> bool {
    let (fewer, more) = if anti { (term, by) } else { (by, term) };
    let is_enforced = by.required_during_execution || !term.required_during_execution;
    is_enforced
        && by.limit <= term.limit
        && covers(input, &fewer.topology, &more.topology)
        && matches!(input.relation(&set(fewer), &set(more)), SetRelation::Equal | SetRelation::ContainedIn)
}
