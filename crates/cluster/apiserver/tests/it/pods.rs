//! Pods: defaults, admission, what may be changed.

use berth_apiserver::{ApiServer, ServerOptions};
use http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::support::*;

#[tokio::test]
async fn pods_get_defaults_and_keep_set_fields() {
    let server = server().await;
    let client = admin(&server);
    post(
        &client,
        "/apis/scheduling.k8s.io/v1/priorityclasses",
        &json!({"metadata": {"name": "high"}, "value": 1000}),
    )
    .await;
    let rule = json!([{"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": "kubernetes.io/hostname",
        "matchLabelKeys": ["pod-template-hash"], "limit": 2}]);
    let annotation = "{\"nodeAffinity\": {}}";
    let pod = json!({"metadata": {"generateName": "web-", "labels": {"app": "x", "pod-template-hash": "1"},
            "annotations": {"scheduling.berth.dev/affinity": annotation}},
        "spec": {"priorityClassName": "high",
            "affinity": {"podAntiAffinity": {"requiredDuringSchedulingRequiredDuringExecution": rule}},
            "containers": [{"name": "c", "image": "nginx", "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}]}});
    let (code, created) = post(&client, PODS, &pod).await;
    assert_eq!(code, StatusCode::CREATED, "{created}");
    let (metadata, spec) = (&created["metadata"], &created["spec"]);
    let name = metadata["name"].as_str().unwrap();
    assert!(name.starts_with("web-") && name.len() == 9, "{name}");
    assert_eq!(metadata["annotations"]["scheduling.berth.dev/affinity"], annotation);
    assert_eq!(
        (&spec["priority"], &spec["preemptionPolicy"]),
        (&json!(1000), &json!("PreemptLowerPriority"))
    );
    assert_eq!(spec["containers"][0]["resources"]["requests"], json!({"cpu": "1", "memory": "1Gi"}));
    assert_eq!(spec["containers"][0]["imagePullPolicy"], "Always");
    assert_eq!(
        (&spec["serviceAccountName"], &spec["schedulerName"]),
        (&json!("default"), &json!("default-scheduler"))
    );
    assert_eq!(spec["tolerations"].as_array().unwrap().len(), 2);
    let kept = &spec["affinity"]["podAntiAffinity"]["requiredDuringSchedulingRequiredDuringExecution"][0];
    assert_eq!(
        kept["labelSelector"]["matchExpressions"],
        json!([{"key": "pod-template-hash", "operator": "In", "values": ["1"]}])
    );
    assert_eq!(kept["limit"], 2);
    assert_eq!(
        (&created["status"]["phase"], &created["status"]["qosClass"]),
        (&json!("Pending"), &json!("Guaranteed"))
    );
    // The stored pod is merged only once.
    let (_, patched) =
        merge(&client, &format!("{PODS}/{name}"), &json!({"metadata": {"labels": {"more": "y"}}})).await;
    assert_eq!(patched["spec"], created["spec"]);
}

#[tokio::test]
async fn a_client_that_does_not_know_the_fields_of_the_proposals_sends_objects_back_without_them() {
    let server = server().await;
    let client = admin(&server);
    let known = json!({});
    let rules = json!([{"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": ""}]);
    let mut affinity = json!({"podAntiAffinity": known});
    affinity["podAntiAffinity"]["requiredDuringSchedulingRequiredDuringExecution"] = rules;
    let mut stored = pod("a");
    stored["spec"]["affinity"] = affinity.clone();
    let (_, mut sent) = post(&client, PODS, &stored).await;
    sent["spec"]["affinity"] = json!({"podAntiAffinity": known});
    sent["metadata"]["labels"] = json!({"new": "label"});
    let (code, changed) = put(&client, &format!("{PODS}/a"), &sent).await;
    assert_eq!((code, &changed["metadata"]["labels"]["new"]), (StatusCode::OK, &json!("label")), "{changed}");
    assert_eq!(changed["spec"]["affinity"], affinity);
    // A template may change: the field goes, and the client is told.
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    let template = json!({"metadata": {"labels": {"app": "x"}}, "spec": {"affinity": affinity,
        "containers": [{"name": "c", "image": "i"}]}});
    let deployment = json!({"metadata": {"name": "web"},
        "spec": {"selector": {"matchLabels": {"app": "x"}}, "template": template}});
    let (code, mut sent) = post(&client, deployments, &deployment).await;
    assert_eq!(code, StatusCode::CREATED, "{sent}");
    let path = format!("{deployments}/web");
    assert_eq!(warnings(&client, Method::PUT, &path, &sent).await, [""; 0]);
    sent["metadata"]["resourceVersion"] = json!("");
    sent["spec"]["template"]["spec"]["affinity"] = json!({"podAntiAffinity": known});
    let told = warnings(&client, Method::PUT, &path, &sent).await.concat();
    let field = "spec.template.spec.affinity.podAntiAffinity.requiredDuringSchedulingRequiredDuringExecution";
    assert!(told.contains(&format!("{field} is removed by this update")), "{told}");
}

#[tokio::test]
async fn invalid_pods_are_refused_with_causes() {
    let server = server().await;
    let client = admin(&server);
    let mut bad = pod("a");
    bad["spec"]["affinity"] = json!({"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
        [{"topologyKey": "", "labelSelector": {}}]}});
    bad["spec"]["containers"][0]["image"] = json!("");
    let (code, status) = post(&client, PODS, &bad).await;
    assert_eq!((code, &status["reason"]), (StatusCode::UNPROCESSABLE_ENTITY, &json!("Invalid")));
    let fields: Vec<&str> = status["details"]["causes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| c["field"].as_str().unwrap())
        .collect();
    assert!(
        fields.contains(
            &"spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey"
        ),
        "{fields:?}"
    );
    assert!(fields.contains(&"spec.containers[0].image"), "{fields:?}");
    assert!(status["message"].as_str().unwrap().starts_with("Pod \"a\" is invalid: ["));

    let mut unknown = pod("b");
    unknown["spec"]["priorityClassName"] = json!("none");
    let (code, status) = post(&client, PODS, &unknown).await;
    assert_eq!(code, StatusCode::FORBIDDEN);
    assert_eq!(status["message"], "pods \"b\" is forbidden: no PriorityClass with name none was found");
}

#[tokio::test]
async fn a_runtime_class_is_merged_into_new_pods_and_a_missing_one_is_refused() {
    let server = server().await;
    let client = admin(&server);
    let mut sandbox = pod("a");
    sandbox["spec"]["runtimeClassName"] = json!("kata");
    sandbox["spec"]["nodeSelector"] = json!({"disk": "ssd"});
    sandbox["spec"]["tolerations"] = json!([{"key": "runtime", "operator": "Equal", "value": "kata"}]);
    let (code, status) = post(&client, PODS, &sandbox).await;
    assert_eq!(code, StatusCode::FORBIDDEN);
    assert_eq!(status["message"], "pods \"a\" is forbidden: pod rejected: RuntimeClass \"kata\" not found");

    const CLASSES: &str = "/apis/node.k8s.io/v1/runtimeclasses";
    let class = json!({"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "kata"},
        "handler": "kata", "overhead": {"podFixed": {"cpu": "250m"}},
        "scheduling": {"nodeSelector": {"runtime": "kata"}, "tolerations": [{"key": "runtime", "operator": "Exists"}]}});
    let (code, _) = post(&client, CLASSES, &class).await;
    assert_eq!(code, StatusCode::CREATED);
    let (code, created) = post(&client, PODS, &sandbox).await;
    assert_eq!(code, StatusCode::CREATED, "{created}");
    let spec = &created["spec"];
    assert_eq!(spec["nodeSelector"], json!({"disk": "ssd", "runtime": "kata"}));
    assert_eq!(spec["overhead"], json!({"cpu": "250m"}));
    // The pod's own toleration is part of that of the class.
    let keys: Vec<_> =
        spec["tolerations"].as_array().unwrap().iter().map(|t| (&t["key"], &t["operator"])).collect();
    let exists = json!("Exists");
    let expected =
        ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable", "runtime"].map(|key| json!(key));
    assert_eq!(keys, expected.iter().map(|key| (key, &exists)).collect::<Vec<_>>());

    let mut bad = class.clone();
    bad["metadata"]["name"] = json!("bad");
    bad["handler"] = json!("No_Label");
    bad["overhead"]["podFixed"] = json!({"cpu": "-1"});
    bad["scheduling"]["tolerations"] =
        json!([{"key": "a", "operator": "Exists"}, {"key": "a", "operator": "Exists"}]);
    let (code, status) = post(&client, CLASSES, &bad).await;
    assert_eq!(code, StatusCode::UNPROCESSABLE_ENTITY);
    let causes = status["details"]["causes"].as_array().unwrap();
    let fields: Vec<_> = causes.iter().map(|cause| cause["field"].as_str().unwrap()).collect();
    assert_eq!(fields, ["handler", "overhead.limits[cpu]", "scheduling.tolerations[1]"]);
}

#[tokio::test]
async fn most_fields_of_a_pod_spec_are_immutable() {
    let server = server().await;
    let client = admin(&server);
    let (_, created) = post(&client, PODS, &pod("a")).await;
    let path = format!("{PODS}/a");
    let (code, status) = merge(&client, &path, &json!({"spec": {"hostNetwork": true}})).await;
    assert_eq!(code, StatusCode::UNPROCESSABLE_ENTITY);
    assert!(status["message"].as_str().unwrap().contains("pod updates may not change fields other than"));
    let mut image = created.clone();
    image["spec"]["containers"][0]["image"] = json!("i:2");
    let (code, changed) = put(&client, &path, &image).await;
    assert_eq!((code, &changed["metadata"]["generation"]), (StatusCode::OK, &json!(2)), "{changed}");
    // An update ignores the status, and a status update ignores the rest.
    let mut both = changed.clone();
    both["status"]["phase"] = json!("Running");
    let (_, same) = put(&client, &path, &both).await;
    assert_eq!((version(&same), &same["status"]["phase"]), (version(&changed), &json!("Pending")));
    both["spec"]["containers"][0]["image"] = json!("i:3");
    let (_, status) = put(&client, &format!("{path}/status"), &both).await;
    assert_eq!(status["status"]["phase"], "Running");
    assert_eq!(status["spec"]["containers"][0]["image"], "i:2");
    assert_eq!(status["metadata"]["generation"], 2);
}

#[tokio::test]
async fn bindings_are_checked() {
    let server = server().await;
    let client = admin(&server);
    let (_, created) = post(&client, PODS, &pod("a")).await;
    let path = format!("{PODS}/a/binding");
    let binding = |uid: &str, target: Value| json!({"metadata": {"name": "a", "uid": uid, "annotations": {"x": "y"}}, "target": target});
    let node = json!({"kind": "Node", "name": "n1"});
    assert_eq!(post(&client, &path, &binding("other", node.clone())).await.0, StatusCode::CONFLICT);
    let (code, refused) = post(&client, &path, &binding("", json!({"kind": "Pod", "name": ""}))).await;
    assert_eq!(code, StatusCode::INTERNAL_SERVER_ERROR);
    assert_eq!(
        refused["message"],
        "[target.kind: Unsupported value: \"Pod\": supported values: \"Node\", \"<empty>\", target.name: Required value]"
    );
    let other = format!("{PODS}/b/binding");
    let (code, refused) = post(&client, &other, &json!({"target": node})).await;
    assert_eq!(code, StatusCode::BAD_REQUEST);
    assert_eq!(refused["message"], "name in URL does not match name in Binding object");
    let (code, _) = post(&client, &other, &json!({"metadata": {"name": "b"}, "target": node})).await;
    assert_eq!(code, StatusCode::NOT_FOUND);
    let uid = created["metadata"]["uid"].as_str().unwrap();
    let (code, _) = post(&client, "/api/v1/namespaces/default/bindings", &binding(uid, node.clone())).await;
    assert_eq!(code, StatusCode::CREATED);
    let (_, bound) = get(&client, &format!("{PODS}/a")).await;
    assert_eq!(bound["metadata"]["annotations"]["x"], "y");

    let mut gated = pod("gated");
    gated["spec"]["schedulingGates"] = json!([{"name": "example.com/wait"}]);
    let (_, created) = post(&client, PODS, &gated).await;
    assert_eq!(created["status"]["conditions"][0]["reason"], "SchedulingGated");
    let (code, refused) = bind(&client, "gated", "n1").await;
    assert_eq!(code, StatusCode::CONFLICT);
    assert!(refused["message"].as_str().unwrap().ends_with("pod gated has non-empty .spec.schedulingGates"));
}

#[tokio::test]
async fn logs_state_that_pods_are_simulated() {
    let server = server().await;
    let client = admin(&server);
    post(&client, PODS, &pod("a")).await;
    let (code, status) = get(&client, &format!("{PODS}/a/log")).await;
    assert_eq!(
        (code, &status["message"]),
        (StatusCode::BAD_REQUEST, &json!("pod a does not have a host assigned"))
    );
    bind(&client, "a", "n1").await;
    merge(&client, &format!("{PODS}/a/status"), &json!({"status": {"phase": "Running"}})).await;
    assert_eq!(get(&client, &format!("{PODS}/a/log")).await.0, StatusCode::OK);
    assert_eq!(get(&client, &format!("{PODS}/a/log?container=x")).await.0, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn metrics_are_what_the_annotations_of_running_pods_say() {
    const METRICS: &str = "/apis/metrics.k8s.io/v1beta1";
    let server = server().await;
    let client = admin(&server);
    post(&client, "/api/v1/nodes", &json!({"metadata": {"name": "n1"}})).await;
    let measured = |name: &str, usage: Value| {
        let mut pod = pod(name);
        pod["metadata"]["annotations"] = usage;
        pod["metadata"]["labels"] = json!({"app": "web"});
        pod["spec"]["containers"] = json!([{"name": "a", "image": "i"}, {"name": "b", "image": "i"}]);
        pod
    };
    let running = json!({"status": {"phase": "Running"}});
    for (name, usage) in [
        ("busy", json!({"usage.berth.dev/cpu": "901m", "usage.berth.dev/memory": "1Ki"})),
        ("idle", json!({"usage.berth.dev/cpu": "100m"})),
        ("unknown", json!({})),
        ("pending", json!({"usage.berth.dev/cpu": "5"})),
    ] {
        post(&client, PODS, &measured(name, usage)).await;
        bind(&client, name, "n1").await;
        if name != "pending" {
            merge(&client, &format!("{PODS}/{name}/status"), &running).await;
        }
    }
    let (_, list) = get(&client, &format!("{METRICS}/namespaces/default/pods?labelSelector=app%3Dweb")).await;
    assert_eq!((&list["kind"], names(&list)), (&json!("PodMetricsList"), vec!["busy", "idle"]));
    let (_, busy) = get(&client, &format!("{METRICS}/namespaces/default/pods/busy")).await;
    assert_eq!(
        busy["containers"],
        json!([{"name": "a", "usage": {"cpu": "451m", "memory": "512"}},
            {"name": "b", "usage": {"cpu": "450m", "memory": "512"}}])
    );
    let (_, node) = get(&client, &format!("{METRICS}/nodes/n1")).await;
    assert_eq!(node["usage"], json!({"cpu": "1001m", "memory": "1Ki"}));
    let (code, missing) = get(&client, &format!("{METRICS}/namespaces/default/pods/unknown")).await;
    assert_eq!((code.as_u16(), &missing["reason"]), (404, &json!("NotFound")));
    // kubectl top looks for the group.
    assert_eq!(get(&client, METRICS).await.1["resources"][0]["name"], "nodes");

    let wrong = json!({"metadata": {"annotations": {"usage.berth.dev/cpu": "much"}}});
    let (code, refused) = merge(&client, &format!("{PODS}/idle"), &wrong).await;
    assert_eq!(code.as_u16(), 422);
    let message = refused["message"].as_str().unwrap();
    assert!(message.contains("metadata.annotations[usage.berth.dev/cpu]"), "{message}");
    assert!(message.contains("is not a quantity: write a number with an optional suffix"), "{message}");
}

const AFFINITY: &str = "scheduling.berth.dev/affinity";

#[tokio::test]
async fn annotations_that_say_where_pods_may_run_were_validated_only_when_a_pod_was_created() {
    let server = server().await;
    let admin = admin(&server);
    post(&admin, "/api/v1/nodes", &json!({"metadata": {"name": "n"}})).await;
    for name in ["bound", "free", "beside"] {
        post(&admin, PODS, &pod(name)).await;
    }
    assert_eq!(bind(&admin, "bound", "n").await.0, StatusCode::CREATED);
    let annotated = |text: &str| json!({"metadata": {"annotations": {AFFINITY: text}}});
    let binding = |name: &str, text: &str| json!({"metadata": {"name": name, "annotations": {AFFINITY: text}}, "target": {"name": "n"}});
    let misspelt = "{podAntiAfinity: {}}";
    let mut applied = pod("bound");
    applied["metadata"]["annotations"] = json!({AFFINITY: misspelt});
    let writes = [
        (Method::PATCH, "pods/bound", "application/merge-patch+json", annotated(misspelt)),
        (Method::PATCH, "pods/bound/status", "application/merge-patch+json", annotated(misspelt)),
        (Method::PATCH, "pods/bound?fieldManager=m", "application/apply-patch+yaml", applied),
        (Method::POST, "pods/free/binding", "application/json", binding("free", misspelt)),
        (Method::POST, "bindings", "application/json", binding("free", misspelt)),
    ];
    for (method, path, content_type, body) in writes {
        let path = format!("/api/v1/namespaces/default/{path}");
        let (code, refused) = send(&admin, method, &path, content_type, body.to_string()).await;
        assert_eq!(code, StatusCode::UNPROCESSABLE_ENTITY, "{path}: {refused}");
        let cause = &refused["details"]["causes"][0];
        assert_eq!(cause["field"], format!("metadata.annotations[{AFFINITY}].podAntiAfinity"), "{path}");
        let expected = "Invalid value: unknown field; did you mean \"podAntiAffinity\"?";
        assert_eq!(cause["message"], expected, "{path}");
    }
    // Through the other subresources, no annotation can be written.
    for path in ["bound/resize", "bound/ephemeralcontainers"] {
        let (code, written) = merge(&admin, &format!("{PODS}/{path}"), &annotated(misspelt)).await;
        assert_eq!((code, &written["metadata"]["annotations"]), (StatusCode::OK, &Value::Null), "{path}");
    }
    // What is valid is stored.
    assert_eq!(merge(&admin, &format!("{PODS}/bound/status"), &annotated("{}")).await.0, StatusCode::OK);
    assert_eq!(
        post(&admin, &format!("{PODS}/beside/binding"), &binding("beside", "{}")).await.0,
        StatusCode::CREATED
    );
    assert_eq!(get(&admin, &format!("{PODS}/beside")).await.1["metadata"]["annotations"][AFFINITY], "{}");
}

#[tokio::test]
async fn an_update_with_an_annotation_that_the_enforcer_ignores_had_no_warning() {
    let server = server().await;
    let admin = admin(&server);
    for name in ["a", "b"] {
        post(&admin, PODS, &pod(name)).await;
    }
    let (grace, hold) = ("scheduling.berth.dev/eviction-grace", "scheduling.berth.dev/without-target");
    let mut changed = pod("a");
    changed["metadata"]["annotations"] = json!({grace: "soon", hold: "5x"});
    changed["spec"] = get(&admin, &format!("{PODS}/a")).await.1["spec"].clone();
    let expected = [
        format!(
            "299 - {:?}",
            format!(
                "metadata.annotations[{grace}]: \"soon\" is not a duration such as 90s, 5m or 1h30m; the default applies"
            )
        ),
        format!(
            "299 - {:?}",
            format!(
                "metadata.annotations[{hold}]: \"5x\" is not evict, hold, or a duration such as 90s, 5m or 1h30m; the default applies"
            )
        ),
    ];
    let path = format!("{PODS}/a");
    assert_eq!(warnings(&admin, Method::PUT, &path, &changed).await, expected);
    changed["metadata"]["labels"] = json!({"x": "y"});
    assert_eq!(warnings(&admin, Method::PUT, &path, &changed).await, [""; 0]);
    let binding = json!({"metadata": {"name": "b", "annotations": {grace: "soon"}}, "target": {"name": "n"}});
    let bound = warnings(&admin, Method::POST, &format!("{PODS}/b/binding"), &binding).await;
    assert_eq!(bound, expected[..1]);
}

#[tokio::test]
async fn ephemeral_containers_could_be_changed_and_removed() {
    let server = server().await;
    let admin = admin(&server);
    let debugger = |name: &str| json!({"name": name, "image": "i"});
    let list = |containers: Value| json!({"spec": {"ephemeralContainers": containers}});
    let mut created = pod("p");
    created["spec"]["ephemeralContainers"] = json!([debugger("d")]);
    let (code, refused) = post(&admin, PODS, &created).await;
    assert_eq!(code, StatusCode::UNPROCESSABLE_ENTITY);
    let cause = |refused: &Value| {
        let cause = &refused["details"]["causes"][0];
        format!(
            "{}: {}",
            cause["field"].as_str().unwrap_or_default(),
            cause["message"].as_str().unwrap_or_default()
        )
    };
    assert_eq!(cause(&refused), "spec.ephemeralContainers: Forbidden: cannot be set on create");

    post(&admin, PODS, &pod("p")).await;
    let path = format!("{PODS}/p/ephemeralcontainers");
    let with = |name: &str, field: &str, value: Value| {
        let mut container = debugger(name);
        container[field] = value;
        container
    };
    let first = with("d", "targetContainerName", json!("c"));
    assert_eq!(merge(&admin, &path, &list(json!([first]))).await.0, StatusCode::OK);
    let at = "spec.ephemeralContainers";
    let (removed, changed) = ("\"d\" may not be removed\n", "\"d\" may not be changed\n");
    let not_for_them = "Forbidden: cannot be set for an Ephemeral Container";
    for (sent, expected) in [
        (json!(null), format!("{at}: Forbidden: existing ephemeral containers {removed}")),
        (json!([]), format!("{at}: Forbidden: existing ephemeral containers {removed}")),
        (json!([debugger("e")]), format!("{at}: Forbidden: existing ephemeral containers {removed}")),
        (json!([debugger("d")]), format!("{at}: Forbidden: existing ephemeral containers {changed}")),
        (json!([first, debugger("d")]), format!("{at}[1].name: Duplicate value: \"d\"")),
        (json!([first, debugger("c")]), format!("{at}[1].name: Duplicate value: \"c\"")),
        (
            json!([first, with("e", "targetContainerName", json!("d"))]),
            format!("{at}[1].targetContainerName: Not found: \"d\""),
        ),
        (
            json!([first, with("e", "ports", json!([{"containerPort": 1}]))]),
            format!("{at}[1].ports: {not_for_them}"),
        ),
        (
            json!([
                first,
                with("e", "volumeMounts", json!([{"name": "v", "mountPath": "/v", "subPath": "s"}]))
            ]),
            format!("{at}[1].volumeMounts[0].subPath: {not_for_them}"),
        ),
    ] {
        let (code, refused) = merge(&admin, &path, &list(sent.clone())).await;
        assert_eq!((code, cause(&refused)), (StatusCode::UNPROCESSABLE_ENTITY, expected), "{sent}");
    }
    let (code, added) = merge(&admin, &path, &list(json!([debugger("e"), first]))).await;
    assert_eq!(code, StatusCode::OK, "{added}");
    assert_eq!(added["spec"]["ephemeralContainers"].as_array().unwrap().len(), 2);
    // A pod's own update changes none.
    let (code, _) = merge(&admin, &format!("{PODS}/p"), &list(json!([first]))).await;
    assert_eq!(code, StatusCode::UNPROCESSABLE_ENTITY);
}

#[tokio::test]
async fn a_node_kept_pods_of_others_pending_by_the_annotation_of_its_own_pod() {
    let server = server().await;
    let (admin, node) = (admin(&server), node(&server, "n"));
    post(&admin, "/api/v1/nodes", &json!({"metadata": {"name": "n"}})).await;
    post(&admin, PODS, &pod("p")).await;
    assert_eq!(bind(&admin, "p", "n").await.0, StatusCode::CREATED);
    let path = format!("{PODS}/p/status");
    for key in
        [AFFINITY, "scheduling.berth.dev/tolerates-anti-affinity", "scheduling.berth.dev/without-target"]
    {
        let (code, refused) = merge(&node, &path, &json!({"metadata": {"annotations": {key: "{}"}}})).await;
        assert_eq!(code, StatusCode::FORBIDDEN, "{refused}");
        let expected = format!(
            "pods \"p\" is forbidden: node \"n\" cannot set, change or remove the annotation {key} of a pod"
        );
        assert_eq!(refused["message"], expected);
    }
    let status = json!({"metadata": {"annotations": {"example.com/a": "b"}}, "status": {"phase": "Running"}});
    assert_eq!(merge(&node, &path, &status).await.0, StatusCode::OK);
}

#[tokio::test]
async fn an_invalid_annotation_from_before_does_not_block_other_changes_of_a_pod() {
    let directory = DataDir::new();
    let options =
        ServerOptions { data_dir: Some(directory.0.clone()), extensions: false, ..ServerOptions::default() };
    let before = ApiServer::start(options).await.unwrap();
    let mut stored = pod("p");
    stored["metadata"]["annotations"] = json!({AFFINITY: "{podAntiAfinity: {}}"});
    assert_eq!(post(&admin(&before), PODS, &stored).await.0, StatusCode::CREATED);
    before.shutdown().await;
    let server = directory.server().await;
    let (admin, path) = (admin(&server), format!("{PODS}/p"));
    let (status, other) =
        (json!({"status": {"phase": "Running"}}), json!({"metadata": {"annotations": {"a": "b"}}}));
    assert_eq!(merge(&admin, &format!("{path}/status"), &status).await.0, StatusCode::OK);
    assert_eq!(merge(&admin, &path, &other).await.0, StatusCode::OK);
    let changed = json!({"metadata": {"annotations": {AFFINITY: "{podAntiAfinity: {}, nodeAffinity: {}}"}}});
    assert_eq!(merge(&admin, &path, &changed).await.0, StatusCode::UNPROCESSABLE_ENTITY);
    let removed = json!({"metadata": {"annotations": {AFFINITY: null}}});
    assert_eq!(merge(&admin, &path, &removed).await.0, StatusCode::OK);
}
