//! Small clusters, written or drawn at random, and plans for them.

use std::collections::BTreeMap;

use berth_api::object::{Node, Pod, PodDisruptionBudget};
use berth_api::split_mix::SplitMix64;
use berth_control::budget::Scales;
use berth_engine::{Cluster, Settings};
use berth_rebalance::{
    Goal, Input, Move, NextStep, Obstacle, Pending, Plan, Request, RunningPod, next_step, plan,
};
use berth_rules::KnownNamespaces;
use berth_testkit::naive::World;
use jiff::Timestamp;
use serde_json::{Value, json};

pub const ZONE: &str = "topology.kubernetes.io/zone";
pub const HOSTNAME: &str = "kubernetes.io/hostname";

/// A node with so many CPUs.
pub fn node(name: &str, zone: &str, cpu: i64) -> Node {
    let object = json!({
        "metadata": {"name": name, "labels": {ZONE: zone, HOSTNAME: name}},
        "status": {"allocatable": {"cpu": cpu.to_string(), "memory": "64Gi", "pods": "110"}},
    });
    serde_json::from_value(object).expect("a node")
}

/// A pod of a workload that requests so many milli-CPU; `node` is empty for a pending pod.
pub fn pod(name: &str, app: &str, node: &str, milli_cpu: i64, spec: Value) -> Pod {
    let mut object = json!({
        "metadata": {"name": name, "namespace": "default", "uid": name, "labels": {"app": app},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": app, "uid": app,
                "controller": true}]},
        "spec": {"schedulerName": "default-scheduler", "nodeName": node, "containers": [{"name": "c", "image": "i",
            "resources": {"requests": {"cpu": format!("{milli_cpu}m")}}}]},
    });
    if let (Some(all), Value::Object(more)) = (object["spec"].as_object_mut(), spec) {
        all.extend(more);
    }
    serde_json::from_value(object).expect("a pod")
}

/// A spread constraint for the pods of a workload.
pub fn spread(app: &str, key: &str, when: &str) -> Value {
    json!({"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": when,
        "labelSelector": {"matchLabels": {"app": app}}}]})
}

/// Pod affinity or anti-affinity to the pods of a workload.
pub fn between_pods(kind: &str, app: &str, key: &str) -> Value {
    let term = json!({"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}});
    json!({"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}})
}

pub fn budget(app: &str, spec: Value) -> PodDisruptionBudget {
    let mut object =
        json!({"metadata": {"name": format!("{app}-{spec}"), "namespace": "default"}, "spec": spec});
    object["spec"]["selector"] = json!({"matchLabels": {"app": app}});
    serde_json::from_value(object).expect("a budget")
}

/// A request for these goals, at a fixed time.
pub fn request(goals: &[Goal]) -> Request {
    Request::new(goals.to_vec(), Timestamp::from_second(1_800_000_000).expect("a time"))
}

/// The plan for a world; its pending pods are placed one by one.
pub fn plan_for(world: &World, request: &Request) -> Plan {
    plan_with(world, request, |pods| pods.into_iter().map(Pending::from).collect())
}

/// What the next of these moves does, all of which a scheduler of Berth follows.
pub fn step_for(world: &World, request: &Request, rest: &[Move]) -> Result<NextStep, Obstacle> {
    let each = |pods: Vec<_>| pods.into_iter().map(Pending::from).collect();
    with_input(world, each, |input| next_step(input, request, rest, |_| false))
}

/// The plan for a world whose pending pods are placed in these units.
pub fn plan_with<'w>(
    world: &'w World,
    request: &Request,
    units: impl FnOnce(Vec<&'w Pod>) -> Vec<Pending<'w>>,
) -> Plan {
    with_input(world, units, |input| plan(input, request))
}

/// Asks the planner about a world.
pub fn with_input<'w, T>(
    world: &'w World,
    units: impl FnOnce(Vec<&'w Pod>) -> Vec<Pending<'w>>,
    ask: impl FnOnce(Input<'_>) -> T,
) -> T {
    let mut cluster = Cluster::new(Settings::default());
    world.nodes.iter().for_each(|node| cluster.set_node(node));
    let (running, pending): (Vec<&Pod>, Vec<&Pod>) =
        world.pods.iter().partition(|pod| !pod.spec.node_name.is_empty());
    running.iter().for_each(|pod| _ = cluster.set_pod(pod));
    let nodes: BTreeMap<_, _> =
        world.nodes.iter().map(|node| (node.metadata.name.clone(), node.clone())).collect();
    let running = running.into_iter().map(|pod| RunningPod {
        pod,
        node: &pod.spec.node_name,
        stays: None,
        is_settled: false,
    });
    let input = Input {
        cluster,
        nodes: &nodes,
        namespaces: &KnownNamespaces::new(&world.namespaces),
        running: running.collect(),
        pending: units(pending),
        budgets: world.budgets.iter().collect(),
        scales: &Scales::default(),
    };
    ask(input)
}

/// The world after a plan: replacements have other names, uids and start times.
pub fn after(world: &World, plan: &Plan) -> World {
    let mut world = world.clone();
    for made in &plan.moves {
        let name = |pod: &Pod| pod.metadata.name.trim_start_matches("new-").to_owned();
        let moved = world.pods.iter_mut().find(|pod| name(pod) == made.name).expect("a pod of the plan");
        moved.spec.node_name.clone_from(&made.to);
        if !moved.metadata.name.starts_with("new-") {
            moved.metadata.name = format!("new-{}", moved.metadata.name);
            moved.metadata.uid.clone_from(&moved.metadata.name);
        }
        // Long enough ago to be moved again.
        moved.status.start_time = Timestamp::from_second(1_700_000_000).ok();
        moved.status.conditions.clear();
    }
    for placed in &plan.placed {
        let pod = world.pods.iter_mut().find(|pod| pod.metadata.name == placed.name).expect("a pending pod");
        pod.spec.node_name.clone_from(&placed.node);
    }
    world
}

/// Draws small clusters.
pub struct Draw(SplitMix64);

impl Draw {
    pub fn new(seed: u64) -> Draw {
        Draw(SplitMix64::new(seed))
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.0.draw() % n
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    fn of<'t>(&mut self, texts: &[&'t str]) -> &'t str {
        texts[self.below(texts.len() as u64) as usize]
    }

    /// A cluster of at most this size.
    pub fn world(&mut self, max_nodes: u64, max_pods: u64) -> World {
        let n_nodes = 2 + self.below(max_nodes - 1);
        let mut world = World::default();
        for i in 0..n_nodes {
            let mut node = node(&format!("n{i}"), self.of(&["a", "b", "c"]), 1 + self.below(4) as i64);
            node.metadata.labels.insert("disk".to_owned(), self.of(&["ssd", "hdd"]).to_owned());
            node.spec.unschedulable = self.one_in(12);
            if self.one_in(12) {
                let taint = json!({"key": "dedicated", "value": "x", "effect": "NoSchedule"});
                node.spec.taints = serde_json::from_value(json!([taint])).expect("taints");
            }
            world.nodes.push(node);
        }
        let apps = ["web", "db", "job"];
        let specs: Vec<(i64, Value)> =
            apps.iter().map(|app| (250 * (1 + self.below(6) as i64), self.rules(app))).collect();
        for i in 0..1 + self.below(max_pods) {
            let which = self.below(apps.len() as u64) as usize;
            let (milli_cpu, spec) = &specs[which];
            let node = format!("n{}", self.below(n_nodes));
            let mut pod = pod(&format!("p{i}"), apps[which], &node, *milli_cpu, spec.clone());
            if self.one_in(8) {
                pod.metadata.owner_references.clear();
            }
            if self.one_in(6) {
                let ready = json!([{"type": "Ready", "status": "False"}]);
                pod.status.conditions = serde_json::from_value(ready).expect("conditions");
            }
            pod.spec.priority = self.one_in(3).then(|| self.below(3) as i32);
            if self.one_in(10) {
                pod.spec.node_name.clear();
            }
            world.pods.push(pod);
        }
        for app in apps {
            if self.one_in(3) {
                let spec = match self.below(5) {
                    0 => json!({"minAvailable": "50%"}),
                    1 => json!({"maxUnavailable": "34%"}),
                    2 => json!({"maxUnavailable": 1, "unhealthyPodEvictionPolicy": "AlwaysAllow"}),
                    3 => json!({"minAvailable": 1}),
                    _ => json!({"maxUnavailable": 0}),
                };
                world.budgets.push(budget(app, spec));
            }
        }
        world
    }

    /// At most one hard spread constraint, so that a rule has a name.
    fn rules(&mut self, app: &str) -> Value {
        let key = self.of(&[ZONE, HOSTNAME]);
        let other = self.of(&["web", "db", "job"]);
        match self.below(9) {
            0 => spread(app, key, "DoNotSchedule"),
            1 => spread(app, key, "ScheduleAnyway"),
            2 => spread(other, key, "ScheduleAnyway"),
            3 => between_pods("podAffinity", other, key),
            4 => between_pods("podAntiAffinity", other, key),
            5 => json!({"nodeSelector": {"disk": self.of(&["ssd", "hdd"])}}),
            6 => json!({"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 1 + self.below(3), "preference": {"matchExpressions": [
                    {"key": "disk", "operator": "In", "values": [self.of(&["ssd", "hdd"])]}]}}]}}}),
            7 => {
                let kind = self.of(&["podAffinity", "podAntiAffinity"]);
                json!({"affinity": {kind: {"preferredDuringSchedulingIgnoredDuringExecution": [
                    {"weight": 1 + self.below(3), "podAffinityTerm":
                        {"topologyKey": key, "labelSelector": {"matchLabels": {"app": other}}}}]}}})
            }
            _ => json!({}),
        }
    }

    /// Goals in an order.
    pub fn goals(&mut self) -> Vec<Goal> {
        let mut all = Goal::ALL.to_vec();
        let n_goals = 1 + self.below(3) as usize;
        (0..n_goals).map(|_| all.remove(self.below(all.len() as u64) as usize)).collect()
    }
}
