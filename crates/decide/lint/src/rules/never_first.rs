//! Required affinity that no pod satisfies, and that the pod itself does not satisfy as the first of its group.

use berth_api::rules::{PodTerm, Selector, SetRelation};

use crate::finding::Findings;
use crate::input::LintInput;
use crate::severity::Severity;
use crate::terms::{set, shown};

pub(crate) fn check(input: &LintInput<'_>, findings: &mut Findings) {
    for subject in &input.subjects {
        let terms = &subject.rules.required_affinity;
        let has_null = terms.iter().any(|term| term.selector == Selector::Nothing);
        if terms.is_empty()
            || has_null
            || input.satisfies_itself(subject)
            || !input.partners(subject).is_empty()
        {
            continue;
        }
        let missed = |term: &&PodTerm| !subject.is_in(&set(term), &input.namespaces);
        let missed = terms.iter().find(missed).unwrap_or(&terms[0]);
        let excludes =
            |a: &PodTerm, b: &PodTerm| set(a).relation(&set(b), &input.namespaces) == SetRelation::Disjoint;
        let exclusive = terms.iter().enumerate().find_map(|(i, a)| {
            let other = terms[i + 1..].iter().find(|b| excludes(a, b))?;
            Some((a, other))
        });
        let message = match exclusive {
            Some((a, b)) => format!(
                "one pod must match all required terms, and no pod can match both {} and {}",
                shown(&a.selector),
                shown(&b.selector)
            ),
            None if !terms.iter().all(|term| input.shows_all_pods(&term.namespaces)) => continue,
            None if terms.len() > 1 => {
                "no pod of the input matches all required terms, nor does the pod itself: no first pod can be placed"
                    .to_owned()
            }
            None => format!(
                "no pod of the input has {} in {}, nor does the pod itself: no first pod can be placed",
                shown(&missed.selector),
                missed.namespaces
            ),
        };
        let severity = match exclusive {
            Some(_) => Severity::Error,
            None if input.population.has_running() => Severity::Error,
            None if terms.iter().any(|term| input.selects_elsewhere(&set(term))) => Severity::Info,
            None => Severity::Warning,
        };
        findings.add(&subject.object, subject.path(&missed.path), message).severity(severity);
    }
}
