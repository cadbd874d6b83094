//! Groups as kube-scheduler 1.37.2 placed them on a real control plane, with `GenericWorkload` and `TopologyAwareWorkloadScheduling`: random
//! scenarios that it settled in the same way several times (`groups-1.37.jsonl`).

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};

use super::support::*;

const RECORDED: &str = include_str!("groups-1.37.jsonl");
const POD_GROUPS: &str = "/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups";
const RACK: &str = "example.com/rack";

#[derive(Deserialize)]
struct Scenario {
    name: String,
    nodes: Vec<ScenarioNode>,
    running: Vec<RunningPod>,
    groups: Vec<ScenarioGroup>,
    expected: Outcome,
}

#[derive(Deserialize)]
struct ScenarioNode {
    name: String,
    rack: String,
    cpu: u32,
}

#[derive(Deserialize)]
struct RunningPod {
    name: String,
    node: String,
    cpu: u32,
    prio: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ScenarioGroup {
    name: String,
    /// None for a basic group.
    min_count: Option<u32>,
    members: usize,
    cpu: u32,
    prio: Option<String>,
    rack: bool,
    mode: Option<String>,
}

/// What is compared.
#[derive(Debug, Deserialize, PartialEq)]
struct Outcome {
    groups: BTreeMap<String, GroupOutcome>,
    /// The running pods that are gone.
    deleted: Vec<String>,
}

#[derive(Debug, Deserialize, PartialEq)]
struct GroupOutcome {
    /// How many pods are bound in each rack that has some, in ascending order.
    racks: Vec<usize>,
    /// Of its condition.
    status: String,
    reason: String,
}

fn pod_with(name: &str, cpu: u32, class: Option<&str>) -> Value {
    let mut pod = pod(name, name);
    pod["spec"]["containers"][0]["resources"]["requests"] = json!({"cpu": cpu});
    pod["spec"]["priorityClassName"] = json!(class);
    pod
}

impl Scenario {
    async fn create(&self, world: &World) {
        for (name, value) in [("high", 1000), ("mid", 500)] {
            let class = json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
                "metadata": {"name": name}, "value": value});
            world.create("/apis/scheduling.k8s.io/v1/priorityclasses", class).await;
        }
        for ScenarioNode { name, rack, cpu } in &self.nodes {
            let amounts = json!({"cpu": cpu, "memory": "64Gi", "pods": 110});
            let labels = json!({HOSTNAME: name, RACK: rack});
            let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels},
                "status": {"capacity": amounts, "allocatable": amounts}});
            world.create(NODES, node).await;
        }
        for RunningPod { name, node, cpu, prio } in &self.running {
            let mut pod = pod_with(name, *cpu, prio.as_deref());
            pod["spec"]["nodeName"] = json!(node);
            world.pod(pod).await;
            let status = json!({"status": {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"}});
            world.patch(&format!("{PODS}/{name}/status"), status).await;
        }
    }

    async fn create_group(&self, world: &World, group: &ScenarioGroup) {
        let policy = match group.min_count {
            Some(min) => json!({"gang": {"minCount": min}}),
            None => json!({"basic": {}}),
        };
        let mut spec = json!({"schedulingPolicy": policy, "priorityClassName": group.prio});
        if group.rack {
            spec["schedulingConstraints"] = json!({"topology": [{"key": RACK}]});
        }
        if let Some(mode) = &group.mode {
            spec["disruptionMode"] = json!({mode: {}});
        }
        let object = json!({"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup",
            "metadata": {"name": group.name}, "spec": spec});
        world.create(POD_GROUPS, object).await;
        for i in 0..group.members {
            let mut pod = pod_with(&format!("{}-{i}", group.name), group.cpu, group.prio.as_deref());
            pod["spec"]["schedulingGroup"] = json!({"podGroupName": group.name});
            world.pod(pod).await;
        }
    }

    async fn outcome(&self, world: &World) -> Outcome {
        let pods = world.pods().await;
        let mut groups = BTreeMap::new();
        for ScenarioGroup { name, .. } in &self.groups {
            let mut racks: BTreeMap<&str, usize> = BTreeMap::new();
            for pod in &pods {
                let of_group =
                    pod.spec.scheduling_group.as_ref().is_some_and(|of| of.pod_group_name == *name);
                let node = self.nodes.iter().find(|node| of_group && node.name == pod.spec.node_name);
                node.into_iter().for_each(|node| *racks.entry(&node.rack).or_default() += 1);
            }
            let mut racks: Vec<usize> = racks.into_values().collect();
            racks.sort_unstable();
            let condition = &world.get(&format!("{POD_GROUPS}/{name}")).await["status"]["conditions"][0];
            let text = |field: &str| condition[field].as_str().unwrap_or_default().to_owned();
            groups
                .insert(name.clone(), GroupOutcome { racks, status: text("status"), reason: text("reason") });
        }
        let is_gone = |name: &str| !pods.iter().any(|pod| pod.metadata.name == name);
        let running = self.running.iter().map(|pod| pod.name.clone());
        Outcome { groups, deleted: running.filter(|name| is_gone(name)).collect() }
    }

    async fn is_decided_as_recorded(&self) {
        let world = World::start().await;
        self.create(&world).await;
        let scheduler = world.schedule(impatient()).await;
        for group in &self.groups {
            self.create_group(&world, group).await;
            tokio::time::sleep(Duration::from_secs(2)).await;
        }
        let is_so = async || match self.outcome(&world).await {
            outcome if outcome == self.expected => Ok(()),
            outcome => Err(outcome),
        };
        until(&format!("{} ends with {:?}", self.name, self.expected), is_so).await;
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(self.outcome(&world).await, self.expected, "{}: it did not stay so", self.name);
        scheduler.stopped().await;
    }
}

#[tokio::test(start_paused = true)]
async fn groups_are_placed_and_preempt_as_kube_scheduler_does() {
    for line in RECORDED.lines() {
        serde_json::from_str::<Scenario>(line).unwrap().is_decided_as_recorded().await;
    }
}
