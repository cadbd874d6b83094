//! A data directory outlives its server.

use berth_apiserver::{ApiServer, ServerOptions, StartError};
use http::StatusCode;
use serde_json::{Value, json};

use crate::support::*;

#[tokio::test]
async fn clients_and_watches_continue_after_a_restart() {
    let dir = DataDir::new();
    let server = dir.server().await;
    let client = admin(&server);
    post(&client, PODS, &pod("a")).await;
    let (_, list) = get(&client, PODS).await;
    post(&client, PODS, &pod("b")).await;
    bind(&client, "a", "n1").await;
    delete(&client, &format!("{PODS}/b"), &Value::Null).await;
    let (_, before) = get(&client, &format!("{PODS}/a")).await;
    let (url, kubeconfig) = (server.url().to_owned(), std::fs::read(server.kubeconfig_path()).unwrap());
    server.shutdown().await;

    let server = dir.server().await;
    assert_eq!((server.url(), std::fs::read(server.kubeconfig_path()).unwrap()), (url.as_str(), kubeconfig));
    // The earlier client still has the right address, CA and token.
    assert_eq!(get(&client, &format!("{PODS}/a")).await.1, before);
    let mut lines =
        watch(&client, &format!("{PODS}?watch=1&resourceVersion={}", version(&list))).await.ok().unwrap();
    for (wanted, name) in [("ADDED", "b"), ("MODIFIED", "a"), ("DELETED", "b")] {
        assert_eq!(lines.told().await, (wanted.to_owned(), name.to_owned()));
    }
    let (_, created) = post(&client, PODS, &pod("c")).await;
    let number = |value: &Value| version(value).parse::<u64>().unwrap();
    assert!(number(&created) > number(&before));
    assert_eq!(lines.told().await, ("ADDED".into(), "c".into()));
    server.shutdown().await;
}

#[tokio::test]
async fn templates_with_extensions_could_not_be_deleted_after_strict_v1() {
    let dir = DataDir::new();
    let server = dir.server().await;
    let client = admin(&server);
    let term = |operator: &str| {
        json!({"labelSelector": {"matchExpressions": [
        {"key": "size", "operator": operator, "values": ["20"]}]}, "topologyKey": "zone"})
    };
    let affinity = json!({"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term("Gt")],
        "requiredDuringSchedulingRequiredDuringExecution": [term("Lt")]}});
    let template = json!({"metadata": {"labels": {"app": "a"}},
        "spec": {"affinity": affinity, "containers": [{"name": "c", "image": "i"}]}});
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    let controllers = "/api/v1/namespaces/default/replicationcontrollers";
    let cron_jobs = "/apis/batch/v1/namespaces/default/cronjobs";
    let mut job = template.clone();
    job["spec"]["restartPolicy"] = "Never".into();
    for (path, spec) in [
        (deployments, json!({"selector": {"matchLabels": {"app": "a"}}, "template": template})),
        (controllers, json!({"selector": {"app": "a"}, "template": template})),
        (cron_jobs, json!({"schedule": "* * * * *", "jobTemplate": {"spec": {"template": job}}})),
    ] {
        let (code, answer) = post(&client, path, &json!({"metadata": {"name": "w"}, "spec": spec})).await;
        assert_eq!(code, StatusCode::CREATED, "{answer}");
    }
    server.shutdown().await;

    let options =
        ServerOptions { data_dir: Some(dir.0.clone()), extensions: false, ..ServerOptions::default() };
    let server = ApiServer::start(options).await.unwrap();
    let client = admin(&server);
    let ok = |(code, answer): (StatusCode, Value)| {
        assert!(code.is_success(), "{answer}");
        answer
    };
    let causes = |(code, answer): (StatusCode, Value)| {
        assert_eq!(code, StatusCode::UNPROCESSABLE_ENTITY, "{answer}");
        answer["details"]["causes"].as_array().unwrap().len()
    };
    let (deployment, controller) = (format!("{deployments}/w"), format!("{controllers}/w"));
    ok(merge(
        &client,
        &format!("{deployment}?fieldValidation=Strict"),
        &json!({"metadata": {"labels": {"x": "y"}}}),
    )
    .await);
    ok(merge(&client, &format!("{deployment}/scale"), &json!({"spec": {"replicas": 0}})).await);
    ok(merge(&client, &deployment, &json!({"spec": {"replicas": 2}})).await);
    let (_, mut whole) = get(&client, &deployment).await;
    whole["metadata"]["labels"]["x"] = "z".into();
    ok(put(&client, &deployment, &whole).await);
    // What changes is validated.
    let image = json!({"spec": {"template": {"metadata": {"labels": {"version": "2"}}}}});
    assert_eq!(causes(merge(&client, &deployment, &image).await), 1);
    assert_eq!(causes(merge(&client, &deployment, &json!({"spec": {"replicas": -1}})).await), 1);
    assert_eq!(causes(merge(&client, &controller, &json!({"spec": {"selector": {"app": "b"}}})).await), 1);
    for path in [deployment, controller, format!("{cron_jobs}/w")] {
        ok(delete(&client, &path, &json!({"propagationPolicy": "Foreground"})).await);
        ok(merge(&client, &path, &json!({"metadata": {"finalizers": null}})).await);
        assert_eq!(get(&client, &path).await.0, StatusCode::NOT_FOUND);
    }
    server.shutdown().await;
}

#[tokio::test]
async fn a_workload_with_a_misspelt_annotation_is_labelled_scaled_and_deleted() {
    let server = server().await;
    let client = admin(&server);
    let spec = json!({"replicas": 1, "selector": {"matchLabels": {"app": "a"}}, "template": {
        "metadata": {"labels": {"app": "a"}, "annotations": {"scheduling.berth.dev/affinity": "{podAntiAfinity: {}}"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]}}});
    let workload = |kind: &str| json!({"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "w", "namespace": "default"}, "spec": spec});
    let kinds =
        [("Deployment", "deployments"), ("ReplicaSet", "replicasets"), ("StatefulSet", "statefulsets")];
    server.import(kinds.iter().map(|(kind, _)| workload(kind)).collect()).await.unwrap();
    for (kind, plural) in kinds {
        let all = format!("/apis/apps/v1/namespaces/default/{plural}");
        let path = format!("{all}/w");
        let ok = |(code, answer): (StatusCode, Value)| assert!(code.is_success(), "{kind}: {answer}");
        ok(merge(&client, &path, &json!({"metadata": {"labels": {"x": "y"}}})).await);
        ok(merge(&client, &path, &json!({"spec": {"replicas": 2}})).await);
        ok(merge(&client, &format!("{path}/scale"), &json!({"spec": {"replicas": 3}})).await);
        let (_, mut whole) = get(&client, &path).await;
        whole["metadata"]["labels"]["x"] = "z".into();
        ok(put(&client, &path, &whole).await);
        let mut new = workload(kind);
        new["metadata"]["name"] = "new".into();
        let image = json!({"spec": {"template": {"metadata": {"annotations": {"changed": "yes"}}}}});
        for (code, refused) in [post(&client, &all, &new).await, merge(&client, &path, &image).await] {
            assert_eq!(code, StatusCode::UNPROCESSABLE_ENTITY, "{kind}: {refused}");
            let cause = &refused["details"]["causes"][0];
            assert_eq!(
                cause["message"], "Invalid value: unknown field; did you mean \"podAntiAffinity\"?",
                "{kind}"
            );
        }
        ok(delete(&client, &path, &json!({"propagationPolicy": "Foreground"})).await);
        ok(merge(&client, &path, &json!({"metadata": {"finalizers": null}})).await);
        assert_eq!(get(&client, &path).await.0, StatusCode::NOT_FOUND);
    }
}

#[tokio::test]
async fn a_second_server_cannot_use_the_data_directory() {
    let dir = DataDir::new();
    let server = dir.server().await;
    let options = ServerOptions { data_dir: Some(dir.0.clone()), ..ServerOptions::default() };
    let error = ApiServer::start(options).await.err().unwrap();
    assert!(matches!(error, StartError::Disk(_)), "{error}");
    assert!(error.to_string().contains("in use by another process"), "{error}");
    server.shutdown().await;
    dir.server().await.shutdown().await;
}

#[cfg(unix)]
#[tokio::test]
async fn files_are_private_and_a_foreign_kubeconfig_is_not_overwritten() {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = DataDir::new();
    dir.server().await.shutdown().await;
    for entry in std::fs::read_dir(&dir.0).unwrap() {
        let entry = entry.unwrap();
        let mode = entry.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{:?}", entry.path());
    }
    let foreign = dir.0.join("foreign");
    std::fs::write(&foreign, "apiVersion: v1\nkind: Config\ncurrent-context: work\n").unwrap();
    let options = ServerOptions { kubeconfig: Some(foreign.clone()), ..ServerOptions::default() };
    let error = ApiServer::start(options).await.err().unwrap();
    assert!(error.to_string().contains("was not written by berth"), "{error}");
    assert!(std::fs::read_to_string(&foreign).unwrap().contains("work"));
}

#[cfg(unix)]
#[tokio::test]
async fn no_prepared_file_beside_a_kubeconfig_is_used() {
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    let dir = DataDir::new();
    std::fs::create_dir(&dir.0).unwrap();
    let (kubeconfig, elsewhere, link) = (dir.0.join("config"), dir.0.join("elsewhere"), dir.0.join("link"));
    // Files where an earlier version wrote the kubeconfig before renaming it: open to all, and a link.
    let open = dir.0.join("config.new");
    std::fs::write(&open, "open").unwrap();
    std::fs::set_permissions(&open, std::fs::Permissions::from_mode(0o666)).unwrap();
    std::fs::write(&elsewhere, "untouched").unwrap();
    symlink(&elsewhere, dir.0.join("link.new")).unwrap();
    for path in [&kubeconfig, &link] {
        let options = ServerOptions { kubeconfig: Some(path.clone()), ..ServerOptions::default() };
        ApiServer::start(options).await.unwrap().shutdown().await;
        let metadata = std::fs::symlink_metadata(path).unwrap();
        assert_eq!((metadata.is_file(), metadata.permissions().mode() & 0o777), (true, 0o600));
    }
    assert_eq!(std::fs::read_to_string(&open).unwrap(), "open");
    assert_eq!(std::fs::read_to_string(&elsewhere).unwrap(), "untouched");
}

#[tokio::test]
async fn a_damaged_secret_is_an_error() {
    let dir = DataDir::new();
    dir.server().await.shutdown().await;
    std::fs::write(dir.0.join("secret"), "").unwrap();
    let options = ServerOptions { data_dir: Some(dir.0.clone()), ..ServerOptions::default() };
    let error = ApiServer::start(options).await.err().unwrap();
    assert!(error.to_string().contains("secret is damaged"), "{error}");
}

#[tokio::test]
async fn a_dump_is_imported_verbatim() {
    let server = server().await;
    let client = admin(&server);
    let owner = |uid: &str| json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "uid": uid});
    let mut dumped = pod("a");
    dumped["metadata"] = json!({"name": "a", "namespace": "team", "uid": "u-1", "creationTimestamp": "2020-01-01T00:00:00Z",
        "resourceVersion": "5", "ownerReferences": [owner("u-2"), owner("gone")]});
    dumped["status"] = json!({"phase": "Running"});
    let set = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "rs", "namespace": "team", "uid": "u-2"}});
    let gadget = json!({"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": {"name": "g"}});
    let imported = server.import(vec![dumped.clone(), set, gadget]).await.unwrap();
    assert_eq!((imported.stored, imported.unknown), (2, 1));
    let (_, stored) = get(&client, "/api/v1/namespaces/team/pods/a").await;
    assert_eq!((&stored["metadata"]["uid"], &stored["status"]["phase"]), (&json!("u-1"), &json!("Running")));
    assert_eq!(stored["metadata"]["creationTimestamp"], "2020-01-01T00:00:00Z");
    assert_eq!(stored["metadata"]["ownerReferences"], json!([owner("u-2")]));
    assert_eq!(get(&client, "/api/v1/namespaces/team").await.1["status"]["phase"], "Active");
    assert_eq!(server.import(vec![dumped]).await.unwrap().present, 1);
    assert!(server.import(vec![json!({"apiVersion": "v1", "kind": "Pod", "metadata": {}})]).await.is_err());
}

#[tokio::test]
async fn imported_objects_without_a_creation_time_get_one() {
    let server = server().await;
    let client = admin(&server);
    let bare = |kind: &str, name: &str| json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name}});
    server.import(vec![bare("Node", "n1"), bare("Namespace", "team")]).await.unwrap();
    let (_, node) = get(&client, "/api/v1/nodes/n1").await;
    assert!(node["metadata"]["creationTimestamp"].is_string(), "{node}");
    // A namespace of a hand-written file is like one that was created: its contents go before it does.
    let (_, namespace) = get(&client, "/api/v1/namespaces/team").await;
    assert_eq!(namespace["status"]["phase"], "Active");
    assert_eq!(namespace["spec"]["finalizers"], json!(["kubernetes"]));
    assert_eq!(namespace["metadata"]["labels"]["kubernetes.io/metadata.name"], "team");
}

#[tokio::test]
async fn imported_objects_of_hand_written_files_could_not_be_changed() {
    let server = server().await;
    let client = admin(&server);
    let container =
        json!({"name": "c", "image": "i", "resources": {"limits": {"cpu": 1, "memory": 1048576}}});
    let template = json!({"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [container]}});
    let claim = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": 1073741824}}});
    let selector = json!({"matchLabels": {"app": "a"}});
    let object = |api_version: &str, kind: &str, fields: Value| {
        let mut object = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "o", "namespace": "default"}});
        json_patch::merge(&mut object, &fields);
        object
    };
    let spread = json!({"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector,
        "matchLabelKeys": ["v"]});
    let pod = json!({"metadata": {"labels": {"app": "a", "v": "1"}}, "status": {"phase": "Running", "podIP": "10.0.0.1"},
        "spec": {"containers": [container], "nodeName": "n", "priorityClassName": "high", "topologySpreadConstraints": [spread]}});
    let mut of_job = template.clone();
    of_job["spec"]["restartPolicy"] = "Never".into();
    let set = json!({"selector": selector, "serviceName": "s", "template": template,
        "volumeClaimTemplates": [{"metadata": {"name": "d"}, "spec": claim}]});
    let volume = json!({"capacity": {"storage": 1073741824}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/d"}});
    let objects = [
        ("/api/v1/namespaces/default/pods/o", object("v1", "Pod", pod)),
        (
            "/apis/apps/v1/namespaces/default/statefulsets/o",
            object("apps/v1", "StatefulSet", json!({"spec": set})),
        ),
        (
            "/apis/batch/v1/namespaces/default/jobs/o",
            object("batch/v1", "Job", json!({"spec": {"template": of_job}})),
        ),
        (
            "/api/v1/namespaces/default/persistentvolumeclaims/o",
            object("v1", "PersistentVolumeClaim", json!({"spec": claim})),
        ),
        ("/api/v1/persistentvolumes/o", object("v1", "PersistentVolume", json!({"spec": volume}))),
        (
            "/apis/storage.k8s.io/v1/storageclasses/o",
            object(
                "storage.k8s.io/v1",
                "StorageClass",
                json!({"provisioner": "p", "allowVolumeExpansion": null}),
            ),
        ),
        (
            "/apis/node.k8s.io/v1/runtimeclasses/o",
            object(
                "node.k8s.io/v1",
                "RuntimeClass",
                json!({"handler": "h", "overhead": {"podFixed": {"cpu": 1}}}),
            ),
        ),
        (
            "/apis/scheduling.k8s.io/v1/priorityclasses/high",
            object(
                "scheduling.k8s.io/v1",
                "PriorityClass",
                json!({"metadata": {"name": "high"}, "value": 100}),
            ),
        ),
    ];
    server.import(objects.iter().map(|(_, object)| object.clone()).collect()).await.unwrap();
    for (path, _) in &objects {
        let (code, answer) = merge(&client, path, &json!({"metadata": {"labels": {"x": "y"}}})).await;
        assert!(code.is_success(), "{path}: {answer}");
    }
    let (_, pod) = get(&client, objects[0].0).await;
    let (spec, status) = (&pod["spec"], &pod["status"]);
    assert_eq!((&spec["priority"], &spec["tolerations"][0]["tolerationSeconds"]), (&json!(100), &json!(300)));
    assert_eq!(
        spec["topologySpreadConstraints"][0]["labelSelector"]["matchExpressions"],
        json!([{"key": "v", "operator": "In", "values": ["1"]}])
    );
    // What the file says of the status stays.
    assert_eq!(
        (&status["phase"], &status["podIP"], &status["qosClass"]),
        (&json!("Running"), &json!("10.0.0.1"), &json!("Guaranteed"))
    );
    let (_, job) = get(&client, objects[2].0).await;
    assert_eq!(
        job["spec"]["selector"]["matchLabels"]["batch.kubernetes.io/controller-uid"], job["metadata"]["uid"],
        "{job}"
    );
    let wrong = object("v1", "Pod", json!({"spec": {"containers": {}}}));
    let refused = server.import(vec![wrong]).await.unwrap_err().to_string();
    assert!(refused.starts_with("Pod \"o\": ") && refused.contains("PodSpec.spec.containers"), "{refused}");
}
