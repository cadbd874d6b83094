//! Simulations of manifests.

use std::time::Duration;

use berth_api::simulated_nodes::SimulatedNodes;
use berth_api::syntax::quantity::Quantity;
use berth_input::inventory::Inventory;
use berth_simulate::{PendingFor, Simulation, SimulationError, SimulationOptions};

fn nodes(n_nodes: usize) -> Option<SimulatedNodes> {
    Some(SimulatedNodes {
        n_nodes,
        n_zones: 2,
        n_regions: 1,
        n_racks: 0,
        cpu: Quantity::from_units(4),
        memory: Quantity::from_units(16 << 30),
        pods: Quantity::from_units(110),
    })
}

fn simulation(text: &str) -> Result<Simulation, SimulationError> {
    let inventory = Inventory::from_text(text).expect("the text is well-formed");
    let options = SimulationOptions { simulated_nodes: nodes(2), ..SimulationOptions::default() };
    let mut simulation = Simulation::new(inventory, options)?;
    simulation.run(|_, _| ());
    Ok(simulation)
}

fn n_placed(simulation: &Simulation) -> usize {
    simulation.pods().iter().filter(|pod| pod.node().is_some()).count()
}

/// A StatefulSet of three with this pod spec.
fn three(spec: &str) -> String {
    format!(
        "{{apiVersion: apps/v1, kind: StatefulSet, metadata: {{name: db}}, spec: {{replicas: 3, \
         selector: {{matchLabels: {{app: db}}}}, \
         template: {{metadata: {{labels: {{app: db}}}}, spec: {spec}}}}}}}"
    )
}

#[test]
fn rules_are_relaxed_one_by_one_when_pods_have_been_pending_for_long() {
    let terms = |keys: [&str; 2]| {
        let term = |key| format!("{{topologyKey: {key}, labelSelector: {{matchLabels: {{app: db}}}}}}");
        let required = "requiredDuringSchedulingIgnoredDuringExecution";
        format!("{{podAntiAffinity: {{{required}: [{}, {}]}}}}", term(keys[0]), term(keys[1]))
    };
    let text = three(&format!(
        "{{affinity: {}, containers: [{{name: a, image: i, resources: {{requests: {{cpu: 1}}}}}}]}}",
        terms(["topology.kubernetes.io/zone", "kubernetes.io/hostname"])
    ));
    let annotations = "annotations: {scheduling.berth.dev/relax-after: 5m}, labels: {app: db}}, spec";
    let text = text.replace("labels: {app: db}}, spec", annotations);
    let relaxed = |seconds| {
        let options = SimulationOptions {
            pending_for: PendingFor::All(Duration::from_secs(seconds)),
            simulated_nodes: nodes(3),
            ..SimulationOptions::default()
        };
        let inventory = Inventory::from_text(&text).expect("the text is well-formed");
        let mut simulation = Simulation::new(inventory, options).expect("the objects are valid");
        simulation.run(|_, _| ());
        let pods = simulation.pods().iter();
        pods.map(|pod| (pod.node().is_some(), pod.relaxed.to_vec())).collect::<Vec<_>>()
    };
    let path = "spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0]".to_owned();
    assert_eq!(relaxed(299), [(true, vec![]), (true, vec![]), (false, vec![])]);
    // The third node is free: the rule about host names stays required.
    assert_eq!(relaxed(300), [(true, vec![]), (true, vec![]), (true, vec![path])]);
}

#[test]
fn placement_policies_limit_how_many_pods_share_a_node() {
    let policy = "apiVersion: scheduling.berth.dev/v1alpha1\nkind: ClusterPlacementPolicy\nmetadata: {name: two}\n\
        spec: {extendedAffinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [\
        {topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: db}}, limit: LIMIT}]}}}\n---\n";
    let pods = three("{containers: [{name: a, image: i, resources: {requests: {cpu: 1}}}]}");
    for (limit, n) in [("0", 2), ("1", 3)] {
        let text = policy.replace("LIMIT", limit) + &pods;
        assert_eq!(n_placed(&simulation(&text).unwrap()), n, "limit {limit}");
    }
}

#[test]
fn containers_without_an_image_kept_a_manifest_from_being_simulated() {
    let simulation =
        simulation(&three("{containers: [{name: a}, {name: b}]}")).expect("images do not matter");
    assert_eq!(n_placed(&simulation), 3);
    assert_eq!(
        simulation.warnings(),
        ["StatefulSet db: containers without an image: the API server rejects the pods until each has one"]
    );
}

#[test]
fn an_error_in_a_template_was_reported_once_for_each_replica() {
    let spec = "{containers: [{name: a, image: i, ports: [{containerPort: 70000}]}]}";
    let error = simulation(&three(spec)).err().expect("the port is out of range").to_string();
    assert_eq!(
        error,
        "input:1: StatefulSet default/db: spec.template.spec.containers[0].ports[0].containerPort: \
         Invalid value: 70000: must be between 1 and 65535, inclusive"
    );
}

#[test]
fn a_misspelt_rule_of_a_running_pod_was_lost_without_a_warning() {
    let metadata = "name: p, creationTimestamp: '2026-01-01T00:00:00Z', annotations: {scheduling.berth.dev/affinity: \
        '{podAntiAfinity: {}}'}";
    let text = format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{{metadata}}}\nspec: {{nodeName: node-1, containers: [{{name: a, image: i}}]}}\n"
    );
    let simulation = simulation(&text).expect("an API server has stored the pod");
    let expected = "Pod default/p: metadata.annotations[scheduling.berth.dev/affinity]: podAntiAfinity: unknown field; did you \
        mean \"podAntiAffinity\"?; rules that cannot be read have no effect";
    assert!(simulation.warnings().iter().any(|warning| warning == expected), "{:?}", simulation.warnings());
}

#[test]
fn two_warnings_of_a_template_were_reported_once_for_each_replica() {
    let spec = "{containers: [{name: a, image: i}], affinity: {nodeAffinity: {\
        preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, preference: {matchExpressions: [\
        {key: failure-domain.beta.kubernetes.io/zone, operator: Exists}, \
        {key: failure-domain.beta.kubernetes.io/region, operator: Exists}]}}]}}}";
    let simulation = simulation(&three(spec)).expect("the pods are valid");
    assert_eq!(simulation.warnings().len(), 2, "{:?}", simulation.warnings());
}

#[test]
fn simulated_nodes_had_no_ephemeral_storage() {
    let spec = "{containers: [{name: a, image: i, resources: {requests: {ephemeral-storage: 1Gi}}}]}";
    assert_eq!(n_placed(&simulation(&three(spec)).expect("the pods are valid")), 3);
}

#[test]
fn a_workload_without_pods_was_not_among_the_workloads() {
    let text = "\
        {apiVersion: apps/v1, kind: DaemonSet, metadata: {name: windows}, spec: {\
         selector: {matchLabels: {app: w}}, template: {metadata: {labels: {app: w}}, spec: {\
         nodeSelector: {kubernetes.io/os: windows}, containers: [{name: c, image: i}]}}}}";
    let simulation = simulation(text).expect("the DaemonSet is valid");
    assert!(simulation.pods().is_empty());
    assert_eq!(simulation.workloads(), [("default".to_owned(), "DaemonSet windows".to_owned())]);
}

#[test]
fn a_run_of_a_cron_job_was_counted_apart_from_it() {
    let cron_job = "\
        {apiVersion: batch/v1, kind: CronJob, metadata: {name: nightly}, spec: {jobTemplate: {spec: {template: {spec: {\
         restartPolicy: Never, containers: [{name: c, image: i}]}}}}}}";
    let job = "\
        {apiVersion: batch/v1, kind: Job, metadata: {name: nightly-29, ownerReferences: [\
         {apiVersion: batch/v1, kind: CronJob, name: nightly, controller: true}]}, spec: {template: {spec: {\
         restartPolicy: Never, containers: [{name: c, image: i}]}}}}";
    let pod = "\
        {apiVersion: v1, kind: Pod, metadata: {name: nightly-29-x, ownerReferences: [\
         {apiVersion: batch/v1, kind: Job, name: nightly-29, controller: true}]}, \
         spec: {nodeName: node-1, containers: [{name: c, image: i}]}}";
    for documents in [vec![cron_job, job, pod], vec![cron_job, pod]] {
        let simulation = simulation(&documents.join("\n---\n")).expect("the objects are valid");
        let workloads: Vec<_> = simulation.pods().iter().map(|pod| pod.workload.as_deref()).collect();
        assert_eq!(workloads, [Some("CronJob nightly")]);
        assert_eq!(simulation.workloads(), [("default".to_owned(), "CronJob nightly".to_owned())]);
    }
}

/// A node with four CPUs, full of these pods, and a pod of high priority that needs one.
fn full(pods: &str) -> String {
    format!(
        "{{apiVersion: v1, kind: Node, metadata: {{name: a}}, status: {{allocatable: {{cpu: 4, pods: 10}}}}}}
---
{{apiVersion: v1, kind: Pod, metadata: {{name: high}}, spec: {{priority: 100, containers: [
  {{name: c, image: i, resources: {{requests: {{cpu: 1}}}}}}]}}}}
{pods}"
    )
}

fn running(name: &str, more: &str, cpu: u32) -> String {
    format!(
        "
---
{{apiVersion: v1, kind: Pod, metadata: {{name: {name}{more}}}, spec: {{nodeName: a, containers: [
  {{name: c, image: i, resources: {{requests: {{cpu: {cpu}}}}}}}]}}}}"
    )
}

#[test]
fn a_pod_preempts_pods_of_lower_priority() {
    let simulation = simulation(&full(&running("low", "", 4))).expect("the pods are valid");
    let (high, low) = (&simulation.pods()[0], &simulation.pods()[1]);
    assert_eq!((high.node(), high.victims[0].to_string().as_str()), (Some("a"), "default/low"));
    assert_eq!((low.node(), low.outcome.message().as_ref()), (None, "preempted by default/high on a"));
    assert_eq!(low.preempted_by.as_ref().map(ToString::to_string).as_deref(), Some("default/high"));
}

#[test]
fn the_disruption_mode_and_the_priority_class_of_a_pod_group_count() {
    let node = |name: &str| {
        format!(
            "{{apiVersion: v1, kind: Node, metadata: {{name: {name}}}, status: {{allocatable: {{cpu: 1, pods: 9}}}}}}\n---\n"
        )
    };
    let group = |name: &str, spec: &str| {
        format!(
            "{{apiVersion: scheduling.k8s.io/v1alpha2, kind: PodGroup, metadata: {{name: {name}}}, spec: {{schedulingPolicy: \
             {{gang: {{minCount: 1}}}}, {spec}}}}}\n---\n"
        )
    };
    let pod = |name: &str, group: &str, node: &str| {
        format!(
            "{{apiVersion: v1, kind: Pod, metadata: {{name: {name}}}, spec: {{{node} schedulingGroup: {{podGroupName: {group}}}, \
             containers: [{{name: c, image: i, resources: {{requests: {{cpu: 1}}}}}}]}}}}\n---\n"
        )
    };
    let class =
        "{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: urgent}, value: 9}\n---\n";
    let text = node("a")
        + &node("b")
        + class
        + &group("low", "disruptionMode: PodGroup")
        + &group("other", "priority: 0")
        + &group("high", "priorityClassName: urgent")
        + &pod("low-a", "low", "nodeName: a,")
        + &pod("low-b", "low", "nodeName: b,")
        + &pod("other", "other", "")
        + &pod("high", "high", "priorityClassName: urgent,");
    let simulation = simulation(&text).expect("the pods are valid");
    let of = |name: &str| simulation.pod("default", name).expect("it is in the input");
    assert_eq!((of("high").node(), of("high").victims.len()), (Some("a"), 2));
    assert!(["low-a", "low-b"].iter().all(|name| of(name).preempted_by.is_some()));
    // The group of higher priority came first, and its victim on the other node left room.
    assert_eq!(of("other").node(), Some("b"));
}

#[test]
fn a_victim_with_a_controller_is_placed_again() {
    let owner =
        ", ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: r, uid: u, controller: true}]";
    let second = "
---
{apiVersion: v1, kind: Node, metadata: {name: b, labels: {pool: b}}, status: {allocatable: {cpu: 3, pods: 1}}}";
    let text = full(&(running("low", owner, 3) + &running("large", "", 1) + second));
    let text = text.replace(
        "priority: 100,",
        "priority: 100, affinity: {nodeAffinity: {\
        requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [\
        {key: pool, operator: DoesNotExist}]}]}}},",
    );
    let mut simulation = simulation(&text).expect("the pods are valid");
    let of = |name: &str| simulation.pod("default", name).expect("it is in the input");
    assert_eq!((of("high").node(), of("high").victims.len()), (Some("a"), 1));
    assert_eq!((of("large").node(), of("low").node()), (Some("a"), Some("b")));
    assert!(of("low").preempted_by.is_some() && !of("low").was_running);
    simulation.disable_preemption();
    assert!(simulation.explain("default", "low", None).expect("it is in the input").preemption.is_none());
}

#[test]
fn a_claim_that_names_a_volume_is_bound_to_it() {
    let volume = |name: &str, zone: &str| {
        format!(
            "---\n{{apiVersion: v1, kind: PersistentVolume, metadata: {{name: {name}}}, \
             spec: {{capacity: {{storage: 1Gi}}, accessModes: [ReadWriteOnce], storageClassName: s, nodeAffinity: \
             {{required: {{nodeSelectorTerms: [{{matchExpressions: [{{key: topology.kubernetes.io/zone, operator: In, \
             values: [{zone}]}}]}}]}}}}}}}}\n"
        )
    };
    let claim = |name: &str, volume: &str| {
        format!(
            "---\n{{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {{name: {name}}}, spec: {{accessModes: \
             [ReadWriteOnce], storageClassName: s, volumeName: {volume:?}, resources: {{requests: {{storage: 1Gi}}}}}}}}\n"
        )
    };
    let pod = |name: &str| {
        format!(
            "---\n{{apiVersion: v1, kind: Pod, metadata: {{name: {name}}}, spec: {{containers: [{{name: c, image: i}}], \
             volumes: [{{name: v, persistentVolumeClaim: {{claimName: {name}}}}}]}}}}\n"
        )
    };
    let text = [
        "{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: s}, provisioner: \
         kubernetes.io/no-provisioner, volumeBindingMode: WaitForFirstConsumer}\n",
        &volume("a", "zone-1"),
        &volume("b", "zone-2"),
        &claim("free", ""),
        &claim("named", "a"),
        &pod("free"),
        &pod("named"),
    ];
    let simulation = simulation(&text.concat()).expect("the objects are valid");
    let node = |name: &str| simulation.pod("default", name).expect("it is in the input").node();
    let zone = |name: &str| simulation.node_label(node(name)?, "topology.kubernetes.io/zone");
    assert_eq!((zone("named"), zone("free")), (Some("zone-1"), Some("zone-2")));
}

const KATA: &str = "{apiVersion: node.k8s.io/v1, kind: RuntimeClass, metadata: {name: kata}, handler: kata, \
    overhead: {podFixed: {cpu: 1}}, scheduling: {nodeSelector: {kubernetes.io/hostname: node-2}}}\n---\n";

#[test]
fn the_node_selector_and_the_overhead_of_a_runtime_class_count_when_the_input_has_the_class() {
    let pods =
        three("{runtimeClassName: kata, containers: [{name: a, image: i, resources: {requests: {cpu: 1}}}]}");
    let with_class = simulation(&(KATA.to_owned() + &pods)).expect("the pods are valid");
    let nodes: Vec<_> = with_class.pods().iter().map(|pod| pod.node()).collect();
    // Two CPUs each, on one of the nodes with four.
    assert_eq!(nodes, [Some("node-2"), Some("node-2"), None]);
    assert_eq!(with_class.warnings(), [""; 0]);

    let without = simulation(&pods).expect("the pods are valid");
    assert_eq!(n_placed(&without), 3);
    assert_eq!(
        without.warnings(),
        [
            "RuntimeClass kata is not in the input: the node selector, the tolerations and the overhead that it adds to its \
          pods are not known, and the pods are used without them: add it, as `berth dump` saves it"
        ]
    );
}

#[test]
fn pods_that_contradict_their_runtime_class_are_refused_and_those_of_a_dump_are_not_merged_again() {
    let pod = |metadata: &str, spec: &str| {
        format!(
            "{KATA}{{apiVersion: v1, kind: Pod, metadata: {{name: a{metadata}}}, \
             spec: {{{spec}, containers: [{{name: a, image: i}}]}}}}"
        )
    };
    let given = "runtimeClassName: kata, nodeSelector: {kubernetes.io/hostname: node-1}";
    let error = simulation(&pod("", given)).err().expect("the node selectors differ").to_string();
    assert!(
        error.ends_with(
            "pods \"a\" is forbidden: conflict: runtimeClass.scheduling.nodeSelector[kubernetes.io/hostname] = node-2; \
             pod.spec.nodeSelector[kubernetes.io/hostname] = node-1"
        ),
        "{error}"
    );
    let error = simulation(&pod("", "overhead: {cpu: 1}")).err().expect("there is no class").to_string();
    assert!(
        error.contains("Pod Overhead set without corresponding RuntimeClass defined Overhead"),
        "{error}"
    );
    // The class was another one when the API server admitted the pod.
    let dumped = simulation(&pod(", creationTimestamp: \"2026-01-01T00:00:00Z\"", given)).expect("it exists");
    assert_eq!(dumped.pods()[0].node(), Some("node-1"));
}

#[test]
fn a_runtime_class_that_the_api_server_refuses_is_an_error() {
    let class = KATA.replace("handler: kata", "handler: K").replace("cpu: 1", "cpu: -1");
    let error =
        simulation(&(class + &three("{containers: [{name: a, image: i}]}"))).err().expect("it is invalid");
    let error = error.to_string();
    assert!(error.contains("RuntimeClass kata: handler: Invalid value: \"K\""), "{error}");
    assert!(error.contains("overhead.limits[cpu]: Invalid value: \"-1\""), "{error}");
}
