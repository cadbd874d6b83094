//! Claims of devices as a list with the classes and slices, and one: what it requests, what it has, and why it waits.

use std::collections::{BTreeMap, BTreeSet};

use berth_api::object::device::{
    AllocationResult, CapacityRequirements, DeviceConstraint, DeviceObject, DeviceRequest,
    DeviceRequestAllocationResult, DeviceSelector, DeviceSubRequest, ResourceClaim,
};
use berth_api::object::{NamespacedName, Toleration};
use berth_api::syntax::format::counted;
use berth_engine::Verdict;
use berth_simulate::{PodExplanation, SimulatedPod, Simulation};
use maud::{Markup, html};

use super::answer::{Answer, Page, PageError};
use super::parts;
use super::pods::state_of as state_of_pod;
use crate::components::listing::{Column, Filter, listing};
use crate::components::time::Clock;
use crate::components::{Tone, badge, card, empty, facts, labels, verdict};
use crate::overview::Pods;
use crate::{Request, State, links, report};

/// Steps of work of the explanation of a claim that waits.
const MAX_STEPS: u64 = 3_000_000;
/// Devices, nodes and reasons that are named.
const MAX_NAMED: usize = 4;

/// A claim with the positions of the pods that name it.
struct Used<'a> {
    claim: &'a ResourceClaim,
    pods: Vec<usize>,
}

impl<'a> Used<'a> {
    fn results(&self) -> &'a [DeviceRequestAllocationResult] {
        self.claim.status.allocation.as_ref().map_or(&[], |allocation| &allocation.devices.results)
    }

    /// The node that its devices belong to, if that is one.
    fn node(&self) -> &'a str {
        self.claim.status.allocation.as_ref().and_then(node_of).unwrap_or_default()
    }

    fn state(&self) -> (Tone, &'static str) {
        let status = &self.claim.status;
        match &status.allocation {
            _ if self.claim.metadata.is_deleting() => (Tone::Neutral, "being deleted"),
            Some(_) if status.reserved_for.is_empty() => (Tone::Info, "allocated, not in use"),
            Some(_) => (Tone::Good, "in use"),
            None if self.pods.is_empty() => (Tone::Neutral, "no pod uses it"),
            None => (Tone::Warn, "pending"),
        }
    }
}

fn node_of(allocation: &AllocationResult) -> Option<&str> {
    let [term] = allocation.node_selector.as_ref()?.node_selector_terms.as_slice() else { return None };
    let [field] = term.match_fields.as_slice() else { return None };
    let [name] = field.values.as_slice() else { return None };
    Some(name)
}

fn pods_by_claim(pods: Pods<'_>) -> BTreeMap<NamespacedName, Vec<usize>> {
    let mut by_claim: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for (position, pod) in pods.simulation.pods().iter().enumerate() {
        for name in Simulation::claim_names(&pod.pod) {
            by_claim.entry(name).or_default().push(position);
        }
    }
    by_claim
}

pub(super) fn list(state: &mut State, request: &Request<'_>) -> Answer {
    let clock = state.clock();
    let overview = state.pods();
    let filter = Filter::of(request);
    let mut by_claim = pods_by_claim(overview);
    let namespaces: BTreeSet<&str> =
        overview.simulation.claims().map(|claim| claim.metadata.namespace.as_str()).collect();
    let namespaces: Vec<&str> = namespaces.into_iter().collect();
    let used = overview.simulation.claims().map(|claim| {
        let pods = by_claim.remove(&claim.metadata.namespaced_name()).unwrap_or_default();
        Used { claim, pods }
    });
    let is_wanted = |used: &Used<'_>| {
        let metadata = &used.claim.metadata;
        filter.matches(&metadata.namespace, &[&metadata.name, used.node(), used.state().1])
    };
    let mut claims: Vec<_> = used.filter(is_wanted).collect();
    let name = |used: &Used<'_>| used.claim.metadata.name.as_str().to_owned();
    let created = |used: &Used<'_>| used.claim.metadata.creation_timestamp;
    let columns = [
        Column::new("name", "Claim", |used: &Used<'_>| {
            let metadata = &used.claim.metadata;
            parts::link(&links::claim(&metadata.namespace, &metadata.name), &metadata.name)
        })
        .by(move |a, b| name(a).cmp(&name(b))),
        Column::new("namespace", "Namespace", |used: &Used<'_>| html! { (used.claim.metadata.namespace) })
            .by(|a, b| a.claim.metadata.namespace.cmp(&b.claim.metadata.namespace)),
        Column::new("state", "State", |used: &Used<'_>| badge(used.state().0, used.state().1))
            .by(|a, b| a.state().1.cmp(b.state().1)),
        Column::text("devices", "Devices", |used: &Used<'_>| devices_of(used.results())),
        Column::new(
            "node",
            "Node",
            |used: &Used<'_>| html! { @if !used.node().is_empty() { (parts::node(used.node())) } },
        )
        .by(|a, b| a.node().cmp(b.node())),
        Column::number("pods", "Pods", |used: &Used<'_>| used.pods.len()),
        Column::new("age", "Age", move |used: &Used<'_>| clock.optional(created(used)))
            .by(move |a, b| created(b).cmp(&created(a))),
    ];
    let caption = counted(claims.len(), "claim");
    let table = listing(request, &caption, &mut claims, &columns).map_err(PageError::Parameter)?;
    let content = html! {
        @if namespaces.is_empty() {
            (empty("No claims of devices", &html! { "Pods that name a ResourceClaim or a ResourceClaimTemplate have claims." }))
        } @else {
            (filter.form(request, "Claim, node or state", &namespaces))
            (table)
        }
        (classes_and_slices(state))
    };
    Ok(Page::new("Claims of devices", content))
}

/// Names of devices, such as `gpu-0, gpu-1`.
fn devices_of(results: &[DeviceRequestAllocationResult]) -> Markup {
    let names: Vec<&str> = results.iter().take(MAX_NAMED).map(|result| result.device.as_str()).collect();
    html! {
        (names.join(", "))
        @if results.len() > MAX_NAMED { " and " (results.len() - MAX_NAMED) " more" }
    }
}

fn classes_and_slices(state: &State) -> Markup {
    let yaml = |kind: &str, name: &str| parts::link(&links::path(&["yaml", kind, name]), name);
    let (mut classes, mut slices) = (Vec::new(), Vec::new());
    for object in state.device_objects() {
        match object {
            DeviceObject::DeviceClass(class) => classes.push(class),
            DeviceObject::ResourceSlice(slice) => slices.push(slice),
            _ => {}
        }
    }
    classes.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
    slices.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
    html! {
        (parts::short_table("Device classes", &["Class", "Selectors", "Extended resource"], (&classes, "class"), |class| vec![
            yaml("DeviceClass", &class.metadata.name),
            selectors(class.spec.selectors.iter().filter_map(|selector| selector.cel.as_ref()).map(|cel| cel.expression.as_str())),
            html! { (class.spec.extended_resource_name.as_deref().unwrap_or_default()) },
        ]))
        (parts::short_table("Resource slices", &["Slice", "Driver", "Pool", "Node", "Devices"], (&slices, "slice"), |slice| vec![
            yaml("ResourceSlice", &slice.metadata.name),
            html! { (slice.spec.driver) },
            html! { (slice.spec.pool.name) },
            html! { @if let Some(node) = &slice.spec.node_name { (parts::node(node)) } },
            parts::number(slice.spec.devices.len()),
        ]))
    }
}

fn selectors<'a>(expressions: impl Iterator<Item = &'a str>) -> Markup {
    html! { @for expression in expressions { div { code { (expression) } } } }
}

pub(super) fn page(state: &mut State, namespace: &str, name: &str) -> Answer {
    let clock = state.clock();
    let key = NamespacedName::new(namespace, name);
    let waiting = waiting_pod(state.pods(), &key);
    let explained = waiting.and_then(|pod| state.explain(pod.namespace(), pod.name(), MAX_STEPS));
    let overview = state.pods();
    let Some(claim) = overview.simulation.claim(&key) else {
        let all = overview.simulation.claims().map(|claim| &claim.metadata);
        return Err(parts::not_found(
            format!("ResourceClaim {key}"),
            name,
            all,
            |claim| claim.name.as_str(),
            |claim| {
                (links::claim(&claim.namespace, &claim.name), format!("{}/{}", claim.namespace, claim.name))
            },
        ));
    };
    let used = Used { claim, pods: pods_by_claim(overview).remove(&key).unwrap_or_default() };
    let pods = overview.sorted(used.pods.iter().copied(), parts::MAX_SHOWN);
    let requests: Vec<_> = claim.spec.devices.requests.iter().flat_map(rows_of).collect();
    let content = html! {
        (outcome(&used, explained.as_ref()))
        div.columns {
            div.fields {
                @if let Some(explained) = &explained { (why(explained, name)) }
                (parts::table_of("Allocated devices", &["Device", "Request", "Driver", "Pool", "Use"], used.results().iter().map(allocated).collect()))
                (parts::table_of("Requests", &["Request", "Class", "Count", "Selectors", "Tolerations", "Capacity"], requests))
                (constraints(claim))
            }
            div.fields {
                (facts_of(&used, clock))
                (users(&used, &pods))
            }
        }
    };
    let actions =
        html! { a.button.small href=(links::path(&["yaml", "ResourceClaim", namespace, name])) { "YAML" } };
    Ok(Page::new(format!("Claim {key}"), content).actions(actions))
}

/// The first pod that waits for devices of a claim.
fn waiting_pod(pods: Pods<'_>, claim: &NamespacedName) -> Option<NamespacedName> {
    if pods.simulation.claim(claim)?.status.allocation.is_some() {
        return None;
    }
    let waits =
        |pod: &&SimulatedPod| pod.node().is_none() && Simulation::claim_names(&pod.pod).contains(claim);
    pods.simulation.pods().iter().find(waits).map(|pod| pod.pod.metadata.namespaced_name())
}

fn outcome(used: &Used<'_>, explained: Option<&PodExplanation>) -> Markup {
    let (tone, state) = used.state();
    let n_devices = counted(used.results().len(), "device");
    let line = match (&used.claim.status.allocation, explained) {
        (Some(_), _) => html! {
            "Has " (n_devices) @if !used.node().is_empty() { " of " (parts::node(used.node())) } ": " (state) "."
        },
        (None, Some(explained)) => match explained.explanation.outcome.node() {
            Some(node) => html! { "Pending, but it can be allocated now: on " (parts::node(node)) "." },
            None => html! { strong.bad { "Not allocated. " } (explained.explanation.outcome.message()) },
        },
        (None, None) => html! { "Has no devices: " (state) "." },
    };
    verdict(tone, &line, &html! {})
}

/// What keeps the claim from being allocated on the nearest nodes.
fn why(explained: &PodExplanation, name: &str) -> Markup {
    let is_about = |verdict: &&Verdict| {
        let claim = verdict.detail.strip_prefix("claim ");
        claim.is_some_and(|rest| rest.strip_prefix(name).is_some_and(|rest| rest.starts_with([',', ':'])))
    };
    let groups = explained.explanation.excluded.iter().filter_map(|group| {
        let verdicts: Vec<_> = group.verdicts.iter().filter(is_about).collect();
        (!verdicts.is_empty()).then_some((&group.nodes, verdicts))
    });
    let rows: Vec<_> = groups.collect();
    html! {
        (parts::short_list("Why it has no devices, by node", (&rows, "group of nodes"), |(nodes, verdicts)| html! {
            @for (i, node) in nodes.iter().take(MAX_NAMED).enumerate() { @if i > 0 { ", " } (parts::node(node)) }
            @if nodes.len() > MAX_NAMED { " and " (nodes.len() - MAX_NAMED) " more" }
            @for verdict in verdicts { div { (report::html::verdict(verdict)) } }
        }))
        (parts::list("Suggestions", &explained.hints))
    }
}

/// The rows of a request: one for each alternative.
fn rows_of(request: &DeviceRequest) -> Vec<Vec<Markup>> {
    let count = |is_for_all: bool, count: i64| html! { @if is_for_all { "all" } @else { (count.max(1)) } };
    let expressions = |of: &[DeviceSelector]| {
        selectors(of.iter().filter_map(|selector| selector.cel.as_ref()).map(|cel| cel.expression.as_str()))
    };
    let tolerations = |of: &[Toleration]| {
        html! { @for toleration in of { div { (toleration.key) @if !toleration.value.is_empty() { "=" (toleration.value) } " " (toleration.effect) } } }
    };
    let capacity = |of: Option<&CapacityRequirements>| {
        html! { @for (name, amount) in of.into_iter().flat_map(|of| &of.requests) { div { (name) " " (amount.to_string()) } } }
    };
    let class = |name: &str| parts::link(&links::path(&["yaml", "DeviceClass", name]), name);
    if let Some(exactly) = &request.exactly {
        let name = html! { (request.name) @if exactly.admin_access == Some(true) { " " (badge(Tone::Info, "admin access")) } };
        return vec![vec![
            name,
            class(&exactly.device_class_name),
            count(exactly.is_for_all(), exactly.count),
            expressions(&exactly.selectors),
            tolerations(&exactly.tolerations),
            capacity(exactly.capacity.as_ref()),
        ]];
    }
    let row = |of: &DeviceSubRequest| {
        vec![
            html! { (request.name) "/" (of.name) },
            class(&of.device_class_name),
            count(of.is_for_all(), of.count),
            expressions(&of.selectors),
            tolerations(&of.tolerations),
            capacity(of.capacity.as_ref()),
        ]
    };
    request.first_available.iter().map(row).collect()
}

fn allocated(result: &DeviceRequestAllocationResult) -> Vec<Markup> {
    let shares = result.consumed_capacity.iter().map(|(name, amount)| format!("{name} {amount}"));
    let shares = shares.collect::<Vec<_>>().join(", ");
    vec![
        html! { (result.device) },
        html! { (result.request) },
        html! { (result.driver) },
        html! { (result.pool) },
        html! { @if result.admin_access == Some(true) { "administration" } @else { (shares) } },
    ]
}

fn constraints(claim: &ResourceClaim) -> Markup {
    let text = |constraint: &DeviceConstraint| {
        let (rule, attribute) = match (&constraint.match_attribute, &constraint.distinct_attribute) {
            (Some(attribute), _) => ("the same value", attribute.as_str()),
            (None, Some(attribute)) => ("different values", attribute.as_str()),
            (None, None) => return "a constraint of an unknown kind".to_owned(),
        };
        let of = match constraint.requests.as_slice() {
            [] => "all requests".to_owned(),
            requests => requests.join(", "),
        };
        format!("{attribute} has {rule} on the devices of {of}")
    };
    let constraints: Vec<_> = claim.spec.devices.constraints.iter().map(text).collect();
    parts::list("Constraints", &constraints)
}

fn facts_of(used: &Used<'_>, clock: Clock) -> Markup {
    let Used { claim, .. } = used;
    let metadata = &claim.metadata;
    let mut all = vec![("State", badge(used.state().0, used.state().1))];
    if !used.node().is_empty() {
        all.push(("Node", parts::node(used.node())));
    }
    if let Some(owner) = metadata.controller() {
        all.push(("Made for", parts::object(&owner.kind, &metadata.namespace, &owner.name)));
    }
    if metadata.creation_timestamp.is_some() {
        all.push(("Created", clock.optional(metadata.creation_timestamp)));
    }
    if !metadata.labels.is_empty() {
        all.push(("Labels", labels(metadata.labels.iter().map(|(key, value)| format!("{key}={value}")))));
    }
    card("Claim", &facts(&all))
}

/// The pods that use the claim.
fn users(used: &Used<'_>, pods: &[(usize, &SimulatedPod)]) -> Markup {
    html! {
        section.card {
            h2 { (counted(used.pods.len(), "pod")) }
            ul.rows {
                @for (_, pod) in pods {
                    li { (parts::pod(&pod.pod.metadata.namespace, &pod.pod.metadata.name)) (state_of_pod(pod)) }
                }
            }
            (parts::more(used.pods.len(), "pod"))
        }
    }
}
