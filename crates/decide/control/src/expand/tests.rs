use std::fmt::Write;
use std::path::{Path, PathBuf};

use serde_json::json;

use super::*;
use berth_api::read::decode_at;

fn expanded(text: &str) -> Vec<ExpandedPod> {
    let expansion = expand(&Inventory::from_text(text).unwrap()).unwrap();
    for made in &expansion.pods {
        let raw = made.raw.as_ref().unwrap();
        assert_eq!(decode_at::<Pod>(raw, "", &"").unwrap(), made.pod, "both views are the same pod");
    }
    expansion.pods
}

#[test]
fn the_memory_of_replicas_is_limited() {
    let mut inventory = Inventory::from_text(&workload("Deployment", "", "replicas: 10,")).unwrap();
    inventory.max_pods = Some(10);
    assert_eq!(expand(&inventory).unwrap().pods.len(), 10);
    inventory.max_pods = Some(9);
    assert!(expand(&inventory).is_err());
    // Large templates count several times.
    let annotations = format!("app: web}}, annotations: {{a: {}}}", "x".repeat(80_000));
    let text = workload("StatefulSet", "", "replicas: 30000,").replacen(
        "{labels: {app: web}",
        &format!("{{labels: {{{annotations}"),
        1,
    );
    assert!(error(&text).contains("30000 more pods with a template of 78 KiB"), "{}", error(&text));
}

#[test]
fn an_autoscaled_workload_counted_as_one_pod() {
    let autoscaler = |target: &str, bounds: &str| {
        format!(
            "---\n{{apiVersion: autoscaling/v1, kind: HorizontalPodAutoscaler, metadata: {{name: web}}, \
             spec: {{scaleTargetRef: {{{target}, name: web}}, {bounds}}}}}\n"
        )
    };
    let deployment = "apiVersion: apps/v1, kind: Deployment";
    for (kind, replicas, target, bounds, n_pods) in [
        ("Deployment", "", deployment, "minReplicas: 3, maxReplicas: 9", 3),
        ("Deployment", "replicas: 2,", deployment, "minReplicas: 3, maxReplicas: 9", 3),
        ("Deployment", "replicas: 5,", deployment, "minReplicas: 3, maxReplicas: 9", 5),
        ("Deployment", "replicas: 12,", deployment, "minReplicas: 3, maxReplicas: 9", 9),
        ("Deployment", "replicas: 0,", deployment, "minReplicas: 3, maxReplicas: 9", 0),
        ("Deployment", "", deployment, "maxReplicas: 9", 1),
        ("Deployment", "replicas: 2,", deployment, "minReplicas: 0, maxReplicas: 1", 1),
        ("Deployment", "", deployment, "minReplicas: 3, maxReplicas: 2", 1),
        ("Deployment", "", "apiVersion: apps/v1, kind: StatefulSet", "minReplicas: 3, maxReplicas: 9", 1),
        ("StatefulSet", "", "apiVersion: apps/v1, kind: StatefulSet", "minReplicas: 3, maxReplicas: 9", 3),
        ("ReplicaSet", "", "apiVersion: apps/v1, kind: ReplicaSet", "minReplicas: 3, maxReplicas: 9", 3),
        (
            "ReplicationController",
            "",
            "apiVersion: v1, kind: ReplicationController",
            "minReplicas: 3, maxReplicas: 9",
            3,
        ),
    ] {
        let text = workload(kind, "", replicas) + &autoscaler(target, bounds);
        assert_eq!(expanded(&text).len(), n_pods, "{kind} {replicas} {target} {bounds}");
    }
    let mut inventory = Inventory::from_text(
        &(workload("Deployment", "", "replicas: 5,")
            + &autoscaler(deployment, "minReplicas: 3, maxReplicas: 9")),
    )
    .unwrap();
    inventory.read(workload("Deployment", "", "").as_bytes(), "changed").unwrap();
    assert_eq!(
        expand(&inventory).unwrap().pods.len(),
        5,
        "kubectl apply leaves what the manifest leaves out"
    );
}

fn names(text: &str) -> Vec<String> {
    expanded(text).into_iter().map(|made| made.pod.key()).collect()
}

fn error(text: &str) -> String {
    expand(&Inventory::from_text(text).unwrap()).unwrap_err().to_string()
}

const TEMPLATE: &str =
    "template: {metadata: {labels: {app: web}}, spec: {containers: [{name: c, image: i}], unknown: kept}}";

fn workload(kind: &str, metadata: &str, spec: &str) -> String {
    let api_version = match kind {
        "Job" | "CronJob" => "batch/v1",
        "ReplicationController" => "v1",
        _ => "apps/v1",
    };
    let selector = match kind {
        "Job" => "",
        "ReplicationController" => "selector: {app: web},",
        _ => "selector: {matchLabels: {app: web}},",
    };
    format!(
        "---\n{{apiVersion: {api_version}, kind: {kind}, metadata: {{name: web, {metadata}}}, spec: {{{selector} {spec} {TEMPLATE}}}}}\n"
    )
}

fn owned_pod(name: &str, labels: &str, owner_kind: &str, owner: &str, rest: &str) -> String {
    let api_version = if owner_kind == "Job" { "batch/v1" } else { "apps/v1" };
    format!(
        "---\n{{apiVersion: v1, kind: Pod, metadata: {{name: {name}, labels: {{{labels}}}, ownerReferences: [{{apiVersion: {api_version}, kind: {owner_kind}, name: {owner}, uid: u1, controller: true}}]}}, {rest}}}\n"
    )
}

#[test]
fn a_deployment_makes_pods_by_way_of_a_replica_set() {
    let text = workload("Deployment", "namespace: shop", "replicas: 2,");
    let pods = expanded(&text);
    assert_eq!(pods, expanded(&text), "names follow from the input");
    let hash = pods[0].pod.metadata.labels["pod-template-hash"].clone();
    let set = format!("web-{hash}");
    for made in &pods {
        assert_eq!(made.pod.metadata.namespace, "shop");
        let suffix = made.pod.metadata.name.strip_prefix(&format!("{set}-")).unwrap();
        assert_eq!(suffix.len(), 5);
        let owner = made.pod.metadata.controller().unwrap();
        assert_eq!((owner.kind.as_str(), &owner.name), ("ReplicaSet", &set));
        let raw = made.raw.as_ref().unwrap();
        assert_eq!(raw["spec"]["unknown"], "kept");
        assert_eq!(raw["metadata"]["ownerReferences"][0]["blockOwnerDeletion"], true);
    }
    assert_ne!(pods[0].pod.metadata.name, pods[1].pod.metadata.name);
    let expansion = expand(&Inventory::from_text(&text).unwrap()).unwrap();
    let owner = &expansion.owner_selectors[0];
    assert_eq!((owner.kind, owner.namespace.as_str(), &owner.name), (Kind::ReplicaSet, "shop", &set));
    assert_eq!(json!(owner.selector.match_labels), json!({"app": "web", "pod-template-hash": hash}));
}

#[test]
fn replicas_are_one_by_default_and_may_be_none() {
    for kind in ["Deployment", "ReplicaSet", "StatefulSet", "ReplicationController"] {
        assert_eq!(names(&workload(kind, "", "")).len(), 1, "{kind}");
        assert_eq!(names(&workload(kind, "", "replicas: 0,")).len(), 0, "{kind}");
        assert_eq!(
            error(&workload(kind, "", "replicas: -1,")),
            format!(
                "input:2: {kind} default/web: spec.replicas: Invalid value: -1: must be greater than or equal to 0"
            )
        );
        assert_eq!(
            error(&workload(kind, "", "replicas: 2147483647,")),
            format!(
                "input:2: {kind} default/web: 2147483647 more pods with a template of 0 KiB exceed the limit of 250000 pods in \
                 all (large templates count several times): lower spec.replicas, or raise --max-pods"
            )
        );
    }
}

#[test]
fn made_pods_are_not_made_again() {
    for kind in
        ["Deployment", "ReplicaSet", "StatefulSet", "ReplicationController", "DaemonSet", "Job", "CronJob"]
    {
        let nodes = "---\n{apiVersion: v1, kind: Node, metadata: {name: n1}}\n---\n{apiVersion: v1, kind: Node, metadata: {name: n2}}\n";
        let text = match kind {
            "CronJob" => format!(
                "---\n{{apiVersion: batch/v1, kind: CronJob, metadata: {{name: web}}, spec: {{jobTemplate: {{spec: {{parallelism: 2, {TEMPLATE}}}}}}}}}\n"
            ),
            "DaemonSet" => workload(kind, "", ""),
            "Job" => workload(kind, "", "parallelism: 2,"),
            _ => workload(kind, "", "replicas: 2,"),
        } + nodes;
        let pods = expanded(&text);
        assert_eq!(pods.len(), 2, "{kind}");
        let mut with_first = text.clone();
        write!(with_first, "---\n{}\n", pods[0].raw.as_ref().unwrap()).unwrap();
        let rest: Vec<String> = names(&with_first);
        let expected = if kind == "CronJob" { vec![] } else { vec![pods[1].pod.key()] };
        assert_eq!(rest, expected, "{kind}");
        write!(with_first, "---\n{}\n", pods[1].raw.as_ref().unwrap()).unwrap();
        assert_eq!(names(&with_first), [""; 0], "{kind}");
    }
}

#[test]
fn owner_references_decide_what_is_there_already() {
    let deployment = workload("Deployment", "uid: d1", "replicas: 3,");
    let set = |name: &str, uid: &str, revision: &str| {
        workload("ReplicaSet", "", "replicas: 1,").replace(
            "name: web,",
            &format!("name: {name}, uid: {uid}, annotations: {{deployment.kubernetes.io/revision: \"{revision}\"}}, ownerReferences: [{{apiVersion: apps/v1, kind: Deployment, name: web, uid: d1, controller: true}}],"),
        )
    };
    let hashed = "app: web, pod-template-hash: abc";
    let pod = |name: &str, set: &str| owned_pod(name, hashed, "ReplicaSet", set, "");

    // Deployment - ReplicaSets - pods: the newest ReplicaSet makes what is missing.
    let chain = deployment.clone()
        + &set("web-old", "u1", "9")
        + &set("web-abc", "u2", "10")
        + &pod("web-old-x", "web-old");
    let made = expanded(&chain);
    assert_eq!(made.len(), 2);
    let owner = made[0].pod.metadata.controller().unwrap();
    assert_eq!((owner.name.as_str(), owner.uid.as_str()), ("web-abc", "u2"));

    // The ReplicaSet is not in the input: its name tells the Deployment.
    assert_eq!(names(&(deployment.clone() + &pod("a", "web-abc") + &pod("b", "web-abc"))).len(), 1);
    assert_eq!(names(&(deployment.clone() + &pod("a", "other-abc"))).len(), 3);
    // Ended pods and pods on their way out do not count.
    for rest in ["status: {phase: Failed}", "status: {phase: Succeeded}"] {
        let text = deployment.clone() + &owned_pod("a", hashed, "ReplicaSet", "web-abc", rest);
        assert_eq!(names(&text).len(), 3, "{rest}");
    }
    let leaving = pod("a", "web-abc").replace("labels:", "deletionTimestamp: 2024-01-01T00:00:00Z, labels:");
    assert_eq!(names(&(deployment.clone() + &leaving)).len(), 3);

    // Another object of the same name, or of a foreign group, is another owner.
    let bare = workload("ReplicaSet", "uid: u2", "replicas: 1,");
    let same_name = owned_pod("a", "app: web", "ReplicaSet", "web", "");
    assert_eq!(names(&(bare.clone() + &same_name)).len(), 1);
    assert_eq!(names(&(bare.replace("uid: u2", "uid: u1") + &same_name)).len(), 0);
    assert_eq!(names(&(bare.replace("uid: u2", "") + &same_name)).len(), 0);
    let foreign = same_name.replace("apps/v1", "example.com/v1");
    assert_eq!(names(&(bare.replace("uid: u2", "") + &foreign)).len(), 1);
}

#[test]
fn stateful_sets_count_from_their_start() {
    let text = workload(
        "StatefulSet",
        "",
        "replicas: 2, ordinals: {start: 3}, serviceName: svc, volumeClaimTemplates: [{metadata: {name: data}}],",
    );
    let pods = expanded(&text);
    assert_eq!(names(&text), ["default/web-3", "default/web-4"]);
    let labels = &pods[0].pod.metadata.labels;
    assert_eq!(labels["apps.kubernetes.io/pod-index"], "3");
    assert_eq!(labels["statefulset.kubernetes.io/pod-name"], "web-3");
    let spec = &pods[0].raw.as_ref().unwrap()["spec"];
    assert_eq!((&spec["hostname"], &spec["subdomain"]), (&json!("web-3"), &json!("svc")));
    assert_eq!(
        spec["volumes"],
        json!([{"name": "data", "persistentVolumeClaim": {"claimName": "data-web-3"}}])
    );
}

#[test]
fn a_pod_of_a_stateful_set_that_has_ended_is_created_again_under_its_name() {
    let set = workload("StatefulSet", "uid: u1", "replicas: 3, serviceName: svc,");
    let owned = |name: &str, phase: &str| {
        owned_pod(name, "app: web", "StatefulSet", "web", &format!("status: {{phase: {phase}}}"))
    };
    let text = set + &owned("web-0", "Failed") + &owned("web-1", "Running") + &owned("web-2", "Succeeded");
    assert_eq!(names(&text), ["default/web-0", "default/web-2"]);
    // The name of a pod without this owner is taken.
    let text =
        text.replacen("name: web, uid: u1, controller: true", "name: web, uid: u9, controller: true", 1);
    assert_eq!(names(&text), ["default/web-2"]);
}

#[test]
fn daemon_pods_go_where_the_controller_would_send_them() {
    let node = |name: &str, rest: &str| {
        format!(
            "---\n{{apiVersion: v1, kind: Node, metadata: {{name: {name}, labels: {{disk: {name}}}}}, spec: {{{rest}}}}}\n"
        )
    };
    let taint = |key: &str, effect: &str| format!("taints: [{{key: {key}, effect: {effect}}}]");
    let nodes = node("a", "")
        + &node("b", &taint("dedicated", "NoSchedule"))
        + &node("c", &taint("dedicated", "PreferNoSchedule"))
        + &node(
            "d",
            &format!("unschedulable: true, {}", taint("node.kubernetes.io/unschedulable", "NoSchedule")),
        )
        + &node("e", &taint("node.kubernetes.io/network-unavailable", "NoSchedule"))
        + &node("f", &taint("down", "NoExecute"));
    let targets = |spec: &str| -> Vec<String> {
        let set = workload("DaemonSet", "", "").replace("unknown: kept", spec);
        let pods = expanded(&(nodes.clone() + &set));
        pods.iter().map(|made| daemon::target_node(&made.pod).unwrap().to_owned()).collect()
    };
    let affinity = |terms: &str| {
        format!(
            "affinity: {{nodeAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: {{nodeSelectorTerms: [{terms}]}}}}}}"
        )
    };
    assert_eq!(targets("x: y"), ["a", "c", "d"]);
    assert_eq!(targets("hostNetwork: true"), ["a", "c", "d", "e"]);
    assert_eq!(targets("tolerations: [{operator: Exists}]"), ["a", "b", "c", "d", "e", "f"]);
    assert_eq!(
        targets("tolerations: [{key: dedicated, operator: Exists, effect: NoSchedule}]"),
        ["a", "b", "c", "d"]
    );
    assert_eq!(targets("nodeSelector: {disk: c}"), ["c"]);
    assert_eq!(targets("nodeName: d"), ["d"]);
    assert_eq!(
        targets(&affinity("{matchExpressions: [{key: disk, operator: NotIn, values: [a]}]}")),
        ["c", "d"]
    );
    assert_eq!(
        targets(&affinity("{}, {matchFields: [{key: metadata.name, operator: In, values: [a]}]}")),
        ["a"]
    );
    assert_eq!(targets(&affinity("{}")), [""; 0]);
}

#[test]
fn daemon_pods_are_pinned_and_tolerate_what_happens_to_nodes() {
    let set = workload("DaemonSet", "", "").replace(
        "unknown: kept",
        "affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: disk, operator: DoesNotExist}]}]}, preferredDuringSchedulingIgnoredDuringExecution: []}}, tolerations: [{key: node.kubernetes.io/not-ready, operator: Exists, effect: NoExecute, tolerationSeconds: 5}, {key: mine, operator: Exists}]",
    );
    let pods = expanded(&format!("{set}---\n{{apiVersion: v1, kind: Node, metadata: {{name: n1}}}}\n"));
    let spec = &pods[0].raw.as_ref().unwrap()["spec"];
    assert_eq!(
        spec["affinity"].to_string(),
        r#"{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchFields":[{"key":"metadata.name","operator":"In","values":["n1"]}]}]},"preferredDuringSchedulingIgnoredDuringExecution":[]}}"#
    );
    let tolerations: Vec<String> = spec["tolerations"]
        .as_array()
        .unwrap()
        .iter()
        .map(|t| {
            format!("{} {}", t["key"].as_str().unwrap(), t.get("effect").map_or("", |e| e.as_str().unwrap()))
        })
        .collect();
    assert_eq!(
        tolerations,
        [
            "node.kubernetes.io/not-ready NoExecute",
            "mine ",
            "node.kubernetes.io/unreachable NoExecute",
            "node.kubernetes.io/disk-pressure NoSchedule",
            "node.kubernetes.io/memory-pressure NoSchedule",
            "node.kubernetes.io/pid-pressure NoSchedule",
            "node.kubernetes.io/unschedulable NoSchedule",
        ]
    );
    assert!(spec["tolerations"][0].get("tolerationSeconds").is_none());
}

#[test]
fn jobs_run_what_is_left_of_them() {
    let count = |spec: &str, rest: &str| {
        let text = workload("Job", "", spec).replace("}}\n", &format!("}}, {rest}}}\n"));
        expanded(&text).len()
    };
    for (spec, rest, n_pods) in [
        ("", "", 1),
        ("parallelism: 5,", "", 5),
        ("parallelism: 5, completions: 3,", "", 3),
        ("parallelism: 2, completions: 3,", "status: {succeeded: 2}", 1),
        ("parallelism: 2,", "status: {succeeded: 1}", 0),
        ("parallelism: 2, suspend: true,", "", 0),
        ("parallelism: 0,", "", 0),
        ("", "status: {conditions: [{type: Complete, status: \"True\"}]}", 0),
    ] {
        assert_eq!(count(spec, rest), n_pods, "{spec} {rest}");
    }
    let pods = expanded(&workload("Job", "", ""));
    let labels = &pods[0].pod.metadata.labels;
    assert_eq!(
        (labels["batch.kubernetes.io/job-name"].as_str(), labels["job-name"].as_str()),
        ("web", "web")
    );
    assert_eq!(labels["controller-uid"], pods[0].pod.metadata.owner_references[0].uid);

    let indexed = workload("Job", "", "completionMode: Indexed, parallelism: 3, completions: 9,")
        .replace("}}\n", "}, status: {completedIndexes: \"0-2,4\", failedIndexes: \"6\"}}\n")
        + &owned_pod("x", "", "Job", "web", "")
            .replace("labels: {}", "annotations: {batch.kubernetes.io/job-completion-index: \"5\"}");
    let indexes: Vec<_> = expanded(&indexed)
        .iter()
        .map(|made| made.pod.metadata.annotations["batch.kubernetes.io/job-completion-index"].clone())
        .collect();
    assert_eq!(indexes, ["3", "7"]);
    assert_eq!(
        error(&workload("Job", "", "completionMode: Indexed,")),
        "input:2: Job default/web: spec.completions: Required value: when completion mode is Indexed"
    );
}

#[test]
fn cron_jobs_run_once_unless_suspended_or_running() {
    let cron = |spec: &str| {
        format!(
            "---\n{{apiVersion: batch/v1, kind: CronJob, metadata: {{name: cron, uid: u1}}, spec: {{{spec} jobTemplate: {{spec: {{parallelism: 2, {TEMPLATE}}}}}}}}}\n"
        )
    };
    let pods = expanded(&cron(""));
    assert_eq!(pods.len(), 2);
    assert_eq!(pods[0].pod.metadata.labels["job-name"], "cron-0");
    assert_eq!(names(&cron("suspend: true,")), [""; 0]);
    let run = workload("Job", "", "").replace(
        "name: web,",
        "name: cron-28000000, ownerReferences: [{apiVersion: batch/v1, kind: CronJob, name: cron, uid: u1, controller: true}],",
    );
    assert_eq!(names(&(cron("") + &run)).len(), 1);
    assert_eq!(names(&(cron("") + &owned_pod("x", "", "Job", "cron-28000000", ""))), [""; 0]);
}

#[test]
fn workloads_the_api_server_would_reject_are_errors() {
    let text = workload("Deployment", "", "");
    for (text, message) in [
        (
            text.replace("labels: {app: web}", "labels: {app: other}"),
            "spec.template.metadata.labels: Invalid value: {\"app\":\"other\"}: `selector` does not match template `labels`: change one of them",
        ),
        (
            text.replace("selector: {matchLabels: {app: web}}", "selector: {}"),
            "spec.selector: Invalid value: {}: empty selector is invalid for deployment",
        ),
        (
            text.replace("labels: {app: web}", "labels: {app: web, version: 2}"),
            "spec.template.metadata.labels.version: invalid type: integer `2`, expected a string: quote it",
        ),
        (
            text.replace("image: i", "ports: 80"),
            "spec.template.spec.containers[0].ports: invalid type: integer `80`, expected a list",
        ),
        (
            workload("Job", "", "").replace("metadata: {labels: {app: web}}", "metadata: 5"),
            "spec.template.metadata: invalid type: integer `5`, expected an object",
        ),
        (
            "---\n{apiVersion: batch/v1, kind: Job, metadata: {name: web}}".to_owned(),
            "spec.template: Required value: add the pod template",
        ),
    ] {
        let kind = if text.contains("kind: Job") { "Job" } else { "Deployment" };
        let line = if text.starts_with("---\n") { 2 } else { 1 };
        assert_eq!(error(&text), format!("input:{line}: {kind} default/web: {message}"));
    }
    let legacy =
        text.replace("apps/v1", "extensions/v1beta1").replace("selector: {matchLabels: {app: web}},", "");
    assert_eq!(names(&legacy).len(), 1);
}

#[test]
fn an_invalid_template_changed_nothing_where_the_input_has_the_replica_set_or_the_run() {
    let owned = |kind: &str, name: &str, owner: &str| {
        workload(kind, "", "").replace("name: web,", &format!("name: {name}, ownerReferences: [{owner}],"))
    };
    let set =
        owned("ReplicaSet", "web-1", "{apiVersion: apps/v1, kind: Deployment, name: web, controller: true}");
    let run = owned("Job", "web-1", "{apiVersion: batch/v1, kind: CronJob, name: web, controller: true}");
    let cron = format!(
        "---\n{{apiVersion: batch/v1, kind: CronJob, metadata: {{name: web}}, spec: {{jobTemplate: {{spec: {{{TEMPLATE}}}}}}}}}\n"
    );
    for (dump, change, path) in [
        (workload("Deployment", "", "") + &set, workload("Deployment", "", ""), "spec.template"),
        (cron.clone() + &run, cron, "spec.jobTemplate.spec.template"),
    ] {
        let mut inventory = Inventory::from_text(&dump).unwrap();
        inventory.read(change.replace("image: i", "image: true").as_bytes(), "change").unwrap();
        let message = expand(&inventory).unwrap_err().to_string();
        let expected = format!(
            "{path}.spec.containers[0].image: invalid type: boolean `true`, expected a string: quote it"
        );
        assert!(message.starts_with("change:2: ") && message.ends_with(&expected), "{message}");
    }
}

/// The folder of real manifests and dumps beside the workspace; not part of it.
fn shared_files() -> Vec<PathBuf> {
    let shared = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../../shared");
    let mut files = Vec::new();
    let mut folders = vec![shared.join("manifests"), shared.join("data")];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = std::fs::read_dir(&folder) else {
            eprintln!("{} not found: nothing is read from it", folder.display());
            continue;
        };
        for path in entries.map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "yaml" || e == "yml" || e == "json") {
                files.push(path);
            }
        }
    }
    files.sort();
    files
}

#[test]
fn real_manifests_and_dumps_expand() {
    for path in shared_files() {
        let mut inventory = Inventory::keeping_raw();
        inventory.read(std::fs::read(&path).unwrap().as_slice(), "f").unwrap();
        let result = expand(&inventory);
        assert!(result.is_ok(), "{}: {}", path.display(), result.unwrap_err());
    }
}

#[test]
fn a_job_kept_the_pods_that_its_controller_deletes() {
    let index = "annotations: {batch.kubernetes.io/job-completion-index: \"3\"}";
    let pods = owned_pod("a", "", "Job", "web", "")
        + &owned_pod("b", "", "Job", "web", "").replace("labels: {}", index);
    for (spec, deleted) in [
        ("parallelism: 2,", &[][..]),
        ("parallelism: 1,", &["b"]),
        ("parallelism: 2, completions: 1,", &["b"]),
        ("parallelism: 2, suspend: true,", &["a", "b"]),
        // One has no index, the other one that is not wanted.
        ("parallelism: 2, completionMode: Indexed, completions: 3,", &["a", "b"]),
        ("parallelism: 2, completionMode: Indexed, completions: 4,", &["a"]),
    ] {
        let inventory = Inventory::from_text(&(workload("Job", "", spec) + &pods)).unwrap();
        let found = expand(&inventory).unwrap().deleted;
        let found: std::collections::BTreeSet<&str> = found.iter().map(|pod| pod.name()).collect();
        assert!(found.iter().copied().eq(deleted.iter().copied()), "{spec}: {found:?}");
    }
}

/// A workload with two pods, and a later input with this change of its manifest: the pods that are deleted, and those
/// that are created.
fn replaced(kind: &str, change: impl Fn(&str) -> String) -> (Vec<String>, Vec<String>) {
    let text = workload(kind, "uid: u", "replicas: 2,");
    let owner = match kind {
        "Deployment" => "{apiVersion: apps/v1, kind: ReplicaSet, name: web-1, controller: true}".to_owned(),
        kind => format!("{{apiVersion: apps/v1, kind: {kind}, name: web, uid: u, controller: true}}"),
    };
    let pod = |i: usize| {
        format!(
            "---\n{{apiVersion: v1, kind: Pod, metadata: {{name: web-{i}, labels: {{app: web, pod-template-hash: '1'}}, \
             ownerReferences: [{owner}]}}, spec: {{nodeName: n{i}, containers: [{{name: c, image: i}}]}}}}\n\
             ---\n{{apiVersion: v1, kind: Node, metadata: {{name: n{i}}}}}\n"
        )
    };
    // As a server stores it.
    let stored = text
        .replace("image: i", "image: i, terminationMessagePath: /dev/log, resources: {limits: {cpu: 500m}}");
    let mut inventory = Inventory::from_text(&[stored, pod(0), pod(1)].concat()).unwrap();
    let change = change(&text.replace("image: i", "image: i, env: [], resources: {limits: {cpu: 0.5}}"));
    inventory.read(change.as_bytes(), "change").unwrap();
    let Expansion { pods, deleted, rolled_out, .. } = expand(&inventory).unwrap();
    assert_eq!(rolled_out.iter().map(|of| of.old.len()).sum::<usize>(), deleted.len());
    let mut deleted: Vec<_> = deleted.iter().map(ToString::to_string).collect();
    deleted.sort();
    (deleted, pods.iter().map(|made| made.pod.metadata.name.clone()).collect())
}

#[test]
fn pods_are_created_again_if_a_later_input_changes_the_template() {
    for kind in ["Deployment", "StatefulSet", "DaemonSet", "ReplicaSet"] {
        assert_eq!(replaced(kind, str::to_owned), (vec![], vec![]), "{kind}: the template is the same");
    }
    let both = vec!["default/web-0".to_owned(), "default/web-1".to_owned()];
    let new_image = |text: &str| text.replace("image: i", "image: j");
    let (deleted, created) = replaced("Deployment", new_image);
    assert_eq!((&deleted, created.len()), (&both, 2));
    assert_eq!(
        replaced("StatefulSet", new_image),
        (both.clone(), vec!["web-0".to_owned(), "web-1".to_owned()])
    );
    let (deleted, created) = replaced("DaemonSet", new_image);
    assert_eq!((deleted, created.len()), (both, 2));
    assert_eq!(replaced("ReplicaSet", new_image), (vec![], vec![]));

    let with = |strategy: &'static str| {
        move |text: &str| {
            new_image(text).replace("replicas: 2,", &format!("replicas: 2, updateStrategy: {strategy},"))
        }
    };
    let (deleted, created) = replaced("StatefulSet", with("{rollingUpdate: {partition: 1}}"));
    assert_eq!((deleted, created), (vec!["default/web-1".to_owned()], vec!["web-1".to_owned()]));
    assert_eq!(replaced("DaemonSet", with("{type: OnDelete}")), (vec![], vec![]));
}
