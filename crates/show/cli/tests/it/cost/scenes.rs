//! Clusters of which one dimension has any size.

use serde_json::{Value, json};

/// A cluster with few objects, of which a [`Dimension`] makes one part large.
pub struct Scene {
    nodes: Vec<Value>,
    /// A pending pod, and one that runs.
    pods: Vec<Value>,
    others: Vec<Value>,
    /// What the file begins with.
    head: String,
}

/// What a user can make large.
pub struct Dimension {
    pub name: &'static str,
    /// The size of the smaller of two inputs.
    pub size: usize,
    grow: fn(&mut Scene, usize),
}

/// The objects of a [`Scene`].
pub struct Objects {
    pub all: String,
    /// The pending pod.
    pub pending: String,
}

impl Dimension {
    /// The objects of a cluster with this size.
    pub fn objects(&self, n: usize) -> Objects {
        let mut scene = Scene {
            nodes: (0..4).map(node).collect(),
            pods: vec![pod("subject"), pod("running")],
            others: vec![],
            head: String::new(),
        };
        (self.grow)(&mut scene, n);
        scene.pods[1]["spec"]["nodeName"] = "node-0".into();
        let Scene { nodes, pods, others, head } = scene;
        let pending = pods[0].to_string();
        let items = [nodes, pods, others].concat();
        let all = json!({"apiVersion": "v1", "kind": "List", "items": items});
        Objects { all: format!("{head}{all}"), pending }
    }
}

const fn dimension(name: &'static str, size: usize, grow: fn(&mut Scene, usize)) -> Dimension {
    Dimension { name, size, grow }
}

fn node(i: usize) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": format!("node-{i}"), "labels": {"kubernetes.io/hostname": format!("node-{i}"), "zone": format!("z{}", i % 3)}},
        "spec": {},
        "status": {"allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110"}},
    })
}

fn pod(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "10m"}}}]},
    })
}

fn list(n: usize, item: impl Fn(usize) -> Value) -> Value {
    (0..n).map(item).collect()
}

fn map(n: usize, prefix: &str) -> Value {
    Value::Object((0..n).map(|i| (format!("{prefix}-{i}"), "v".into())).collect())
}

fn expressions(n: usize) -> Value {
    list(n, |i| json!({"key": format!("key-{i}"), "operator": "In", "values": ["v"]}))
}

fn selector(i: usize) -> Value {
    json!({"matchLabels": {"app": format!("app-{i}")}})
}

fn pod_term(i: usize) -> Value {
    json!({"topologyKey": "zone", "labelSelector": selector(i)})
}

impl Scene {
    /// Sets a field of the specifications of both pods.
    fn spec(&mut self, pointer: &str, value: &Value) {
        for pod in &mut self.pods {
            let mut place = &mut pod["spec"];
            for field in pointer.split('.') {
                place = &mut place[field];
            }
            place.clone_from(value);
        }
    }

    fn node_terms(&mut self, terms: Value) {
        self.spec(
            "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution",
            &json!({"nodeSelectorTerms": terms}),
        );
    }

    fn budget(&mut self, i: usize, selector: Value) {
        self.others.push(json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
            "metadata": {"name": format!("budget-{i}"), "namespace": "default"},
            "spec": {"minAvailable": 1, "selector": selector},
        }));
    }
}

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";

/// Every dimension of an input of the commands.
pub const DIMENSIONS: &[Dimension] = &[
    dimension("node selector keys", 1000, |scene, n| scene.spec("nodeSelector", &map(n, "key"))),
    dimension("node selector keys that the nodes have", 500, |scene, n| {
        scene.spec("nodeSelector", &map(n, "key"));
        for node in &mut scene.nodes {
            node["metadata"]["labels"] = map(n, "key");
        }
    }),
    dimension("expressions of a node selector term", 500, |scene, n| {
        scene.node_terms(json!([{"matchExpressions": expressions(n)}]));
    }),
    dimension("node selector terms", 500, |scene, n| {
        scene.node_terms(list(
            n,
            |i| json!({"matchExpressions": [{"key": format!("key-{i}"), "operator": "Exists"}]}),
        ));
    }),
    dimension("node selector terms of 30 expressions", 50, |scene, n| {
        scene.node_terms(list(n, |_| json!({"matchExpressions": expressions(30)})));
    }),
    dimension("values of a node selector expression", 1000, |scene, n| {
        let values = list(n, |i| format!("value-{i}").into());
        scene
            .node_terms(json!([{"matchExpressions": [{"key": "zone", "operator": "In", "values": values}]}]));
    }),
    dimension("preferred node affinity terms", 500, |scene, n| {
        let term = |i| json!({"weight": 1, "preference": {"matchExpressions": [{"key": format!("key-{i}"), "operator": "Exists"}]}});
        scene.spec("affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution", &list(n, term));
    }),
    dimension("pod affinity terms", 200, |scene, n| {
        scene.spec(&format!("affinity.podAffinity.{REQUIRED}"), &list(n, pod_term));
    }),
    dimension("pod anti-affinity terms", 200, |scene, n| {
        scene.spec(&format!("affinity.podAntiAffinity.{REQUIRED}"), &list(n, pod_term));
    }),
    dimension("pod anti-affinity terms that match", 100, |scene, n| {
        let term =
            |i| json!({"topologyKey": format!("key-{i}"), "labelSelector": {"matchLabels": {"app": "web"}}});
        scene.spec(&format!("affinity.podAntiAffinity.{REQUIRED}"), &list(n, term));
    }),
    dimension("preferred pod affinity terms", 200, |scene, n| {
        let term = |i| json!({"weight": 1, "podAffinityTerm": pod_term(i)});
        scene.spec("affinity.podAffinity.preferredDuringSchedulingIgnoredDuringExecution", &list(n, term));
    }),
    dimension("expressions of a pod affinity term", 250, |scene, n| {
        let term = json!({"topologyKey": "zone", "labelSelector": {"matchExpressions": expressions(n)}});
        scene.spec(&format!("affinity.podAffinity.{REQUIRED}"), &json!([term]));
    }),
    dimension("values of a pod affinity term", 1000, |scene, n| {
        let values = list(n, |i| format!("value-{i}").into());
        let expression = json!({"key": "app", "operator": "In", "values": values});
        let term = json!({"topologyKey": "zone", "labelSelector": {"matchExpressions": [expression]}});
        scene.spec(&format!("affinity.podAffinity.{REQUIRED}"), &json!([term]));
    }),
    dimension("namespaces of a pod affinity term", 1000, |scene, n| {
        let term = json!({"topologyKey": "zone", "labelSelector": {}, "namespaces": list(n, |i| format!("ns-{i}").into())});
        scene.spec(&format!("affinity.podAntiAffinity.{REQUIRED}"), &json!([term]));
    }),
    dimension("topology spread constraints", 200, |scene, n| {
        let constraint = |i| json!({"maxSkew": 1, "topologyKey": format!("key-{i}"), "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector(i)});
        scene.spec("topologySpreadConstraints", &list(n, constraint));
    }),
    dimension("label keys of a constraint", 250, |scene, n| {
        for pod in &mut scene.pods {
            pod["metadata"]["labels"] = map(n, "key");
        }
        let keys = list(n, |i| format!("key-{i}").into());
        scene.spec(
            "topologySpreadConstraints",
            &json!([{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}, "matchLabelKeys": keys}]),
        );
    }),
    dimension("tolerations", 1000, |scene, n| {
        let toleration = |i| json!({"key": format!("key-{i}"), "operator": "Exists", "effect": "NoSchedule"});
        scene.spec("tolerations", &list(n, toleration));
    }),
    dimension("taints and tolerations", 1000, |scene, n| {
        let taint = |i| json!({"key": format!("key-{i}"), "value": "v", "effect": "NoSchedule"});
        for node in &mut scene.nodes {
            node["spec"]["taints"] = list(n, taint);
        }
        let toleration = |i| json!({"key": format!("key-{i}"), "operator": "Exists", "effect": "NoSchedule"});
        scene.spec("tolerations", &list(n, toleration));
    }),
    dimension("nodes with distinct taints", 50, |scene, n| {
        for i in 4..n {
            scene.nodes.push(node(i));
        }
        for (i, node) in scene.nodes.iter_mut().enumerate() {
            let taint = |j| json!({"key": format!("key-{i}-{j}"), "value": "v", "effect": "NoSchedule"});
            node["spec"]["taints"] = list(10, taint);
        }
    }),
    dimension("labels of a node", 1000, |scene, n| scene.nodes[0]["metadata"]["labels"] = map(n, "key")),
    dimension("labels of a pod", 1000, |scene, n| scene.pods[0]["metadata"]["labels"] = map(n, "key")),
    dimension("containers", 250, |scene, n| {
        scene.spec("containers", &list(n, |i| json!({"name": format!("c-{i}"), "image": "i"})));
    }),
    dimension("host ports", 250, |scene, n| {
        let port = |i| json!({"containerPort": i % 60_000 + 1, "hostPort": i % 60_000 + 1});
        scene.spec("containers", &json!([{"name": "c", "image": "i", "ports": list(n, port)}]));
    }),
    dimension("volumes", 250, |scene, n| {
        let volume = |i| json!({"name": format!("v-{i}"), "persistentVolumeClaim": {"claimName": format!("claim-{i}")}});
        scene.spec("volumes", &list(n, volume));
    }),
    dimension("extended resources", 250, |scene, n| {
        let requests = Value::Object((0..n).map(|i| (format!("example.com/r-{i}"), "1".into())).collect());
        let resources = json!({"requests": requests, "limits": requests});
        scene.spec("containers", &json!([{"name": "c", "image": "i", "resources": resources}]));
    }),
    dimension("nodes", 250, |scene, n| scene.nodes.extend((4..n).map(node))),
    dimension("nodes with distinct labels", 200, |scene, n| {
        for i in 4..n {
            scene.nodes.push(node(i));
            scene.nodes[i]["metadata"]["labels"][format!("key-{i}")] = "v".into();
        }
        scene.spec("nodeSelector", &json!({"key-0": "v"}));
    }),
    dimension("pods", 400, |scene, n| scene.pods.extend((0..n).map(|i| pod(&format!("pod-{i}"))))),
    dimension("pods with distinct rules", 200, |scene, n| {
        for i in 0..n {
            let mut pod = pod(&format!("pod-{i}"));
            pod["metadata"]["labels"]["app"] = format!("app-{i}").into();
            pod["spec"]["affinity"]["podAntiAffinity"][REQUIRED] = json!([pod_term(i), pod_term(i + 1)]);
            scene.pods.push(pod);
        }
    }),
    dimension("namespaces", 1000, |scene, n| {
        let namespace =
            |i| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": format!("ns-{i}")}});
        scene.others.extend((0..n).map(namespace));
    }),
    dimension("disruption budgets with one selector", 500, |scene, n| {
        (0..n).for_each(|i| scene.budget(i, json!({"matchLabels": {"app": "web"}})));
    }),
    dimension("disruption budgets with distinct selectors", 500, |scene, n| {
        (0..n).for_each(|i| scene.budget(i, selector(i)));
    }),
    dimension("disruption budgets with ten selectors", 250, |scene, n| {
        (0..n).for_each(|i| {
            scene.budget(
                i,
                json!({"matchExpressions": [{"key": format!("key-{}", i % 10), "operator": "DoesNotExist"}]}),
            )
        });
    }),
    dimension("Services and ServiceMonitors", 100, |scene, n| {
        for i in 0..n {
            let labels = json!({"app": format!("app-{i}")});
            let metadata = json!({"name": format!("app-{i}"), "namespace": "default", "labels": labels});
            scene.others.push(json!({
                "apiVersion": "v1", "kind": "Service", "metadata": metadata,
                "spec": {"selector": {"app": "web"}, "ports": [{"port": i % 60_000 + 1}]},
            }));
            scene.others.push(json!({
                "apiVersion": "monitoring.coreos.com/v1", "kind": "ServiceMonitor", "metadata": metadata,
                "spec": {"selector": selector(i), "endpoints": []},
            }));
        }
    }),
    dimension("nodes in pools that pods select", 100, |scene, n| {
        for i in 4..n {
            scene.nodes.push(node(i));
        }
        for (i, node) in scene.nodes.iter_mut().enumerate() {
            node["metadata"]["labels"]["pool"] = format!("pool-{}", i / 4).into();
        }
        for i in 0..n {
            let mut pod = pod(&format!("pod-{i}"));
            pod["spec"]["nodeSelector"] = json!({"pool": format!("pool-{}", i / 4)});
            pod["spec"]["tolerations"] = json!([{"key": format!("key-{i}"), "operator": "Exists"}]);
            scene.pods.push(pod);
        }
    }),
    dimension("empty documents", 10_000, |scene, n| scene.head = "---\n".repeat(n)),
    dimension("deployments", 200, |scene, n| {
        // The nodes have room for all pods: to say why one has no node is other work.
        for node in &mut scene.nodes {
            node["status"]["allocatable"] = json!({"cpu": "100", "memory": "32Gi", "pods": "4000"});
        }
        let deployment = |i: usize| {
            let labels = json!({"app": format!("app-{i}")});
            json!({
                "apiVersion": "apps/v1", "kind": "Deployment",
                "metadata": {"name": format!("app-{i}"), "namespace": "default"},
                "spec": {
                    "replicas": 2, "selector": {"matchLabels": labels},
                    "template": {"metadata": {"labels": labels}, "spec": pod("p")["spec"]},
                },
            })
        };
        scene.others.extend((0..n).map(deployment));
    }),
    dimension("the length of a name", 10_000, |scene, n| {
        scene.pods[0]["metadata"]["labels"]["app"] = "x".repeat(n).into()
    }),
    dimension("the length of an annotation", 30_000, |scene, n| {
        scene.pods[0]["metadata"]["annotations"]["scheduler.alpha.kubernetes.io/affinity"] =
            "{".repeat(n).into();
    }),
];
