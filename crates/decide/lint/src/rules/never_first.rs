//! Required affinity that no pod satisfies, and that the pod itself does not satisfy as the first of its group.

use berth_rules::{NamespaceScope, PodSet, PodTerm, Selector, SetRelation};

use crate::finding::Findings;
use crate::input::LintInput;
use crate::severity::Severity;
use crate::subject::Subject;
use crate::terms::shown;

/// How to require pods one by one.
const ANNOTATION_INSTEAD: &str =
    "; terms of the annotation scheduling.berth.dev/affinity are requirements by themselves";

const ANNOTATION_FIX: &str =
    "write the terms in the annotation scheduling.berth.dev/affinity, or let one pod match all of them";

pub(crate) fn check(input: &LintInput<'_>, findings: &mut Findings) {
    for subject in input.subjects() {
        for terms in subject.pod.rules.affinity_requirements() {
            let has_null = terms.iter().any(|term| term.selector == Selector::Nothing);
            if !has_null && !input.satisfies_itself(subject, terms) && input.partners(terms).is_empty() {
                check_requirement(input, subject, terms, findings);
            }
        }
    }
}

/// A requirement that no pod satisfies, nor the subject itself.
fn check_requirement(
    input: &LintInput<'_>,
    subject: &Subject<'_>,
    terms: &[PodTerm],
    findings: &mut Findings,
) {
    let missed = |term: &&PodTerm| !subject.is_in(&PodSet::of(term), &input.namespaces);
    let missed = terms.iter().find(missed).unwrap_or(&terms[0]);
    let excludes =
        |a: &PodTerm, b: &PodTerm| input.relation(&PodSet::of(a), &PodSet::of(b)) == SetRelation::Disjoint;
    let exclusive = if could_match_one_pod(input, terms) {
        None
    } else {
        terms.iter().enumerate().find_map(|(i, a)| {
            let mut others = terms[i + 1..].iter().take_while(|_| !input.work.is_spent());
            Some((a, others.find(|b| excludes(a, b))?))
        })
    };
    let own_key = subject.own_match_label_key(&missed.path).filter(|key| {
        let others = without_key(missed, key);
        input.population.in_set(&others).next().is_some() && !subject.is_in(&others, &input.namespaces)
    });
    let matched_apart = terms.len() > 1
        && terms.iter().all(|term| input.population.in_set(&PodSet::of(term)).next().is_some());
    // Affinity to the own pods, which looks for them elsewhere.
    let own = subject.namespace();
    let is_own = |term: &&PodTerm| {
        let here = PodSet { namespaces: NamespaceScope::only(own), ..PodSet::of(term) };
        !subject.is_in(&PodSet::of(term), &input.namespaces) && subject.is_in(&here, &input.namespaces)
    };
    let elsewhere = terms.iter().find(is_own);
    let pods_of = |term: &PodTerm| match exclusive {
        Some((a, b)) if a.selector == b.selector => {
            format!("{} in {}", shown(&term.selector), term.namespaces)
        }
        _ => shown(&term.selector),
    };
    let message = match exclusive {
        _ if let Some(key) = own_key => format!(
            "matchLabelKeys has {key}, which each workload gets its own value of: no pod of another workload can match, nor does the pod itself"
        ),
        Some((a, b)) => format!(
            "one pod must match all required terms, and no pod can match both {} and {}{ANNOTATION_INSTEAD}",
            pods_of(a),
            pods_of(b)
        ),
        None if let Some(term) = elsewhere => format!(
            "the pod itself has {}, but its namespace {own} is not among those of the term, {}, where no pod of the input has it: no first pod can be placed",
            shown(&term.selector),
            term.namespaces
        ),
        None if !terms.iter().all(|term| input.shows_all_pods(&term.namespaces)) => return,
        None if matched_apart => format!(
            "one pod must match all {} required terms, and different pods of the input match each{ANNOTATION_INSTEAD}",
            terms.len()
        ),
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
        _ if own_key.is_some() => Severity::Error,
        Some(_) => Severity::Error,
        None if elsewhere.is_some_and(|term| !input.shows_all_pods(&term.namespaces)) => Severity::Warning,
        None if input.population.has_running() => Severity::Error,
        None if matched_apart => Severity::Warning,
        None if terms.iter().any(|term| input.selects_elsewhere(&PodSet::of(term))) => Severity::Info,
        None => Severity::Warning,
    };
    let fix = match own_key {
        Some(key) => format!("remove {key} from matchLabelKeys"),
        None if exclusive.is_some() || matched_apart => ANNOTATION_FIX.to_owned(),
        None if elsewhere.is_some() => format!("add the namespace {own} to the term"),
        None => String::new(),
    };
    let finding = findings.add(&subject.object, subject.path(&missed.path), message);
    finding.severity(severity);
    if !fix.is_empty() {
        finding.fix(fix);
    }
}

/// Whether no two terms exclude each other, as far as all of them together tell: without comparing each with each.
fn could_match_one_pod(input: &LintInput<'_>, terms: &[PodTerm]) -> bool {
    let requirements: Vec<_> = terms.iter().flat_map(|term| term.selector.requirements()).cloned().collect();
    let first = PodSet::of(&terms[0]);
    terms.iter().all(|term| term.namespaces == terms[0].namespaces)
        && input.work.spend(requirements.len())
        && Selector::new(requirements).is_satisfiable()
        && input.relation(&first, &first) != SetRelation::Disjoint
}

/// The pods that a term selects, whatever their value of a label.
fn without_key(term: &PodTerm, key: &str) -> PodSet {
    let set = PodSet::of(term);
    let others = set.selector.requirements().iter().filter(|requirement| requirement.key() != key);
    PodSet { selector: Selector::new(others.cloned().collect()), namespaces: set.namespaces }
}
