//! What controllers do after changes, one step after the other: rollouts that are scaled while they are stuck, pods that are created
//! again, pods of DaemonSets.

use std::collections::BTreeSet;

use berth_api::object::{NamespacedName, Taint};
use berth_api::read::Kind;
use berth_input::inventory::Inventory;
use berth_simulate::SimulationOptions;
use berth_simulate::what_if::{Change, Changed, WhatIf, WhatIfOutcome};
use jiff::Timestamp;

fn nodes(n: usize, cpu: usize) -> String {
    let node = |i| {
        format!(
            "---\n{{apiVersion: v1, kind: Node, metadata: {{name: n{i}, labels: {{kubernetes.io/hostname: n{i}}}}}, \
             status: {{allocatable: {{cpu: {cpu}, memory: 8Gi, pods: 20}}}}}}\n"
        )
    };
    (1..=n).map(node).collect()
}

/// A workload `web` whose pods request so many cores.
fn workload(kind: &str, spec: &str, cpu: &str) -> String {
    let resources = if cpu.is_empty() { String::new() } else { format!("requests: {{cpu: {cpu}}}") };
    format!(
        "---\napiVersion: apps/v1\nkind: {kind}\nmetadata: {{name: web}}\nspec: {{{spec} selector: {{matchLabels: {{app: web}}}}, template: \
         {{metadata: {{labels: {{app: web}}}}, spec: {{containers: [{{name: c, image: i, resources: {{{resources}}}}}]}}}}}}\n"
    )
}

enum Step {
    File(String),
    Make(Change),
}
use Step::{File, Make};

/// The cluster after steps, of which each begins when the cluster has settled.
fn played(before: &str, steps: impl IntoIterator<Item = Step>) -> Changed {
    let inventory = Inventory::from_text(before).expect("the text is well-formed");
    let options = SimulationOptions::default();
    let mut what_if = WhatIf::new(inventory, options, Timestamp::UNIX_EPOCH).expect("the objects are valid");
    for step in steps {
        match step {
            File(text) => {
                let read = what_if.overlay(|inventory| inventory.read(text.as_bytes(), "change"));
                read.expect("the objects are valid").expect("the text is well-formed");
            }
            Make(change) => what_if.apply(&change).expect("its object exists"),
        }
        what_if.then().expect("the objects are valid");
    }
    what_if.run(|_, _| ()).expect("the objects are valid")
}

fn scale(kind: Kind, n_replicas: u16) -> Step {
    Make(Change::Scale { kind, name: NamespacedName::new("default", "web"), n_replicas })
}

fn drain(node: &str) -> Step {
    Make(Change::Drain(node.to_owned()))
}

fn remove(node: &str) -> Step {
    Make(Change::RemoveNode(node.to_owned()))
}

/// The number of pods of the new template, and of the earlier one with a node.
fn sets(changed: &Changed, cpu: i64) -> (usize, usize) {
    let is_new = |pod: &berth_api::object::Pod| {
        pod.spec.containers[0].resources.requests.get("cpu").is_some_and(|of| of.units() == cpu)
    };
    let pods = || changed.simulation.pods().iter();
    let new = pods().filter(|pod| is_new(&pod.pod)).count();
    (new, pods().filter(|pod| !is_new(&pod.pod) && pod.node().is_some()).count())
}

/// Every pod that was there is in exactly one list.
fn assert_listed_once(outcome: &WhatIfOutcome, n_before: usize) {
    let moved = outcome.moved.iter().map(|pod| NamespacedName::new(&pod.namespace, &pod.name));
    let unplaced = outcome.unplaced.iter().map(|pod| NamespacedName::new(&pod.namespace, &pod.name));
    let listed: Vec<_> = moved.chain(unplaced).chain(outcome.scaled_down.iter().cloned()).collect();
    let different: BTreeSet<_> = listed.iter().collect();
    assert_eq!(listed.len(), different.len(), "{listed:?}");
    let n_new = outcome.moved.iter().filter(|pod| pod.from.is_none()).count()
        + outcome.unplaced.iter().filter(|pod| !pod.before && !pod.was_running).count();
    assert_eq!(listed.len() - n_new + outcome.n_unmoved, n_before, "{outcome:?}");
}

const SURGE: &str = "replicas: 6, strategy: {rollingUpdate: {maxSurge: 2, maxUnavailable: 1}},";

#[test]
fn a_stuck_rollout_that_is_scaled_kept_its_proportions_no_more() {
    let before = nodes(3, 4) + &workload("Deployment", SURGE, "1");
    let stuck = || File(workload("Deployment", SURGE, "5"));
    // New pods, and old ones that run.
    for (replicas, expected) in [
        (vec![], (3, 5)),
        // 5 and 3 of 8 grow to 9 and 5 of 14.
        (vec![12], (5, 9)),
        // 5 and 3 of 8 shrink to 3 and 2 of 5; then the new one grows, because an old pod may stop.
        (vec![3], (3, 2)),
        // 2 and 3 of 5 grow to 3 and 5 of 8.
        (vec![3, 6], (5, 3)),
        (vec![0], (0, 0)),
    ] {
        let steps = replicas.iter().map(|n| scale(Kind::Deployment, *n));
        let changed = played(&before, std::iter::once(stuck()).chain(steps));
        assert_eq!(sets(&changed, 5), expected, "{replicas:?}");
        assert_listed_once(&changed.outcome, 6);
    }
}

#[test]
fn a_change_of_another_object_deleted_pods_of_a_stuck_rollout() {
    let before = nodes(2, 4) + &workload("Deployment", SURGE, "1");
    let other = nodes(1, 4).replace("n1", "other");
    let changed = played(&before, [File(workload("Deployment", SURGE, "5")), remove("n1"), File(other)]);
    assert_eq!(sets(&changed, 5), (3, 5));
    assert_listed_once(&changed.outcome, 6);
    assert_eq!(changed.outcome.scaled_down.len(), 0);
}

#[test]
fn a_changed_strategy_ended_a_stuck_rollout_without_a_word() {
    let strict = SURGE.replace("maxUnavailable: 1", "maxUnavailable: 0");
    let before = nodes(2, 4) + &workload("Deployment", &strict, "1");
    let stuck = workload("Deployment", &strict, "3");
    let changed = played(&before, [File(stuck.clone())]);
    assert_eq!((changed.outcome.stuck_rollouts.len(), sets(&changed, 3)), (1, (2, 6)));
    let recreate = stuck.replace("rollingUpdate: {maxSurge: 2, maxUnavailable: 0}", "type: Recreate");
    let changed = played(&before, [File(stuck), File(recreate)]);
    assert_eq!(sets(&changed, 3), (6, 0));
}

#[test]
fn a_rollback_replaced_the_pods_that_had_the_template_already() {
    // As a server names them.
    let before = nodes(2, 4) + &workload("Deployment", SURGE, "1");
    let owner = |kind: &str, name: &str| {
        format!(
            "ownerReferences: [{{apiVersion: apps/v1, kind: {kind}, name: {name}, controller: true, uid: u-{name}}}]"
        )
    };
    let set = workload("ReplicaSet", "replicas: 6,", "1")
        .replace("name: web}", &format!("name: web-abc, uid: u-web-abc, {}}}", owner("Deployment", "web")))
        .replace("labels: {app: web}", "labels: {app: web, pod-template-hash: abc}");
    let pods: String = (0..6)
        .map(|i| {
            format!(
                "---\n{{apiVersion: v1, kind: Pod, metadata: {{name: web-abc-{i}, labels: {{app: web, pod-template-hash: abc}}, {}}}, spec: \
                 {{nodeName: n{}, containers: [{{name: c, image: i, resources: {{requests: {{cpu: 1}}}}}}]}}, status: {{phase: Running}}}}\n",
                owner("ReplicaSet", "web-abc"),
                i % 2 + 1
            )
        })
        .collect();
    let dump = before.replace("name: web}", "name: web, uid: u-web}") + &set + &pods;
    let deployment = |cpu| File(workload("Deployment", SURGE, cpu));
    let changed = played(&dump, [deployment("5")]);
    assert_eq!((sets(&changed, 5), changed.outcome.stuck_rollouts.len()), ((3, 5), 1));
    let outcome = played(&dump, [deployment("5"), deployment("1")]).outcome;
    assert_eq!(
        (outcome.stuck_rollouts.len(), outcome.n_unmoved, outcome.moved.len()),
        (0, 5, 1),
        "{outcome:?}"
    );
}

#[test]
fn a_stateful_set_is_scaled_down_when_all_its_pods_run() {
    let before = nodes(1, 3) + &workload("StatefulSet", "replicas: 3,", "1");
    let names = |changed: &Changed| {
        let pods = changed.simulation.pods().iter().map(|pod| pod.pod.metadata.name.clone());
        pods.collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>().join(" ")
    };
    let changed = played(&before, [scale(Kind::StatefulSet, 1)]);
    assert_eq!((names(&changed).as_str(), changed.outcome.scaled_down.len()), ("web-0", 2));
    assert!(changed.outcome.is_harmless());
    assert_listed_once(&changed.outcome, 3);
    // web-0 has no node: the controller waits for it.
    let small = nodes(2, 3).replace("cpu: 3", "cpu: 2") + &workload("StatefulSet", "replicas: 3,", "1");
    let evict = || Make(Change::Evict(NamespacedName::new("default", "web-0")));
    let cordon = |node: &str| Make(Change::Cordon(node.to_owned()));
    let steps = || [cordon("n1"), cordon("n2"), evict(), scale(Kind::StatefulSet, 1)];
    let changed = played(&small, steps());
    assert_eq!(names(&changed), "web-0 web-1 web-2");
    let stuck = &changed.outcome.stuck_rollouts[0];
    assert!(stuck.reason.starts_with("2 pods too many; pod default/web-0 is not available."), "{stuck:?}");
    assert_eq!(stuck.fix, "add a node like n1: then the rollout completes");
    let parallel = small.replace("replicas: 3,", "replicas: 3, podManagementPolicy: Parallel,");
    assert_eq!(names(&played(&parallel, steps())), "web-0");
}

#[test]
fn a_fix_of_a_stuck_rollout_was_stuck_again() {
    // Three pods fit into 9 cores on their own, but not beside an old one.
    let spec = "replicas: 3, strategy: {rollingUpdate: {maxSurge: 1, maxUnavailable: 0}},";
    let before = nodes(3, 3) + &workload("Deployment", spec, "1");
    let changed = played(&before, [File(workload("Deployment", spec, "4"))]);
    let stuck = &changed.outcome.stuck_rollouts[0];
    assert_eq!(stuck.fix, "request 2 cpu instead of 4 in container c: then the rollout completes");
    let completes = |cpu: &str| {
        played(&before, [File(workload("Deployment", spec, cpu))]).outcome.stuck_rollouts.is_empty()
    };
    assert!(completes("2") && !completes("2001m"));
}

#[test]
fn a_pod_that_blocks_the_rollback_of_an_ordered_stateful_set_was_not_named() {
    let set = |cpu| workload("StatefulSet", "replicas: 3,", cpu);
    let before = nodes(3, 2) + &set("1");
    let changed = played(&before, [File(set("5")), File(set("1"))]);
    let [stuck] = changed.outcome.stuck_rollouts.as_slice() else {
        panic!("{:?}", changed.outcome.stuck_rollouts)
    };
    assert!(stuck.fix.starts_with("kubectl delete pod web-2 -n default: "), "{}", stuck.fix);
    assert!(stuck.reason.contains("pod default/web-2 is not available"), "{}", stuck.reason);
    // In parallel, it is replaced.
    let set = |cpu| workload("StatefulSet", "replicas: 3, podManagementPolicy: Parallel,", cpu);
    let changed = played(&(nodes(3, 2) + &set("1")), [File(set("5")), File(set("1"))]);
    assert_eq!((changed.outcome.stuck_rollouts.len(), changed.outcome.unplaced.len()), (0, 0));
}

#[test]
fn a_stuck_daemon_set_kept_the_pod_of_a_removed_node() {
    let before = nodes(2, 4) + &workload("DaemonSet", "", "1");
    for node in ["n1", "n2"] {
        let changed = played(&before, [File(workload("DaemonSet", "", "9")), remove(node)]);
        let outcome = changed.outcome;
        let on_removed = changed
            .simulation
            .pods()
            .iter()
            .filter(|pod| berth_control::expand::target_node(&pod.pod) == Some(node));
        assert_eq!(on_removed.count(), 0, "{node}");
        // The pod of the node that stays is replaced, and has no room.
        assert_eq!((outcome.stuck_rollouts.len(), outcome.unplaced.len()), (1, 1), "{outcome:?}");
        assert!(outcome.stuck_rollouts[0].reason.starts_with("0 of 1 pods"), "{outcome:?}");
    }
}

#[test]
fn the_daemon_pod_of_a_removed_node_that_a_quota_refuses_was_not_created() {
    let quota = "---\n{apiVersion: v1, kind: ResourceQuota, metadata: {name: q}, spec: {hard: {pods: 1}}}\n";
    let before = nodes(2, 4) + &workload("DaemonSet", "", "1") + quota;
    let counts = |steps: Vec<Step>| {
        let outcome = played(&before, steps).outcome;
        let not_created = outcome.not_running.iter().map(|group| group.pods.len()).sum::<usize>();
        (outcome.n_unmoved + outcome.moved.len(), not_created)
    };
    assert_eq!(counts(Vec::new()), (1, 1));
    assert_eq!([counts(vec![remove("n1")]), counts(vec![remove("n2")])], [(1, 0); 2]);
}

#[test]
fn a_daemon_pod_that_a_quota_refuses_was_missing_on_a_node_that_is_not_eligible_any_more() {
    let quota = "---\n{apiVersion: v1, kind: ResourceQuota, metadata: {name: q}, spec: {hard: {pods: 1}}}\n";
    let before = nodes(2, 4) + &workload("DaemonSet", "", "1") + quota;
    let taint = |node: &str| {
        let (key, effect) = ("x".to_owned(), "NoSchedule".to_owned());
        Make(Change::SetTaint { node: node.to_owned(), taint: Taint { key, value: String::new(), effect } })
    };
    let n_missing = |steps: Vec<Step>| {
        let not_running = played(&before, steps).outcome.not_running;
        not_running.iter().map(|group| group.pods.len()).sum::<usize>()
    };
    // The pod that runs may stay on its node.
    assert_eq!(n_missing(vec![taint("n1")]) + n_missing(vec![taint("n2")]), 1);
    assert_eq!(n_missing(vec![taint("n1"), taint("n2")]), 0);
}

#[test]
fn pods_of_a_daemon_set_stayed_on_nodes_that_are_not_eligible_any_more() {
    let before = nodes(2, 4) + &workload("DaemonSet", "", "1");
    let taint = |effect: &str| {
        let taint = berth_simulate::what_if::taint(&format!("a=b:{effect}")).expect("a taint");
        Make(Change::SetTaint { node: "n1".to_owned(), taint })
    };
    let on_n1 =
        |text: String| text.replace("containers:", "nodeSelector: {kubernetes.io/hostname: n1}, containers:");
    let label = Make(Change::SetLabel {
        node: "n1".to_owned(),
        key: "kubernetes.io/hostname".to_owned(),
        value: Some("other".to_owned()),
    });
    let on_delete = || workload("DaemonSet", "updateStrategy: {type: OnDelete},", "1");
    for (before, step, n_left) in [
        (&before, taint("NoSchedule"), 2),
        (&before, taint("NoExecute"), 1),
        (&(nodes(2, 4) + &on_n1(workload("DaemonSet", "", "1"))), label, 0),
        // The nodes are those of the new template, also where pods keep the earlier one.
        (&(nodes(2, 4) + &on_delete()), File(on_n1(on_delete())), 1),
    ] {
        let outcome = played(before, [step]).outcome;
        let n_left_now = outcome.n_unmoved + outcome.moved.len();
        assert_eq!(
            (n_left_now, outcome.broken_rules.len(), outcome.unplaced.len()),
            (n_left, 0, 0),
            "{outcome:?}"
        );
        assert_listed_once(&outcome, outcome.n_unmoved + outcome.scaled_down.len());
    }
}

#[test]
fn pods_that_are_created_again_had_the_earlier_template() {
    // A node has room for one pod of the new template beside none of the others.
    let set = |cpu| workload("StatefulSet", "replicas: 2, updateStrategy: {type: OnDelete},", cpu);
    let before = nodes(2, 2) + &set("1");
    let requests = |changed: &Changed, name: &str| {
        let pod = changed.simulation.pod("default", name).expect("the pod is there");
        pod.pod.spec.containers[0].resources.requests["cpu"].units()
    };
    let changed = played(&before, [File(set("2")), drain("n1")]);
    let evicted = changed.outcome.unplaced.iter().map(|pod| pod.name.clone()).collect::<Vec<_>>();
    let [evicted] = evicted.as_slice() else { panic!("{evicted:?}") };
    let other = if evicted == "web-0" { "web-1" } else { "web-0" };
    assert_eq!((requests(&changed, evicted), requests(&changed, other)), (2, 1));
    // Later steps know it as well.
    let taint = Make(Change::Cordon("n1".to_owned()));
    let label = Make(Change::SetLabel { node: "n2".to_owned(), key: "a".to_owned(), value: None });
    let changed = played(&before, [File(set("2")), label, taint, drain("n1")]);
    assert_eq!(requests(&changed, evicted), 2);
    // A ReplicaSet replaces no pods, but creates new ones from its template.
    let set = |cpu| workload("ReplicaSet", "replicas: 2,", cpu);
    let changed = played(&(nodes(2, 2) + &set("1")), [File(set("2")), drain("n1")]);
    assert_eq!(changed.outcome.unplaced.len(), 1);
}

#[test]
fn pods_that_are_created_again_knew_no_limit_range_that_came_later() {
    let range = |limit: &str| {
        format!(
            "---\n{{apiVersion: v1, kind: LimitRange, metadata: {{name: l}}, spec: {{limits: [{{type: Container, {limit}}}]}}}}\n"
        )
    };
    let before = nodes(2, 2) + &workload("Deployment", "replicas: 2,", "");
    let outcome = |limit: &str| played(&before, [File(range(limit)), drain("n1")]).outcome;
    assert_eq!((outcome("default: {cpu: 1}").unplaced.len()), 0);
    let large = outcome("default: {cpu: 3}");
    assert!(large.unplaced[0].message.contains("Insufficient cpu"), "{large:?}");
    // What the template says is too much; what the range gives is not.
    assert_eq!(outcome("max: {cpu: 1}, default: {cpu: 1}").not_running.len(), 0);
    let outcome = outcome("max: {cpu: 1}, default: {cpu: 2}");
    assert_eq!(outcome.not_running.len(), 1);
    let why = outcome.not_running[0].why.to_string();
    assert!(why.contains("maximum cpu usage per Container is 1, but limit is 2"), "{why}");
}

#[test]
fn pods_that_are_not_created_yet_were_not_listed_before_a_domain_is_lost() {
    let before = nodes(2, 2) + &workload("StatefulSet", "replicas: 3,", "1");
    let mut changed = played(&before, [scale(Kind::StatefulSet, 6)]);
    let losses = changed.lose_each_domain("kubernetes.io/hostname", |_, _| ());
    let waiting: Vec<_> = losses.changes.not_running.iter().map(|group| group.pods.join(" ")).collect();
    assert_eq!((waiting, losses.changes.summary.unplaced.new), (vec!["default/web-5".to_owned()], 1));
    // Nothing is unplaced, but a pod is not created.
    let quota = "---\n{apiVersion: v1, kind: ResourceQuota, metadata: {name: q}, spec: {hard: {pods: 3}}}\n";
    let mut changed = played(
        &(nodes(4, 9) + &workload("Deployment", "replicas: 3,", "1") + quota),
        [scale(Kind::Deployment, 4)],
    );
    let losses = changed.lose_each_domain("kubernetes.io/hostname", |_, _| ());
    assert!(losses.losses.domains.iter().all(|loss| loss.survives) && !losses.is_harmless());
}

#[test]
fn replicas_that_a_quota_refused_did_not_count_in_the_size_of_their_replica_set() {
    let quota = "---\n{apiVersion: v1, kind: ResourceQuota, metadata: {name: q}, spec: {hard: {pods: 1}}}\n";
    let before = nodes(1, 4) + &workload("Deployment", "replicas: 5,", "1") + quota;
    let outcome = played(&before, [File(workload("Deployment", "replicas: 5,", "2"))]).outcome;
    // maxSurge is 2 and maxUnavailable 1: 4 of the earlier template are left, of which 1 runs, and 3 of the new one.
    assert_eq!(outcome.not_running.iter().map(|group| group.pods.len()).sum::<usize>(), 6);
    assert_eq!((outcome.n_unmoved, outcome.summary.not_running.before), (1, 4));
}

#[test]
fn the_fix_of_a_stuck_rollout_requested_less_than_is_needed() {
    for (kind, spec, to) in [("DaemonSet", "", 4), ("Deployment", "replicas: 4,", 2)] {
        let after = workload(kind, spec, "9");
        let stuck = played(&(nodes(3, 4) + &workload(kind, spec, "1")), [File(after)]).outcome.stuck_rollouts;
        let fix = format!("request {to} cpu instead of 9 in container c: then the rollout completes");
        assert_eq!(stuck[0].fix, fix, "{kind}");
    }
}
