//! The form: the changes so far, each in its field, and an empty field for one more of each kind. The browser completes names of the
//! cluster.

use std::collections::BTreeSet;

use berth_api::simulated_nodes::RACK;
use berth_api::syntax::labels::{HOSTNAME, REGION, ZONE};
use berth_simulate::what_if::topology_key;
use maud::{Markup, html};

use super::super::question::CHANGES;
use crate::components::datalist;
use crate::{Request, State};

const MAX_SUGGESTED: usize = 500;
const GROUPS: [(&str, &[&str]); 4] = [
    ("Nodes", &["drain", "cordon", "uncordon", "remove-node", "remove-domain"]),
    ("New nodes", &["add-nodes", "like"]),
    ("Workloads", &["scale", "evict"]),
    ("Labels and taints", &["set-label", "taint"]),
];
/// Topologies whose domains are lost in turn.
const TOPOLOGIES: [(&str, &str); 4] =
    [(ZONE, "Each zone"), (RACK, "Each rack"), (REGION, "Each region"), (HOSTNAME, "Each node")];

pub(super) fn form(state: &State, request: &Request<'_>) -> Markup {
    let given: Vec<_> = request
        .parameters()
        .filter(|(name, value)| !value.trim().is_empty() && CHANGES.iter().any(|(known, ..)| known == name))
        .collect();
    let field = |name: &str, value: &str| {
        let known = CHANGES.iter().find(|(known, ..)| *known == name);
        let (_, label, example) = known.copied().unwrap_or_default();
        html! { label { span { (label) } input name=(name) value=(value) placeholder=(example) list=[list_of(name)] autocomplete="off"; } }
    };
    let each = request.parameter("each").map(|key| topology_key(&key)).unwrap_or_default();
    let namespace = request.parameter("namespace").unwrap_or_default();
    let manifest = request.parameter("manifest").unwrap_or_default();
    let action =
        if request.query.is_empty() { "/what-if".to_owned() } else { format!("/what-if?{}", request.query) };
    let is_known = TOPOLOGIES.iter().any(|(key, _)| *key == each) || each.is_empty();
    html! {
        div.fields {
            form.card.fields method="get" action="/what-if" {
                @if !given.is_empty() {
                    fieldset {
                        legend { "Changes, in this order; empty a field to remove one" }
                        @for (name, value) in &given { (field(name, value)) }
                    }
                }
                @for (i, (group, names)) in GROUPS.iter().enumerate() {
                    @if given.is_empty() && i == 0 {
                        fieldset { legend { (group) } @for name in *names { (field(name, "")) } }
                    } @else {
                        details { summary { (if given.is_empty() { (*group).to_owned() } else { format!("More: {}", group.to_lowercase()) }) }
                            fieldset aria-label=(group) {
                                @for name in *names { (field(name, "")) }
                                @if *group == "Workloads" { label { span { "Namespace of both" } input name="namespace" value=(namespace) list="namespaces"; } }
                            }
                        }
                    }
                }
                label {
                    span { "Then lose in turn" }
                    select name="each" {
                        option value="" { "Nothing" }
                        @for (key, name) in TOPOLOGIES { option value=(key) selected[key == each] { (name) } }
                        @if !is_known { option value=(each) selected { "Each " (each) } }
                    }
                }
                div.actions { button.primary name="place" value="pending" { "Show the effect" } }
                p.detail { "Without a change, the pending pods are placed." }
            }
            form.card.fields method="post" action=(action) {
                label {
                    span { "Or add and replace objects, after these changes: manifests as YAML or JSON" }
                    textarea name="manifest" rows="8" spellcheck="false" required { (manifest) }
                }
                div.actions { button { "Show the effect" } }
            }
            (suggestions(state))
        }
    }
}

fn list_of(name: &str) -> Option<&'static str> {
    match name {
        "drain" | "cordon" | "uncordon" | "remove-node" | "like" | "set-label" | "taint" => Some("nodes"),
        "remove-domain" => Some("domains"),
        "scale" => Some("workloads"),
        "evict" => Some("pods"),
        _ => None,
    }
}

fn suggestions(state: &State) -> Markup {
    let all = state.pods();
    let nodes = all.simulation.nodes().map(|node| node.metadata.name.clone());
    let domains = [("zone", ZONE), ("rack", RACK), ("region", REGION)].into_iter().flat_map(|(name, key)| {
        let key_of = if name == "rack" { key } else { name };
        all.simulation.domains(key).into_iter().map(move |value| format!("{key_of}={value}"))
    });
    let mut sizes = vec![0_usize; all.table.n_numbers()];
    (0..all.table.n_pods()).filter_map(|at| all.table.workload(at)).for_each(|number| sizes[number] += 1);
    let workloads: BTreeSet<String> = all
        .table
        .workloads()
        .filter(|(_, (_, workload))| !workload.starts_with("DaemonSet ") && !workload.starts_with("Job "))
        .map(|(number, (_, workload))| format!("{}={}", kind_and_name(workload), sizes[number]))
        .collect();
    let placed = (0..all.table.n_pods()).filter(|at| all.table.has_node(*at));
    let pods = all.sorted(placed, MAX_SUGGESTED).into_iter().map(|(_, pod)| pod.pod.key());
    let namespaces: BTreeSet<String> =
        all.table.workloads().map(|(_, (namespace, _))| namespace.clone()).collect();
    html! {
        (datalist("nodes", nodes.take(MAX_SUGGESTED)))
        (datalist("domains", domains.take(MAX_SUGGESTED)))
        (datalist("workloads", workloads.into_iter().take(MAX_SUGGESTED)))
        (datalist("pods", pods))
        (datalist("namespaces", namespaces.into_iter().take(MAX_SUGGESTED)))
    }
}

/// `deployment/web` of `Deployment web`.
fn kind_and_name(workload: &str) -> String {
    let (kind, name) = workload.split_once(' ').unwrap_or(("", workload));
    format!("{}/{name}", kind.to_lowercase())
}
