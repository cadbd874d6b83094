//! Small clusters and changes of them, by seed.
//!
//! Workloads do not compete: capacity that may run out is an extended resource of one workload, and a quota is that of a namespace with one
//! workload. So how many pods run does not depend on the order in which controllers that know nothing of each other create them.

use berth_api::object::{NamespacedName, Taint};
use berth_api::read::Kind;
use berth_api::syntax::labels::{HOSTNAME, ZONE};
use berth_simulate::what_if::Change;
use fastrand::Rng;
use serde_json::{Value, json};

/// The key of taints that pods may tolerate for some time.
const MAINTENANCE: &str = "maintenance";
/// The longest of these times.
const MOST_SECONDS: i64 = 60;

/// A change, before it is known which pods there are.
#[derive(Clone, Debug)]
pub enum Step {
    Change(Change),
    /// The eviction of a pod of a workload: kind and name in a namespace.
    EvictOneOf(String, String),
    /// A workload gets another template.
    NewTemplate(Kind, NamespacedName),
}

pub struct SceneWorkload {
    pub kind: Kind,
    pub name: NamespacedName,
}

/// What users create, in this order, and what they do then.
pub struct Scene {
    pub objects: Vec<Value>,
    pub workloads: Vec<SceneWorkload>,
    pub steps: Vec<Step>,
    /// One of so many pods is not ready; none without a number.
    unready: Option<usize>,
}

impl Scene {
    /// Whether the pod at a position of the list of all pods is not ready from the first time on that the cluster has settled.
    pub fn fails_probes(&self, position: usize) -> bool {
        self.unready.is_some_and(|one_of| position % one_of == one_of - 1)
    }

    /// Whether pods tolerate the taint of scenes for a time: they may be placed again and again on a node that has it.
    pub fn has_pods_that_return(&self) -> bool {
        let templates = self
            .objects
            .iter()
            .filter_map(|object| object.pointer("/spec/template/spec/tolerations")?.as_array());
        templates.flatten().any(|t| t["key"] == MAINTENANCE && !t["tolerationSeconds"].is_null())
    }

    /// The scene of a seed.
    pub fn new(rng: &mut Rng) -> Scene {
        let (n_nodes, n_zones) = (rng.usize(3..=6), rng.usize(2..=3));
        let unready = rng.bool().then(|| rng.usize(2..6));
        let mut scene = Scene { objects: Vec::new(), workloads: Vec::new(), steps: Vec::new(), unready };
        let n_workloads = rng.usize(1..=4);
        for i in 0..n_nodes {
            let node = node(rng, i, n_zones, n_workloads);
            scene.objects.push(node);
        }
        for i in 0..n_workloads {
            scene.workload(rng, i, n_zones);
        }
        for i in 0..rng.usize(..3) {
            let mut spec = pod_spec(rng, None, n_zones);
            if rng.u32(..3) == 0 {
                spec["nodeName"] = json!(format!("n{}", rng.usize(..n_nodes)));
            }
            let metadata = json!({"name": format!("bare-{i}"), "namespace": "default", "labels": {"app": format!("bare-{i}")}});
            scene
                .objects
                .push(json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}));
        }
        for _ in 0..rng.usize(1..=5) {
            let step = scene.step(rng, n_nodes, n_zones);
            scene.steps.push(step);
        }
        scene.groups(rng);
        scene.out_of_service(rng, n_nodes, n_zones);
        scene
    }

    /// Some nodes that cannot be reached are said to be out of service.
    fn out_of_service(&mut self, rng: &mut Rng, n_nodes: usize, n_zones: usize) {
        let lost = |step: &Step| match step {
            Step::Change(Change::LoseContact { value, .. }) => value.strip_prefix('z')?.parse().ok(),
            _ => None,
        };
        let found = self.steps.iter().enumerate().find_map(|(at, step)| Some((at, lost(step)?)));
        let Some((at, zone)) = found.filter(|_| rng.bool()) else { return };
        let key = "node.kubernetes.io/out-of-service".to_owned();
        let effect = if rng.bool() { "NoExecute" } else { "NoSchedule" };
        let taint = Taint { key, value: String::new(), effect: effect.to_owned() };
        let nodes = (zone..n_nodes).step_by(n_zones).map(|node| format!("n{node}"));
        let taints = nodes.map(|node| Step::Change(Change::SetTaint { node, taint: taint.clone() }));
        self.steps.splice(at + 1..at + 1, taints);
    }

    /// The pods of some workloads are placed together.
    fn groups(&mut self, rng: &mut Rng) {
        let kinds = [Kind::Deployment, Kind::ReplicaSet, Kind::StatefulSet].map(Kind::name);
        let mut groups = Vec::new();
        for workload in
            self.objects.iter_mut().filter(|object| kinds.iter().any(|kind| object["kind"] == *kind))
        {
            if rng.u32(..5) == 0 {
                let metadata = workload["metadata"].clone();
                workload["spec"]["template"]["spec"]["schedulingGroup"] =
                    json!({"podGroupName": metadata["name"]});
                groups.push(json!({"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "metadata": metadata,
                    "spec": {"schedulingPolicy": {"gang": {"minCount": rng.u32(1..=3)}}}}));
            }
        }
        self.objects.extend(groups);
    }

    fn workload(&mut self, rng: &mut Rng, i: usize, n_zones: usize) {
        let name = format!("w{i}");
        let mut namespace = "default".to_owned();
        if rng.u32(..3) == 0 {
            namespace = format!("of-{name}");
            self.objects
                .push(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}));
            self.admission(rng, &namespace);
        }
        let kinds = [
            Kind::Deployment,
            Kind::Deployment,
            Kind::ReplicaSet,
            Kind::StatefulSet,
            Kind::StatefulSet,
            Kind::DaemonSet,
            Kind::Job,
        ];
        let kind = kinds[rng.usize(..kinds.len())];
        let metadata = json!({"name": name, "namespace": namespace});
        let labels = json!({"app": name});
        let scarce = (kind != Kind::DaemonSet && rng.bool()).then_some(i);
        let mut template = pod_spec(rng, scarce, n_zones);
        if rng.u32(..3) == 0 && kind != Kind::DaemonSet {
            rules(rng, &name, &mut template);
        }
        if matches!(kind, Kind::DaemonSet | Kind::Job) {
            // A DaemonSet creates its pod on the same node again, for ever. For a Job, evicted pods are failed ones, after which it pauses.
            for toleration in template["tolerations"].as_array_mut().into_iter().flatten() {
                toleration.as_object_mut().and_then(|toleration| toleration.remove("tolerationSeconds"));
            }
        }
        let mut spec = json!({"template": {"metadata": {"labels": labels}, "spec": template}});
        if kind != Kind::Job {
            spec["selector"] = json!({"matchLabels": labels});
        }
        let replicas = rng.u32(1..=5);
        match kind {
            Kind::DaemonSet => {}
            Kind::Job => {
                (spec["parallelism"], spec["completions"]) = (json!(replicas), json!(replicas));
                spec["template"]["spec"]["restartPolicy"] = json!("Never");
                // Evicted pods count as failed ones, and failures of Jobs are not simulated.
                spec["backoffLimit"] = json!(1000);
            }
            Kind::Deployment if rng.u32(..4) == 0 => {
                let min = rng.u32(1..=3);
                let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": name});
                self.objects.push(json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": metadata,
                    "spec": {"scaleTargetRef": target, "minReplicas": min, "maxReplicas": min + rng.u32(..3)}}));
            }
            _ => spec["replicas"] = json!(replicas),
        }
        if kind == Kind::StatefulSet {
            spec["serviceName"] = json!(name);
            spec["podManagementPolicy"] = json!(if rng.bool() { "Parallel" } else { "OrderedReady" });
            if rng.u32(..3) == 0 {
                spec["volumeClaimTemplates"] = json!([{"metadata": {"name": "data"}, "spec": {
                    "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}]);
                spec["template"]["spec"]["containers"][0]["volumeMounts"] =
                    json!([{"name": "data", "mountPath": "/data"}]);
            }
        }
        if rng.bool() {
            let limit = if rng.bool() { "minAvailable" } else { "maxUnavailable" };
            let number = match rng.u32(..3) {
                0 => json!(["0%", "30%", "50%", "100%"][rng.usize(..4)]),
                _ => json!(rng.u32(..4)),
            };
            let mut budget = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata,
                "spec": {limit: number, "selector": {"matchLabels": labels}}});
            if rng.u32(..4) == 0 {
                budget["spec"]["unhealthyPodEvictionPolicy"] = json!("AlwaysAllow");
            }
            self.objects.push(budget);
        }
        let api_version = if kind == Kind::Job { "batch/v1" } else { "apps/v1" };
        self.objects.push(
            json!({"apiVersion": api_version, "kind": kind.name(), "metadata": metadata, "spec": spec}),
        );
        self.workloads.push(SceneWorkload { kind, name: NamespacedName::new(&namespace, &name) });
    }

    fn admission(&mut self, rng: &mut Rng, namespace: &str) {
        let metadata = json!({"name": "limits", "namespace": namespace});
        if rng.bool() {
            let mut hard = json!({"pods": rng.u32(1..=5)});
            if rng.bool() {
                hard["requests.memory"] = json!(format!("{}Mi", 64 * rng.u32(1..=6)));
            }
            self.objects.push(json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": {"hard": hard}}));
        }
        let limit = json!({"type": "Container", "defaultRequest": {"memory": "64Mi"}, "max": {"cpu": "2"}});
        self.objects.push(json!({"apiVersion": "v1", "kind": "LimitRange", "metadata": metadata, "spec": {"limits": [limit]}}));
    }

    fn step(&self, rng: &mut Rng, n_nodes: usize, n_zones: usize) -> Step {
        let node = format!("n{}", rng.usize(..n_nodes));
        let workload = &self.workloads[rng.usize(..self.workloads.len())];
        let zone = format!("z{}", rng.usize(..n_zones));
        let has_rollouts = !matches!(workload.kind, Kind::Job | Kind::ReplicaSet);
        if has_rollouts && rng.u32(..6) == 0 {
            return Step::NewTemplate(workload.kind, workload.name.clone());
        }
        Step::Change(match rng.u32(..13) {
            0 => Change::Cordon(node),
            1..=3 => Change::Drain(node),
            4 => Change::Uncordon(node),
            5 => Change::RemoveNode(node),
            6 => Change::AddNodes { n_nodes: rng.usize(1..=2), like: node },
            7 | 8 if !matches!(workload.kind, Kind::DaemonSet | Kind::Job) => {
                Change::Scale { kind: workload.kind, name: workload.name.clone(), n_replicas: rng.u16(..7) }
            }
            7..=9 => {
                let effect = if rng.bool() { "NoExecute" } else { "NoSchedule" };
                let (key, value) = (MAINTENANCE.to_owned(), String::new());
                Change::SetTaint { node, taint: Taint { key, value, effect: effect.to_owned() } }
            }
            10 => Change::RemoveTaint { node, key: MAINTENANCE.to_owned(), effect: None },
            11 if rng.bool() => Change::RemoveDomain { key: ZONE.to_owned(), value: zone },
            11 => Change::LoseContact { key: ZONE.to_owned(), value: zone, seconds: None },
            _ => {
                let text = format!("{} {}", workload.kind.name(), workload.name.name());
                return Step::EvictOneOf(workload.name.namespace().to_owned(), text);
            }
        })
    }
}

/// The name of the resource that only pods of a workload request.
fn scarce_resource(workload: usize) -> String {
    format!("example.com/w{workload}")
}

fn node(rng: &mut Rng, i: usize, n_zones: usize, n_workloads: usize) -> Value {
    let name = format!("n{i}");
    let mut allocatable = json!({"cpu": "8", "memory": "16Gi", "pods": "40"});
    for workload in 0..n_workloads {
        allocatable[scarce_resource(workload)] = json!(rng.u32(..3).to_string());
    }
    let mut node = json!({"apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": {HOSTNAME: name, ZONE: format!("z{}", i % n_zones)}},
        "spec": {}, "status": {"capacity": allocatable, "allocatable": allocatable}});
    if rng.u32(..6) == 0 {
        let effect = if rng.bool() { "NoExecute" } else { "NoSchedule" };
        node["spec"]["taints"] = json!([{"key": "dedicated", "effect": effect}]);
    }
    node
}

fn pod_spec(rng: &mut Rng, scarce: Option<usize>, n_zones: usize) -> Value {
    let mut requests = json!({"cpu": "100m"});
    let mut limits = json!({});
    if let Some(workload) = scarce {
        requests[scarce_resource(workload)] = json!("1");
        limits[scarce_resource(workload)] = json!("1");
    }
    // With 0, pods are gone at once, also those that no kubelet ends; simulations do not have grace periods.
    let mut spec = json!({"terminationGracePeriodSeconds": rng.u32(1..3),
        "containers": [{"name": "c", "image": "i", "resources": {"requests": requests, "limits": limits}}]});
    let mut tolerations = Vec::new();
    if rng.u32(..3) == 0 {
        tolerations.push(json!({"key": "dedicated", "operator": "Exists"}));
    }
    if rng.u32(..4) == 0 {
        let mut toleration = json!({"key": MAINTENANCE, "operator": "Exists", "effect": "NoExecute"});
        if rng.bool() {
            toleration["tolerationSeconds"] = json!(rng.i64(1..=MOST_SECONDS));
        }
        tolerations.push(toleration);
    }
    if rng.u32(..6) == 0 {
        let mut toleration =
            json!({"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute"});
        if rng.bool() {
            toleration["tolerationSeconds"] = json!(rng.i64(..=MOST_SECONDS));
        }
        tolerations.push(toleration);
    }
    if !tolerations.is_empty() {
        spec["tolerations"] = json!(tolerations);
    }
    if rng.u32(..6) == 0 {
        spec["nodeSelector"] = json!({ZONE: format!("z{}", rng.usize(..n_zones))});
    }
    spec
}

/// Rules about other pods of the same workload.
fn rules(rng: &mut Rng, app: &str, spec: &mut Value) {
    let selector = json!({"matchLabels": {"app": app}});
    if rng.u32(..3) == 0 {
        spec["affinity"] = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
            [{"labelSelector": selector, "topologyKey": HOSTNAME}]}});
        return;
    }
    let key = if rng.bool() { ZONE } else { HOSTNAME };
    let mut constraint = json!({"maxSkew": rng.u32(1..=2), "topologyKey": key,
        "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector});
    if rng.u32(..3) == 0 {
        constraint["nodeTaintsPolicy"] = json!("Honor");
    }
    spec["topologySpreadConstraints"] = json!([constraint]);
}
