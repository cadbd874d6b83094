//! Pods with one claim of devices each, in three cases: one device by class and selector, two devices with an attribute in
//! common, and partitions of devices with shared counters.

use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

use berth_api::admission::{AdmissionOptions, admit};
use berth_api::object::device::{DeviceDecision, DeviceObject};
use berth_api::object::{Node, Pod};
use berth_engine::{Cluster, Outcome, Settings};
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use crate::count;
use crate::measure::{Checksum, Figures, Samples, rss_bytes, timed};
use crate::scale::nodes::{node, object};

const NAMESPACE: &str = "default";
const DRIVER: &str = "gpu.example.com";
/// Memory of a device that partitions share, and of a partition.
const MEMORY_GIB: i64 = 80;
const PARTITION_GIB: i64 = 20;
/// Partitions that are published for a device: more than its memory allows at once.
const N_PARTITIONS: usize = 7;

/// The size of the benchmark.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Dra {
    /// Number of nodes
    #[arg(long, value_name = "N", default_value_t = 5_000, value_parser = count(1..=9_999_999))]
    pub nodes: usize,
    /// Number of devices of each node
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = count(1..=128))]
    pub devices: usize,
    /// Number of pods of each case
    #[arg(long, value_name = "N", default_value_t = 20_000, value_parser = count(0..=9_999_999))]
    pub pods: usize,
    /// Seed for node sizes, labels and taints
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
}

/// What the claims request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DraCase {
    /// One device, by the selectors of its class and of the request.
    OneDevice,
    /// Two devices on one NUMA node.
    Pair,
    /// A partition of a device.
    Partition,
}

impl DraCase {
    /// All of them.
    pub const ALL: [DraCase; 3] = [DraCase::OneDevice, DraCase::Pair, DraCase::Partition];
}

impl fmt::Display for DraCase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DraCase::OneDevice => "one device by a selector",
            DraCase::Pair => "two devices with matchAttribute",
            DraCase::Partition => "partitions with counters",
        })
    }
}

impl Serialize for DraCase {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// What was measured.
#[derive(Clone, Debug, Serialize)]
pub struct DraReport {
    /// Nodes.
    pub nodes: usize,
    /// Devices of each node.
    pub devices: usize,
    /// Pods of each case.
    pub pods: usize,
    /// The seed.
    pub seed: u64,
    /// The cases.
    pub cases: Vec<CaseReport>,
}

impl DraReport {
    /// Number of violated rules.
    pub fn n_violations(&self) -> usize {
        self.cases.iter().map(|case| case.violations.len()).sum()
    }
}

/// What was measured in one case.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CaseReport {
    /// The case.
    pub case: DraCase,
    /// Rate and distribution of all decisions.
    #[serde(flatten)]
    pub figures: Figures,
    /// Pods that fit on no node.
    pub unplaced: usize,
    /// Preparation of all pods and their claims, in seconds; not part of the decisions.
    pub prepare_seconds: f64,
    /// By how much memory grew when the devices were set, in bytes.
    pub devices_bytes: Option<u64>,
    /// Checksum of the decisions, in order.
    pub checksum: String,
    /// What a check that shares no code with the engine found, the first ones.
    pub violations: Vec<String>,
}

/// Runs all cases, each in a new engine; `progress` is called with the number of decided pods.
pub fn run(size: Dra, progress: &mut dyn FnMut(usize)) -> DraReport {
    let case = |(i, case): (usize, &DraCase)| {
        run_case(size, *case, &mut |n_decided| progress(i * size.pods + n_decided))
    };
    let cases = DraCase::ALL.iter().enumerate().map(case).collect();
    DraReport { nodes: size.nodes, devices: size.devices, pods: size.pods, seed: size.seed, cases }
}

fn run_case(size: Dra, case: DraCase, progress: &mut dyn FnMut(usize)) -> CaseReport {
    let mut cluster = Cluster::new(Settings::default());
    let nodes: Vec<Node> = (0..size.nodes).map(|i| node(size.seed, i)).collect();
    nodes.iter().for_each(|node| cluster.set_node(node));
    let before = rss_bytes();
    cluster.set_device_object(&class());
    for node in &nodes {
        slices(&node.metadata.name, size.devices, case)
            .iter()
            .for_each(|slice| cluster.set_device_object(slice));
    }
    let devices_bytes = rss_bytes().zip(before).map(|(after, before)| after.saturating_sub(before));

    let (mut preparing, mut samples, mut checksum) =
        (Duration::ZERO, Samples::default(), Checksum::default());
    let (mut unplaced, mut check) = (0, Check::default());
    for i in 0..size.pods {
        let (claim, pod) = (claim(i, case), pod(i));
        let (prepared, duration) = timed(|| {
            cluster.set_device_object(&claim);
            cluster.prepare(&pod)
        });
        preparing += duration;
        let (outcome, duration) = timed(|| cluster.place(&prepared));
        samples.add(duration);
        checksum.add(NAMESPACE, &pod.metadata.name, outcome.node().unwrap_or_default());
        match &outcome {
            Outcome::Placed { node, devices: Some(decision), .. } => check.add(node, decision, case),
            _ => unplaced += 1,
        }
        progress(i + 1);
    }
    CaseReport {
        case,
        figures: samples.figures(),
        unplaced,
        prepare_seconds: preparing.as_secs_f64(),
        devices_bytes,
        checksum: checksum.hex(),
        violations: check.violations,
    }
}

/// What was allocated, by node and device.
#[derive(Default)]
struct Check {
    users: HashMap<(String, String), usize>,
    partitions: HashMap<(String, String), i64>,
    violations: Vec<String>,
}

impl Check {
    fn add(&mut self, node: &str, decision: &DeviceDecision, case: DraCase) {
        let allocations = decision.claims.iter().filter_map(|claim| claim.allocation.as_ref());
        let results: Vec<_> = allocations.flat_map(|allocation| &allocation.devices.results).collect();
        let mut found = |what: String| self.violations.push(what);
        let expected = if case == DraCase::Pair { 2 } else { 1 };
        if results.len() != expected {
            found(format!("{node}: {} devices instead of {expected}", results.len()));
        }
        let number =
            |device: &str| device.split('-').nth(1).and_then(|n| n.parse::<usize>().ok()).unwrap_or_default();
        if case == DraCase::Pair
            && results.iter().any(|result| numa(number(&result.device)) != numa(number(&results[0].device)))
        {
            found(format!("{node}: devices of two NUMA nodes"));
        }
        for result in results {
            if result.pool != node {
                found(format!("{node}: a device of pool {}", result.pool));
            }
            let users = self.users.entry((result.pool.clone(), result.device.clone())).or_default();
            *users += 1;
            if *users > 1 {
                found(format!("{node}: {} is allocated {users} times", result.device));
            }
            if case == DraCase::Partition {
                let of = (node.to_owned(), format!("gpu-{}", number(&result.device)));
                let taken = self.partitions.entry(of).or_default();
                *taken += PARTITION_GIB;
                if *taken > MEMORY_GIB {
                    found(format!("{node}: {} has less memory than its partitions take", result.device));
                }
            }
        }
    }
}

fn numa(device: usize) -> usize {
    device % 2
}

fn device_object(value: Value) -> DeviceObject {
    let kind = value["kind"].as_str().unwrap_or_default().to_owned();
    match kind.as_str() {
        "DeviceClass" => DeviceObject::DeviceClass(object(value)),
        "ResourceClaim" => DeviceObject::ResourceClaim(object(value)),
        _ => DeviceObject::ResourceSlice(object(value)),
    }
}

fn class() -> DeviceObject {
    let expression = format!("device.driver == \"{DRIVER}\"");
    device_object(json!({
        "kind": "DeviceClass",
        "metadata": {"name": "gpu"},
        "spec": {"selectors": [{"cel": {"expression": expression}}]},
    }))
}

/// The slices of a node: its devices, or their partitions and counters.
fn slices(node: &str, n_devices: usize, case: DraCase) -> Vec<DeviceObject> {
    let attributes = |i: usize| {
        json!({
            "model": {"string": (["a100", "h100"][i % 2])},
            "numa": {"int": numa(i)},
            "uuid": {"string": format!("gpu-{node}-{i}")},
        })
    };
    let of_partition = |i: usize, part: usize| {
        let memory = json!({"value": format!("{PARTITION_GIB}Gi")});
        json!({
            "name": format!("gpu-{i}-part-{part}"),
            "attributes": attributes(i),
            "consumesCounters": [{"counterSet": format!("gpu-{i}"), "counters": {"memory": memory}}],
        })
    };
    let devices: Vec<Value> = match case {
        DraCase::Partition => {
            (0..n_devices * N_PARTITIONS).map(|i| of_partition(i / N_PARTITIONS, i % N_PARTITIONS)).collect()
        }
        _ => {
            (0..n_devices).map(|i| json!({"name": format!("gpu-{i}"), "attributes": attributes(i)})).collect()
        }
    };
    let n_slices = if case == DraCase::Partition { 2 } else { 1 };
    let slice = |name: String, fields: Value| {
        let pool = json!({"name": node, "generation": 1, "resourceSliceCount": n_slices});
        let mut spec = json!({"driver": DRIVER, "nodeName": node, "pool": pool});
        if let (Value::Object(spec), Value::Object(fields)) = (&mut spec, fields) {
            spec.extend(fields);
        }
        device_object(json!({"kind": "ResourceSlice", "metadata": {"name": name}, "spec": spec}))
    };
    let mut slices = vec![slice(format!("{node}-devices"), json!({"devices": devices}))];
    if case == DraCase::Partition {
        let memory = json!({"value": format!("{MEMORY_GIB}Gi")});
        let set = |i: usize| json!({"name": format!("gpu-{i}"), "counters": {"memory": memory}});
        let sets: Vec<Value> = (0..n_devices).map(set).collect();
        slices.push(slice(format!("{node}-counters"), json!({"sharedCounters": sets})));
    }
    slices
}

fn claim(i: usize, case: DraCase) -> DeviceObject {
    let expression = format!("device.attributes[\"{DRIVER}\"].model == \"a100\"");
    let mut exactly = json!({"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1});
    let mut constraints = json!([]);
    match case {
        DraCase::OneDevice => exactly["selectors"] = json!([{"cel": {"expression": expression}}]),
        DraCase::Pair => {
            exactly["count"] = json!(2);
            constraints = json!([{"matchAttribute": format!("{DRIVER}/numa")}]);
        }
        DraCase::Partition => {}
    }
    let name = format!("claim-{i:07}");
    device_object(json!({
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": NAMESPACE, "uid": name},
        "spec": {"devices": {"requests": [{"name": "gpus", "exactly": exactly}], "constraints": constraints}},
    }))
}

fn pod(i: usize) -> Pod {
    let mut pod: Pod = object(json!({
        "metadata": {"name": format!("pod-{i:07}"), "namespace": NAMESPACE, "uid": format!("pod-{i:07}")},
        "spec": {
            "containers": [{"name": "c", "image": "registry.example.com/app:1",
                "resources": {"requests": {"cpu": "100m", "memory": "200Mi"}, "claims": [{"name": "gpus"}]}}],
            "resourceClaims": [{"name": "gpus", "resourceClaimName": format!("claim-{i:07}")}],
        },
    }));
    admit(&mut pod, &AdmissionOptions::default());
    pod
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_used_up_and_never_twice() {
        let report = run(Dra { nodes: 5, devices: 4, pods: 90, seed: 1 }, &mut |_| {});
        assert_eq!(report.n_violations(), 0, "{:?}", report.cases);
        let placed: Vec<usize> =
            report.cases.iter().map(|case| case.figures.decisions - case.unplaced).collect();
        // Per node: two devices of the model; two pairs; four devices with room for four partitions each.
        let n_usable = placed[1] / 2;
        assert!(n_usable > 0 && n_usable <= 5, "{placed:?}");
        assert_eq!(placed, [2 * n_usable, 2 * n_usable, 16 * n_usable]);
    }
}
