//! What happens to the pods of each workload.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use berth_api::syntax::format::counted;
use berth_simulate::what_if::WhatIfOutcome;
use maud::{Markup, html};

use super::parts;
use crate::components::{Tone, badge};
use crate::links;
use crate::overview::Pods;
use crate::workloads::{WorkloadName, name_of};

#[derive(Default)]
struct Effect {
    n_moved: usize,
    n_new: usize,
    n_unplaced: usize,
    n_evicted: usize,
    n_broken: usize,
    n_deleted: usize,
    /// Whether something is not as before.
    is_changed: bool,
}

/// A row for each workload with an effect, those with unplaced pods first; how many others have pods that are unplaced or have broken
/// rules as before. `before` has the workloads of pods that the outcome names
/// only.
pub(super) fn table(before: Pods<'_>, outcome: &WhatIfOutcome) -> Markup {
    let mut effects: BTreeMap<WorkloadName, Effect> = BTreeMap::new();
    let named = |namespace: &str, name: &str, workload: Option<&str>| {
        let known = || before.simulation.pod(namespace, name).map(name_of);
        match workload {
            Some(workload) => (namespace.to_owned(), workload.to_owned()),
            None => known().unwrap_or_else(|| (namespace.to_owned(), format!("Pod {name}"))),
        }
    };
    for pod in &outcome.moved {
        let effect = effects.entry(named(&pod.namespace, &pod.name, pod.workload.as_deref())).or_default();
        if pod.from.is_some() {
            effect.n_moved += 1
        } else {
            effect.n_new += 1
        }
        effect.is_changed = true;
    }
    for pod in &outcome.unplaced {
        let effect = effects.entry(named(&pod.namespace, &pod.name, pod.workload.as_deref())).or_default();
        effect.n_unplaced += 1;
        effect.is_changed |= !pod.before;
    }
    for pod in &outcome.evicted {
        let effect = effects.entry(named(&pod.namespace, &pod.name, None)).or_default();
        (effect.n_evicted, effect.is_changed) = (effect.n_evicted + 1, true);
    }
    for pod in &outcome.broken_rules {
        let effect = effects.entry(named(&pod.namespace, &pod.name, None)).or_default();
        effect.n_broken += 1;
        effect.is_changed |= !pod.before;
    }
    for pod in &outcome.scaled_down {
        let effect = effects.entry(named(pod.namespace(), pod.name(), None)).or_default();
        (effect.n_deleted, effect.is_changed) = (effect.n_deleted + 1, true);
    }
    let (mut effects, others): (Vec<(WorkloadName, Effect)>, Vec<_>) =
        effects.into_iter().partition(|(_, effect)| effect.is_changed);
    effects.sort_by_key(|(_, effect)| {
        Reverse((effect.n_unplaced, effect.n_broken, effect.n_evicted, effect.n_moved))
    });
    // A column without a number is left out.
    let number = |n: usize| html! { @if n > 0 { (parts::number(n)) } };
    let count = |n: usize, tone: Tone| html! { @if n > 0 { (badge(tone, &n.to_string())) } };
    let row = |((namespace, workload), effect): &(WorkloadName, Effect)| {
        vec![
            html! { (namespace) "/" (parts::link(&links::workload(namespace, workload), workload)) },
            number(effect.n_moved),
            number(effect.n_new),
            count(effect.n_unplaced, Tone::Bad),
            count(effect.n_evicted, Tone::Warn),
            count(effect.n_broken, Tone::Bad),
            number(effect.n_deleted),
        ]
    };
    let headers =
        ["Workload", "Moved", "Newly placed", "Unplaced", "Evicted", "With rules that break", "Deleted"];
    html! {
        (parts::short_table("Effect on each workload", &headers, (&effects, "workload"), row))
        @if !others.is_empty() {
            p.hint { (counted(others.len(), "workload")) " with unplaced pods or broken rules as before, and no change." }
        }
    }
}
