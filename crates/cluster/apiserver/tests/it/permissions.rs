//! Every verb on every resource and subresource, as users without roles, against a table of what they may do.

use berth_apiserver::ApiServer;
use berth_schema::resource::{RESOURCES, Resource, Storage};
use http::{Method, Request, StatusCode};
use kube::Client;
use serde_json::{Value, json};

use crate::support::*;

/// The objects that a request is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    /// The node itself, its pod, or an object that the pod uses; a list selects it by name.
    Own,
    /// Another object.
    Foreign,
    /// All objects.
    All,
}
use Target::{All, Foreign, Own};

/// `(verbs, resources, targets)` that a node may use. NodeRestriction limits the writes further.
const NODE: &[(&str, &str, &[Target])] = &[
    ("create", "tokenreviews.authentication.k8s.io", &[All]),
    (
        "create",
        "subjectaccessreviews.authorization.k8s.io localsubjectaccessreviews.authorization.k8s.io",
        &[All],
    ),
    ("get list watch", "services csidrivers.storage.k8s.io runtimeclasses.node.k8s.io", &[Own, Foreign, All]),
    ("get list watch", "certificatesigningrequests.certificates.k8s.io", &[Own, Foreign, All]),
    ("create", "certificatesigningrequests.certificates.k8s.io resourceslices.resource.k8s.io", &[All]),
    ("get list watch", "secrets configmaps nodes pods", &[Own]),
    ("get", "persistentvolumeclaims persistentvolumes volumeattachments.storage.k8s.io", &[Own]),
    ("get", "serviceaccounts resourceclaims.resource.k8s.io", &[Own]),
    ("create", "serviceaccounts/token", &[Own]),
    ("update patch", "persistentvolumeclaims/status", &[Own]),
    (
        "create",
        "nodes pods events events.events.k8s.io leases.coordination.k8s.io csinodes.storage.k8s.io",
        &[All],
    ),
    ("create", "pods/eviction", &[Own, Foreign]),
    ("delete", "pods", &[Own, Foreign]),
    ("update patch", "nodes nodes/status pods/status events events.events.k8s.io", &[Own, Foreign]),
    ("get update patch delete", "leases.coordination.k8s.io csinodes.storage.k8s.io", &[Own]),
];

const EVERYONE: &[(&str, &str, &[Target])] = &[
    ("create", "selfsubjectreviews.authentication.k8s.io", &[All]),
    ("create", "selfsubjectaccessreviews.authorization.k8s.io", &[All]),
    ("create", "selfsubjectrulesreviews.authorization.k8s.io", &[All]),
];

fn is_listed(
    table: &[(&str, &str, &[Target])],
    resource: &Resource,
    subresource: &str,
    verb: &str,
    target: Target,
) -> bool {
    let slash = if subresource.is_empty() { "" } else { "/" };
    let group = if resource.group.is_empty() { String::new() } else { format!(".{}", resource.group) };
    let name = format!("{}{slash}{subresource}{group}", resource.plural);
    let named = |texts: &str, wanted: &str| texts.split(' ').any(|text| text == wanted);
    table.iter().any(|(verbs, resources, targets)| {
        named(verbs, verb) && named(resources, &name) && targets.contains(&target)
    })
}

/// All requests on a resource: verb, target, subresource, method and path. Writes are dry runs.
fn requests(resource: &'static Resource) -> Vec<(&'static str, Target, &'static str, Method, String)> {
    let namespace = match resource.plural {
        _ if !resource.namespaced => "",
        "leases" => "kube-node-lease",
        _ => "default",
    };
    let path = resource.path(namespace);
    let on = |target: Target, subresource: &str| {
        let (name, slash) =
            (if target == Own { "own" } else { "foreign" }, if subresource.is_empty() { "" } else { "/" });
        format!("{path}/{name}{slash}{subresource}")
    };
    let parts = resource.subresources.iter().map(|sub| (sub.name, sub.verbs));
    let mut all = Vec::new();
    for (subresource, verbs) in std::iter::once(("", resource.verbs)).chain(parts) {
        for &verb in verbs {
            let method = match verb {
                "get" | "list" | "watch" => Method::GET,
                "create" => Method::POST,
                "update" => Method::PUT,
                "patch" => Method::PATCH,
                _ => Method::DELETE,
            };
            let mut add = |target, path: String| all.push((verb, target, subresource, method.clone(), path));
            match verb {
                "list" | "watch" => {
                    let watch = if verb == "watch" { "watch=true&" } else { "" };
                    add(All, format!("{path}?{watch}"));
                    add(Own, format!("{path}?{watch}fieldSelector=metadata.name%3Down"));
                    add(Foreign, format!("{path}?{watch}fieldSelector=metadata.name%3Dforeign"));
                }
                "deletecollection" => {
                    add(All, format!("{path}?dryRun=All&fieldSelector=metadata.name%3Down"))
                }
                "create" if subresource.is_empty() => {
                    add(All, format!("{path}?dryRun=All&fieldSelector=metadata.name%3Down"));
                }
                _ => {
                    add(Own, format!("{}?dryRun=All", on(Own, subresource)));
                    add(Foreign, format!("{}?dryRun=All", on(Foreign, subresource)));
                }
            }
        }
    }
    all
}

/// The node `own`, its pod `own` that uses objects `own`, and the same for `foreign`.
async fn world(server: &ApiServer) {
    let admin = admin(server);
    for name in ["own", "foreign"] {
        let reference = json!({"name": name});
        let pod = json!({"metadata": {"name": name}, "spec": {
            "nodeName": name, "serviceAccountName": name, "imagePullSecrets": [reference],
            "containers": [{"name": "c", "image": "i", "envFrom": [{"configMapRef": reference}]}],
            "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": name}}],
            "resourceClaims": [{"name": "r", "resourceClaimName": name}],
        }});
        let volume = json!({"metadata": {"name": name}, "spec": {
            "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "s",
            "claimRef": {"namespace": "default", "name": name},
            "csi": {"driver": "d", "volumeHandle": name, "nodeStageSecretRef": {"name": format!("{name}-stage"), "namespace": "kube-system"}},
        }});
        let attachment = json!({"metadata": {"name": name},
            "spec": {"attacher": "d", "nodeName": name, "source": {"persistentVolumeName": name}}});
        for (path, object) in [
            ("/api/v1/nodes", json!({"metadata": {"name": name}})),
            (PODS, pod),
            ("/api/v1/persistentvolumes", volume),
            ("/apis/storage.k8s.io/v1/volumeattachments", attachment),
        ] {
            let (code, answer) = post(&admin, path, &object).await;
            assert_eq!(code, StatusCode::CREATED, "{answer}");
        }
    }
}

/// Whether a request is authorized. NodeRestriction and validation, which come later, are not the subject.
async fn is_authorized(client: &Client, method: Method, path: &str) -> bool {
    let content_type =
        if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
    let body = if method == Method::GET { "" } else { "{}" };
    let request = Request::builder().method(method).uri(path).header("content-type", content_type);
    let response =
        client.send(request.body(kube::client::Body::from(body.as_bytes().to_vec())).unwrap()).await.unwrap();
    match response.status() {
        StatusCode::UNAUTHORIZED => false,
        StatusCode::FORBIDDEN => {
            let bytes = http_body_util::BodyExt::collect(response.into_body()).await.unwrap().to_bytes();
            let status: Value = serde_json::from_slice(&bytes).unwrap();
            !status["message"].as_str().unwrap().contains(" cannot ")
        }
        _ => true,
    }
}

#[tokio::test]
async fn users_without_roles_may_do_what_the_table_lists_and_nothing_else() {
    let server = server_of_all_kinds().await;
    world(&server).await;
    let admin = admin(&server);
    let (_, token) =
        post(&admin, "/api/v1/namespaces/default/serviceaccounts/default/token", &json!({"spec": {}})).await;
    let mut account = server.admin_config();
    account.auth_info.token = Some(token["status"]["token"].as_str().unwrap().to_owned().into());
    let mut anonymous = server.admin_config();
    anonymous.auth_info.token = None;
    let users: [(&str, Client, &[&[_]]); 3] = [
        ("node", node(&server, "own"), &[NODE, EVERYONE]),
        ("service account", client(account), &[EVERYONE]),
        ("anonymous", client(anonymous), &[]),
    ];
    let mut wrong = Vec::new();
    for (user, client, tables) in &users {
        for &resource in RESOURCES {
            for (verb, target, subresource, method, path) in requests(resource) {
                let wanted = tables.iter().any(|table| is_listed(table, resource, subresource, verb, target));
                if is_authorized(client, method, &path).await != wanted {
                    wrong.push(format!("{user}: {verb} {path}: {wanted} is expected"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(RESOURCES.iter().any(|resource| resource.storage == Storage::None));
}

#[tokio::test]
async fn a_node_lists_the_pods_of_its_own_only_and_reads_secrets_of_their_volumes() {
    let server = server().await;
    world(&server).await;
    let node = node(&server, "own");
    for (query, wanted) in [
        ("fieldSelector=spec.nodeName%3Down", StatusCode::OK),
        ("fieldSelector=spec.nodeName%3Dforeign", StatusCode::FORBIDDEN),
        ("fieldSelector=spec.nodeName!%3Down", StatusCode::FORBIDDEN),
        ("labelSelector=a%3Db", StatusCode::FORBIDDEN),
    ] {
        assert_eq!(get(&node, &format!("/api/v1/pods?{query}")).await.0, wanted, "{query}");
    }
    let (code, refused) = get(&node, "/api/v1/namespaces/default/secrets/foreign").await;
    assert_eq!(code, StatusCode::FORBIDDEN);
    assert_eq!(
        refused["message"],
        "secrets \"foreign\" is forbidden: User \"system:node:own\" cannot get resource \"secrets\" in API group \"\" in \
         the namespace \"default\": no relationship found between node 'own' and this object"
    );
    let secrets = "/api/v1/namespaces/kube-system/secrets";
    assert_eq!(get(&node, &format!("{secrets}/own-stage")).await.0, StatusCode::NOT_FOUND);
    assert_eq!(get(&node, &format!("{secrets}/foreign-stage")).await.0, StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn a_mirror_pod_gives_its_node_no_access() {
    let server = server().await;
    world(&server).await;
    let (admin, node) = (admin(&server), node(&server, "own"));
    let (_, own) = get(&admin, "/api/v1/nodes/own").await;
    let mirror = |spec: Value| {
        let mut pod = pod("static-own");
        pod["metadata"]["annotations"] = json!({"kubernetes.io/config.mirror": "x"});
        pod["metadata"]["ownerReferences"] = json!([{"apiVersion": "v1", "kind": "Node", "name": "own",
            "uid": own["metadata"]["uid"], "controller": true}]);
        pod["spec"]["nodeName"] = json!("own");
        json_patch::merge(&mut pod["spec"], &spec);
        pod
    };
    let token = json!([{"serviceAccountToken": {"path": "t"}}]);
    for (spec, wanted) in [
        (json!({"serviceAccountName": "default"}), "can not create pods that reference a service account"),
        (json!({"serviceAccount": "default"}), "can not create pods that reference a service account"),
        (json!({"imagePullSecrets": [{"name": "s"}]}), "can not create pods that reference secrets"),
        (
            json!({"volumes": [{"name": "v", "secret": {"secretName": "s"}}]}),
            "can not create pods that reference secrets",
        ),
        (
            json!({"volumes": [{"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}]}),
            "persistentvolumeclaims",
        ),
        (json!({"resourceClaims": [{"name": "r", "resourceClaimName": "foreign"}]}), "resourceclaims"),
        (
            json!({"volumes": [{"name": "v", "projected": {"sources": token}}]}),
            "ServiceAccountToken volume projections",
        ),
    ] {
        let (code, refused) = post(&node, PODS, &mirror(spec.clone())).await;
        assert_eq!(code, StatusCode::FORBIDDEN, "{spec}");
        assert!(refused["message"].as_str().unwrap().contains(wanted), "{refused}");
        // Another user may not make one for the node either, if it has credentials.
        let is_credential = !wanted.ends_with("claims");
        let (code, refused) = post(&admin, &format!("{PODS}?dryRun=All"), &mirror(spec.clone())).await;
        assert_eq!(code == StatusCode::FORBIDDEN, is_credential, "{spec} {refused}");
    }
    // Even one that the admin imports gives no access.
    let secret = json!({"volumes": [{"name": "v", "configMap": {"name": "foreign"}}]});
    assert_eq!(post(&admin, PODS, &mirror(secret)).await.0, StatusCode::CREATED);
    assert_eq!(get(&node, "/api/v1/namespaces/default/configmaps/foreign").await.0, StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn a_node_requests_tokens_only_for_pods_that_run_on_it() {
    let server = server().await;
    world(&server).await;
    let (admin, node) = (admin(&server), node(&server, "own"));
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    for name in ["own", "foreign", "privileged"] {
        post(&admin, accounts, &json!({"metadata": {"name": name}})).await;
    }
    let vault = json!({"metadata": {"name": "vault"}, "spec": {"nodeName": "own", "serviceAccountName": "own",
        "containers": [{"name": "c", "image": "i"}],
        "volumes": [{"name": "v", "projected": {"sources": [{"serviceAccountToken": {"audience": "vault", "path": "t"}}]}}]}});
    post(&admin, PODS, &vault).await;
    let uid = async |pod: &str| get(&admin, &format!("{PODS}/{pod}")).await.1["metadata"]["uid"].clone();
    let bound = |pod: &str, uid: &Value, audiences: &[&str]| {
        json!({"spec": {"audiences": audiences,
            "boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": uid}}})
    };
    let (own, foreign, with_audience) = (uid("own").await, uid("foreign").await, uid("vault").await);
    for (account, request, wanted) in [
        ("own", json!({"spec": {}}), "node requested token not bound to a pod"),
        ("own", bound("own", &json!(""), &[]), "node requested token with a pod binding without a uid"),
        ("own", bound("own", &foreign, &[]), "does not match the UID in record"),
        (
            "own",
            bound("foreign", &foreign, &[]),
            "node requested token bound to a pod scheduled on a different node",
        ),
        ("foreign", bound("foreign", &foreign, &[]), "cannot create resource \"serviceaccounts/token\""),
        ("foreign", bound("own", &own, &[]), "cannot create resource \"serviceaccounts/token\""),
        ("privileged", bound("own", &own, &[]), "cannot create resource \"serviceaccounts/token\""),
        ("own", bound("own", &own, &["vault"]), "audience \"vault\" not found in pod spec volume"),
        ("own", bound("vault", &with_audience, &["a", "b"]), "node may only request 0 or 1 audiences"),
        ("own", bound("own", &own, &[]), ""),
        ("own", bound("vault", &with_audience, &["vault"]), ""),
    ] {
        let (code, answer) = post(&node, &format!("{accounts}/{account}/token"), &request).await;
        assert_eq!(code == StatusCode::CREATED, wanted.is_empty(), "{request} {answer}");
        assert!(answer["message"].as_str().unwrap_or_default().contains(wanted), "{answer}");
    }
}

#[tokio::test]
async fn a_node_changes_only_the_sizes_of_a_claim() {
    let server = server().await;
    world(&server).await;
    let (admin, node) = (admin(&server), node(&server, "own"));
    let claims = "/api/v1/namespaces/default/persistentvolumeclaims";
    let claim = json!({"metadata": {"name": "own"}, "spec": {"accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": "s"}});
    assert_eq!(post(&admin, claims, &claim).await.0, StatusCode::CREATED);
    for (patch, wanted) in [
        (json!({"status": {"capacity": {"storage": "2Gi"}}}), StatusCode::OK),
        (json!({"status": {"phase": "Lost"}}), StatusCode::FORBIDDEN),
    ] {
        let (code, answer) = merge(&node, &format!("{claims}/own/status"), &patch).await;
        assert_eq!(code, wanted, "{patch} {answer}");
    }
}

#[tokio::test]
async fn a_node_requests_a_kubelet_certificate_for_itself_only() {
    let server = server().await;
    let node = node(&server, "own");
    let path = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
    let request = |name: &str| {
        let mut params = rcgen::CertificateParams::default();
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        let pem = params.serialize_request(&rcgen::KeyPair::generate().unwrap()).unwrap().pem().unwrap();
        base64::Engine::encode(&base64::engine::general_purpose::STANDARD, pem)
    };
    for (name, wanted) in [
        ("system:node:own", ""),
        ("system:node:foreign", "can only create a node CSR with CN=system:node:own"),
    ] {
        let csr = json!({"metadata": {"name": name.replace(':', "-")}, "spec": {"request": request(name),
            "signerName": "kubernetes.io/kubelet-serving", "usages": ["server auth"]}});
        let (code, answer) = post(&node, path, &csr).await;
        assert_eq!(code == StatusCode::CREATED, wanted.is_empty(), "{answer}");
        assert!(answer["message"].as_str().unwrap_or_default().contains(wanted), "{answer}");
    }
}
