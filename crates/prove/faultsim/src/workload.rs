//! What users do in a run: workloads with rules are created, scaled, rolled and deleted; nodes are labelled, tainted, drained,
//! switched off and on. The seed chooses all of it.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use berth_api::object::group::{GROUP_ANNOTATION, GROUP_MIN_ANNOTATION, GROUP_REQUIRED_TOPOLOGY_ANNOTATION};
use berth_api::syntax::labels::{HOSTNAME, ZONE};
use berth_kubelet::NodeControl;
use fastrand::Rng;
use http::Method;
use serde_json::{Value, json};

pub const APPS: [&str; 6] = ["web", "db", "cache", "queue", "batch", "mail"];

/// A namespace with a quota, in which objects are only created.
pub const GROWING: &str = "growing";
/// What its quota counts.
pub const COUNTED: &str = "count/configmaps";

/// The switches of the simulated nodes, by kubelet.
pub type Switches = Arc<Mutex<Vec<NodeControl>>>;

/// Something that a user does.
#[derive(Clone, Debug)]
pub enum Action {
    /// A request; repeated until it succeeds or cannot succeed.
    Request(Method, String, Value),
    /// Cordons a node and evicts its pods.
    Drain(String),
    /// Gives a pod of an app the label of another app.
    Relabel(&'static str, &'static str),
    /// Switches a node off or on.
    Power(String, bool),
}

/// The actions of a run with their times, and what the seed has chosen for its nodes.
pub struct Workload {
    /// Nodes of the two kubelets.
    pub n_nodes: [usize; 2],
    pub n_zones: usize,
    /// CPUs of a node.
    pub cpus: i64,
    /// In the order of time.
    pub actions: Vec<(Duration, Action)>,
}

impl Workload {
    /// The workload of a seed, with actions until `end`.
    pub fn new(rng: &mut Rng, end: Duration, has_groups: bool) -> Workload {
        let n_nodes = [rng.usize(2..6), rng.usize(1..5)];
        let mut workload =
            Workload { n_nodes, n_zones: rng.usize(1..4), cpus: rng.i64(2..5), actions: Vec::new() };
        let nodes = workload.nodes();
        workload.classes();
        let n_apps = rng.usize(2..=APPS.len());
        for app in &APPS[..n_apps] {
            workload.app(rng, app, end);
        }
        for i in 0..rng.usize(..8) {
            let at = rng.u64(5_000..end.as_millis() as u64);
            let app = APPS[rng.usize(..n_apps)];
            let mut pod = pod(rng, app);
            pod["apiVersion"] = json!("v1");
            pod["kind"] = json!("Pod");
            pod["metadata"]["name"] = json!(format!("bare-{i}"));
            pod["spec"]["terminationGracePeriodSeconds"] = json!(rng.u32(..5));
            workload.post(at, "/api/v1/namespaces/default/pods", pod);
            if rng.u32(..3) == 0 {
                let path = format!("/api/v1/namespaces/default/pods/bare-{i}");
                let later = at + rng.u64(5_000..40_000);
                let label = json!({"metadata": {"labels": {"app": APPS[rng.usize(..n_apps)]}}});
                workload.add(later, Action::Request(Method::PATCH, path, label));
            }
        }
        for _ in 0..rng.usize(..6) {
            let at = rng.u64(10_000..end.as_millis() as u64);
            workload.add(at, Action::Relabel(APPS[rng.usize(..n_apps)], APPS[rng.usize(..n_apps)]));
        }
        for _ in 0..rng.usize(..10) {
            let node = nodes[rng.usize(..nodes.len())].clone();
            workload.node(rng, node, end);
        }
        if has_groups {
            (0..rng.usize(..4)).for_each(|i| workload.group(rng, i, end));
        }
        // In the end all nodes run, so that what should be done can be done.
        for node in nodes {
            workload.add(end.as_millis() as u64, Action::Power(node, true));
        }
        workload.actions.sort_by_key(|(at, _)| *at);
        workload
    }

    pub fn nodes(&self) -> Vec<String> {
        let kubelets = ["a-", "b-"].into_iter().zip(self.n_nodes);
        kubelets.flat_map(|(prefix, n)| (1..=n).map(move |i| format!("{prefix}{i}"))).collect()
    }

    pub fn classes(&mut self) {
        for (name, value) in [("low", 10), ("high", 1000)] {
            let class = json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
                "metadata": {"name": name}, "value": value});
            self.post(0, "/apis/scheduling.k8s.io/v1/priorityclasses", class);
        }
    }

    pub fn add(&mut self, millis: u64, action: Action) {
        self.actions.push((Duration::from_millis(millis), action));
    }

    /// A user changes an object.
    pub fn patch(&mut self, millis: u64, path: &str, change: Value) {
        self.add(millis, Action::Request(Method::PATCH, path.to_owned(), change));
    }

    /// A user creates an object.
    pub fn post(&mut self, millis: u64, path: &str, object: Value) {
        self.add(millis, Action::Request(Method::POST, path.to_owned(), object));
    }

    /// A Deployment or StatefulSet with what happens to it, and perhaps a disruption budget.
    fn app(&mut self, rng: &mut Rng, app: &str, end: Duration) {
        let created = 5_000 + rng.u64(..20_000);
        let end = end.as_millis() as u64;
        let is_stateful = rng.u32(..3) == 0;
        let template = pod(rng, app);
        let mut object = json!({"apiVersion": "apps/v1", "metadata": {"name": app}, "spec": {
            "replicas": rng.u32(1..9), "selector": {"matchLabels": {"app": app}}, "template": template}});
        let collection = if is_stateful {
            object["kind"] = json!("StatefulSet");
            object["spec"]["serviceName"] = json!(app);
            object["spec"]["podManagementPolicy"] =
                json!(if rng.bool() { "Parallel" } else { "OrderedReady" });
            if rng.bool() {
                object["spec"]["volumeClaimTemplates"] = json!([{"metadata": {"name": "data"}, "spec": {
                    "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}]);
                object["spec"]["template"]["spec"]["containers"][0]["volumeMounts"] =
                    json!([{"name": "data", "mountPath": "/data"}]);
            }
            "/apis/apps/v1/namespaces/default/statefulsets"
        } else {
            object["kind"] = json!("Deployment");
            "/apis/apps/v1/namespaces/default/deployments"
        };
        self.post(created, collection, object);
        let path = format!("{collection}/{app}");
        for _ in 0..rng.usize(..5) {
            let at = rng.u64(created..end.max(created + 1));
            let change = match rng.u32(..5) {
                0 | 1 => json!({"spec": {"replicas": rng.u32(..10)}}),
                2 | 3 => {
                    json!({"spec": {"template": {"metadata": {"labels": {"version": rng.u32(..100).to_string()}}}}})
                }
                _ => json!({"spec": {"template": {"spec": {"nodeSelector": {"disk": "ssd"}}}}}),
            };
            self.add(at, Action::Request(Method::PATCH, path.clone(), change));
        }
        if rng.u32(..8) == 0 {
            self.add(
                rng.u64(created..end.max(created + 1)),
                Action::Request(Method::DELETE, path, Value::Null),
            );
        }
        if rng.u32(..3) == 0 {
            let limit = if rng.bool() { "minAvailable" } else { "maxUnavailable" };
            let budget = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": app},
                "spec": {limit: rng.u32(1..3), "selector": {"matchLabels": {"app": app}}}});
            self.post(created, "/apis/policy/v1/namespaces/default/poddisruptionbudgets", budget);
        }
    }

    /// Pods that are placed as one unit: a Deployment, or bare pods. Their group is an object, or in their annotations.
    fn group(&mut self, rng: &mut Rng, i: usize, end: Duration) {
        let name = format!("gang-{i}");
        let end = end.as_millis() as u64;
        let created = rng.u64(5_000..end);
        let n = rng.usize(2..5);
        let min = if rng.bool() { n } else { rng.usize(1..=n) };
        let topology = (rng.u32(..3) == 0).then_some(ZONE);
        let mut template = pod(rng, &name);
        template["spec"]["containers"][0]["resources"]["requests"]["cpu"] =
            json!(["100m", "500m", "1500m"][rng.usize(..3)]);
        if rng.bool() {
            template["spec"]["schedulingGroup"] = json!({"podGroupName": name});
            let topology = topology.map(|key| json!({"topology": [{"key": key}]}));
            let object = json!({"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "metadata": {"name": name},
                // A group whose pods have another priority is not placed.
                "spec": {"schedulingPolicy": {"gang": {"minCount": min}}, "schedulingConstraints": topology,
                    "priorityClassName": template["spec"]["priorityClassName"]}});
            let path = "/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups";
            self.post(created + rng.u64(..3000), path, object);
        } else {
            let annotations = &mut template["metadata"]["annotations"];
            *annotations = json!({GROUP_ANNOTATION: name, GROUP_MIN_ANNOTATION: min.to_string()});
            if let Some(key) = topology {
                annotations[GROUP_REQUIRED_TOPOLOGY_ANNOTATION] = json!(key);
            }
        }
        if rng.u32(..3) == 0 {
            let object = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": {
                "replicas": n, "selector": {"matchLabels": {"app": name}}, "template": template}});
            return self.post(created, "/apis/apps/v1/namespaces/default/deployments", object);
        }
        let (pods, claims) = ["pods", "persistentvolumeclaims"]
            .map(|kind| format!("/api/v1/namespaces/default/{kind}"))
            .into();
        let (has_claims, is_mutual) = (rng.u32(..3) == 0, rng.u32(..4) == 0);
        for j in 0..n {
            let at = created + rng.u64(..5000);
            let (mut pod, member) = (template.clone(), format!("{name}-{j}"));
            pod["apiVersion"] = json!("v1");
            pod["kind"] = json!("Pod");
            pod["metadata"]["name"] = json!(member);
            if is_mutual {
                // No order of single decisions can place them.
                let other = json!({"matchLabels": {"member": format!("{name}-{}", (j + 1) % n)}});
                pod["metadata"]["labels"]["member"] = json!(member);
                pod["spec"]["affinity"] = json!({"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
                    [{"labelSelector": other, "topologyKey": ZONE}]}});
            }
            if has_claims {
                let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": member},
                    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
                pod["spec"]["volumes"] =
                    json!([{"name": "data", "persistentVolumeClaim": {"claimName": member}}]);
                self.post(created, &claims, claim);
            }
            if rng.u32(..8) == 0 {
                let path = format!("{pods}/{member}");
                self.add(at + rng.u64(1000..60_000), Action::Request(Method::DELETE, path, Value::Null));
            }
            self.post(at, &pods, pod);
        }
    }

    /// Users fill a namespace that has a quota.
    pub fn add_quota(&mut self, rng: &mut Rng, end: Duration) {
        let path = format!("/api/v1/namespaces/{GROWING}");
        self.post(100, "/api/v1/namespaces", json!({"metadata": {"name": GROWING}}));
        let quota = json!({"metadata": {"name": "quota"}, "spec": {"hard": {COUNTED: "1000"}}});
        self.post(1000, &format!("{path}/resourcequotas"), quota);
        for i in 0..rng.usize(20..60) {
            let at = rng.u64(3_000..end.as_millis() as u64);
            self.post(at, &format!("{path}/configmaps"), json!({"metadata": {"name": format!("map-{i}")}}));
        }
        self.actions.sort_by_key(|(at, _)| *at);
    }

    /// Something that happens to a node, and often its opposite later.
    fn node(&mut self, rng: &mut Rng, node: String, end: Duration) {
        let at = rng.u64(3_000..end.as_millis() as u64);
        let later = at + rng.u64(1_000..60_000);
        let path = format!("/api/v1/nodes/{node}");
        let mut patch = |at, body| self.add(at, Action::Request(Method::PATCH, path.clone(), body));
        match rng.u32(..7) {
            0 | 1 => {
                patch(at, json!({"metadata": {"labels": {"disk": "ssd"}}}));
                if rng.u32(..3) > 0 {
                    patch(later, json!({"metadata": {"labels": {"disk": null}}}));
                }
            }
            2 => {
                let effect = ["NoSchedule", "NoExecute", "PreferNoSchedule"][rng.usize(..3)];
                patch(
                    at,
                    json!({"spec": {"taints": [{"key": "dedicated", "value": "x", "effect": effect}]}}),
                );
                if rng.u32(..4) > 0 {
                    patch(later, json!({"spec": {"taints": null}}));
                }
            }
            3 => {
                patch(at, json!({"spec": {"unschedulable": true}}));
                patch(later, json!({"spec": {"unschedulable": null}}));
            }
            4 => {
                self.add(at, Action::Drain(node.clone()));
                self.add(
                    later + 20_000,
                    Action::Request(Method::PATCH, path, json!({"spec": {"unschedulable": null}})),
                );
            }
            _ => {
                self.add(at, Action::Power(node.clone(), false));
                self.add(at + rng.u64(5_000..150_000), Action::Power(node, true));
            }
        }
    }
}

/// The template of a pod with rules.
fn pod(rng: &mut Rng, app: &str) -> Value {
    let cpu = format!("{}m", [50, 100, 300, 700][rng.usize(..4)]);
    let mut spec = json!({"schedulerName": "berth", "terminationGracePeriodSeconds": rng.u32(..10),
        "containers": [{"name": "c", "image": "registry.example/i:1",
            "resources": {"requests": {"cpu": cpu, "memory": "64Mi"}}}]});
    let topology = |rng: &mut Rng| if rng.bool() { ZONE } else { HOSTNAME };
    let term = |rng: &mut Rng, app: &str| json!([{"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": topology(rng)}]);
    let variant = |rng: &mut Rng| {
        ["requiredDuringSchedulingIgnoredDuringExecution", "requiredDuringSchedulingRequiredDuringExecution"]
            [rng.usize(..2)]
    };
    match rng.u32(..7) {
        0 => {
            let variant = variant(rng);
            spec["affinity"]["podAntiAffinity"][variant] = term(rng, app);
        }
        1 => {
            let (variant, other) = (variant(rng), APPS[rng.usize(..APPS.len())]);
            spec["affinity"]["podAntiAffinity"][variant] = term(rng, other);
        }
        2 => {
            let (variant, other) = (variant(rng), APPS[rng.usize(..2)]);
            spec["affinity"]["podAffinity"][variant] = term(rng, other);
        }
        3 => {
            spec["topologySpreadConstraints"] = json!([{"maxSkew": rng.u32(1..3), "topologyKey": topology(rng),
                "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": app}}}]);
        }
        4 => {
            let expressions = json!([{"key": "disk", "operator": "In", "values": ["ssd"]}]);
            spec["affinity"]["nodeAffinity"][variant(rng)]["nodeSelectorTerms"] =
                json!([{"matchExpressions": expressions}]);
        }
        _ => {}
    }
    if rng.u32(..4) == 0 {
        spec["priorityClassName"] = json!(if rng.bool() { "high" } else { "low" });
    }
    if rng.u32(..4) == 0 {
        spec["tolerations"] = json!([{"key": "dedicated", "operator": "Exists"}]);
    }
    json!({"metadata": {"labels": {"app": app}}, "spec": spec})
}
