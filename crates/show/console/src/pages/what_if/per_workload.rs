//! What happens to the pods of each workload.

use std::cmp::Reverse;
use std::collections::BTreeMap;

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
}

/// A row for each workload with an effect, those with unplaced pods first. `before` has the workloads of pods that the outcome names
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
        if pod.from.is_some() { effect.n_moved += 1 } else { effect.n_new += 1 }
    }
    for pod in &outcome.unplaced {
        effects.entry(named(&pod.namespace, &pod.name, pod.workload.as_deref())).or_default().n_unplaced += 1;
    }
    for pod in &outcome.evicted {
        effects.entry(named(&pod.namespace, &pod.name, None)).or_default().n_evicted += 1;
    }
    for pod in &outcome.broken_rules {
        effects.entry(named(&pod.namespace, &pod.name, None)).or_default().n_broken += 1;
    }
    for pod in &outcome.scaled_down {
        effects.entry(named(pod.namespace(), pod.name(), None)).or_default().n_deleted += 1;
    }
    let mut effects: Vec<(WorkloadName, Effect)> = effects.into_iter().collect();
    effects.sort_by_key(|(_, effect)| {
        Reverse((effect.n_unplaced, effect.n_broken, effect.n_evicted, effect.n_moved))
    });
    let count = |n: usize, tone: Tone| html! { @if n == 0 { "0" } @else { (badge(tone, &n.to_string())) } };
    let row = |((namespace, workload), effect): &(WorkloadName, Effect)| {
        vec![
            html! { (namespace) "/" (parts::link(&links::workload(namespace, workload), workload)) },
            parts::number(effect.n_moved),
            parts::number(effect.n_new),
            count(effect.n_unplaced, Tone::Bad),
            count(effect.n_evicted, Tone::Warn),
            count(effect.n_broken, Tone::Bad),
            parts::number(effect.n_deleted),
        ]
    };
    let headers =
        ["Workload", "Moved", "Newly placed", "Unplaced", "Evicted", "With rules that break", "Deleted"];
    parts::short_table("Effect on each workload", &headers, (&effects, "workload"), row)
}
