//! The devices of a node, as a part of its page.

use std::collections::BTreeMap;

use berth_api::object::NamespacedName;
use berth_api::syntax::format::counted;
use berth_engine::{DevicesOfNode, PublishedDevice};
use berth_simulate::Simulation;
use maud::{Markup, html};

use super::parts;
use crate::components::card;
use crate::components::devices::{DeviceCell, DeviceGroup, DeviceState, devices};

/// Devices of a node that are drawn.
const MAX_DEVICES: usize = 256;
/// Claims of a device, and pods of a claim, with a link each.
const MAX_CLAIMS: usize = 3;
const MAX_PODS: usize = 2;

/// The card with the devices of a node; nothing if it has none.
pub(super) fn devices_of(simulation: &Simulation, node: &str) -> Markup {
    let DevicesOfNode { devices: all, unusable_pools } = &simulation.devices_of_node(node);
    let mut groups: BTreeMap<String, DeviceGroup> = BTreeMap::new();
    for device in all.iter().take(MAX_DEVICES) {
        let pool = format!("{}/{}", device.driver, device.pool);
        let name = match device.counter_sets.as_slice() {
            [] => pool,
            sets => format!("{}, partitions of {}", pool, sets.join(", ")),
        };
        let group = groups.entry(name.clone()).or_insert_with(|| DeviceGroup {
            name,
            note: String::new(),
            cells: Vec::new(),
        });
        group.cells.push(cell(simulation, device));
    }
    let mut groups: Vec<_> = groups.into_values().collect();
    for group in &mut groups {
        let n_free = group.cells.iter().filter(|cell| cell.state == DeviceState::Free).count();
        group.note = format!("{} of {} free", n_free, counted(group.cells.len(), "device"));
    }
    let content = html! {
        @for (pool, why) in unusable_pools { p.warn { "Pool " (pool) " " (why) "." } }
        (devices(&groups))
        @if all.len() > MAX_DEVICES { p { "and " (counted(all.len() - MAX_DEVICES, "more device")) } }
    };
    html! { @if !all.is_empty() || !unusable_pools.is_empty() { (card("Devices", &content)) } }
}

fn cell(simulation: &Simulation, device: &PublishedDevice) -> DeviceCell {
    let PublishedDevice { name, attributes, capacity, claims, taints, .. } = device;
    let attributes = attributes.iter().map(|(key, value)| format!("{key}={value}"));
    let amounts = capacity.iter().map(|(key, amount)| format!("{key} {amount}"));
    let title = [name.clone()].into_iter().chain(attributes).chain(amounts).chain(taints.iter().cloned());
    let detail = html! {
        @for claim in claims.iter().take(MAX_CLAIMS) { (users(simulation, claim)) }
        @if claims.len() > MAX_CLAIMS { div { "and " (counted(claims.len() - MAX_CLAIMS, "more claim")) } }
        @for taint in taints { div { (taint) } }
    };
    DeviceCell {
        name: name.clone(),
        title: title.collect::<Vec<_>>().join(", "),
        state: state_of(device),
        detail,
    }
}

/// A claim, and the pods that it is reserved for.
fn users(simulation: &Simulation, name: &NamespacedName) -> Markup {
    let reserved = simulation.claim(name).map_or(&[][..], |claim| &claim.status.reserved_for);
    let pods: Vec<_> = reserved.iter().filter(|consumer| consumer.resource == "pods").collect();
    html! {
        div { (parts::claim(name)) }
        @for consumer in pods.iter().take(MAX_PODS) { div { "Pod " (parts::pod(name.namespace(), &consumer.name)) } }
        @if pods.len() > MAX_PODS { div { "and " (counted(pods.len() - MAX_PODS, "more pod")) } }
    }
}

fn state_of(device: &PublishedDevice) -> DeviceState {
    match device {
        _ if !device.taints.is_empty() => DeviceState::Tainted,
        _ if device.claims.is_empty() && device.lacks_counters => DeviceState::NoCounters,
        _ if device.claims.is_empty() => DeviceState::Free,
        _ if device.is_shared => DeviceState::Shared,
        _ => DeviceState::Allocated,
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{get, state};

    /// The example with GPUs: all but one of its pods have devices.
    const GPUS: &str = concat!(
        include_str!("../../../../../examples/gpus/cluster.yaml"),
        "\n---\n",
        include_str!("../../../../../examples/gpus/workloads.yaml")
    );

    #[track_caller]
    fn check(text: &str, page: &str, expected: &[&str]) -> String {
        let (status, body) = get(&mut state(text), page);
        assert_eq!(status, 200, "{page}: {body}");
        for text in expected {
            assert!(body.contains(text), "{page}: {text}: {body}");
        }
        body
    }

    #[test]
    fn a_node_has_a_cell_for_each_device_with_its_state_and_its_claims() {
        let body = check(
            GPUS,
            "/nodes/gpu-2",
            &[
                "<h3>gpu.example.com/gpu-2<small>1 of 8 devices free</small></h3>",
                "<ul class=\"cells plain\" aria-label=\"Devices of gpu.example.com/gpu-2\">",
                "</span> gpu-6</span><small>free</small></span></li>",
                "</span> gpu-5</span><small>allocated</small></span><div class=\"detail\"><div><a href=\"/claims/default/notebooks\">",
                "<div>Pod <a href=\"/pods/default/train-1\">default/train-1</a></div>",
                "gpu-7</span><small>tainted</small></span><div class=\"detail\"><div>gpu.example.com/unhealthy:NoSchedule</div>",
                "title=\"gpu-7, model=a100, numa=1, type=gpu, memory 80Gi, gpu.example.com/unhealthy:NoSchedule\"",
            ],
        );
        assert_eq!(body.matches("<small>allocated</small>").count(), 6, "{body}");
        // What the colors mean: the states that there are.
        let (_, legend) = body.split_once("<ul class=\"legend berth-picture\">").unwrap();
        let (legend, _) = legend.split_once("</ul>").unwrap();
        assert!(["free", "allocated", "tainted"].iter().all(|state| legend.contains(state)), "{legend}");
        assert!(!legend.contains("counters"), "{legend}");
    }

    #[test]
    fn partitions_are_cells_of_their_own_and_say_that_others_use_the_counters() {
        let body = check(
            GPUS,
            "/nodes/mig-1",
            &[
                "<h3>gpu.example.com/mig-1, partitions of gpu-0<small>0 of 7 devices free</small></h3>",
                "gpu-0-half-1</span><small>allocated</small>",
                "gpu-0-quarter-3</span><small>counters in use</small>",
                "gpu-0-whole</span><small>counters in use</small>",
            ],
        );
        assert_eq!(body.matches("<small>counters in use</small>").count(), 5, "{body}");
        let incomplete = GPUS.replace(
            "pool: {name: mig-1, generation: 1, resourceSliceCount: 2}",
            "pool: {name: mig-1, generation: 1, resourceSliceCount: 3}",
        );
        check(
            &incomplete,
            "/nodes/mig-1",
            &["Pool gpu.example.com/mig-1 is being updated: slices are missing."],
        );
        let plain = "{apiVersion: v1, kind: Node, metadata: {name: a}, status: {allocatable: {cpu: 1}}}";
        assert!(!get(&mut state(plain), "/nodes/a").1.contains("<h2>Devices</h2>"));
    }

    #[test]
    fn claims_are_listed_with_their_state_devices_node_and_pods() {
        let body = check(
            GPUS,
            "/claims",
            &[
                "<caption>8 claims</caption>",
                "<a href=\"/claims/default/notebooks\">notebooks</a>",
                "data-label=\"Devices\">gpu-5</td><td data-label=\"Node\"><a href=\"/nodes/gpu-2\">gpu-2</a></td><td class=\"number\" data-label=\"Pods\">2</td>",
                "<span class=\"badge warn\">pending</span>",
                "<a href=\"/yaml/DeviceClass/gpu-partition\">gpu-partition</a>",
                "<a href=\"/yaml/ResourceSlice/mig-1-partitions\">mig-1-partitions</a>",
            ],
        );
        assert_eq!(body.matches("<span class=\"badge good\">in use</span>").count(), 7, "{body}");
        check(GPUS, "/claims?q=pending", &["<caption>1 claim</caption>", "eight-gpus"]);
        check(GPUS, "/claims?q=mig-1&sort=-name", &["<caption>2 claims</caption>"]);
        check(GPUS, "/claims?namespace=other", &["<caption>0 claims</caption>"]);
        let none = "{apiVersion: v1, kind: Node, metadata: {name: a}}";
        check(none, "/claims", &["No claims of devices"]);
    }

    #[test]
    fn a_claim_has_its_requests_devices_and_pods_or_why_it_waits() {
        check(
            GPUS,
            "/claims/default/notebooks",
            &[
                "Has 1 device of <a href=\"/nodes/gpu-2\">gpu-2</a>: in use.",
                "<code>device.attributes[&quot;gpu.example.com&quot;].model == &quot;a100&quot;</code>",
                "<h2>2 pods</h2>",
                "href=\"/yaml/ResourceClaim/default/notebooks\"",
            ],
        );
        let body = check(
            GPUS,
            "/claims/default/eight-gpus",
            &[
                "<strong class=\"bad\">Not allocated. </strong>0/3 nodes are available: 3 cannot allocate all claims.",
                "Why it has no devices, by node",
                "1 available, 8 requested",
                "count: 1 would fit on gpu-2",
                "<a href=\"/pods/default/benchmark\">default/benchmark</a>",
            ],
        );
        assert!(!body.contains("Allocated devices"), "{body}");
        // The alternatives of a request, and the pod that the claim was made for.
        let (_, list) = get(&mut state(GPUS), "/search?q=serve-");
        let begin = list.find("/claims/default/serve-").expect("search finds claims");
        let link = &list[begin..begin + list[begin..].find('"').unwrap()];
        check(
            GPUS,
            link,
            &["gpu/half</th>", "gpu/whole</th>", "<dt>Made for</dt><dd>Pod <a href=\"/pods/default/serve-"],
        );
        let (status, body) = get(&mut state(GPUS), "/claims/default/notebook");
        assert!(status == 404 && body.contains("<a href=\"/claims/default/notebooks\">"), "{body}");
    }

    #[test]
    fn pods_link_to_their_claims_and_objects_of_devices_have_yaml() {
        check(
            GPUS,
            "/pods/default/benchmark",
            &["<a href=\"/claims/default/eight-gpus\">default/eight-gpus</a>: no devices are allocated"],
        );
        check(
            GPUS,
            "/yaml/ResourceClaim/default/notebooks",
            &["kind: ResourceClaim", "device: gpu-5", "Claim <a href=\"/claims/default/notebooks\">"],
        );
        check(GPUS, "/yaml/ResourceClaim/default/eight-gpus", &["As it was read.", "deviceClassName: gpu"]);
        check(GPUS, "/yaml/ResourceSlice/mig-1-counters", &["kind: ResourceSlice", "sharedCounters:"]);
        check(GPUS, "/yaml/DeviceClass/gpu", &["kind: DeviceClass"]);
        check(GPUS, "/yaml/ResourceClaimTemplate/default/four-gpus", &["kind: ResourceClaimTemplate"]);
    }
}
