//! Pods with one claim each, in four cases: the claim is bound to a zonal volume, a volume is to be provisioned for it,
//! or an existing zonal or local volume is to be chosen.

use std::fmt;
use std::time::Duration;

use berth_api::admission::{AdmissionOptions, admit};
use berth_api::object::volume::{PersistentVolume, PersistentVolumeClaim};
use berth_api::object::{Node, Pod, VolumeDecision, VolumeObject};
use berth_api::syntax::labels::HOSTNAME;
use berth_engine::{Cluster, Outcome, Settings};
use serde::{Serialize, Serializer};
use serde_json::json;

use crate::check::volumes::{VolumeState, VolumeViolation};
use crate::check::{self, Findings, Placed};
use crate::count;
use crate::measure::{Checksum, Figures, Samples, timed};
use crate::scale::nodes::{N_ZONES, ZONE, node, node_index, object};
use crate::workload::volumes::bind;

const NAMESPACE: &str = "default";
const DRIVER: &str = "csi.example.com";
/// How many volumes a node can attach.
const ATTACH_LIMIT: i32 = 32;

/// The size of the benchmark.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Volumes {
    /// Number of nodes
    #[arg(long, value_name = "N", default_value_t = 5_000, value_parser = count(1..=9_999_999))]
    pub nodes: usize,
    /// Number of pods of each case
    #[arg(long, value_name = "N", default_value_t = 5_000, value_parser = count(0..=9_999_999))]
    pub pods: usize,
    /// Seed for node sizes, labels and taints
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
}

/// What the claims need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VolumeCase {
    /// Nothing: each is bound to a volume with the node affinity of a zone.
    Bound,
    /// A volume of a class with `WaitForFirstConsumer`; every second class allows half of the zones.
    Provisioned,
    /// One of the existing volumes, which have different sizes and the node affinities of zones.
    Existing,
    /// The same, with volumes that one node each can use, and that no driver attaches.
    Local,
}

impl VolumeCase {
    /// All of them.
    pub const ALL: [VolumeCase; 4] =
        [VolumeCase::Bound, VolumeCase::Provisioned, VolumeCase::Existing, VolumeCase::Local];
}

impl fmt::Display for VolumeCase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            VolumeCase::Bound => "bound zonal volumes",
            VolumeCase::Provisioned => "volumes to provision",
            VolumeCase::Existing => "existing zonal volumes to choose",
            VolumeCase::Local => "existing local volumes to choose",
        })
    }
}

impl Serialize for VolumeCase {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// What was measured.
#[derive(Clone, Debug, Serialize)]
pub struct VolumesReport {
    /// Nodes.
    pub nodes: usize,
    /// Pods of each case.
    pub pods: usize,
    /// The seed.
    pub seed: u64,
    /// The cases.
    pub cases: Vec<CaseReport>,
}

impl VolumesReport {
    /// Number of violated rules.
    pub fn n_violations(&self) -> usize {
        self.cases.iter().map(|case| case.check.n_violations + case.volume_violations.len()).sum()
    }
}

/// What was measured in one case.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CaseReport {
    /// The case.
    pub case: VolumeCase,
    /// Rate and distribution of all decisions.
    #[serde(flatten)]
    pub figures: Figures,
    /// Pods that fit on no node.
    pub unplaced: usize,
    /// Claims for which the decisions chose existing volumes.
    pub chosen: usize,
    /// Claims for which the decisions left volumes to be provisioned.
    pub to_provision: usize,
    /// Preparation of all pods, in seconds; not part of the decisions.
    pub prepare_seconds: f64,
    /// Checksum of the decisions, in order.
    pub checksum: String,
    /// What the independent check found about nodes and pods.
    pub check: Findings,
    /// What it found about volumes, with all decisions carried out.
    pub volume_violations: Vec<VolumeViolation>,
}

/// Runs all cases, each in a new engine; `progress` is called with the number of decided pods.
pub fn run(volumes: Volumes, progress: &mut dyn FnMut(usize)) -> VolumesReport {
    let case = |(i, case): (usize, &VolumeCase)| {
        run_case(volumes, *case, &mut |n_decided| progress(i * volumes.pods + n_decided))
    };
    let cases = VolumeCase::ALL.iter().enumerate().map(case).collect();
    VolumesReport { nodes: volumes.nodes, pods: volumes.pods, seed: volumes.seed, cases }
}

fn run_case(volumes: Volumes, case: VolumeCase, progress: &mut dyn FnMut(usize)) -> CaseReport {
    let mut cluster = Cluster::new(Settings::default());
    let mut state = Objects::new(volumes, case);
    state.nodes.iter().for_each(|node| cluster.set_node(node));
    state.objects().for_each(|object| cluster.set_volume_object(object));

    let mut preparing = Duration::ZERO;
    let mut samples = Samples::default();
    let mut checksum = Checksum::default();
    let mut placed = Vec::with_capacity(volumes.pods);
    let (mut unplaced, mut chosen, mut to_provision) = (0, 0, 0);
    for i in 0..volumes.pods {
        let (prepared, duration) = timed(|| cluster.prepare(&state.pods[i]));
        preparing += duration;
        let (outcome, duration) = timed(|| cluster.place(&prepared));
        samples.add(duration);
        let node = outcome.node();
        checksum.add(NAMESPACE, &state.pods[i].metadata.name, node.unwrap_or_default());
        match node.and_then(node_index) {
            Some(index) => {
                placed.push(Placed { template: 0, node: index as u32 });
                if let Outcome::Placed { volumes: Some(decision), .. } = &outcome {
                    chosen += decision.bind.len();
                    to_provision += decision.provision.len();
                    state.carry_out(decision, index);
                }
                state.pods[i].spec.node_name = node.unwrap_or_default().to_owned();
            }
            None => unplaced += 1,
        }
        progress(i + 1);
    }
    state.pods.retain(|pod| !pod.spec.node_name.is_empty());
    let templates = [pod_with_claim(0)];
    CaseReport {
        case,
        figures: samples.figures(),
        unplaced,
        chosen,
        to_provision,
        prepare_seconds: preparing.as_secs_f64(),
        checksum: checksum.hex(),
        check: check::check(state.nodes.iter().cloned(), &[], &templates, &placed),
        volume_violations: VolumeState::new(
            state.nodes.iter().cloned(),
            state.pods.iter().cloned(),
            state.objects(),
        )
        .check(),
    }
}

/// The objects of a case.
struct Objects {
    nodes: Vec<Node>,
    pods: Vec<Pod>,
    /// The claim of each pod.
    claims: Vec<PersistentVolumeClaim>,
    volumes: Vec<PersistentVolume>,
    /// Classes, and the CSINodes of all nodes.
    others: Vec<VolumeObject>,
}

impl Objects {
    fn new(size: Volumes, case: VolumeCase) -> Objects {
        let nodes: Vec<_> = (0..size.nodes).map(|i| node(size.seed, i)).collect();
        let accepts = |node: &&Node| node.spec.taints.iter().all(|taint| taint.effect != "NoSchedule");
        let hosts: Vec<_> = nodes.iter().filter(accepts).map(|node| node.metadata.name.clone()).collect();
        let (volumes, claims) = (0..size.pods)
            .map(|i| {
                let existing = matches!(case, VolumeCase::Existing | VolumeCase::Local);
                let class = if existing { "local" } else { ["zonal", "half"][i % 2] };
                let (key, value) = match case {
                    VolumeCase::Local if !hosts.is_empty() => (HOSTNAME, hosts[i % hosts.len()].clone()),
                    _ => (ZONE, format!("zone-{}", i % N_ZONES)),
                };
                (volume(i, class, key, &value), claim(i, class))
            })
            .map(|(mut volume, mut claim)| {
                if case == VolumeCase::Bound {
                    bind(&mut volume, &mut claim);
                }
                (volume, claim)
            })
            .unzip();
        let mut others: Vec<_> = nodes.iter().map(|node| csi_node(&node.metadata.name)).collect();
        others.extend([class("zonal", DRIVER, &[]), class("local", "kubernetes.io/no-provisioner", &[])]);
        others.push(class("half", DRIVER, &["zone-0", "zone-2", "zone-4", "zone-6", "zone-8"]));
        Objects {
            nodes,
            pods: (0..size.pods).map(pod_with_claim).collect(),
            claims,
            volumes: if case == VolumeCase::Provisioned { Vec::new() } else { volumes },
            others,
        }
    }

    fn objects(&self) -> impl Iterator<Item = VolumeObject> {
        let volumes = self.volumes.iter().cloned().map(|v| VolumeObject::PersistentVolume(Box::new(v)));
        let claims = self.claims.iter().cloned().map(|c| VolumeObject::PersistentVolumeClaim(Box::new(c)));
        volumes.chain(claims).chain(self.others.iter().cloned())
    }

    /// Does what a PV controller and a provisioner do about a decision for a node.
    fn carry_out(&mut self, decision: &VolumeDecision, node: usize) {
        let number = |name: &str| name.rsplit_once('-').and_then(|(_, number)| number.parse::<usize>().ok());
        for (claim, volume) in &decision.bind {
            if let (Some(claim), Some(volume)) = (number(claim), number(volume)) {
                bind(&mut self.volumes[volume], &mut self.claims[claim]);
            }
        }
        for i in decision.provision.iter().filter_map(|claim| number(claim)) {
            let zone = self.nodes[node].metadata.label(ZONE).unwrap_or_default();
            let mut provisioned = volume(i, self.claims[i].storage_class(), ZONE, zone);
            bind(&mut provisioned, &mut self.claims[i]);
            self.volumes.push(provisioned);
        }
    }
}

fn claim(i: usize, class: &str) -> PersistentVolumeClaim {
    let name = format!("claim-{i:07}");
    object(json!({
        "metadata": {"name": name, "namespace": NAMESPACE, "uid": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": class,
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }))
}

/// A volume of 1 to 4 GiB for nodes with a label.
fn volume(i: usize, class: &str, key: &str, value: &str) -> PersistentVolume {
    let name = format!("volume-{i:07}");
    let has_label = json!({"key": key, "operator": "In", "values": [value]});
    object(json!({
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": class,
            "capacity": {"storage": format!("{}Gi", 1 + i % 4)},
            // A driver attaches the volumes of zones.
            "csi": (key == ZONE).then(|| json!({"driver": DRIVER, "volumeHandle": name})),
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [has_label]}]}},
        },
        "status": {"phase": "Available"},
    }))
}

/// A class whose claims wait for their first consumer; without zones all are allowed.
fn class(name: &str, provisioner: &str, zones: &[&str]) -> VolumeObject {
    let term = json!({"matchLabelExpressions": [{"key": ZONE, "values": zones}]});
    VolumeObject::StorageClass(object(json!({
        "metadata": {"name": name},
        "provisioner": provisioner,
        "volumeBindingMode": "WaitForFirstConsumer",
        "allowedTopologies": if zones.is_empty() { json!([]) } else { json!([term]) },
    })))
}

fn csi_node(node: &str) -> VolumeObject {
    let driver = json!({"name": DRIVER, "nodeID": node, "allocatable": {"count": ATTACH_LIMIT}});
    VolumeObject::CsiNode(object(json!({"metadata": {"name": node}, "spec": {"drivers": [driver]}})))
}

fn pod_with_claim(i: usize) -> Pod {
    let mut pod: Pod = object(json!({
        "metadata": {"name": format!("pod-{i:07}"), "namespace": NAMESPACE},
        "spec": {
            "containers": [{"name": "c", "image": "registry.example.com/app:1",
                "resources": {"requests": {"cpu": "100m", "memory": "200Mi"}}}],
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": format!("claim-{i:07}")}}],
        },
    }));
    admit(&mut pod, &AdmissionOptions::default());
    pod
}
