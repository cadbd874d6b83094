//! Workloads that wait for each other.

use std::collections::BTreeSet;

use berth_api::object::GroupKey;
use berth_rules::PodTerm;

use crate::finding::Findings;
use crate::input::LintInput;
use crate::subject::Subject;

/// A requirement of affinity that no subject satisfies but those of which one must run first.
struct Waiting<'a> {
    path: &'a str,
    partners: BTreeSet<usize>,
}

pub(crate) fn check(input: &LintInput<'_>, findings: &mut Findings) {
    let mut waits_for: Vec<Vec<Waiting<'_>>> =
        input.subjects().enumerate().map(|(i, _)| waits_for(input, i)).collect();
    // What can start after others that can is left out, until only cycles, and what waits for them, are left.
    loop {
        let partners = waits_for.iter().flatten().map(|waiting| 1 + waiting.partners.len());
        if !input.work.spend(waits_for.len() + partners.sum::<usize>()) {
            break;
        }
        let can_start: Vec<bool> = waits_for.iter().map(Vec::is_empty).collect();
        let n_before: usize = waits_for.iter().map(Vec::len).sum();
        for waiting in &mut waits_for {
            waiting.retain(|requirement| !requirement.partners.iter().any(|partner| can_start[*partner]));
        }
        if waits_for.iter().map(Vec::len).sum::<usize>() == n_before {
            break;
        }
    }
    if input.work.is_spent() {
        return;
    }
    for (i, subject) in input.subjects().enumerate() {
        if let Some(cycle) = cycle(input, &waits_for, i) {
            let next = cycle.get(1).copied().unwrap_or(i);
            let Some(first) = waits_for[i].iter().find(|w| w.partners.contains(&next)) else { continue };
            let names: Vec<_> = cycle.iter().map(|i| input.subjects[*i].shown()).collect();
            let message = format!(
                "{} -> {}: each requires a running pod of the next one by affinity, so none can start first",
                names.join(" -> "),
                subject.shown()
            );
            findings.add(&subject.object, subject.path(first.path), message);
        }
    }
}

/// The requirements of a subject for which another one must run first.
fn waits_for<'a>(input: &'a LintInput<'_>, i: usize) -> Vec<Waiting<'a>> {
    let subject = &input.subjects[i];
    let group = |subject: &Subject<'_>| GroupKey::of(&subject.pod.object, input.settings.extensions);
    // The pods of a group are placed together.
    let is_of_group = |i: usize| group(subject).is_some() && group(&input.subjects[i]) == group(subject);
    let waiting = |terms: &'a [PodTerm]| {
        let partners = input.partners(terms);
        let waits = !partners.is_empty()
            && !input.satisfies_itself(subject, terms)
            && partners.iter().all(|p| p.subject.is_some_and(|i| !is_of_group(i)) && !p.is_running);
        let partners = partners.iter().filter_map(|partner| partner.subject).collect();
        waits.then_some(Waiting { path: &terms[0].path, partners })
    };
    subject.pod.rules.affinity_requirements().filter_map(waiting).collect()
}

/// The shortest cycle through a subject, from it to the one before it.
fn cycle(input: &LintInput<'_>, waits_for: &[Vec<Waiting<'_>>], from: usize) -> Option<Vec<usize>> {
    let mut paths = vec![vec![from]];
    let mut seen = BTreeSet::new();
    while input.work.spend(paths.iter().map(Vec::len).sum()) && !paths.is_empty() {
        let mut longer = Vec::new();
        for path in paths {
            for next in waits_for[*path.last()?].iter().flat_map(|waiting| &waiting.partners) {
                if *next == from {
                    return Some(path);
                }
                if !waits_for[*next].is_empty() && seen.insert(*next) {
                    longer.push(path.iter().copied().chain([*next]).collect());
                }
            }
        }
        paths = longer;
    }
    None
}
