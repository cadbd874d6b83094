//! Broken rules of running pods, and what the enforcer does about them.

use std::collections::{BTreeSet, HashSet};

use berth_api::object::Pod;
use berth_engine::{Remedies, Remedy, RemedyOptions, Stays, Target, ViolatedRule, Violation, ViolationKey};
use berth_simulate::Simulation;
use maud::{Markup, html};

use super::{Answer, Page, parts};
use crate::names::{abbreviated, counted, grouped};
use crate::{Request, State};

/// Pods named whose rules an eviction fixes.
const MAX_FIXED: usize = 3;

/// What the enforcer adds to the answers of the engine; a server that has the enforcer gives it.
#[derive(Clone, Copy)]
pub struct EnforcerRules {
    /// Why the default limits delay each of these evictions.
    pub delays: fn(&Simulation, &[&Remedy]) -> Vec<Option<String>>,
    /// How long a rule of a pod may be broken before an eviction, in words.
    pub grace: fn(&Pod, ViolatedRule) -> String,
}

pub(super) fn page(state: &mut State, request: &Request<'_>) -> Answer {
    let executing = state.audited().1.iter().filter(|violation| violation.required_during_execution);
    let executing: Vec<ViolationKey> = executing.map(Violation::key).collect();
    let remedies = state.simulation().cluster().remedy(&executing, &RemedyOptions::default());
    let rules = state.enforcer;
    let (simulation, broken) = state.audited();
    let (shown, pages) = parts::paged(request, broken)?;
    let grace = |violation: &Violation| {
        let pod = simulation.pod(&violation.namespace, &violation.name)?;
        Some((rules?.grace)(&pod.pod, violation.rule))
    };
    let row = |violation: &Violation| {
        vec![
            parts::pod(&violation.namespace, &violation.name),
            parts::node(&violation.node),
            parts::verdict(&violation.verdict),
            html! {
                @if violation.required_during_execution { "yes" @if let Some(grace) = grace(violation) { ", after " (grace) } }
                @else { "no" }
            },
        ]
    };
    let n_pods = broken.iter().map(|v| (&v.namespace, &v.name)).collect::<BTreeSet<_>>().len();
    let content = html! {
        @if broken.is_empty() { p.good { "No required rule of a running pod is broken." } }
        @else {
            p {
                (counted(broken.len(), "rule")) " of " (counted(n_pods, "pod")) " broken; "
                (grouped(executing.len())) " required during execution: only these cause evictions."
            }
        }
        (evictions(simulation, &remedies, rules))
        (stays(&remedies.stays))
        @if !broken.is_empty() {
            (parts::table(
                "Broken rules",
                &["Pod", "Node", "Rule", "Required during execution"],
                shown.iter().map(row),
            ))
            (pages)
        }
        p.hint {
            "This is the plan for the state that is shown. When a grace period ends, the running enforcer knows: "
            (parts::link("/events?q=Evict", "its events")) "."
        }
    };
    Ok(Page::new("Enforcer", content))
}

fn evictions(simulation: &Simulation, remedies: &Remedies, rules: Option<EnforcerRules>) -> Markup {
    let unsupported: HashSet<_> = simulation
        .unsupported_pods()
        .map(|pod| (&pod.pod.metadata.namespace, &pod.pod.metadata.name))
        .collect();
    let is_unsupported =
        |remedy: &Remedy| unsupported.contains(&(&remedy.victim.namespace, &remedy.victim.name));
    let is_evicted =
        |remedy: &&Remedy| !is_unsupported(remedy) && !matches!(remedy.target, Target::Nowhere(_));
    let evicted: Vec<&Remedy> = remedies.remedies.iter().filter(is_evicted).collect();
    let delays = rules.map(|rules| (rules.delays)(simulation, &evicted)).unwrap_or_default();
    let mut delays = delays.into_iter();
    let row = |remedy: &Remedy| {
        let victim = &remedy.victim;
        let delay = if is_evicted(&remedy) { delays.next().flatten() } else { None };
        let held = match (&remedy.target, delay) {
            _ if is_unsupported(remedy) => {
                "not evicted: the pod has fields that Berth does not support".to_owned()
            }
            (Target::Nowhere(why), _) => format!("not evicted: it fits on no node: {why}"),
            (_, Some(delay)) => format!("delayed by the default limits: {delay}"),
            (_, None) => String::new(),
        };
        let target = match &remedy.target {
            Target::Node(node) => parts::node(node),
            Target::Nowhere(_) | Target::NotAsked => html! { "none" },
        };
        let cured: BTreeSet<String> =
            remedy.cures.iter().map(|k| format!("{}/{}", k.namespace, k.name)).collect();
        vec![
            parts::pod(&victim.namespace, &victim.name),
            parts::node(&victim.node),
            html! { (victim.priority) },
            target,
            html! { (abbreviated(&cured.into_iter().collect::<Vec<_>>(), MAX_FIXED)) },
            html! { (held) },
        ]
    };
    let headers = ["Pod", "Node", "Priority", "Fits on", "Fixes rules of", "Held by"];
    let rows: Vec<_> = remedies.remedies.iter().take(parts::MAX_SHOWN).map(row).collect();
    html! {
        (parts::table_of("Evictions by the enforcer after the grace periods, in this order", &headers, rows))
        (parts::more(remedies.remedies.len(), "eviction"))
        @if rules.is_none() && !evicted.is_empty() { p.hint { "The limits of the enforcer are not applied here." } }
    }
}

fn stays(stays: &[Stays]) -> Markup {
    html! {
        @if !stays.is_empty() {
            h2 { "Rules that no eviction fixes" }
            ul {
                @for stays in stays.iter().take(parts::MAX_SHOWN) {
                    li { (parts::pod(&stays.key.namespace, &stays.key.name)) " " code { (stays.key.term) } ": " (stays.reason) }
                }
            }
            (parts::more(stays.len(), "rule"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{check, cluster, get, state};
    use super::EnforcerRules;

    #[test]
    fn broken_rules_have_their_planned_evictions() {
        check("/enforcer", &["No required rule of a running pod is broken."]);
        let executing = "affinity: {podAntiAffinity: {requiredDuringSchedulingRequiredDuringExecution: [
            {labelSelector: {matchLabels: {app: db}}, topologyKey: topology.kubernetes.io/zone}]}},
            containers: [{name: db, image: db}]";
        let pod = |i: usize| {
            format!(
                "\n---\n{{apiVersion: v1, kind: Pod, metadata: {{name: db-{i}, labels: {{app: db}}}}, \
                     spec: {{nodeName: a-1, {executing}}}}}"
            )
        };
        let mut state = state(&(cluster() + &pod(1) + &pod(2)));
        let (_, body) = get(&mut state, "/enforcer");
        for text in [
            "2 rules of 2 pods broken; 2 required during execution",
            "<a href=\"/pods/default/db-1\">default/db-1</a></th><td><a href=\"/nodes/a-1\">a-1</a></td><td>0</td>\
             <td><a href=\"/nodes/b-1\">b-1</a></td>",
            "default/db-1, default/db-2",
            "The limits of the enforcer are not applied here.",
        ] {
            assert!(body.contains(text), "{text}: {body}");
        }
        state.enforcer = Some(EnforcerRules {
            delays: |_, remedies| remedies.iter().map(|_| Some("too many".to_owned())).collect(),
            grace: |_, rule| format!("30 s for {rule:?}"),
        });
        let (_, body) = get(&mut state, "/enforcer");
        assert!(body.contains("delayed by the default limits: too many"), "{body}");
        assert!(body.contains("yes, after 30 s for PodAntiAffinity"), "{body}");
    }
}
