//! Random clusters of at most eight nodes, with a group of at most twelve pods.

use std::fmt::{self, Write as _};

use berth_api::object::{Pod, PodResourceClaim};
use berth_input::inventory::Inventory;
use berth_testkit::generate::Random;
use berth_testkit::naive::World;
use berth_testkit::text;

use crate::common::admitted;

/// A cluster with pending pods that are a group.
pub struct Case {
    text: String,
    /// Nodes and pods; the claims of the pods are beside it.
    pub world: World,
    /// The models of the devices of each node.
    pub devices: Vec<Vec<&'static str>>,
    /// By member.
    claims: Vec<Option<DeviceClaim>>,
}

/// What a member claims.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceClaim {
    /// The models of the devices, or any.
    requests: Vec<Option<&'static str>>,
    /// Whether it is the one claim that several members use.
    pub is_shared: bool,
}

impl DeviceClaim {
    /// The model of each device, or any.
    pub fn models(&self) -> impl Iterator<Item = Option<&str>> {
        self.requests.iter().map(|model| *model as Option<&str>)
    }

    fn manifest(&self, name: &str) -> String {
        let request = |(i, model): (usize, &Option<&str>)| {
            let selector = model.map(|model| {
                format!(
                    ", selectors: [{{cel: {{expression: 'device.attributes[\"gpu.example.com\"].model == \"{model}\"'}}}}]"
                )
            });
            format!("{{name: r{i}, exactly: {{deviceClassName: gpu{}}}}}", selector.unwrap_or_default())
        };
        let requests: Vec<_> = self.requests.iter().enumerate().map(request).collect();
        format!(
            "---\n{{apiVersion: resource.k8s.io/v1, kind: ResourceClaim, metadata: {{name: {name}, namespace: default, \
             uid: uid-{name}}}, spec: {{devices: {{requests: [{}]}}}}}}\n",
            requests.join(", ")
        )
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}devices of nodes: {:?}\nclaims of members: {:?}\n", self.text, self.devices, self.claims)
    }
}

impl Case {
    /// A case with the models of the devices of each node, and those that each member claims.
    pub fn new(text: String, devices: &[&[&'static str]], claims: &[&[Option<&'static str>]]) -> Case {
        let claim =
            |models: &&[Option<&'static str>]| DeviceClaim { requests: models.to_vec(), is_shared: false };
        Case {
            world: text::world(&text),
            text,
            devices: devices.iter().map(|models| models.to_vec()).collect(),
            claims: claims.iter().map(|models| (!models.is_empty()).then(|| claim(models))).collect(),
        }
    }

    pub fn claim_of(&self, member: usize) -> Option<&DeviceClaim> {
        self.claims.get(member)?.as_ref()
    }

    /// The pending pods, without claims.
    pub fn members(&self) -> Vec<Pod> {
        let waiting = self.world.pods.iter().filter(|pod| pod.spec.node_name.is_empty());
        waiting.map(|pod| admitted(pod, true)).collect()
    }

    fn claim_name(&self, member: usize) -> Option<String> {
        let claim = self.claim_of(member)?;
        Some(if claim.is_shared { "shared".to_owned() } else { format!("own-{member}") })
    }

    /// The pending pods with their claims.
    pub fn members_with_claims(&self) -> Vec<Pod> {
        let mut members = self.members();
        for (i, pod) in members.iter_mut().enumerate() {
            let claim = self.claim_name(i).map(|name| PodResourceClaim {
                name: "devices".to_owned(),
                resource_claim_name: Some(name),
                ..PodResourceClaim::default()
            });
            pod.metadata.uid = format!("uid-{}", pod.metadata.name);
            pod.spec.resource_claims.extend(claim);
        }
        members
    }

    /// The device class, slices and claims.
    pub fn device_objects(&self) -> Inventory {
        let mut manifest =
            "{apiVersion: resource.k8s.io/v1, kind: DeviceClass, metadata: {name: gpu}, spec: {}}\n"
                .to_owned();
        for (node, devices) in self.world.nodes.iter().zip(&self.devices) {
            let name = &node.metadata.name;
            let device = |(i, model): (usize, &&str)| {
                format!("{{name: d{i}, attributes: {{model: {{string: {model}}}, serial: {{int: {i}}}}}}}")
            };
            let devices: Vec<_> = devices.iter().enumerate().map(device).collect();
            _ = writeln!(
                manifest,
                "---\n{{apiVersion: resource.k8s.io/v1, kind: ResourceSlice, metadata: {{name: {name}}}, spec: {{driver: \
                 gpu.example.com, nodeName: {name}, pool: {{name: {name}, generation: 1, resourceSliceCount: 1}}, devices: [{}]}}}}",
                devices.join(", ")
            );
        }
        let mut names = Vec::new();
        for (i, claim) in self.claims.iter().enumerate() {
            let (Some(claim), Some(name)) = (claim, self.claim_name(i)) else { continue };
            if !names.contains(&name) {
                manifest += &claim.manifest(&name);
                names.push(name);
            }
        }
        Inventory::from_text(&manifest).expect("the manifest is valid")
    }
}

/// The largest number of nodes, and of members.
pub fn draw(random: &mut Random, max_nodes: usize, max_members: usize) -> Case {
    let n_nodes = max_nodes / 2 + random.below(max_nodes - max_nodes / 2 + 1);
    let n_members = max_members / 2 + random.below(max_members - max_members / 2 + 1);
    let mut text = String::new();
    let has_devices = random.chance(40);
    let room = 1 + random.below(4);
    let mut devices = Vec::new();
    for i in 0..n_nodes {
        let zone = if random.chance(95) { format!("zone=z{}", random.below(3)) } else { String::new() };
        let taint = if random.chance(5) { "taint:full:NoSchedule" } else { "" };
        _ = writeln!(text, "node n{i} {zone} cpu={} {taint}", room + random.below(2));
        let n_devices = if has_devices { random.below(4) } else { 0 };
        let mut models: Vec<_> =
            (0..n_devices).map(|_| *random.pick(&["a", "b"]).expect("two models")).collect();
        if random.chance(50) {
            models.sort_unstable();
        }
        devices.push(models);
    }
    for i in 0..random.below(4) {
        let (node, app) = (random.below(n_nodes), random.word(&["a", "b", "c"]));
        _ = writeln!(text, "pod default/run{i} on n{node} app={app} cpu=1");
    }
    let kinds: Vec<_> =
        (0..1 + random.below(4)).map(|_| (rules(random), claim(random, has_devices))).collect();
    let mut claims = Vec::new();
    for i in 0..n_members {
        let (rules, claim) = random.pick(&kinds).expect("there is a kind");
        _ = writeln!(text, "pod default/m{i} {rules} priority:1");
        claims.push(claim.clone());
    }
    let shared = claims.iter().flatten().find(|claim| claim.is_shared).cloned();
    claims.iter_mut().filter(|claim| claim.as_ref().is_some_and(|claim| claim.is_shared)).for_each(|claim| {
        *claim = shared.clone();
    });
    let world = text::world(&text);
    Case { text, world, devices, claims }
}

/// What pods of one kind request and require.
fn rules(random: &mut Random) -> String {
    let mut text = format!("app={} cpu={}", random.word(&["a", "b", "c"]), 1 + random.below(2));
    if random.chance(15) {
        _ = write!(text, " port:{}", 8080 + random.below(2));
    }
    let n_terms = random.below(3).min(random.below(3));
    for is_first in (0..n_terms).map(|i| i == 0) {
        let key = random.word(&["@zone", "@hostname", "@zone"]);
        let term = format!("app={} {key}", random.words(&["a", "b", "c"], 1, 2).join(","));
        match random.below(8) {
            0..3 => _ = write!(text, " aff({term})"),
            3..5 => _ = write!(text, " anti({term})"),
            5 | 6 if is_first => _ = write!(text, " spread({} {term})", 1 + random.below(2)),
            _ => _ = write!(text, " prefer-anti({} {term})", 1 + random.below(100)),
        }
    }
    text
}

fn claim(random: &mut Random, has_devices: bool) -> Option<DeviceClaim> {
    if !has_devices || random.chance(30) {
        return None;
    }
    let requests =
        (0..1 + random.below(2)).map(|_| *random.pick(&[None, Some("a"), Some("b")]).expect("three"));
    Some(DeviceClaim { requests: requests.collect(), is_shared: random.chance(15) })
}
