//! Pods that their controllers cannot create: LimitRanges, ResourceQuotas, and the order of StatefulSets.

use berth_api::object::NamespacedName;
use berth_api::read::Kind;
use berth_input::inventory::Inventory;
use berth_simulate::capacity::{CapacityRequest, NodeType, Subject, Target, capacity};
use berth_simulate::what_if::{Change, WhatIf};
use berth_simulate::{Simulation, SimulationOptions, UnadmittedState};
use jiff::Timestamp;

fn nodes(n: usize) -> String {
    let node = |i| {
        format!(
            "---\n{{apiVersion: v1, kind: Node, metadata: {{name: n{i}, labels: {{kubernetes.io/hostname: n{i}}}}}, \
             status: {{allocatable: {{cpu: 4, memory: 8Gi, pods: 20}}}}}}\n"
        )
    };
    (1..=n).map(node).collect()
}

/// A workload of three pods. `spec` and `pod` are more fields of it and of its pods.
fn workload(kind: &str, spec: &str, pod: &str) -> String {
    format!(
        "---\napiVersion: apps/v1\nkind: {kind}\nmetadata: {{name: web}}\nspec: {{replicas: 3, {spec} selector: {{matchLabels: {{app: \
         web}}}}, template: {{metadata: {{labels: {{app: web}}}}, spec: {{{pod}}}}}}}\n"
    )
}

const PLAIN: &str = "containers: [{name: c, image: i}]";
const ONE_CORE: &str = "containers: [{name: c, image: i, resources: {requests: {cpu: 1}}}]";
const ONE_PER_NODE: &str = "affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: \
                            kubernetes.io/hostname, labelSelector: {matchLabels: {app: web}}}]}}, \
                            containers: [{name: c, image: i}]";

fn quota(fields: &str) -> String {
    format!("---\n{{apiVersion: v1, kind: ResourceQuota, metadata: {{name: q}}, {fields}}}\n")
}

fn limits(fields: &str) -> String {
    format!(
        "---\n{{apiVersion: v1, kind: LimitRange, metadata: {{name: l}}, spec: {{limits: [{fields}]}}}}\n"
    )
}

/// A pod of a dump that runs on the first node.
fn running(name: &str, metadata: &str, spec: &str) -> String {
    format!(
        "---\n{{apiVersion: v1, kind: Pod, metadata: {{name: {name}, creationTimestamp: '2026-01-01T00:00:00Z', {metadata}}}, \
         spec: {{nodeName: n1, {spec}}}, status: {{phase: Running}}}}\n"
    )
}

fn inventory(text: &str) -> Inventory {
    Inventory::from_text(text).expect("the text is well-formed")
}

fn placed(text: &str) -> Simulation {
    let simulation = Simulation::new(inventory(text), SimulationOptions::default());
    let mut simulation = simulation.expect("the objects are valid");
    simulation.run(|_, _| ());
    simulation
}

/// The number of pods of workload `web` with a node, without one, and that are not created, for the first reason.
fn counts(simulation: &Simulation) -> (usize, usize, usize, String) {
    let pods = || simulation.pods().iter().filter(|pod| pod.workload.is_some());
    let not_created = simulation.not_running();
    (
        pods().filter(|pod| pod.node().is_some()).count(),
        pods().filter(|pod| pod.is_unplaced()).count(),
        not_created.iter().map(|group| group.pods.len()).sum(),
        not_created.first().map(|group| group.why.to_string()).unwrap_or_default(),
    )
}

#[test]
fn quotas_were_ignored_offline() {
    let web = |pod: &str| workload("Deployment", "", pod);
    let high =
        "---\n{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: high}, value: 1}\n";
    let of_class = |class: &str| {
        high.to_owned()
            + &quota(
                "spec: {hard: {pods: 1}, scopeSelector: {matchExpressions: [{scopeName: PriorityClass, operator: In, values: [high]}]}}",
            )
            + &web(&format!("priorityClassName: {class}, {PLAIN}"))
    };
    let exceeded = |requested: &str, used: &str, limited: &str| {
        format!("not created: exceeded quota: q, requested: {requested}, used: {used}, limited: {limited}")
    };
    let pods =
        |used: &str, limited: &str| exceeded("pods=1", &format!("pods={used}"), &format!("pods={limited}"));
    let other = running("other", "", ONE_CORE);
    for (text, expected) in [
        (quota("spec: {hard: {pods: 2}}") + &web(PLAIN), (2, 0, 1, pods("2", "2"))),
        // Of a quota without status, the running pods count; otherwise its status.
        (quota("spec: {hard: {pods: 2}}") + &other + &web(PLAIN), (1, 0, 2, pods("2", "2"))),
        (
            quota("spec: {hard: {pods: 4}}, status: {used: {pods: 3}}") + &other + &web(PLAIN),
            (1, 0, 2, pods("4", "4")),
        ),
        (
            quota("spec: {hard: {requests.cpu: 2500m}}") + &web(ONE_CORE),
            (2, 0, 1, exceeded("requests.cpu=1", "requests.cpu=2", "requests.cpu=2500m")),
        ),
        (
            quota("spec: {hard: {requests.cpu: 9}}") + &web(PLAIN),
            (0, 0, 3, "not created: failed quota: q: must specify requests.cpu for: c".to_owned()),
        ),
        (quota("spec: {hard: {pods: 1}, scopes: [BestEffort]}") + &web(PLAIN), (1, 0, 2, pods("1", "1"))),
        (quota("spec: {hard: {pods: 1}, scopes: [BestEffort]}") + &web(ONE_CORE), (3, 0, 0, String::new())),
        (quota("spec: {hard: {pods: 1}, scopes: [Terminating]}") + &web(PLAIN), (3, 0, 0, String::new())),
        (of_class("high"), (1, 0, 2, pods("1", "1"))),
        (of_class("''"), (3, 0, 0, String::new())),
        (
            "---\n{apiVersion: v1, kind: ResourceQuota, metadata: {name: q, namespace: b}, spec: {hard: {pods: 0}}}\n".to_owned()
                + &web(PLAIN),
            (3, 0, 0, String::new()),
        ),
    ] {
        assert_eq!(counts(&placed(&(nodes(2) + &text))), expected, "{text}");
    }
}

#[test]
fn the_claims_of_a_stateful_set_are_charged_with_its_pods() {
    let claims = "volumeClaimTemplates: [{metadata: {name: d}, spec: {accessModes: [ReadWriteOnce], resources: {requests: \
                  {storage: 1Gi}}}}],";
    let text =
        nodes(2) + &quota("spec: {hard: {requests.storage: 2Gi}}") + &workload("StatefulSet", claims, PLAIN);
    let message = "not created: exceeded quota: q, requested: requests.storage=1Gi, used: requests.storage=2Gi, limited: \
                   requests.storage=2Gi";
    assert_eq!(counts(&placed(&text)), (2, 0, 1, message.to_owned()));
}

#[test]
fn limit_ranges_were_ignored_offline() {
    let web = |pod: &str| nodes(2) + &workload("Deployment", "", pod);
    let large = limits("{type: Container, defaultRequest: {cpu: 3}, default: {cpu: 3}}");
    // Two nodes of four cores have room for two pods of three.
    assert_eq!(counts(&placed(&(web(PLAIN) + &large))), (2, 1, 0, String::new()));
    assert_eq!(counts(&placed(&(web(ONE_CORE) + &large))), (3, 0, 0, String::new()));
    for (limit, message) in [
        ("min: {cpu: 2}", "minimum cpu usage per Container is 2, but request is 1"),
        (
            "max: {cpu: 500m}",
            "spec.containers[0].resources.requests: Invalid value: \"1\": must be less than or equal to cpu limit of 500m",
        ),
    ] {
        let text = web(ONE_CORE) + &limits(&format!("{{type: Container, {limit}}}"));
        assert_eq!(counts(&placed(&text)), (0, 0, 3, format!("not created: {message}")));
    }
    // Defaults count for quotas.
    let of_cpu = quota("spec: {hard: {requests.cpu: 3}}");
    assert_eq!(counts(&placed(&(web(PLAIN) + &large + &of_cpu))).0, 1);
}

#[test]
fn a_stateful_set_created_its_pods_without_waiting_for_those_before() {
    let set = |policy: &str| nodes(1) + &workload("StatefulSet", policy, ONE_PER_NODE);
    let waits = |pod: &str| format!("not created yet (waits for {pod})");
    assert_eq!(counts(&placed(&set(""))), (1, 1, 1, waits("web-1")));
    assert_eq!(counts(&placed(&set("podManagementPolicy: Parallel,"))), (1, 2, 0, String::new()));
    let all = nodes(3) + &workload("StatefulSet", "", ONE_PER_NODE);
    assert_eq!(counts(&placed(&all)), (3, 0, 0, String::new()));
    let ordinals = nodes(1) + &workload("StatefulSet", "ordinals: {start: 5},", ONE_PER_NODE);
    assert_eq!(counts(&placed(&ordinals)), (1, 1, 1, waits("web-6")));
    // A pod of the dump that is not ready holds up the others.
    let owner = "ownerReferences: [{apiVersion: apps/v1, kind: StatefulSet, name: web, controller: true}], labels: {app: web}";
    let unready = running("web-0", owner, PLAIN)
        .replace("Running}", "Running, conditions: [{type: Ready, status: 'False'}]}");
    assert_eq!(counts(&placed(&(set("") + &unready))), (1, 0, 2, waits("web-0")));
    let explained = placed(&set("")).explain("default", "web-2", None).expect("the pod is in the input");
    assert_eq!(explained.unadmitted.map(|why| why.to_string()), Some(waits("web-1")));
}

fn changed(before: &str, change: &Change) -> (WhatIf, NamespacedName) {
    let mut what_if =
        WhatIf::new(inventory(before), SimulationOptions::default(), Timestamp::UNIX_EPOCH).expect("valid");
    what_if.apply(change).expect("the change is possible");
    (what_if, NamespacedName::new("default", "web"))
}

#[test]
fn a_pod_that_is_gone_gives_its_part_of_the_quota_back() {
    let before = nodes(2) + &quota("spec: {hard: {pods: 3}}") + &workload("Deployment", "", PLAIN);
    let (what_if, web) = changed(&before, &Change::Drain("n1".to_owned()));
    let outcome = what_if.run(|_, _| ()).expect("valid").outcome;
    assert_eq!((outcome.moved.len(), outcome.not_running.len()), (2, 0), "{outcome:?}");
    let scale = |replicas| Change::Scale { kind: Kind::Deployment, name: web.clone(), n_replicas: replicas };
    let outcome = changed(&before, &scale(5)).0.run(|_, _| ()).expect("valid").outcome;
    assert_eq!(outcome.not_running.iter().map(|group| group.pods.len()).sum::<usize>(), 2);
    assert!(!outcome.is_harmless());
    // The status of a dump counts the pods of the dump, until changes remove them.
    let two = running("a", "", PLAIN) + &running("b", "", PLAIN);
    let dump = nodes(1) + &quota("spec: {hard: {pods: 2}}, status: {used: {pods: 2}}") + &two;
    let web = workload("Deployment", "", PLAIN).replace("replicas: 3", "replicas: 1");
    let with_web = |change: &Change| {
        let mut what_if = changed(&dump, change).0;
        what_if
            .overlay(|inventory| inventory.read(web.as_bytes(), "change"))
            .expect("valid")
            .expect("well-formed");
        what_if.run(|_, _| ()).expect("valid").outcome.not_running.len()
    };
    assert_eq!(with_web(&Change::Uncordon("n1".to_owned())), 1);
    assert_eq!(with_web(&Change::Evict(NamespacedName::new("default", "a"))), 0);
}

#[test]
fn quotas_counted_a_pod_that_no_kubelet_ends_for_ever() {
    let set = workload("StatefulSet", "podManagementPolicy: Parallel,", ONE_PER_NODE);
    let before = nodes(3) + &quota("spec: {hard: {pods: 2}}") + &set;
    let key = "kubernetes.io/hostname".to_owned();
    let lose = Change::LoseContact { key, value: "n1".to_owned(), seconds: None };
    let after = changed(&before, &lose).0.run(|_, _| ()).expect("valid").simulation;
    let node = |name| after.pod("default", name).and_then(|pod| pod.node());
    assert_eq!([node("web-0"), node("web-1"), node("web-2")], [Some("n1"), Some("n2"), Some("n3")]);
    // In order, it waits for the pod that is not available.
    let set = workload("StatefulSet", "", ONE_PER_NODE);
    let before = nodes(3) + &quota("spec: {hard: {pods: 2}}") + &set;
    let after = changed(&before, &lose).0.run(|_, _| ()).expect("valid").simulation;
    assert!(after.pod("default", "web-2").is_some_and(|pod| pod.is_unadmitted(UnadmittedState::NotCreated)));
}

/// Seed 11600070: the rollout of the DaemonSet deletes its pod of the earlier template there.
#[test]
fn quotas_counted_a_daemon_pod_that_no_kubelet_ends_for_ever() {
    let set = workload("DaemonSet", "", PLAIN).replace("replicas: 3, ", "");
    let before = nodes(3) + &quota("spec: {hard: {pods: 1}}") + &set;
    let key = "kubernetes.io/hostname".to_owned();
    let lose = Change::LoseContact { key, value: "n1".to_owned(), seconds: None };
    let mut what_if = changed(&before, &Change::Uncordon("n1".to_owned())).0;
    let new = set.replace("image: i", "image: new");
    let read = what_if.overlay(|inventory| inventory.read(new.as_bytes(), "new"));
    read.expect("valid").expect("well-formed");
    what_if.apply(&lose).expect("the node exists");
    let after = what_if.run(|_, _| ()).expect("valid").simulation;
    assert_eq!(after.pods().iter().filter_map(|pod| pod.node()).collect::<Vec<_>>(), ["n1", "n2"]);
}

#[test]
fn a_stateful_set_creates_evicted_pods_again_in_order() {
    let before = nodes(3) + &workload("StatefulSet", "", ONE_PER_NODE);
    let (mut what_if, _) = changed(&before, &Change::Drain("n1".to_owned()));
    what_if.then().expect("valid");
    what_if.apply(&Change::Drain("n2".to_owned())).expect("the change is possible");
    let outcome = what_if.run(|_, _| ()).expect("valid").outcome;
    assert_eq!(outcome.unplaced.iter().map(|pod| pod.name.as_str()).collect::<Vec<_>>(), ["web-0"]);
    assert_eq!(outcome.not_running[0].why.to_string(), "not created yet (waits for web-0)");
    assert_eq!(outcome.not_running[0].pods, ["default/web-1"]);
    let missing: Vec<_> =
        outcome.steps.iter().map(|step| (step.unplaced.join(" "), step.not_running.join(" "))).collect();
    let of = |unplaced: &str, not_running: &str| (unplaced.to_owned(), not_running.to_owned());
    assert_eq!(missing, [of("default/web-0", ""), of("default/web-0", "default/web-1")]);
}

#[test]
fn a_rollout_is_stuck_where_the_quota_has_no_room_for_its_surge() {
    let spec = |unavailable: usize| {
        format!("strategy: {{rollingUpdate: {{maxSurge: 1, maxUnavailable: {unavailable}}}}},")
    };
    let rolled_out = |unavailable| {
        let web = workload("Deployment", &spec(unavailable), PLAIN);
        let before = nodes(2) + &quota("spec: {hard: {pods: 3}}") + &web;
        let mut what_if =
            WhatIf::new(inventory(&before), SimulationOptions::default(), Timestamp::UNIX_EPOCH)
                .expect("valid");
        let after = web.replace("image: i", "image: j");
        what_if
            .overlay(|inventory| inventory.read(after.as_bytes(), "change"))
            .expect("valid")
            .expect("well-formed");
        what_if.run(|_, _| ()).expect("valid").outcome
    };
    let stuck = rolled_out(0).stuck_rollouts;
    assert!(stuck[0].reason.contains("exceeded quota: q"), "{stuck:?}");
    let fix = "set spec.strategy.rollingUpdate.maxUnavailable to 1; or change the ResourceQuota q of namespace default, so that it allows \
               the pods of the rollout";
    assert_eq!(stuck[0].fix, fix);
    let outcome = rolled_out(1);
    assert_eq!((outcome.stuck_rollouts.len(), outcome.not_running.len()), (0, 0), "{outcome:?}");
}

#[test]
fn capacity_ends_at_the_quota() {
    let text = nodes(1) + &quota("spec: {hard: {pods: 5}}") + &workload("Deployment", "", ONE_CORE);
    let subject = Subject::Workload(Kind::Deployment, NamespacedName::new("default", "web"));
    let capacity = |n_replicas| {
        let node_types = vec![NodeType::Existing("n1".to_owned())];
        let request = CapacityRequest {
            topology_key: "kubernetes.io/hostname".to_owned(),
            target: Some(Target { n_replicas, node_types, zones: Vec::new() }),
            defragmentation: None,
        };
        capacity(inventory(&text), &SimulationOptions::default(), &subject, &request).expect("valid").0
    };
    let five = capacity(5);
    assert_eq!((five.replicas, five.limited_by.as_deref(), five.nodes_needed), (4, Some("cpu"), Some(1)));
    let six = capacity(6);
    assert_eq!(six.nodes_needed, None);
    assert_eq!(six.prevented_by[0].limited_by, ["ResourceQuota q"]);
}

#[test]
fn repairs_promised_pods_that_a_quota_or_a_limit_range_refuses() {
    let found = |more: &str| -> Vec<String> {
        let large = ONE_CORE.replace("cpu: 1", "cpu: 6");
        let mut simulation = placed(&(nodes(3) + more + &workload("Deployment", "", &large)));
        let pending = simulation.pods().iter().find(|pod| pod.is_unplaced()).expect("none fits");
        let name = pending.pod.metadata.name.clone();
        let explained = simulation.explain("default", &name, None).expect("the pod exists");
        explained.repairs.iter().map(|repair| format!("{repair} -> {}", repair.result())).collect()
    };
    let less = "request 4 cpu instead of 6 in container c -> n1; ";
    let has = |found: &[String], repair: &str| found.iter().any(|text| text.starts_with(repair));
    let all = found("");
    assert!(has(&all, &format!("{less}all 3 pods fit")), "{all:?}");
    let two = found(&quota("spec: {hard: {pods: 2}}"));
    assert!(has(&two, &format!("{less}2 of 3 pods fit then")), "{two:?}");
    let bounded = found(&limits("{type: Container, min: {cpu: 5}}"));
    assert!(!has(&bounded, "request "), "{bounded:?}");
}

/// kube-apiserver 1.37.2: `deployments.apps "web" is forbidden: exceeded quota: q, requested: count/deployments.apps=1, ...`.
#[test]
fn quotas_of_the_number_of_workloads_were_ignored() {
    let (first, web) = (workload("Deployment", "", PLAIN), workload("Deployment", "", PLAIN));
    let first = first.replace("name: web", "name: first").replace("app: web", "app: first");
    let not_created = |hard: &str, first: &str| {
        let simulation = placed(&(nodes(1) + &quota(&format!("spec: {{hard: {{{hard}}}}}")) + first + &web));
        let unadmitted = simulation.pods().iter().filter_map(|pod| Some((pod, pod.unadmitted.as_deref()?)));
        let names = unadmitted.map(|(pod, why)| {
            let workload = pod.workload.as_deref().unwrap_or_default();
            format!("{workload}: {}", why.reason.as_deref().unwrap_or_default())
        });
        names.collect::<Vec<_>>()
    };
    let refused = ["Deployment web: ResourceQuota q"; 3];
    for hard in ["count/deployments.apps: 1", "count/replicasets.apps: 1"] {
        assert_eq!(not_created(hard, &first), refused, "{hard}");
    }
    assert!(not_created("count/deployments.apps: 2", &first).is_empty());
    assert!(not_created("count/statefulsets.apps: 0", &first).is_empty());
    // What is stored already stays, whatever its place in the input.
    let stored = web.replace("name: web}", "name: web, creationTimestamp: '2026-01-01T00:00:00Z'}");
    let only = nodes(1) + &quota("spec: {hard: {count/deployments.apps: 0}}") + &stored;
    assert!(placed(&only).pods().iter().all(|pod| pod.unadmitted.is_none()));
}
