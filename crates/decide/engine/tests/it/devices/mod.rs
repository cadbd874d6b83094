//! Claims of devices, by example: the cases are written from the documents of dynamic resource allocation.

mod allocation;
mod assumptions;
mod bad_input;
mod group_claims;
mod group_ranks;
mod least_waste;
mod node_allocatable;
mod preemption;
mod search;
mod victims;

use std::fmt::Write as _;

use berth_api::object::Pod;
use berth_api::object::device::DeviceRequestAllocationResult;
use berth_engine::{Cluster, Outcome, PreparedPod, Settings};
use berth_input::inventory::Inventory;

/// A cluster with the objects of a manifest, and its pods, which are pending.
struct World {
    cluster: Cluster,
    inventory: Inventory,
}

/// Reads a manifest.
fn world(manifest: &str) -> World {
    world_with(Settings::default(), manifest)
}

fn world_with(settings: Settings, manifest: &str) -> World {
    let inventory = Inventory::from_text(manifest).expect("the manifest is valid");
    let mut cluster = Cluster::new(settings);
    inventory.nodes.iter().for_each(|node| cluster.set_node(&node.object));
    inventory.device_objects.iter().for_each(|object| cluster.set_device_object(&object.object));
    World { cluster, inventory }
}

impl World {
    fn pod(&self, name: &str) -> &Pod {
        let found = self.inventory.pods.iter().find(|found| found.object.metadata.name == name);
        &found.expect("a pod of the manifest").object
    }

    fn prepare(&mut self, pod: &str) -> PreparedPod {
        let pod = self.pod(pod).clone();
        self.cluster.prepare(&pod)
    }

    /// Decides about a pod in both ways, and places it.
    fn place(&mut self, pod: &str) -> Outcome {
        let prepared = self.prepare(pod);
        let evaluated = self.cluster.evaluate(&prepared).outcome;
        assert_eq!(evaluated, self.cluster.decide(&prepared), "{pod}: by evaluation, and by view");
        self.cluster.place(&prepared)
    }

    /// Places a pod; the node and the devices as `NODE: REQUEST=DEVICE ...`, or why it is not placed.
    fn placed(&mut self, pod: &str) -> String {
        match self.place(pod) {
            Outcome::Placed { node, devices, .. } => {
                let claims = devices.map(|devices| devices.claims).unwrap_or_default();
                let results = claims.into_iter().filter_map(|claim| claim.allocation);
                let results: Vec<_> = results.flat_map(|allocation| allocation.devices.results).collect();
                results.iter().fold(format!("{node}:"), |mut text, result| {
                    let DeviceRequestAllocationResult { request, device, .. } = result;
                    _ = write!(text, " {request}={device}");
                    text
                })
            }
            other => other.message().into_owned(),
        }
    }
}

/// Nodes of a name with a number.
fn nodes(n: usize) -> String {
    (0..n).map(|i| format!("---\n{{apiVersion: v1, kind: Node, metadata: {{name: n{i}}}, status: {{allocatable: {{cpu: 64, memory: 256Gi, pods: 110}}}}}}\n")).collect()
}

/// The class of all devices of the driver `gpu.example.com`.
const CLASS: &str = "---
{apiVersion: resource.k8s.io/v1, kind: DeviceClass, metadata: {name: gpu}, spec: {selectors: [
  {cel: {expression: 'device.driver == \"gpu.example.com\"'}}]}}
";

/// A slice of a node's pool with the devices `devices`, in flow style.
fn slice(node: &str, devices: &str) -> String {
    format!(
        "---\n{{apiVersion: resource.k8s.io/v1, kind: ResourceSlice, metadata: {{name: {node}}}, spec: {{driver: gpu.example.com, \
         nodeName: {node}, pool: {{name: {node}, generation: 1, resourceSliceCount: 1}}, devices: [{devices}]}}}}\n"
    )
}

/// A claim with the fields `devices` of its specification, and a pod of the same name that uses it.
fn pod_with_claim(name: &str, devices: &str) -> String {
    format!("{}{}", claim(name, devices), pod(name, &[name]))
}

fn claim(name: &str, devices: &str) -> String {
    format!(
        "---\n{{apiVersion: resource.k8s.io/v1, kind: ResourceClaim, metadata: {{name: {name}, namespace: default, uid: uid-{name}}}, \
         spec: {{devices: {{{devices}}}}}}}\n"
    )
}

fn pod(name: &str, claims: &[&str]) -> String {
    let claims: Vec<String> = claims
        .iter()
        .enumerate()
        .map(|(i, claim)| format!("{{name: c{i}, resourceClaimName: {claim}}}"))
        .collect();
    format!(
        "---\n{{apiVersion: v1, kind: Pod, metadata: {{name: {name}, namespace: default, uid: pod-{name}}}, spec: {{containers: [\
         {{name: c, image: i}}], resourceClaims: [{}]}}}}\n",
        claims.join(", ")
    )
}

/// Requests of the class `gpu`, one for each set of further fields.
fn requests(fields: &[&str]) -> String {
    let each =
        |(i, fields): (usize, &&str)| format!("{{name: r{i}, exactly: {{deviceClassName: gpu{fields}}}}}");
    format!("requests: [{}]", fields.iter().enumerate().map(each).collect::<Vec<_>>().join(", "))
}
