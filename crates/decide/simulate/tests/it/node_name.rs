//! Pods with `spec.nodeName`, as the documentation of nodeName describes them.

use berth_api::object::NamespacedName;
use berth_api::read::Kind;
use berth_input::inventory::Inventory;
use berth_simulate::capacity::{Capacity, CapacityRequest, Subject, capacity};
use berth_simulate::compare::{Side, compare};
use berth_simulate::what_if::{Change, WhatIf, WhatIfOutcome};
use berth_simulate::{NotRunning, SimulatedPod, Simulation, SimulationOptions};
use jiff::Timestamp;

const ZONE: &str = "topology.kubernetes.io/zone";
const ONE_CORE: &str = "containers: [{name: c, image: i, resources: {requests: {cpu: 1}}}]";
const THREE_CORES: &str = "containers: [{name: c, image: i, resources: {requests: {cpu: 3}}}]";
const RUNNING: &str = "status: {phase: Running}";

/// A node with four cores. `spec` may have taints.
fn node(name: &str, labels: &str, spec: &str) -> String {
    format!(
        "{{apiVersion: v1, kind: Node, metadata: {{name: {name}, labels: {{kubernetes.io/hostname: {name}, {labels}}}}}, \
         spec: {{{spec}}}, status: {{allocatable: {{cpu: 4, memory: 4Gi, pods: 110}}}}}}\n---\n"
    )
}

fn kube_01() -> String {
    node("kube-01", "disk: ssd", "")
}

fn pod(metadata: &str, spec: &str, status: &str) -> String {
    format!("{{apiVersion: v1, kind: Pod, metadata: {{{metadata}}}, spec: {{{spec}}}, {status}}}\n---\n")
}

/// A pod of three cores that names a node.
fn on(node: &str, name: &str) -> String {
    pod(&format!("name: {name}"), &format!("nodeName: {node}, {THREE_CORES}"), "")
}

fn deployment(n_replicas: usize, spec: &str) -> String {
    format!(
        "{{apiVersion: apps/v1, kind: Deployment, metadata: {{name: web}}, spec: {{replicas: {n_replicas}, \
         selector: {{matchLabels: {{app: web}}}}, template: {{metadata: {{labels: {{app: web}}}}, spec: {{{spec}}}}}}}}}\n---\n"
    )
}

fn inventory(text: &str) -> Inventory {
    Inventory::from_text(text).expect("the text is well-formed")
}

fn simulation(text: &str) -> Simulation {
    let mut simulation =
        Simulation::new(inventory(text), SimulationOptions::default()).expect("the objects are valid");
    simulation.run(|_, _| ());
    simulation
}

/// What happens to each pod: its node, or why it has none.
fn outcomes(text: &str) -> Vec<String> {
    let outcome = |pod: &SimulatedPod| {
        let name = &pod.pod.metadata.name;
        match (pod.node(), &pod.unadmitted) {
            (Some(node), None) => format!("{name}: {node}"),
            (None, Some(why)) => format!("{name}: {}", why.short()),
            (None, None) => format!("{name}: unplaced"),
            (Some(_), Some(_)) => panic!("{name} is on a node that does not admit it"),
        }
    };
    simulation(text).pods().iter().map(outcome).collect()
}

fn what_if(text: &str, change: &Change) -> WhatIfOutcome {
    let mut what_if =
        WhatIf::new(inventory(text), SimulationOptions::default(), Timestamp::UNIX_EPOCH).expect("valid");
    what_if.apply(change).expect("the changed object exists");
    what_if.run(|_, _| ()).expect("valid").outcome
}

/// The groups of pods that do not run, such as `Deployment web x 2: rejected by kube-01: OutOfcpu`.
fn not_running(groups: &[NotRunning]) -> Vec<String> {
    let group = |group: &NotRunning| {
        let workload = group.workload.as_deref().unwrap_or("pods");
        format!("{workload} x {}: {}", group.pods.len(), group.why.short())
    };
    groups.iter().map(group).collect()
}

#[test]
fn if_the_named_node_does_not_exist_the_pod_will_not_run() {
    let text = kube_01() + &on("kube-02", "nginx");
    assert_eq!(outcomes(&text), ["nginx: waiting for node kube-02, which does not exist"]);
    let mut simulation = simulation(&text);
    assert_eq!(simulation.n_nodes(), 1);
    let explained = simulation.explain("default", "nginx", None).expect("the pod is in the input");
    assert_eq!(explained.explanation.running_on, None);
    let why = explained.unadmitted.expect("the pod does not run");
    assert!(why.message.starts_with("spec.nodeName: node kube-02 does not exist"), "{}", why.message);
    assert!(explained.hints[0].contains("add kube-02"), "{:?}", explained.hints);
    // The rest is about the pod without the name of a node.
    assert_eq!(explained.explanation.outcome.node(), Some("kube-01"));
}

#[test]
fn if_the_named_node_does_not_have_the_resources_the_pod_will_fail_and_its_reason_will_indicate_why() {
    let text = kube_01() + &on("kube-01", "a") + &on("kube-01", "b");
    assert_eq!(outcomes(&text), ["a: kube-01", "b: rejected by kube-01: OutOfcpu"]);
    let b = simulation(&text).pod("default", "b").and_then(|pod| pod.unadmitted.clone()).expect("rejected");
    let message = "Node didn't have enough resource: cpu, requested: 3000, used: 3000, capacity: 4000";
    assert_eq!(b.message, message);
    let memory = "containers: [{name: c, image: i, resources: {requests: {memory: 5Gi}}}]";
    let large = pod("name: large", &format!("nodeName: kube-01, {memory}"), "");
    assert_eq!(outcomes(&(kube_01() + &large)), ["large: rejected by kube-01: OutOfmemory"]);
}

#[test]
fn a_node_rejects_what_a_kubelet_rejects() {
    let taint = |effect: &str| node("kube-01", "", &format!("taints: [{{key: down, effect: {effect}}}]"));
    let port = "containers: [{name: c, image: i, ports: [{containerPort: 80, hostPort: 80}]}]";
    let port = |name: &str| pod(&format!("name: {name}"), &format!("nodeName: kube-01, {port}"), "");
    let one = |spec: &str| pod("name: a", &format!("nodeName: kube-01, {spec}{ONE_CORE}"), "");
    for (text, expected) in [
        (taint("NoExecute") + &one(""), "a: rejected by kube-01: TaintToleration"),
        // A scheduler heeds these, and no scheduler sees the pod.
        (taint("NoSchedule") + &one(""), "a: kube-01"),
        (node("kube-01", "", "unschedulable: true") + &one(""), "a: kube-01"),
        (kube_01() + &one("nodeSelector: {disk: hdd}, "), "a: rejected by kube-01: NodeAffinity"),
        (kube_01() + &port("b") + &port("a"), "a: rejected by kube-01: NodePorts"),
    ] {
        assert_eq!(outcomes(&text).last().map(String::as_str), Some(expected), "{text}");
    }
}

#[test]
fn the_order_of_arrival_decides_by_creation_timestamp_and_then_by_input_order() {
    let created = |name: &str, second: u8| {
        let metadata = format!("name: {name}, creationTimestamp: '2026-01-31T12:00:0{second}Z'");
        pod(&metadata, &format!("nodeName: kube-01, {THREE_CORES}"), "")
    };
    let text = kube_01() + &on("kube-01", "new") + &created("late", 2) + &created("early", 1);
    let rejected = |name: &str| format!("{name}: rejected by kube-01: OutOfcpu");
    assert_eq!(outcomes(&text), [rejected("new"), rejected("late"), "early: kube-01".to_owned()]);
}

#[test]
fn pods_that_a_kubelet_has_admitted_are_not_rejected_afterwards() {
    let spec = format!("nodeName: kube-01, nodeSelector: {{disk: hdd}}, {THREE_CORES}");
    for status in [
        RUNNING,
        "status: {phase: Pending, startTime: '2026-01-31T12:00:00Z'}",
        "status: {phase: Pending, conditions: [{type: Ready, status: 'False'}]}",
    ] {
        // The node is overcommitted, and its label has changed since.
        let text = kube_01()
            + &on("kube-01", "new")
            + &pod("name: a", &spec, status)
            + &pod("name: b", &spec, status);
        let expected = ["new: rejected by kube-01: OutOfcpu", "a: kube-01", "b: kube-01"];
        assert_eq!(outcomes(&text), expected, "{status}");
    }
    // Its node was deleted while it ran.
    assert_eq!(outcomes(&pod("name: a", &format!("nodeName: gone, {ONE_CORE}"), RUNNING)), ["a: gone"]);
}

#[test]
fn a_pod_that_is_rejected_uses_no_room_and_counts_for_no_rule() {
    let anti_affinity = "affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [\
        {topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: db}}}]}}";
    let affinity = anti_affinity.replace("podAntiAffinity", "podAffinity");
    let db = |selector: &str| {
        pod("name: db, labels: {app: db}", &format!("nodeName: kube-01, {selector} {THREE_CORES}"), "")
    };
    let other = |spec: &str| pod("name: web", &format!("{spec}, {THREE_CORES}"), "");
    let admitted = kube_01() + &db("");
    let rejected = kube_01() + &db("nodeSelector: {disk: hdd},");
    for (web, beside_admitted, beside_rejected) in [
        (other("priority: 0"), "web: unplaced", "web: kube-01"),
        (other(anti_affinity).replace("cpu: 3", "cpu: 1"), "web: unplaced", "web: kube-01"),
        (other(&affinity).replace("cpu: 3", "cpu: 1"), "web: kube-01", "web: unplaced"),
    ] {
        let outcome = |text: &str| outcomes(&format!("{text}{web}")).pop();
        assert_eq!(outcome(&admitted).as_deref(), Some(beside_admitted), "{web}");
        assert_eq!(outcome(&rejected).as_deref(), Some(beside_rejected), "{web}");
    }
    let waiting = pod("name: db, labels: {app: db}", &format!("nodeName: kube-02, {ONE_CORE}"), "");
    let outcome = outcomes(&(kube_01() + &waiting + &other(&affinity))).pop();
    assert_eq!(outcome.as_deref(), Some("web: unplaced"));
}

#[test]
fn the_pods_of_a_workload_are_rejected_for_one_reason() {
    let spec = format!("nodeName: kube-01, nodeSelector: {{disk: hdd}}, {ONE_CORE}");
    let groups = simulation(&(kube_01() + &deployment(80, &spec))).not_running();
    assert_eq!(not_running(&groups), ["Deployment web x 80: rejected by kube-01: NodeAffinity"]);
    // Each replica arrives by itself.
    let simulation = simulation(&(kube_01() + &deployment(6, &format!("nodeName: kube-01, {ONE_CORE}"))));
    assert_eq!(simulation.pods().iter().filter(|pod| pod.node() == Some("kube-01")).count(), 4);
    let expected = ["Deployment web x 2: rejected by kube-01: OutOfcpu"];
    assert_eq!(not_running(&simulation.not_running()), expected);
}

#[test]
fn pods_that_a_scheduler_places_are_never_rejected() {
    // As manifests, they go through the checks of the node, and pass.
    let web = pod("name: web", ONE_CORE, "");
    let simulation = simulation(&(kube_01() + &web));
    assert_eq!(simulation.pod("default", "web").and_then(SimulatedPod::node), Some("kube-01"));
    let objects = simulation.pods().iter().filter_map(SimulatedPod::placed_object);
    let placed: Vec<_> = objects.map(|object| object["spec"]["nodeName"].clone()).collect();
    assert_eq!(placed, ["kube-01"]);
}

#[test]
fn a_pod_that_does_not_run_keeps_the_name_of_its_node_in_manifests() {
    let simulation = simulation(&(kube_01() + &on("kube-02", "nginx")));
    let object = simulation.pods()[0].placed_object().expect("the text of the pod is kept");
    assert_eq!(object["spec"]["nodeName"], "kube-02");
}

#[test]
fn a_change_does_not_reject_a_pod_that_its_node_has_admitted_before() {
    let selects = pod("name: a", &format!("nodeName: kube-01, nodeSelector: {{disk: ssd}}, {ONE_CORE}"), "");
    let text = kube_01() + &selects;
    let value = Some("hdd".to_owned());
    let change = Change::SetLabel { node: "kube-01".to_owned(), key: "disk".to_owned(), value };
    let outcome = what_if(&text, &change);
    assert!(outcome.not_running.is_empty(), "{:?}", outcome.not_running);
    assert_eq!((outcome.n_unmoved, outcome.broken_rules.len()), (1, 1));
    // It arrives after the change.
    let after = node("kube-01", "disk: hdd", "") + &selects;
    assert_eq!(outcomes(&after), ["a: rejected by kube-01: NodeAffinity"]);
}

#[test]
fn the_controller_creates_pods_again_for_the_node_that_its_template_names() {
    let nodes = node("kube-01", "zone: a", "") + &node("kube-02", "zone: b", "");
    let text = nodes.clone() + &deployment(2, &format!("nodeName: kube-01, {ONE_CORE}"));
    let lost = what_if(&text, &Change::RemoveNode("kube-01".to_owned()));
    let waiting = "Deployment web x 2: waiting for node kube-01, which does not exist";
    assert_eq!(not_running(&lost.not_running), [waiting]);
    assert!(!lost.is_harmless() && lost.moved.is_empty() && lost.unplaced.is_empty());
    // A drain evicts them, and no cordon keeps them from coming back.
    let drained = what_if(&text, &Change::Drain("kube-01".to_owned()));
    assert_eq!((drained.n_unmoved, drained.is_harmless()), (2, true));
    // Pods that a scheduler placed move.
    let moved = what_if(&(nodes + &deployment(2, ONE_CORE)), &Change::RemoveNode("kube-01".to_owned()));
    assert_eq!((moved.not_running.len(), moved.unplaced.len()), (0, 0));
    // The same without a change of the objects.
    let losses = simulation(&text).lose_each_domain("zone", |_, _| ());
    let survives: Vec<_> = losses.domains.iter().map(|loss| (&*loss.domain, loss.survives)).collect();
    assert_eq!(survives, [("a", false), ("b", true)]);
    let message = "waiting for node kube-01, which does not exist";
    assert!(losses.domains[0].unplaced.iter().all(|pod| pod.message == message), "{losses:?}");
}

#[test]
fn a_preempted_pod_is_created_again_for_the_node_that_its_template_names() {
    let important = "name: important, creationTimestamp: '2026-01-31T12:00:00Z'";
    let important =
        pod(important, &format!("priority: 1000, schedulerName: default-scheduler, {THREE_CORES}"), "");
    let web = deployment(1, &format!("nodeName: kube-01, {THREE_CORES}"));
    let simulation =
        simulation(&(kube_01() + &node("kube-02", "", "unschedulable: true") + &web + &important));
    assert_eq!(simulation.pod("default", "important").and_then(SimulatedPod::node), Some("kube-01"));
    let expected = ["Deployment web x 1: rejected by kube-01: OutOfcpu"];
    assert_eq!(not_running(&simulation.not_running()), expected);
}

#[test]
fn a_pod_that_its_node_had_rejected_outlived_the_node() {
    let text = kube_01() + &on("kube-01", "a") + &on("kube-01", "b");
    let outcome = what_if(&text, &Change::RemoveNode("kube-01".to_owned()));
    assert_eq!(outcome.unplaced.iter().map(|pod| &*pod.name).collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(not_running(&outcome.not_running), [""; 0]);
}

#[test]
fn a_node_that_is_added_ends_the_wait() {
    let text = kube_01() + &on("kube-01-new-1", "nginx");
    let outcome = what_if(&text, &Change::AddNodes { n_nodes: 1, like: "kube-01".to_owned() });
    assert_eq!(
        outcome.moved.iter().map(|pod| (&pod.from, &*pod.to)).collect::<Vec<_>>(),
        [(&None, "kube-01-new-1")]
    );
    assert!(outcome.is_harmless());
}

fn capacity_of(text: &str) -> Capacity {
    let subject = Subject::Workload(Kind::Deployment, NamespacedName::new("default", "web"));
    let request = CapacityRequest { topology_key: ZONE.to_owned(), target: None, defragmentation: None };
    capacity(inventory(text), &SimulationOptions::default(), &subject, &request).expect("valid").0
}

#[test]
fn capacity_counts_what_the_named_node_admits() {
    let nodes = kube_01() + &node("kube-02", "", "");
    let spec = format!("nodeName: kube-01, {ONE_CORE}");
    let found = capacity_of(&(nodes.clone() + &deployment(1, &spec)));
    assert_eq!((found.replicas, found.limited_by.as_deref()), (4, Some("cpu")));
    assert!(found.message.starts_with("rejected by kube-01: OutOfcpu: "), "{}", found.message);
    let found = capacity_of(&(nodes.clone() + &deployment(1, &spec.replace("kube-01", "kube-03"))));
    assert_eq!((found.replicas, found.limited_by.as_deref()), (0, Some("spec.nodeName")));
    let selects = format!("nodeSelector: {{disk: hdd}}, {spec}");
    let found = capacity_of(&(nodes.clone() + &deployment(1, &selects)));
    assert_eq!((found.replicas, found.limited_by.as_deref()), (0, Some("NodeAffinity")));
    // Other pods that name the node arrive before.
    let found = capacity_of(&(nodes.clone() + &deployment(1, &spec) + &on("kube-01", "other")));
    assert_eq!(found.replicas, 1);
    // Without the name of a node, both nodes count.
    assert_eq!(capacity_of(&(nodes + &deployment(1, ONE_CORE))).replicas, 8);
}

#[test]
fn capacity_does_not_count_replicas_that_their_node_rejects_as_running() {
    let owner =
        "ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: web-1, uid: u, controller: true}]";
    let replica = |name: &str, status: &str| {
        let metadata = format!("name: {name}, labels: {{app: web, pod-template-hash: '1'}}, {owner}");
        pod(&metadata, &format!("nodeName: kube-01, {THREE_CORES}"), status)
    };
    let text = kube_01() + &replica("a", RUNNING) + &replica("b", "");
    assert_eq!(capacity_of(&text).running, 1);
}

#[test]
fn a_comparison_counts_pods_that_do_not_run() {
    let side = |text: &str| {
        Side::new(inventory(text), SimulationOptions::default(), false, |_, _| ()).expect("valid")
    };
    let pods = on("kube-01", "a") + &on("kube-01", "b") + &on("kube-02", "c");
    let (mut from, mut to) =
        (side(&(kube_01() + &pods)), side(&(kube_01() + &node("kube-02", "", "") + &pods)));
    let compared = compare(&mut from, &mut to, ZONE);
    let counts = [compared.summary.from, compared.summary.to]
        .map(|summary| [summary.placed, summary.unplaced, summary.rejected, summary.waiting]);
    assert_eq!(counts, [[1, 0, 1, 1], [2, 0, 1, 0]]);
    let moved: Vec<_> = compared.moved.iter().map(|pod| (&*pod.name, pod.to.as_deref())).collect();
    assert_eq!(moved, [("c", Some("kube-02"))]);
}

#[test]
fn a_pod_of_a_lost_domain_is_created_again_for_the_node_that_its_template_names() {
    let nodes =
        [node("kube-01", "zone: a", ""), node("kube-02", "zone: b", ""), node("kube-03", "zone: c", "")];
    let owned =
        "ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: web, uid: u, controller: true}]";
    let replica_set = format!(
        "{{apiVersion: apps/v1, kind: ReplicaSet, metadata: {{name: web, uid: u}}, spec: {{replicas: 1, \
         selector: {{matchLabels: {{app: web}}}}, template: {{metadata: {{labels: {{app: web}}}}, \
         spec: {{nodeName: kube-01, {THREE_CORES}}}}}}}}}\n---\n"
    );
    let running = pod(
        &format!("name: web-1, labels: {{app: web}}, {owned}"),
        &format!("nodeName: kube-02, {THREE_CORES}"),
        RUNNING,
    );
    let other = pod("name: other", &format!("nodeName: kube-01, {THREE_CORES}"), RUNNING);
    let text = [&nodes.concat(), &replica_set, &running, &other].map(String::as_str).concat();
    let losses = simulation(&text).lose_each_domain("zone", |_, _| ());
    let lost = losses.domains.iter().find(|loss| loss.domain == "b").expect("the domain has a node");
    let messages: Vec<_> = lost.unplaced.iter().map(|pod| pod.message.as_str()).collect();
    assert_eq!((lost.survives, messages.len()), (false, 1));
    assert!(messages[0].starts_with("rejected by kube-01: OutOfcpu"), "{messages:?}");
}

/// A pod that its node rejected some time ago.
fn failed(metadata: &str, node: &str) -> String {
    let message = "Pod was rejected: Node didn't have enough resource: cpu, requested: 5000";
    let status = format!("status: {{phase: Failed, reason: OutOfcpu, message: \"{message}\"}}");
    pod(metadata, &format!("nodeName: {node}, {THREE_CORES}"), &status)
}

#[test]
fn a_pod_that_has_failed_because_its_node_rejected_it_counts_as_rejected() {
    // It uses no room, and stays rejected although there is room now.
    let text = kube_01() + &failed("name: big", "kube-01") + &on("kube-01", "a");
    assert_eq!(outcomes(&text), ["big: rejected by kube-01: OutOfcpu", "a: kube-01"]);
    let mut simulation = simulation(&text);
    assert_eq!(not_running(&simulation.not_running()), ["pods x 1: rejected by kube-01: OutOfcpu"]);
    let explained = simulation.explain("default", "big", None).expect("the pod is in the input");
    let why = explained.unadmitted.expect("the pod does not run");
    assert_eq!(why.message, "Node didn't have enough resource: cpu, requested: 5000");
    assert!(explained.hints[0].starts_with("the pod has failed and never runs: create it again, and remove"));
    let (key, value) = ("disk".to_owned(), Some("hdd".to_owned()));
    let outcome = what_if(&text, &Change::SetLabel { node: "kube-01".to_owned(), key, value });
    assert_eq!(not_running(&outcome.not_running), ["pods x 1: rejected by kube-01: OutOfcpu"]);
    let side = || Side::new(inventory(&text), SimulationOptions::default(), true, |_, _| ()).expect("valid");
    assert_eq!(compare(&mut side(), &mut side(), ZONE).summary.to.rejected, 1);
    // A status without the words of a kubelet.
    let status = "status: {phase: Failed, reason: OutOfmemory, message: no room}";
    let short = pod("name: big", &format!("nodeName: kube-01, {ONE_CORE}"), status);
    assert_eq!(outcomes(&(kube_01() + &short)), ["big: rejected by kube-01: OutOfmemory"]);
}

#[test]
fn a_pod_that_has_ended_in_another_way_is_not_part_of_the_simulation() {
    let owned =
        "ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: web-1, uid: u, controller: true}]";
    for ended in [
        pod("name: p", &format!("nodeName: kube-01, {ONE_CORE}"), "status: {phase: Succeeded}"),
        pod("name: p", &format!("nodeName: kube-01, {ONE_CORE}"), "status: {phase: Failed, reason: Evicted}"),
        // Its controller replaces it.
        failed(&format!("name: p, {owned}"), "kube-01"),
        failed("name: p, deletionTimestamp: '2026-01-31T12:00:00Z'", "kube-01"),
    ] {
        let simulation = simulation(&(kube_01() + &ended));
        assert!(simulation.pods().is_empty(), "{ended}");
        let ended: Vec<_> = simulation.ended().keys().map(ToString::to_string).collect();
        assert_eq!(ended, ["default/p"]);
    }
}

#[test]
fn a_stateful_set_creates_a_rejected_pod_again_for_the_node_that_its_template_names() {
    let owner =
        "ownerReferences: [{apiVersion: apps/v1, kind: StatefulSet, name: sts, uid: u1, controller: true}]";
    let set = |disk: &str| {
        format!(
            "{{apiVersion: apps/v1, kind: StatefulSet, metadata: {{name: sts, uid: u1}}, spec: {{replicas: 2, serviceName: x, \
             selector: {{matchLabels: {{app: sts}}}}, template: {{metadata: {{labels: {{app: sts}}}}, spec: {{nodeName: kube-01, \
             nodeSelector: {{disk: {disk}}}, {ONE_CORE}}}}}}}}}\n---\n"
        )
    };
    let ended = failed(&format!("name: sts-0, labels: {{app: sts}}, {owner}"), "kube-01");
    let groups = simulation(&(kube_01() + &set("hdd") + &ended)).not_running();
    let rejected = "StatefulSet sts x 1: rejected by kube-01: NodeAffinity";
    assert_eq!(not_running(&groups), [rejected, "StatefulSet sts x 1: not created yet (waits for sts-0)"]);
    // The pod that has ended does not stand for the new one.
    let text = kube_01() + &set("ssd") + &ended;
    assert_eq!(outcomes(&text), ["sts-0: kube-01", "sts-1: kube-01"]);
    let outcome = what_if(&text, &Change::RemoveNode("kube-01".to_owned()));
    let waiting = "StatefulSet sts x 1: waiting for node kube-01, which does not exist";
    let next = "StatefulSet sts x 1: not created yet (waits for sts-0)";
    assert_eq!(not_running(&outcome.not_running), [waiting, next]);
}

#[test]
fn a_node_rejects_pods_of_another_operating_system() {
    let windows = node("kube-01", "kubernetes.io/os: windows", "");
    let os = |name: &str| pod("name: a", &format!("nodeName: kube-01, os: {{name: {name}}}, {ONE_CORE}"), "");
    for (text, expected) in [
        (kube_01() + &os("windows"), "a: rejected by kube-01: PodOSNotSupported"),
        (kube_01() + &os("linux"), "a: kube-01"),
        (windows.clone() + &os("windows"), "a: kube-01"),
        (windows + &os("linux"), "a: rejected by kube-01: PodOSNotSupported"),
    ] {
        assert_eq!(outcomes(&text), [expected], "{text}");
    }
}

/// Pods that name their node, with a claim each.
#[test]
fn pods_with_a_claim_that_waits_for_the_scheduler_ran_on_the_nodes_that_they_name() {
    let claim = |name: &str, class: &str, more: &str| {
        format!(
            "{{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {{name: {name}{more}}}, spec: {{storageClassName: {class}, \
             accessModes: [ReadWriteOnce], resources: {{requests: {{storage: 1Gi}}}}}}}}\n---\n"
        )
    };
    let class = |name: &str, mode: &str| {
        format!(
            "{{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {{name: {name}}}, provisioner: csi.example.com, \
             volumeBindingMode: {mode}}}\n---\n"
        )
    };
    let with = |name: &str, node: &str, volume: &str| {
        pod(&format!("name: {name}"), &format!("{node}{ONE_CORE}, volumes: [{{name: d, {volume}}}]"), "")
    };
    let of = |claim: &str| format!("persistentVolumeClaim: {{claimName: {claim}}}");
    let ephemeral = "ephemeral: {volumeClaimTemplate: {spec: {storageClassName: late, accessModes: [ReadWriteOnce], \
                     resources: {requests: {storage: 1Gi}}}}}";
    let selected = ", annotations: {volume.kubernetes.io/selected-node: kube-01}";
    let named = "nodeName: kube-01, ";
    let text = kube_01()
        + &node("kube-02", "disk: ssd", "")
        + &class("late", "WaitForFirstConsumer")
        + &class("now", "Immediate")
        + &claim("waits", "late", "")
        + &claim("shared", "late", "")
        + &claim("selected", "late", selected)
        + &claim("immediate", "now", "")
        + &with("waits", named, &of("waits"))
        + &with("own", "nodeName: kube-02, ", ephemeral)
        + &with("shared", named, &of("shared"))
        + &with("scheduled", "nodeSelector: {kubernetes.io/hostname: kube-01}, ", &of("shared"))
        + &with("selected", named, &of("selected"))
        + &with("immediate", named, &of("immediate"));
    let waiting = |name: &str, node: &str| format!("{name}: waiting on {node} for a claim that is not bound");
    assert_eq!(
        outcomes(&text),
        [
            waiting("waits", "kube-01"),
            waiting("own", "kube-02"),
            "shared: kube-01".to_owned(),
            "scheduled: kube-01".to_owned(),
            "selected: kube-01".to_owned(),
            "immediate: kube-01".to_owned(),
        ]
    );
    let hint = simulation(&text).explain("default", "waits", None).unwrap().hints.remove(0);
    assert!(hint.contains("spec.nodeSelector {kubernetes.io/hostname: kube-01}"), "{hint}");
}

#[test]
fn pods_whose_node_cannot_mount_their_volumes_ran_there() {
    let claim = "{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: far, uid: u, annotations: {pv.kubernetes.io/bind-completed: 'yes'}}, spec: {volumeName: pv, accessModes: [ReadWriteOnce], \
                 resources: {requests: {storage: 1Gi}}}, status: {phase: Bound}}\n---\n";
    let volume = "{apiVersion: v1, kind: PersistentVolume, metadata: {name: pv}, spec: {capacity: {storage: 1Gi}, accessModes: [ReadWriteOnce], \
                  claimRef: {namespace: default, name: far, uid: u}, nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: \
                  kubernetes.io/hostname, operator: In, values: [kube-02]}]}]}}}, status: {phase: Bound}}\n---\n";
    let with = |name: &str, node: &str, claim: &str, status: &str| {
        let spec = format!(
            "nodeName: {node}, {ONE_CORE}, volumes: [{{name: d, persistentVolumeClaim: {{claimName: {claim}}}}}]"
        );
        pod(&format!("name: {name}"), &spec, status)
    };
    // The kubelet has admitted it and waits.
    let started = "status: {phase: Pending, startTime: 2026-01-01T00:00:00Z}";
    let names = |name: &str, volume: &str, size: &str| {
        format!(
            "{{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {{name: {name}}}, spec: {{volumeName: {volume}, storageClassName: '', \
             accessModes: [ReadWriteOnce], resources: {{requests: {{storage: {size}}}}}}}}}\n---\n"
        )
    };
    let free = "{apiVersion: v1, kind: PersistentVolume, metadata: {name: free}, spec: {capacity: {storage: 1Gi}, \
                accessModes: [ReadWriteOnce]}}\n---\n";
    let text = kube_01()
        + &node("kube-02", "disk: ssd", "")
        + claim
        + volume
        + free
        // Its binding is complete once a controller has seen it.
        + &volume.replace("name: pv", "name: own").replace("name: far", "name: own")
        + &names("own", "own", "1Gi")
        + &names("gone", "nowhere", "1Gi")
        + &names("taken", "pv", "1Gi")
        + &names("large", "free", "2Gi")
        + &names("shared", "free", "1Gi").replace("ReadWriteOnce", "ReadWriteMany")
        + &names("fits", "free", "1Gi")
        + &with("missing", "kube-01", "none", "")
        + &with("far", "kube-01", "far", "")
        + &with("own", "kube-01", "own", "")
        + &with("near", "kube-02", "far", "")
        + &with("started", "kube-01", "none", started)
        + &with("gone", "kube-01", "gone", "")
        + &with("taken", "kube-01", "taken", "")
        + &with("large", "kube-01", "large", "")
        + &with("shared", "kube-01", "shared", "")
        + &with("fits", "kube-01", "fits", "");
    let waiting = |name: &str| format!("{name}: waiting on kube-01 for its volumes");
    assert_eq!(
        outcomes(&text),
        [
            waiting("missing"),
            waiting("far"),
            waiting("own"),
            "near: kube-02".to_owned(),
            waiting("started"),
            waiting("gone"),
            waiting("taken"),
            waiting("large"),
            waiting("shared"),
            "fits: kube-01".to_owned(),
        ]
    );
    let simulation = simulation(&text);
    let message = |name: &str| simulation.pod("default", name).unwrap().unadmitted.clone().unwrap().message;
    assert!(
        message("missing").contains("PersistentVolumeClaim default/none does not exist"),
        "{}",
        message("missing")
    );
    assert!(message("far").contains("bound to volume pv"), "{}", message("far"));
    for (pod, why) in [
        ("gone", "does not exist"),
        ("taken", "is that of"),
        ("large", "does not satisfy it: requested PV is too small"),
        ("shared", "does not satisfy it: incompatible accessMode"),
    ] {
        assert!(message(pod).contains(why), "{}", message(pod));
    }
}

#[test]
fn a_pod_that_names_an_unreachable_node_was_admitted_there() {
    let zone = "topology.kubernetes.io/zone";
    let text = node("kube-01", &format!("{zone}: a"), "")
        + &node("kube-02", &format!("{zone}: b"), "")
        + &deployment(1, &format!("nodeName: kube-01, {ONE_CORE}"));
    let mut simulation = simulation(&text);
    let losses = simulation.lose_each_domain(zone, |_, _| ());
    let of_a = losses.domains.iter().find(|loss| loss.domain == "a").unwrap();
    assert_eq!(of_a.unplaced_while_unreachable.len(), 1);
    assert!(!of_a.survives);
    let lose = Change::LoseContact { key: zone.to_owned(), value: "a".to_owned(), seconds: None };
    assert!(what_if(&text, &lose).unplaced[0].message.contains("names a node that cannot be reached"));
}
