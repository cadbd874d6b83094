//! Workloads that wait for each other.

use std::collections::BTreeSet;

use berth_api::object::GroupKey;

use crate::finding::Findings;
use crate::input::LintInput;
use crate::subject::Subject;

pub(crate) fn check(input: &LintInput<'_>, findings: &mut Findings) {
    let waits_for: Vec<BTreeSet<usize>> = (0..input.subjects.len()).map(|i| waits_for(input, i)).collect();
    let mut can_start: Vec<bool> = waits_for.iter().map(BTreeSet::is_empty).collect();
    loop {
        let n_before = can_start.iter().filter(|can| **can).count();
        for (i, partners) in waits_for.iter().enumerate() {
            can_start[i] |= partners.iter().any(|partner| can_start[*partner]);
        }
        if can_start.iter().filter(|can| **can).count() == n_before {
            break;
        }
    }
    for (i, subject) in input.subjects.iter().enumerate().filter(|(i, _)| !can_start[*i]) {
        if let Some(cycle) = cycle(&waits_for, &can_start, i) {
            let names: Vec<_> = cycle.iter().map(|i| input.subjects[*i].shown()).collect();
            let path = subject.path(&subject.rules.required_affinity[0].path);
            let message = format!(
                "{} -> {}: each requires a running pod of the next one by affinity, so none can start first",
                names.join(" -> "),
                subject.shown()
            );
            findings.add(&subject.object, path, message);
        }
    }
}

/// The subjects of which one must run before a pod of this one can: none if the pod waits for no subject.
fn waits_for(input: &LintInput<'_>, i: usize) -> BTreeSet<usize> {
    let subject = &input.subjects[i];
    if subject.rules.required_affinity.is_empty() || input.satisfies_itself(subject) {
        return BTreeSet::new();
    }
    let partners: Vec<_> = input.partners(subject);
    let group = |subject: &Subject<'_>| GroupKey::of(&subject.pod, input.settings.extensions);
    // The pods of a group are placed together.
    let is_of_group = |i: usize| group(subject).is_some() && group(&input.subjects[i]) == group(subject);
    let waits = partners.iter().all(|p| p.subject.is_some_and(|i| !is_of_group(i)) && !p.is_running);
    if waits { partners.iter().filter_map(|partner| partner.subject).collect() } else { BTreeSet::new() }
}

/// The shortest cycle of subjects that cannot start through this one, from it to the one before it.
fn cycle(waits_for: &[BTreeSet<usize>], can_start: &[bool], from: usize) -> Option<Vec<usize>> {
    let mut paths = vec![vec![from]];
    let mut seen = BTreeSet::new();
    while !paths.is_empty() {
        let mut longer = Vec::new();
        for path in paths {
            for next in &waits_for[*path.last()?] {
                if *next == from {
                    return Some(path);
                }
                if !can_start[*next] && seen.insert(*next) {
                    longer.push(path.iter().copied().chain([*next]).collect());
                }
            }
        }
        paths = longer;
    }
    None
}
