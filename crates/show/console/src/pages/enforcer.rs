//! Broken rules of running pods, and what the enforcer does about them.

use std::collections::BTreeSet;

use berth_api::syntax::format::{abbreviated, counted, grouped};
use berth_engine::{Remedies, Remedy, Stays, Target, Violation, ViolationKey};
use berth_simulate::Simulation;
use jiff::Timestamp;
use maud::{Markup, html};

use super::answer::{Answer, Page};
use super::parts;
use crate::components::time::Clock;
use crate::components::{Tone, field, verdict};
use crate::enforcer_rules::{EnforcerRules, LimitsInUse};
use crate::{Request, State, report};

/// Pods named whose rules an eviction fixes.
const MAX_FIXED: usize = 3;

pub(super) fn page(state: &mut State, request: &Request<'_>) -> Answer {
    let clock = state.clock();
    let executing = state.audited().1.iter().filter(|violation| violation.required_during_execution);
    let executing: Vec<ViolationKey> = executing.map(Violation::key).collect();
    let (rules, now) = (state.enforcer, state.now());
    let options = rules.map(|rules| (rules.remedy_options)(state.simulation(), now)).unwrap_or_default();
    let mut remedies = state.simulation().cluster().remedy(&executing, &options);
    if let Some(rules) = rules {
        (rules.leave_out_blocked)(state.simulation(), &mut remedies.remedies);
    }
    let (is_live, in_use) = (state.is_live(), in_use(state));
    let (simulation, broken, broken_since) = state.audited_since();
    let mut sorted: Vec<&Violation> = broken.iter().collect();
    sorted.sort_by_key(|violation| !violation.required_during_execution);
    let (shown, pages) = parts::paged(request, &sorted)?;
    let grace = |violation: &Violation| {
        let pod = simulation.pod(&violation.namespace, &violation.name)?;
        Some((rules?.grace)(&pod.pod, violation.rule))
    };
    let row = |violation: &&Violation| {
        let is_executing = violation.required_during_execution;
        let since = broken_since.get(&violation.key());
        let grace = grace(violation).filter(|_| is_executing);
        let ends = since.zip(grace).and_then(|(since, grace)| since.checked_add(grace).ok());
        vec![
            parts::pod(&violation.namespace, &violation.name),
            parts::node(&violation.node),
            report::html::verdict(&violation.verdict),
            html! { (if is_executing { "yes" } else { "no" }) },
            html! { @if let Some(since) = since { (clock.relative(since)) } },
            html! { @if let Some(grace) = grace { (grace.as_secs()) " s" } },
            html! { @if let Some(ends) = ends { (clock.relative(ends)) } },
        ]
    };
    let n_pods = broken.iter().map(|v| (&v.namespace, &v.name)).collect::<BTreeSet<_>>().len();
    // When the grace periods of the next victim end.
    let is_of_next = |violation: &&Violation| {
        let next = remedies.remedies.iter().find(|remedy| !remedy.is_held);
        let victim = next.map(|remedy| (&remedy.victim.namespace, &remedy.victim.name));
        victim == Some((&violation.namespace, &violation.name)) && violation.required_during_execution
    };
    let ends =
        |violation: &Violation| broken_since.get(&violation.key())?.checked_add(grace(violation)?).ok();
    let when = broken.iter().filter(is_of_next).filter_map(ends).min().map(|end| clock.relative(end));
    let content = html! {
        (intention(broken.len(), n_pods, &remedies, is_live, when))
        (evictions(simulation, &remedies, rules))
        (stays(&remedies.stays))
        (limits(in_use.as_ref(), clock))
        @if !broken.is_empty() {
            (parts::table(
                "Broken rules, those that cause evictions first",
                &["Pod", "Node", "Rule", "Required during execution", "Broken since", "Grace period", "It ends"],
                shown.iter().map(row),
            ))
            (pages)
        }
        p.hint {
            "This is the plan for the state that is shown. What the running enforcer does: "
            (parts::link("/events?q=Evict", "its events")) ". "
            @if is_live {
                "Times are from when this console has first seen the rule broken without interruption, at the earliest from its start. The \
                 enforcer measures from its own observation in the same way, with its own grace periods; it does not wait where a pod was \
                 bound against a rule."
            } @else {
                "The input has no times: it is not known since when rules are broken, nor when grace periods end."
            }
        }
    };
    Ok(Page::new("Enforcer", content))
}

/// What the enforcer would do next, in plain words.
fn intention(
    n_broken: usize,
    n_pods: usize,
    remedies: &Remedies,
    is_live: bool,
    when: Option<Markup>,
) -> Markup {
    let next = remedies.remedies.iter().find(|remedy| !remedy.is_held);
    let n_held = remedies.remedies.iter().filter(|remedy| remedy.is_held).count();
    let tone = match next {
        _ if n_broken == 0 => Tone::Good,
        Some(_) => Tone::Warn,
        None => Tone::Info,
    };
    let line = html! {
        @match next {
            _ if n_broken == 0 => "Nothing to do: no required rule of a running pod is broken.",
            Some(Remedy { victim, target, .. }) => {
                "It would next evict " (parts::pod(&victim.namespace, &victim.name)) " from " (parts::node(&victim.node))
                @if let Target::Node(node) = target { ", which can then run on " (parts::node(node)) }
                ", once the grace period of the rule has ended"
                @if let Some(when) = when { ": " (when) }
                "."
            }
            None if n_held > 0 => { "It waits: " (counted(n_held, "pod")) " would be evicted, but no other node can take them." }
            None => "It would evict nothing: no eviction fixes the broken rules, or none of them is required during execution.",
        }
    };
    let detail = html! {
        @if n_broken > 0 {
            p.detail {
                (counted(n_broken, "rule")) " of " (counted(n_pods, "pod")) " broken. "
                (counted(remedies.remedies.len() - n_held, "eviction")) " planned, " (grouped(n_held)) " held, "
                (grouped(remedies.stays.len())) " that no eviction fixes. Only rules that are required during execution cause evictions."
                @if !is_live { " When is not known: a file has no times." }
            }
        }
    };
    verdict(tone, &line, &detail)
}

/// What the limits count; none if it is not known.
fn in_use(state: &mut State) -> Option<Result<LimitsInUse, String>> {
    let (rules, now) = (state.enforcer?, state.now()?);
    let ledger = state.ledger()?.to_owned();
    Some((rules.limits)(state.simulation(), &ledger, now))
}

fn limits(in_use: Option<&Result<LimitsInUse, String>>, clock: Clock) -> Markup {
    let row = |(limited, n, most, next): &(String, usize, Option<usize>, Timestamp)| {
        vec![
            html! { (limited) },
            parts::number(*n),
            html! { (most.map_or_else(|| "no limit".to_owned(), grouped)) },
            clock.relative(*next),
        ]
    };
    let headers = ["Limit", "Evictions", "At most, by default", "The oldest counts until"];
    html! {
        @match in_use {
            None => p.hint { "How much of the limits is in use is not known: the ledger of the enforcer is not read here." },
            Some(Err(error)) => p.hint { "How much of the limits is in use is not known: " (error) },
            Some(Ok(LimitsInUse { stopped_until, limits })) => {
                @if let Some(until) = stopped_until {
                    p.bad { "The cluster limit stops all evictions until " (clock.relative(*until)) "." }
                }
                @if limits.is_empty() { p { "The limits count no eviction now." } }
                (parts::short_table("Limits in use, by the ledger of the enforcer", &headers, (limits, "limit"), row))
            }
        }
    }
}

fn evictions(simulation: &Simulation, remedies: &Remedies, rules: Option<EnforcerRules>) -> Markup {
    let is_evicted = |remedy: &&Remedy| !remedy.is_held;
    let held: Vec<&Remedy> = remedies.remedies.iter().filter(|remedy| remedy.is_held).collect();
    let holds = rules.map(|rules| (rules.held)(simulation, &held)).unwrap_or_default();
    let mut holds = holds.into_iter();
    let evicted: Vec<&Remedy> = remedies.remedies.iter().filter(is_evicted).collect();
    let delays = rules.map(|rules| (rules.delays)(simulation, &evicted)).unwrap_or_default();
    let mut delays = delays.into_iter();
    let row = |remedy: &Remedy| {
        let victim = &remedy.victim;
        let delay = if is_evicted(&remedy) { delays.next().flatten() } else { None };
        let hold = if remedy.is_held { holds.next() } else { None };
        let held = match (&remedy.target, delay) {
            (Target::Nowhere(why), _) if remedy.is_held => match hold {
                Some(until) => format!("held until {until}: it fits on no node: {why}"),
                None => format!("held: it fits on no node: {why}"),
            },
            (_, Some(delay)) => format!("delayed by the default limits: {delay}"),
            (_, None) => String::new(),
        };
        let target = match &remedy.target {
            Target::Node(node) => parts::node(node),
            Target::Nowhere(_) | Target::NotRequested => html! { "none" },
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
    let caption = "Evictions by the enforcer after the grace periods, in this order";
    html! {
        (parts::short_table(caption, &headers, (&remedies.remedies, "eviction"), row))
        @if rules.is_none() && !evicted.is_empty() { p.hint { "The limits of the enforcer are not applied here." } }
    }
}

fn stays(stays: &[Stays]) -> Markup {
    parts::short_list("Rules that no eviction fixes", (stays, "rule"), |Stays { key, reason, .. }| {
        html! { (parts::pod(&key.namespace, &key.name)) " " (field(&key.term)) ": " (reason) }
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::{check, cluster, get, state};
    use std::time::Duration;

    use berth_engine::ViolatedRule;
    use berth_simulate::SimulationOptions;

    use crate::{EnforcerRules, LimitsInUse, State, Update};

    #[test]
    fn broken_rules_have_their_planned_evictions() {
        check("/enforcer", &["Nothing to do: no required rule of a running pod is broken."]);
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
            "It would next evict <a href=\"/pods/default/db-1\">default/db-1</a> from <a href=\"/nodes/a-1\">a-1</a>, which can then run on",
            "2 rules of 2 pods broken. 1 eviction planned, 0 held",
            "<td data-label=\"Fits on\"><a href=\"/nodes/b-1\">b-1</a></td>",
            "default/db-1, default/db-2",
            "The limits of the enforcer are not applied here.",
        ] {
            assert!(body.contains(text), "{text}: {body}");
        }
        state.enforcer = Some(EnforcerRules {
            remedy_options: |_, _| berth_engine::RemedyOptions::default(),
            leave_out_blocked: |_, _| {},
            evicted_without_target: |_| Vec::new(),
            held: |_, remedies| remedies.iter().map(|_| "noon".to_owned()).collect(),
            delays: |_, remedies| remedies.iter().map(|_| Some("too many".to_owned())).collect(),
            grace: |_, rule| match rule {
                ViolatedRule::PodAntiAffinity => Duration::from_secs(30),
                _ => Duration::MAX,
            },
            limits: |_, ledger, now| match ledger {
                "{}" => Ok(LimitsInUse::default()),
                "one" => Ok(LimitsInUse {
                    stopped_until: Some(now),
                    limits: vec![("node a".to_owned(), 1, Some(1000), now)],
                }),
                _ => Err("broken".to_owned()),
            },
        });
        let (_, body) = get(&mut state, "/enforcer");
        assert!(body.contains("delayed by the default limits: too many"), "{body}");
        assert!(
            body.contains("during execution\">yes</td><td data-label=\"Grace period\">30 s</td></tr>"),
            "{body}"
        );
        assert!(body.contains("The input has no times"), "{body}");

        // The same pods, seen at a time.
        let mut live = State::live("test", SimulationOptions::default()).unwrap();
        live.enforcer = state.enforcer;
        let (objects, _) = state.objects();
        live.set_time("2026-01-01T00:00:00Z".parse().unwrap());
        let nodes = objects.nodes.into_iter().map(|entry| Update::node(entry.object));
        let pods = objects.pods.into_iter().map(|entry| Update::pod(entry.object));
        live.apply(nodes.chain(pods), |error| panic!("{error}"));
        let (_, body) = get(&mut live, "/enforcer");
        let time = |text: &str, relative: &str| {
            format!("<time datetime=\"{text}\" title=\"{text}\" data-ticks=\"\">{relative}</time></td>")
        };
        let since = format!(
            "<td data-label=\"Broken since\">{}<td data-label=\"Grace period\">30 s</td><td data-label=\"It ends\">{}",
            time("2026-01-01T00:00:00Z", "now"),
            time("2026-01-01T00:00:30Z", "in 30 s")
        );
        assert!(body.contains(&since) && body.contains("at the earliest from its start"), "{body}");
        assert!(body.contains("is not known: the ledger of the enforcer is not read here"), "{body}");
        let row =
            "node a</th><td data-label=\"Evictions\">1</td><td data-label=\"At most, by default\">1,000</td>";
        for (ledger, text) in [
            ("{}", "count no eviction now"),
            ("x", "is not known: broken"),
            ("one", row),
            ("one", "stops all evictions until"),
        ] {
            live.set_ledger(Some(ledger.to_owned()));
            let (_, body) = get(&mut live, "/enforcer");
            assert!(body.contains(text), "{text}: {body}");
        }
    }
}
