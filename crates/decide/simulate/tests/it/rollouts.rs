//! Rollouts, played step by step: those that complete, and those that deadlock.

use berth_input::inventory::Inventory;
use berth_simulate::SimulationOptions;
use berth_simulate::what_if::{Change, Counts, WhatIf, WhatIfOutcome};
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

const ONE_PER_NODE: &str = "affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: \
                            kubernetes.io/hostname, labelSelector: {matchLabels: {app: web}}}]}},";

/// A workload `web`; the pod has these fields beside its container.
fn workload(kind: &str, spec: &str, image: &str, pod: &str) -> String {
    format!(
        "---\napiVersion: apps/v1\nkind: {kind}\nmetadata: {{name: web}}\nspec: {{{spec} selector: {{matchLabels: {{app: web}}}}, template: \
         {{metadata: {{labels: {{app: web}}}}, spec: {{{pod} containers: [{{name: c, image: {image}, resources: {{requests: {{cpu: 1}}}}}}]}}}}}}\n"
    )
}

/// The outcome when the second text replaces a workload of the first, in a cluster whose pods run.
fn rolled_out(before: &str, after: &str) -> WhatIfOutcome {
    let inventory = Inventory::from_text(before).expect("the text is well-formed");
    let mut what_if = WhatIf::new(inventory, SimulationOptions::default(), Timestamp::UNIX_EPOCH)
        .expect("the objects are valid");
    let read = what_if.overlay(|inventory| inventory.read(after.as_bytes(), "change"));
    read.expect("the objects are valid").expect("the text is well-formed");
    what_if.run(|_, _| ()).expect("the objects are valid").outcome
}

/// What a rollout from image 1 to image 2 does on a number of nodes: pods that have no node, and the stuck rollout.
fn update(kind: &str, spec: &str, pod: &str, n_nodes: usize) -> (WhatIfOutcome, Option<(String, String)>) {
    let before = nodes(n_nodes) + &workload(kind, spec, "'1'", pod);
    let outcome = rolled_out(&before, &workload(kind, spec, "'2'", pod));
    let stuck = outcome.stuck_rollouts.first().map(|stuck| (stuck.reason.clone(), stuck.fix.clone()));
    (outcome, stuck)
}

#[test]
fn a_rollout_that_deadlocks_is_the_result_with_the_fix() {
    let spec = "replicas: 3, strategy: {rollingUpdate: {maxSurge: 1, maxUnavailable: 0}},";
    let (outcome, stuck) = update("Deployment", spec, ONE_PER_NODE, 3);
    let (reason, fix) = stuck.expect("the new pod excludes the old ones");
    assert!(reason.starts_with("0 of 3 pods have the new template; pod default/web-"), "{reason}");
    assert!(reason.contains("didn't match pod anti-affinity rules"), "{reason}");
    assert!(reason.contains("maxUnavailable 0, maxSurge 1"), "{reason}");
    assert_eq!(fix, "set spec.strategy.rollingUpdate.maxUnavailable to 1");
    // The old pods stay, and one new pod waits.
    assert_eq!((outcome.n_unmoved, outcome.unplaced.len(), outcome.moved.len()), (3, 1, 0));
    assert!(!outcome.is_harmless() && !outcome.unplaced[0].before);
    let stuck = serde_json::to_value(&outcome).expect("an outcome is data")["stuckRollouts"][0].clone();
    let named = [&stuck["kind"], &stuck["namespace"], &stuck["name"]];
    assert_eq!(named, ["Deployment", "default", "web"]);
    assert!(stuck["reason"].is_string());
}

#[test]
fn the_same_rollout_completes_where_a_node_is_free_or_an_old_pod_may_stop() {
    let surge = "replicas: 3, strategy: {rollingUpdate: {maxSurge: 1, maxUnavailable: 0}},";
    let (outcome, stuck) = update("Deployment", surge, ONE_PER_NODE, 4);
    assert_eq!((stuck, outcome.n_unmoved + outcome.moved.len()), (None, 3));
    assert!(outcome.is_harmless());
    // maxUnavailable 25 % of 3 is 0 and maxSurge is 1: the default deadlocks as well.
    assert!(update("Deployment", "replicas: 3,", ONE_PER_NODE, 3).1.is_some());
    let unavailable = "replicas: 3, strategy: {rollingUpdate: {maxUnavailable: 1}},";
    assert_eq!(update("Deployment", unavailable, ONE_PER_NODE, 3).1, None);
    let recreate = "replicas: 3, strategy: {type: Recreate},";
    assert_eq!(update("Deployment", recreate, ONE_PER_NODE, 3).1, None);
}

/// kube-controller-manager 1.37.2: only `Parallel` replaces a pod of an earlier template that is not ready.
#[test]
fn a_pod_that_was_pending_before_a_change_got_the_new_template() {
    for (policy, replaces) in [("OrderedReady", false), ("Parallel", true)] {
        let spec = format!("replicas: 1, podManagementPolicy: {policy},");
        let before = nodes(2) + &workload("StatefulSet", &spec, "'1'", "nodeSelector: {disk: ssd},");
        let outcome = rolled_out(&before, &workload("StatefulSet", &spec, "'2'", ""));
        assert_eq!(outcome.unplaced.is_empty(), replaces, "{policy}: {outcome:?}");
        let fixes: Vec<&str> = outcome.stuck_rollouts.iter().map(|stuck| stuck.fix.as_str()).collect();
        match replaces {
            true => assert_eq!(fixes, [] as [&str; 0]),
            false => assert!(fixes[0].starts_with("kubectl delete pod web-0 -n default: "), "{fixes:?}"),
        }
    }
}

#[test]
fn a_paused_deployment_keeps_its_pods() {
    let (outcome, stuck) = update("Deployment", "replicas: 3, paused: true,", ONE_PER_NODE, 3);
    assert_eq!((stuck, outcome.n_unmoved, outcome.moved.len()), (None, 3, 0));
}

#[test]
fn a_deployment_with_a_new_template_and_more_replicas_scales_its_old_pods_first() {
    let update = |n_nodes, replicas: usize, more: &str| {
        let spec = |n: usize| {
            format!("replicas: {n}, {more} strategy: {{rollingUpdate: {{maxSurge: 1, maxUnavailable: 0}}}},")
        };
        let before = nodes(n_nodes) + &workload("Deployment", &spec(3), "'1'", ONE_PER_NODE);
        rolled_out(&before, &workload("Deployment", &spec(replicas), "'2'", ONE_PER_NODE))
    };
    // The two additional pods of the earlier template take the nodes that a new pod could have.
    let outcome = update(5, 5, "");
    let stuck = &outcome.stuck_rollouts.first().expect("five old pods are on five nodes").reason;
    assert!(stuck.starts_with("0 of 5 pods have the new template"), "{stuck}");
    assert_eq!((outcome.n_unmoved, outcome.moved.len(), outcome.unplaced.len()), (3, 2, 1));
    let outcome = update(6, 5, "");
    assert_eq!((outcome.stuck_rollouts.len(), outcome.unplaced.len()), (0, 0));
    assert_eq!(outcome.n_unmoved + outcome.moved.len(), 5);
    // No strategy makes room for four pods on three nodes.
    let outcome = update(3, 4, "");
    let [stuck] = outcome.stuck_rollouts.as_slice() else { panic!("{:?}", outcome.stuck_rollouts) };
    assert!(stuck.fix.starts_with("add 2 nodes like"), "{}", stuck.fix);
    // The pod has one name in the reason and in the list.
    let unplaced = format!("pod default/{} has no node", outcome.unplaced[0].name);
    assert!(stuck.reason.contains(&unplaced), "{} {unplaced}", stuck.reason);
    // With fewer replicas, the surplus goes before the rollout.
    let outcome = update(3, 2, "");
    assert_eq!((outcome.stuck_rollouts.len(), outcome.scaled_down.len()), (0, 1));
    // A paused Deployment scales, and does not roll out.
    let outcome = update(5, 5, "paused: true,");
    assert_eq!((outcome.stuck_rollouts.len(), outcome.n_unmoved, outcome.moved.len()), (0, 3, 2));
}

#[test]
fn a_deployment_that_was_paused_rolls_out_when_it_goes_on_with_a_new_template() {
    let spec = |paused| format!("replicas: 3, paused: {paused},");
    let before = nodes(3) + &workload("Deployment", &spec(true), "'1'", ONE_PER_NODE);
    let outcome = rolled_out(&before, &workload("Deployment", &spec(false), "'2'", ONE_PER_NODE));
    assert_eq!(outcome.stuck_rollouts.len(), 1);
}

#[test]
fn a_partition_counts_from_the_first_ordinal() {
    let spec = "replicas: 3, ordinals: {start: 5}, updateStrategy: {rollingUpdate: {partition: 1}},";
    let (outcome, stuck) = update("StatefulSet", spec, ONE_PER_NODE, 3);
    assert_eq!((stuck, outcome.unplaced.len()), (None, 0));
}

#[test]
fn rollouts_of_ten_thousand_pods_in_steps_of_one_are_played_to_the_end() {
    let big = nodes(50).replace("cpu: 4, memory: 8Gi, pods: 20", "cpu: 4, pods: 300");
    for (kind, spec) in [
        ("Deployment", "replicas: 10000, strategy: {rollingUpdate: {maxSurge: 1, maxUnavailable: 0}},"),
        ("StatefulSet", "replicas: 10000,"),
    ] {
        let small = |image| workload(kind, spec, image, "").replace("{cpu: 1}", "{}");
        let outcome = rolled_out(&(big.clone() + &small("'1'")), &small("'2'"));
        assert_eq!((outcome.stuck_rollouts.len(), outcome.unplaced.len()), (0, 0), "{kind}");
        assert_eq!(outcome.n_unmoved + outcome.moved.len(), 10_000, "{kind}");
    }
}

/// A new template that fits on one node only, where another pod of the set runs.
const ON_N1: &str = "nodeSelector: {kubernetes.io/hostname: n1},";

#[test]
fn an_ordered_stateful_set_waits_for_its_last_pod_and_a_partition_keeps_the_others() {
    let before = nodes(3) + &workload("StatefulSet", "replicas: 3,", "'1'", ONE_PER_NODE);
    let pod = format!("{ONE_PER_NODE}{ON_N1}");
    let outcome = rolled_out(&before, &workload("StatefulSet", "replicas: 3,", "'2'", &pod));
    let stuck = outcome.stuck_rollouts.first().expect("web-2 does not fit beside the pod on n1");
    let on_n1 = outcome.unplaced[0].name.as_str();
    assert_eq!((outcome.unplaced.len(), on_n1), (1, "web-2"), "{:?}", outcome.stuck_rollouts);
    assert!(
        stuck.reason.starts_with("0 of 3 pods have the new template; pod default/web-2 has no node"),
        "{}",
        stuck.reason
    );
    assert!(stuck.reason.contains("podManagementPolicy OrderedReady, maxUnavailable 1"), "{}", stuck.reason);
    // With a partition, only web-2 is updated.
    let partition = "replicas: 3, updateStrategy: {rollingUpdate: {partition: 2}},";
    let (outcome, stuck) = update("StatefulSet", partition, "", 3);
    assert_eq!(stuck, None);
    assert_eq!(outcome.n_unmoved + outcome.moved.len(), 3);
    assert!(outcome.moved.iter().all(|pod| pod.name == "web-2"));
}

#[test]
fn an_update_waits_for_a_pod_that_is_not_ready() {
    let owner = "ownerReferences: [{apiVersion: apps/v1, kind: StatefulSet, name: web, controller: true}]";
    let pod = |i: usize, ready: &str| {
        format!(
            "---\n{{apiVersion: v1, kind: Pod, metadata: {{name: web-{i}, labels: {{app: web}}, {owner}}}, spec: {{nodeName: n{}, containers: \
             [{{name: c, image: '1'}}]}}, status: {{phase: Running, conditions: [{{type: Ready, status: '{ready}'}}]}}}}\n",
            i + 1
        )
    };
    let set = |image: &str| workload("StatefulSet", "replicas: 2,", image, "");
    let rolled_out_if = |ready| {
        let before = nodes(2) + &set("'1'") + &pod(0, ready) + &pod(1, "True");
        rolled_out(&before, &set("'2'")).stuck_rollouts.into_iter().map(|stuck| stuck.reason).next()
    };
    assert_eq!(rolled_out_if("True"), None);
    let reason = rolled_out_if("False").expect("web-0 is not ready");
    assert!(
        reason.starts_with("0 of 2 pods have the new template; pod default/web-0 is not available."),
        "{reason}"
    );
}

#[test]
fn a_stateful_set_whose_pods_must_go_together_is_fixed_by_more_unavailable_pods() {
    // The new pods tolerate no old pod: they need all nodes free of them.
    let apart = "affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: all, \
                 labelSelector: {matchLabels: {app: web}, matchExpressions: [{key: v, operator: DoesNotExist}]}}]}},";
    let labelled =
        |text: String| text.replace("kubernetes.io/hostname: n", "all: x, kubernetes.io/hostname: n");
    for policy in ["OrderedReady", "Parallel"] {
        let spec = format!("replicas: 2, podManagementPolicy: {policy},");
        let before = labelled(nodes(2)) + &workload("StatefulSet", &spec, "'1'", "");
        let after = workload("StatefulSet", &spec, "'2'", apart)
            .replace("metadata: {labels: {app: web}}", "metadata: {labels: {app: web, v: '2'}}");
        let outcome = rolled_out(&before, &after);
        let stuck = outcome.stuck_rollouts.first().expect("the old pods exclude the new ones");
        assert!(stuck.reason.contains(policy), "{}", stuck.reason);
        assert_eq!(stuck.fix, "set spec.updateStrategy.rollingUpdate.maxUnavailable to 2");
    }
}

#[test]
fn a_daemon_set_with_a_surge_deadlocks_on_the_host_port() {
    let ports = |spec: &str, image: &str| {
        workload("DaemonSet", spec, image, "")
            .replace("name: c,", "name: c, ports: [{containerPort: 80, hostPort: 80}],")
    };
    let update = |strategy: &str| {
        let spec = format!("updateStrategy: {{rollingUpdate: {strategy}}},");
        rolled_out(&(nodes(3) + &ports(&spec, "'1'")), &ports(&spec, "'2'"))
    };
    let outcome = update("{maxSurge: 1, maxUnavailable: 0}");
    let stuck = outcome.stuck_rollouts.first().expect("two pods of a node have the same port");
    assert_eq!((stuck.kind, outcome.n_unmoved, outcome.unplaced.len()), ("DaemonSet", 3, 1));
    assert!(stuck.fix.starts_with("set spec.updateStrategy.rollingUpdate.maxSurge to 0"), "{}", stuck.fix);
    let outcome = update("{maxUnavailable: 1}");
    assert_eq!((outcome.stuck_rollouts.len(), outcome.n_unmoved, outcome.unplaced.len()), (0, 3, 0));
}

#[test]
fn pods_of_a_daemon_set_that_no_pod_replaces_were_not_in_the_outcome() {
    let before = nodes(3) + &workload("DaemonSet", "", "'1'", "");
    let outcome = rolled_out(&before, &workload("DaemonSet", "", "'2'", ON_N1));
    assert_eq!((outcome.stuck_rollouts.len(), outcome.n_unmoved, outcome.scaled_down.len()), (0, 1, 2));
}

#[test]
fn a_rollout_without_room_names_the_repair_of_its_pod() {
    let before = nodes(1)
        + &workload("Deployment", "replicas: 2, strategy: {rollingUpdate: {maxSurge: 0}},", "'1'", "");
    let after = workload(
        "Deployment",
        "replicas: 2, strategy: {rollingUpdate: {maxSurge: 0}},",
        "'2'",
        "nodeSelector: {disk: ssd},",
    );
    let outcome = rolled_out(&before, &after);
    let stuck = outcome.stuck_rollouts.first().expect("no node has the label");
    assert!(stuck.fix.contains("disk"), "{}", stuck.fix);
    assert_eq!((outcome.unplaced.len(), outcome.n_unmoved), (1, 1));
    // The pod that stopped is the one that has no node.
    assert!(outcome.unplaced[0].was_running);
}

#[test]
fn pending_pods_compete_for_the_room_that_a_rollout_frees() {
    let pending = workload("ReplicaSet", "replicas: 5,", "'1'", "").replace("web", "batch");
    let two = |text: String| text.replace("{cpu: 1}", "{cpu: 2}");
    // Two pods fill a node of 4. The new ones leave half of it.
    let before = nodes(2) + &two(workload("Deployment", "replicas: 4,", "'1'", "")) + &pending;
    let outcome = rolled_out(&before, &workload("Deployment", "replicas: 4,", "'2'", ""));
    let placed = outcome.moved.iter().filter(|pod| pod.name.starts_with("batch")).count();
    // The first old pod stops for two pods that have been pending for longer: the new ones wait.
    assert_eq!((outcome.stuck_rollouts.len(), placed), (1, 2));
    assert_eq!(outcome.summary.unplaced, Counts { before: 5, after: 5, new: 2 });
    // With a smaller set, the room is enough for all.
    let few = pending.replace("replicas: 5", "replicas: 1");
    let before = nodes(2) + &two(workload("Deployment", "replicas: 4,", "'1'", "")) + &few;
    let outcome = rolled_out(&before, &workload("Deployment", "replicas: 4,", "'2'", ""));
    assert_eq!((outcome.stuck_rollouts.len(), outcome.unplaced.len()), (0, 0));
}

#[test]
fn pods_without_their_deployment_in_the_dump_have_the_earlier_template() {
    let pod = "---\napiVersion: v1\nkind: Pod\nmetadata: {name: web-7d4b9c6f5d-abcde, namespace: default, \
         labels: {app: web, pod-template-hash: 7d4b9c6f5d}, ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, \
         name: web-7d4b9c6f5d, uid: u1, controller: true}]}\nspec: {nodeName: a, tolerations: [{key: node.kubernetes.io/not-ready, \
         operator: Exists, effect: NoExecute, tolerationSeconds: 300}], containers: [{name: c, image: i, resources: \
         {requests: {cpu: 1}}}]}\nstatus: {phase: Running, startTime: '2026-01-01T00:00:00Z'}\n";
    let node =
        "---\napiVersion: v1\nkind: Node\nmetadata: {name: a}\nstatus: {allocatable: {cpu: 4, pods: 9}}\n";
    let deployment = |cpu: u32| {
        format!(
            "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: web, namespace: default}}\nspec: {{replicas: 1, \
             selector: {{matchLabels: {{app: web}}}}, template: {{metadata: {{labels: {{app: web}}}}, spec: {{containers: \
             [{{name: c, image: i, resources: {{requests: {{cpu: {cpu}}}}}}}]}}}}}}\n"
        )
    };
    let stuck = |before: &str, cpu| rolled_out(before, &deployment(cpu)).stuck_rollouts.len();
    let dump = format!("{node}{pod}");
    assert_eq!([stuck(&dump, 1), stuck(&dump, 100)], [0, 1]);
    // The template of its ReplicaSet says more than a pod.
    let set = deployment(1).replace("kind: Deployment", "kind: ReplicaSet").replace(
        "{name: web, namespace: default}",
        "{name: web-7d4b9c6f5d, namespace: default, uid: u1, ownerReferences: [{apiVersion: apps/v1, kind: Deployment, \
         name: web, uid: u0, controller: true}]}",
    );
    let dump = format!("{dump}---\n{set}");
    assert_eq!([stuck(&dump, 1), stuck(&dump, 100)], [0, 1]);
}

#[test]
fn a_rollout_waited_for_the_pod_of_a_node_that_a_later_step_removes() {
    let filler = "---\n{apiVersion: v1, kind: Pod, metadata: {name: filler}, spec: {nodeName: n2, containers: [{name: c, image: i, \
                  resources: {requests: {cpu: 3}}}]}}\n";
    let before = nodes(2) + filler + &workload("DaemonSet", "", "'1'", "");
    let after = workload("DaemonSet", "", "'2'", "").replace("cpu: 1", "cpu: 2");
    let stuck = |change: Option<Change>| {
        let inventory = Inventory::from_text(&before).expect("the text is well-formed");
        let mut what_if = WhatIf::new(inventory, SimulationOptions::default(), Timestamp::UNIX_EPOCH)
            .expect("the objects are valid");
        let read = what_if.overlay(|inventory| inventory.read(after.as_bytes(), "change"));
        read.expect("the objects are valid").expect("the text is well-formed");
        what_if.then().expect("the objects are valid");
        change.iter().for_each(|change| what_if.apply(change).expect("the node exists"));
        what_if.run(|_, _| ()).expect("the objects are valid").outcome.stuck_rollouts
    };
    // The new pod does not fit on n2.
    assert_eq!(stuck(None).len(), 1);
    assert_eq!(stuck(Some(Change::RemoveNode("n2".to_owned()))), []);
}

#[test]
fn the_pods_of_a_job_that_is_suspended_leave_their_room() {
    let job = |suspend: bool| {
        format!(
            "---\napiVersion: batch/v1\nkind: Job\nmetadata: {{name: j, namespace: default, uid: j}}\n\
             spec: {{suspend: {suspend}, selector: {{matchLabels: {{job: j}}}}, template: {{metadata: {{labels: {{job: j}}}}, \
             spec: {{restartPolicy: Never, containers: [{{name: c, image: i, resources: {{requests: {{cpu: 2}}}}}}]}}}}}}\n"
        )
    };
    let pod = |name: &str, of: &str, spec: &str| {
        format!(
            "---\napiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, namespace: default, creationTimestamp: 2026-01-01T00:00:00Z{of}}}\n\
             spec: {{{spec}containers: [{{name: c, image: i, resources: {{requests: {{cpu: 2}}}}}}]}}\n"
        )
    };
    let owner = ", labels: {job: j}, ownerReferences: [{apiVersion: batch/v1, kind: Job, name: j, uid: j, controller: true}]";
    let node = "apiVersion: v1\nkind: Node\nmetadata: {name: a}\nstatus: {allocatable: {cpu: 2, pods: 9}}\n";
    let running = pod("j-1", owner, "nodeName: a, restartPolicy: Never, ");
    let before = [node, &job(false), &running, &pod("waits", "", "")].concat();
    let moved = rolled_out(&before, &job(true)).moved;
    assert_eq!(
        moved.iter().map(|pod| (pod.name.as_str(), pod.to.as_str())).collect::<Vec<_>>(),
        [("waits", "a")]
    );
}
