//! Which pods would be moved so that the cluster is better, with pictures before and after; and how far the enforcer is with it.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use berth_api::syntax::format::{counted, grouped};
use berth_rebalance::{Goal, Movable, Plan, Request as PlanRequest};
use jiff::Timestamp;
use maud::{Markup, html};
use serde::Deserialize;

use super::answer::{Answer, Page, PageError};
use super::parts;
use crate::components::bars::legend;
use crate::components::map::map_without_legend;
use crate::components::{Tone, verdict};
use crate::overview::Overview;
use crate::pictures::{self, ColorBy, Level, View};
use crate::{Request, State, report};

/// With more nodes, the pictures before and after show racks.
const MAX_NODES: usize = 300;
/// States that are looked at for the best plan of all.
const MAX_STATES: usize = 2_000;
/// The most steps of work of the search for a plan: about a second.
const MAX_STEPS: u64 = 10_000_000;

/// What the enforcer has stored about its plan.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Progress {
    goals: Vec<String>,
    before: BTreeMap<String, f64>,
    now: BTreeMap<String, f64>,
    after: BTreeMap<String, f64>,
    doing: String,
    done: Vec<Step>,
    left: Vec<Step>,
    n_left: usize,
    held: Vec<Stays>,
    n_held: usize,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Step {
    namespace: String,
    name: String,
    from: String,
    to: String,
    goal: String,
    result: Option<String>,
    replacement: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Stays {
    namespace: String,
    name: String,
    reason: String,
}

pub(super) fn page(state: &mut State, request: &Request<'_>) -> Answer {
    let mut goals = Vec::new();
    for goal in request.parameters().filter(|(key, _)| key == "goal") {
        goals.push(goal.1.parse::<Goal>().map_err(|error| PageError::Parameter(error.to_string()))?);
    }
    if goals.is_empty() {
        goals = vec![Goal::Required, Goal::Defragment, Goal::Spread];
    }
    goals.dedup();
    let progress = state.rebalance_status().map(serde_json::from_str::<Progress>);
    let plan = plan(state, goals.clone());
    let report = report::rebalance::report(&plan, &goals);
    let links = Goal::ALL.map(|goal| (goal, format!("/rebalance?goal={goal}")));
    let content = html! {
        @match &progress {
            None => {}
            Some(Err(error)) => p.bad { "What the enforcer has stored about its plan cannot be read: " (error) }
            // Without goals, it rebalances nothing.
            Some(Ok(progress)) if progress.goals.is_empty() => {}
            Some(Ok(progress)) => (shown(progress)),
        }
        (report.verdict_card(true))
        @if !plan.moves.is_empty() { (sides(state, &plan)) }
        (report.cards(true))
        p.hint {
            "This is a plan for the state that is shown, as by " code { "berth rebalance" } "; nothing is moved by it. For one goal: "
            @for (goal, link) in &links { (parts::link(link, goal.name())) " " }
        }
    };
    Ok(Page::new("Rebalance", content))
}

fn plan(state: &mut State, goals: Vec<Goal>) -> Plan {
    // The pods of a file have all settled.
    let now = state.now().unwrap_or(Timestamp::MAX);
    let request = PlanRequest {
        max_states: MAX_STATES,
        max_steps: MAX_STEPS,
        movable: Movable::default(),
        ..PlanRequest::new(goals, now)
    };
    state.simulation().rebalance(&request, None)
}

/// The nodes before and after the plan.
fn sides(state: &mut State, plan: &Plan) -> Markup {
    let mut after = state.simulation().clone();
    after.carry_out(plan);
    let left: BTreeSet<String> = plan.moves.iter().map(|made| made.from.clone()).collect();
    let leaving: HashSet<(&str, &str)> =
        plan.moves.iter().map(|made| (made.namespace.as_str(), made.name.as_str())).collect();
    let level = if after.n_nodes() <= MAX_NODES { Level::Node } else { Level::Rack };
    let view = View { level, has_links: true, leaving: Some(&leaving), ..View::new(ColorBy::Leave(&left)) };
    let before = pictures::map(state.overview(), &view);
    let broken = after.cluster().audit();
    let after = Overview::once(&after, &broken, |overview| {
        pictures::map(overview, &View { level, ..View::new(ColorBy::Change(&left)) })
    });
    html! {
        (legend(&after.legend))
        div.sides {
            section.card { h2 { "Before" } p.detail { (before.title) } (map_without_legend(&before)) }
            section.card { h2 { "After" } p.detail { (after.title) } (map_without_legend(&after)) }
        }
    }
}

/// What the enforcer does.
fn shown(progress: &Progress) -> Markup {
    let (tone, line) = match (progress.n_left, progress.n_held) {
        (0, 0) => (Tone::Good, "The enforcer has nothing to move.".to_owned()),
        (0, n) => {
            (Tone::Info, format!("The enforcer can move nothing: {} would help and stay.", counted(n, "pod")))
        }
        (n, _) => (Tone::Info, format!("The enforcer has {} left.", counted(n, "move"))),
    };
    let doing = html! { @if !progress.doing.is_empty() { p.detail { (progress.doing) } } };
    let value = |values: &BTreeMap<String, f64>, goal: &str| html! { (values.get(goal).copied().unwrap_or_default()) };
    let row = |goal: &String| {
        let [before, now, after] =
            [&progress.before, &progress.now, &progress.after].map(|of| value(of, goal));
        vec![html! { (goal) }, before, now, after]
    };
    let step = |step: &Step| {
        let result = match (&step.result, &step.replacement) {
            (Some(result), Some(replacement)) => {
                html! { (result) ": " (parts::pod(&step.namespace, replacement)) }
            }
            (Some(result), None) => html! { (result) },
            (None, _) => html! { "planned" },
        };
        vec![
            parts::pod(&step.namespace, &step.name),
            parts::node(&step.from),
            parts::node(&step.to),
            html! { (step.goal) },
            result,
        ]
    };
    let headers = ["Pod", "From", "To", "For", "State"];
    let goals = ["Goal", "Before the plan", "Now", "After the plan"];
    html! {
        section {
            h2 { "The enforcer" }
            (verdict(tone, &html! { (line) }, &doing))
            (parts::table("Goals of the enforcer", &goals, progress.goals.iter().map(row)))
            (parts::short_table("Moves of its plan that have ended", &headers, (&progress.done, "move"), step))
            (parts::short_table("Moves of its plan that are left", &headers, (&progress.left, "move"), step))
            @if progress.n_held > 0 {
                (parts::short_list(&format!("Pods that would help and stay: {}", grouped(progress.n_held)), (&progress.held, "pod"), |pod| {
                    html! { (parts::pod(&pod.namespace, &pod.name)) ": " (pod.reason) }
                }))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{get, state};

    const CLUSTER: &str = r#"
{apiVersion: v1, kind: Node, metadata: {name: a, labels: {zone: a}}, status: {allocatable: {cpu: "4", memory: 4Gi, pods: "10"}}}
---
{apiVersion: v1, kind: Node, metadata: {name: b, labels: {zone: b}}, status: {allocatable: {cpu: "4", memory: 4Gi, pods: "10"}}}
"#;

    fn pod(name: &str) -> String {
        format!(
            "---\n{{apiVersion: v1, kind: Pod, metadata: {{name: {name}, namespace: default, uid: {name}, labels: {{app: web}},
              ownerReferences: [{{apiVersion: apps/v1, kind: ReplicaSet, name: web, uid: w, controller: true}}]}},
              spec: {{nodeName: a, containers: [{{name: c, image: i}}], topologySpreadConstraints: [{{maxSkew: 1, topologyKey: zone,
              whenUnsatisfiable: ScheduleAnyway, labelSelector: {{matchLabels: {{app: web}}}}}}]}}, status: {{phase: Running}}}}\n"
        )
    }

    #[test]
    fn the_page_shows_a_plan_with_pictures_and_how_far_the_enforcer_is() {
        let mut state =
            state(&[CLUSTER, &pod("web-1"), &pod("web-2"), &pod("web-3"), &pod("web-4")].concat());
        let (_, page) = get(&mut state, "/rebalance?goal=spread");
        for text in [
            "2 moves would make the cluster better",
            ">spread<",
            "Before",
            "At best",
            "/nodes/b",
            "Moves, in this order",
        ] {
            assert!(page.contains(text), "{text}: {page}");
        }
        assert!(!page.contains("The enforcer has"), "{page}");
        state.set_rebalance_status(Some(
            r#"{"goals": ["spread"], "before": {"spread": 3}, "now": {"spread": 2}, "after": {"spread": 0}, "doing": "moves default/web-1",
                "done": [{"namespace": "default", "name": "web-0", "from": "a", "to": "b", "goal": "spread", "result": "moved", "replacement": "web-9"}],
                "left": [{"namespace": "default", "name": "web-1", "from": "a", "to": "b", "goal": "spread"}], "nLeft": 7,
                "held": [{"namespace": "default", "name": "web-4", "reason": "it has local storage"}], "nHeld": 1}"#
                .to_owned(),
        ));
        let (_, page) = get(&mut state, "/rebalance");
        for text in [
            "The enforcer has 7 moves left",
            "moves default/web-1",
            "moved: ",
            "web-9",
            "it has local storage",
        ] {
            assert!(page.contains(text), "{text}: {page}");
        }
        state.set_rebalance_status(Some(
            r#"{"goals": ["spread"], "doing": "plans again at 2027-01-15T08:10:00Z", "nLeft": 0, "nHeld": 1,
                "held": [{"namespace": "default", "name": "web-4", "reason": "PodDisruptionBudget default/web allows no eviction"}]}"#
                .to_owned(),
        ));
        let (_, page) = get(&mut state, "/rebalance");
        for text in [
            "can move nothing: 1 pod would help and stay",
            "plans again at 2027",
            "PodDisruptionBudget default/web",
        ] {
            assert!(page.contains(text), "{text}: {page}");
        }
        assert!(!page.contains("has nothing to move"), "{page}");
        let (status, page) = get(&mut state, "/rebalance?goal=speed");
        assert!(status == 400 && page.contains("`speed` is no goal"), "{page}");
    }
}
