//! A small text form for clusters, so that a test case fits in a few lines.
//!
//! ```
//! let world = berth_testkit::text::world(
//!     "
//!     node a zone=z1 cpu=4 mem=8Gi pods=110 disk=ssd taint:dedicated=db:NoSchedule
//!     node b zone=z2 -hostname alloc:example.com/gpu=2 image:web:1=200Mi
//!     ns team-a team=data
//!     svc default/web app=web
//!     pod default/web-0 on a app=web cpu=100m tolerate:dedicated
//!     pod team-a/db-0 app=db anti(app=web,cache @zone ns:*) prefer-aff(10 app=db @rack)
//!     ",
//! );
//! assert_eq!(world.nodes.len(), 2);
//! assert_eq!(world.pods[1].key(), "team-a/db-0");
//! ```
//!
//! One object per line, `#` starts a comment, words are separated by spaces.
//!
//! **Nodes**: `node NAME` with labels `key=value` and
//! `cpu=4 mem=8Gi storage=50Gi pods=110` (these four have large defaults), `alloc:RESOURCE=N`,
//! `taint:KEY=VALUE:EFFECT` (or `taint:KEY:EFFECT`), `image:NAME=SIZE`, `feature:NAME` (declared), `unschedulable`,
//! `annotation:KEY=VALUE`, `kernel:VERSION`. The label
//! `kubernetes.io/hostname` is the name, except with `-hostname` or `hostname=...`.
//!
//! **Namespaces** `ns NAME key=value...`, **services** `svc NAMESPACE/NAME key=value...`, and **workloads**
//! `rs`, `sts`, `rc` `NAMESPACE/NAME key=value...`: the pairs are labels or selectors.
//!
//! **Budgets** `pdb NAMESPACE/NAME key=value...`: the pairs are the selector, `allowed:N` the disruptions allowed
//! (default 0), `disrupted:POD` a pod in `disruptedPods`.
//!
//! **Pods**: `pod NAMESPACE/NAME` with labels `key=value` and `on NODE`, `nominated NODE` (a nominated
//! pod), `terminating`, `preempted` (terminating because of preemption), `priority:N`, `group:NAME` (a PodGroup),
//! `started:SECONDS` (into 2026), `never-preempts`, `gate:NAME`,
//! `cpu=100m mem=64Mi storage=1Gi req:RESOURCE=N` (requests of the only container), `allocated:RESOURCE=N` (reserved
//! by the node), `infeasible` (the node rejected a resize), `restarts-all` (containers), `image:NAME`, `image-volume:NAME`,
//! `port:[IP:]N[/PROTOCOL]`, `select:KEY=VALUE`, `tolerate:KEY[=VALUE][:EFFECT]` (`tolerate:*` for all, `>` and `<` compare),
//! `tolerate-anti:NAMESPACE,...` (`*` for all), `relax:5m` (after this time), `owner:KIND/NAME`, volumes `claim:NAME`, `ephemeral:NAME`, `gce:NAME`, `ebs:ID`, `iscsi:IQN`,
//! `rbd:IMAGE@MONITOR,...` (these four with `:ro` for read-only), and groups:
//!
//! | group | field |
//! |---|---|
//! | `aff(TERM)`, `anti(TERM)` | required pod affinity, anti-affinity |
//! | `prefer-aff(WEIGHT TERM)`, `prefer-anti(WEIGHT TERM)` | preferred ones |
//! | `node(NODETERM \| NODETERM...)`, `prefer-node(WEIGHT NODETERM)` | node affinity; `node()` has no terms |
//! | `rdrd-aff`, `rdrd-anti`, `rdrd-node` | `requiredDuringSchedulingRequiredDuringExecution` |
//! | `note-...` before any of these | the same in the annotation |
//! | `spread(SKEW TERM)`, `prefer-spread(SKEW TERM)` | `DoNotSchedule`, `ScheduleAnyway`; words `min-domains=N`, `node-affinity=Ignore`, `node-taints=Honor`, `match=KEY` |
//!
//! **Volumes**: `pv NAME key=value...` (labels) with `size:10Gi class:NAME access:RWO,ROX,RWX,RWOP block phase:PHASE
//! deleting`, `claim:NAMESPACE/NAME` (bound to it), `reserved:NAMESPACE/NAME` (without UID), `csi:[DRIVER/]HANDLE`,
//! `gce:NAME`, `ebs:ID` and the group `node(...)`. **Claims** `pvc NAMESPACE/NAME key=value...` (selector) with
//! `size:1Gi class:NAME access:... block lost deleting`, `volume:NAME` (bound to it), `asks:NAME`, `selected:NODE` and
//! `of:POD` (its owner). **Classes** `class NAME key=value,value...` (allowed topologies) with `waits` (for the first
//! consumer), `static` (no provisioner), `provisioner:NAME`. **CSI** `csinode NAME DRIVER=LIMIT... migrated:PLUGIN,...`,
//! `csidriver NAME [capacity] [required]`, `capacity NAMESPACE/NAME class:NAME size:10Gi max:5Gi key=value...` (node topology, or
//! `nowhere`), `attachment NAME driver:NAME node:NAME volume:NAME`. A driver not named is `csi.example.com`.
//!
//! A TERM is requirements, `@KEY` for the topology (`@*` for the empty key), `ns=a,b` (or `ns=`) for
//! `namespaces`, `ns:REQUIREMENT` for `namespaceSelector` and `limit:N`. A requirement is `key=a,b`, `key!=a,b`, `key`,
//! `!key`, `key>1`, `key<1`, `key>v1.2`, `key<v1.2` (versions); `*` is the selector without requirements. In NODETERMs
//! `metadata.name`, `spec...` and `status...` are fields, and `annotation:REQUIREMENT` is one on an annotation.
//! The node label keys `hostname`, `zone`, `region` and `rack` are abbreviations of the standard keys.

mod terms;
mod volumes;
mod words;

use berth_api::object::volume::{ImageVolume, Volume};
use berth_api::object::{
    Affinity, Condition, Container, ContainerImage, ContainerPort, ContainerRestartRule, ContainerStatus,
    LabelSelector, Namespace, Node, OwnerReference, Pod, PodDisruptionBudget, PodSchedulingGate,
    PodSchedulingGroup, ResourceList, Service, Taint, Toleration,
};
use berth_api::syntax::annotations::{AFFINITY_ANNOTATION, RELAX_AFTER_ANNOTATION, TOLERATION_ANNOTATION};
use berth_api::syntax::quantity::Quantity;

use crate::naive::{WorkloadSelector, World};
use terms::topology_key;
use words::{bad, key, name_and_words, named_pairs, pair, quantity};

/// Reads a cluster. Pods without `on` are pending.
///
/// # Panics
/// A line is malformed.
pub fn world(text: &str) -> World {
    let mut world = World::default();
    for line in text.lines() {
        let line = line.split('#').next().unwrap_or_default().trim();
        match line.split_whitespace().next() {
            None => {}
            Some("node") => world.nodes.push(node(line)),
            Some("pod") if line.split_whitespace().any(|word| word == "nominated") => {
                world.nominated.push(pod(line));
            }
            Some("pod") => world.pods.push(pod(line)),
            Some("pdb") => world.budgets.push(budget(line)),
            Some("ns") => {
                let mut namespace = Namespace::default();
                let (name, labels) = named_pairs(line);
                (namespace.metadata.name, namespace.metadata.labels) = (name, labels.into());
                world.namespaces.push(namespace);
            }
            Some("svc") => {
                let (name, selector) = named_pairs(line);
                let mut service = Service::default();
                (service.metadata.namespace, service.metadata.name) = key(line, &name);
                service.spec.selector = selector;
                world.services.push(service);
            }
            Some(word @ ("rs" | "sts" | "rc")) => {
                let (name, match_labels) = named_pairs(line);
                let (namespace, name) = key(line, &name);
                let kind = match word {
                    "rs" => "ReplicaSet",
                    "sts" => "StatefulSet",
                    _ => "ReplicationController",
                };
                world.workloads.push(WorkloadSelector {
                    kind: kind.to_owned(),
                    namespace,
                    name,
                    selector: LabelSelector { match_labels, match_expressions: Vec::new() },
                });
            }
            Some(_) => match volumes::object(line) {
                Some(object) => world.storage.set(object),
                None => bad(line, "starts with no kind of object"),
            },
        }
    }
    world
}

/// Reads one `node` line.
///
/// # Panics
/// The line is malformed.
pub fn node(line: &str) -> Node {
    let (name, words) = name_and_words(line);
    let mut node = Node::default();
    let mut allocatable = ResourceList::new();
    for (resource, amount) in
        [("cpu", "64"), ("memory", "256Gi"), ("ephemeral-storage", "1Ti"), ("pods", "110")]
    {
        allocatable.insert(resource.to_owned(), quantity(line, amount));
    }
    node.metadata.labels.insert(topology_key("hostname"), name.clone());
    for word in words {
        if word == "unschedulable" {
            node.spec.unschedulable = true;
        } else if word == "-hostname" {
            node.metadata.labels.remove(&topology_key("hostname"));
        } else if let Some(taint) = word.strip_prefix("taint:") {
            let Some((pair, effect)) = taint.rsplit_once(':') else {
                bad(line, "has a taint without effect")
            };
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            node.spec.taints.push(Taint { key: key.into(), value: value.into(), effect: effect.into() });
        } else if let Some(annotation) = word.strip_prefix("annotation:") {
            node.metadata.annotations.extend([pair(line, annotation)]);
        } else if let Some(version) = word.strip_prefix("kernel:") {
            node.status.node_info.kernel_version = version.to_owned();
        } else if let Some(feature) = word.strip_prefix("feature:") {
            node.status.declared_features.push(feature.to_owned());
        } else if let Some(image) = word.strip_prefix("image:") {
            let (name, size) = pair(line, image);
            let size_bytes = quantity(line, &size).units();
            node.status.images.push(ContainerImage { names: vec![name], size_bytes });
        } else if let Some((resource, amount)) = resource(line, &word, "alloc:") {
            allocatable.insert(resource, amount);
        } else {
            let (key, value) = pair(line, &word);
            node.metadata.labels.insert(topology_key(&key), value);
        }
    }
    node.metadata.name = name;
    node.status.allocatable = Some(allocatable);
    node
}

/// Reads one `pod` line.
///
/// # Panics
/// The line is malformed.
pub fn pod(line: &str) -> Pod {
    let (name, words) = name_and_words(line);
    let mut pod = Pod::default();
    (pod.metadata.namespace, pod.metadata.name) = key(line, &name);
    let mut container = Container { name: "c".to_owned(), ..Container::default() };
    let (mut affinity, mut noted) = (Affinity::default(), Affinity::default());
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        if let Some((group, content)) = word.split_once('(') {
            let Some(content) = content.strip_suffix(')') else { bad(line, "has a group without end") };
            match group {
                "spread" | "prefer-spread" => {
                    pod.spec.topology_spread_constraints.push(terms::spread(line, group, content));
                }
                _ => match group.strip_prefix("note-") {
                    Some(group) => terms::affinity(line, &mut noted, group, content),
                    None => terms::affinity(line, &mut affinity, group, content),
                },
            }
        } else if word == "on" || word == "nominated" {
            pod.spec.node_name = words.next().unwrap_or_else(|| bad(line, "says on, but not where"));
        } else if word == "terminating" {
            pod.metadata.deletion_timestamp = "2026-01-01T00:00:00Z".parse().ok();
        } else if word == "preempted" {
            pod.metadata.deletion_timestamp = "2026-01-01T00:00:00Z".parse().ok();
            pod.status.conditions.push(Condition {
                condition_type: "DisruptionTarget".to_owned(),
                status: "True".to_owned(),
                reason: "PreemptionByScheduler".to_owned(),
                ..Condition::default()
            });
        } else if word == "infeasible" {
            pod.status.conditions.push(Condition {
                condition_type: "PodResizePending".to_owned(),
                status: "True".to_owned(),
                reason: "Infeasible".to_owned(),
                ..Condition::default()
            });
        } else if let Some(allocated) = word.strip_prefix("allocated:") {
            let (resource, amount) = pair(line, allocated);
            let amounts = ResourceList::from([(resource, quantity(line, &amount))]);
            pod.status.container_statuses.push(ContainerStatus {
                name: "c".to_owned(),
                allocated_resources: Some(amounts),
                resources: None,
            });
        } else if word == "restarts-all" {
            let rule = ContainerRestartRule { action: "RestartAllContainers".to_owned() };
            container.restart_policy_rules.push(rule);
        } else if let Some(image) = word.strip_prefix("image-volume:") {
            let image = Some(ImageVolume { reference: image.to_owned() });
            pod.spec.volumes.push(Volume { name: "image".to_owned(), image, ..Volume::default() });
        } else if word == "never-preempts" {
            pod.spec.preemption_policy = Some("Never".to_owned());
        } else if let Some(group) = word.strip_prefix("group:") {
            pod.spec.scheduling_group = Some(PodSchedulingGroup { pod_group_name: group.to_owned() });
        } else if let Some(priority) = word.strip_prefix("priority:") {
            let priority =
                priority.parse().unwrap_or_else(|_| bad(line, "has a priority that is not a number"));
            pod.spec.priority = Some(priority);
        } else if let Some(seconds) = word.strip_prefix("started:") {
            let seconds: u32 =
                seconds.parse().unwrap_or_else(|_| bad(line, "has a start that is not a number"));
            let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
            pod.status.start_time = format!("2026-01-01T{hours:02}:{minutes:02}:{seconds:02}Z").parse().ok();
        } else if let Some(gate) = word.strip_prefix("gate:") {
            pod.spec.scheduling_gates.push(PodSchedulingGate { name: gate.to_owned() });
        } else if let Some(image) = word.strip_prefix("image:") {
            container.image = image.to_owned();
        } else if let Some(port) = word.strip_prefix("port:") {
            container.ports.push(host_port(line, port));
        } else if let Some(selector) = word.strip_prefix("select:") {
            let (key, value) = pair(line, selector);
            pod.spec.node_selector.insert(topology_key(&key), value);
        } else if let Some(text) = word.strip_prefix("tolerate:") {
            pod.spec.tolerations.push(toleration(text));
        } else if let Some(namespaces) = word.strip_prefix("tolerate-anti:") {
            pod.metadata.annotations.insert(TOLERATION_ANNOTATION.to_owned(), namespaces.to_owned());
        } else if let Some(after) = word.strip_prefix("relax:") {
            pod.metadata.annotations.insert(RELAX_AFTER_ANNOTATION.to_owned(), after.to_owned());
        } else if let Some(owner) = word.strip_prefix("owner:") {
            pod.metadata.owner_references.push(owner_reference(line, owner));
        } else if let Some(volume) = volumes::pod_volume(&word, pod.spec.volumes.len()) {
            pod.metadata.uid = pod.key();
            pod.spec.volumes.push(volume);
        } else if let Some((resource, amount)) = resource(line, &word, "req:") {
            container.resources.requests.insert(resource, amount);
        } else {
            let (key, value) = pair(line, &word);
            pod.metadata.labels.insert(key, value);
        }
    }
    pod.spec.containers.push(container);
    if affinity != Affinity::default() {
        pod.spec.affinity = Some(affinity.into());
    }
    if noted != Affinity::default() {
        let json = serde_json::to_string(&noted).expect("affinity is JSON");
        pod.metadata.annotations.insert(AFFINITY_ANNOTATION.to_owned(), json);
    }
    pod
}

fn budget(line: &str) -> PodDisruptionBudget {
    let (name, words) = name_and_words(line);
    let mut budget = PodDisruptionBudget::default();
    (budget.metadata.namespace, budget.metadata.name) = key(line, &name);
    let mut selector = LabelSelector::default();
    for word in words {
        if let Some(n) = word.strip_prefix("allowed:") {
            budget.status.disruptions_allowed =
                Some(n.parse().unwrap_or_else(|_| bad(line, "allows no number")));
        } else if let Some(pod) = word.strip_prefix("disrupted:") {
            budget.status.disrupted_pods.insert(pod.to_owned(), Default::default());
        } else {
            let (key, value) = pair(line, &word);
            selector.match_labels.insert(key, value);
        }
    }
    budget.spec.selector = Some(selector);
    budget
}

/// `cpu=1`, `mem=1Gi`, `storage=1Gi`, `pods=5`, or any resource after the prefix.
fn resource(line: &str, word: &str, prefix: &str) -> Option<(String, Quantity)> {
    let (name, amount) = word.split_once('=')?;
    let name = match (name, name.strip_prefix(prefix)) {
        (_, Some(name)) => name,
        ("cpu", _) => "cpu",
        ("mem", _) => "memory",
        ("storage", _) => "ephemeral-storage",
        ("pods", _) => "pods",
        _ => return None,
    };
    Some((name.to_owned(), quantity(line, amount)))
}

fn host_port(line: &str, text: &str) -> ContainerPort {
    let (address, protocol) = text.split_once('/').unwrap_or((text, "TCP"));
    let (ip, port) = address.rsplit_once(':').unwrap_or(("", address));
    let port = port.parse().unwrap_or_else(|_| bad(line, "has a port that is not a number"));
    ContainerPort {
        container_port: port,
        host_port: port,
        host_ip: ip.to_owned(),
        protocol: protocol.to_owned(),
        ..ContainerPort::default()
    }
}

fn toleration(text: &str) -> Toleration {
    let (pair, effect) = text.split_once(':').unwrap_or((text, ""));
    let (key, value, operator) = match pair.split_once(['=', '>', '<']) {
        Some((key, value)) if pair.contains('>') => (key, value, "Gt"),
        Some((key, value)) if pair.contains('<') => (key, value, "Lt"),
        Some((key, value)) => (key, value, "Equal"),
        None => (if pair == "*" { "" } else { pair }, "", "Exists"),
    };
    Toleration {
        key: key.to_owned(),
        operator: operator.to_owned(),
        value: value.to_owned(),
        effect: effect.to_owned(),
        toleration_seconds: None,
    }
}

fn owner_reference(line: &str, text: &str) -> OwnerReference {
    let (kind, name) = key(line, text);
    let api_version = if kind == "ReplicationController" { "v1" } else { "apps/v1" };
    OwnerReference {
        api_version: api_version.to_owned(),
        kind,
        name,
        controller: Some(true),
        ..Default::default()
    }
}
