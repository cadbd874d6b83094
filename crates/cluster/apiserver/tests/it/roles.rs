//! Roles: the permissions that they grant to service accounts and other users.

use berth_apiserver::ApiServer;
use http::{Method, StatusCode};
use kube::Client;
use serde_json::{Value, json};

use crate::support::*;

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

fn account(server: &ApiServer, name: &str) -> Client {
    acting_as(server, &format!("system:serviceaccount:default:{name}"), &[])
}

async fn create(admin: &Client, path: &str, object: Value) {
    let (code, answer) = post(admin, &format!("{RBAC}/{path}"), &object).await;
    assert_eq!(code, StatusCode::CREATED, "{answer}");
}

fn cluster_role(name: &str, rules: Value) -> Value {
    json!({"metadata": {"name": name}, "rules": rules})
}

fn binding(name: &str, (kind, role): (&str, &str), subject: Value) -> Value {
    json!({"metadata": {"name": name}, "roleRef": {"kind": kind, "name": role}, "subjects": [subject]})
}

fn bot() -> Value {
    json!({"kind": "ServiceAccount", "name": "bot", "namespace": "default"})
}

async fn code(client: &Client, method: Method, path: &str, body: Value) -> u16 {
    call(client, method, path, &body).await.0.as_u16()
}

#[tokio::test]
async fn a_service_account_has_the_permissions_of_its_roles() {
    let server = server().await;
    let admin = admin(&server);
    let bot_client = account(&server, "bot");
    let (refused_code, refused) = get(&bot_client, "/api/v1/pods").await;
    assert_eq!(refused_code, StatusCode::FORBIDDEN);
    assert_eq!(
        refused["message"],
        "pods is forbidden: User \"system:serviceaccount:default:bot\" cannot list resource \"pods\" in API group \"\" at \
         the cluster scope"
    );
    let rules = json!([
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]},
        {"apiGroups": [""], "resources": ["pods/binding"], "verbs": ["create"]},
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "resourceNames": ["mine"],
         "verbs": ["get", "list", "update"]},
        {"nonResourceURLs": ["/metrics"], "verbs": ["get"]},
    ]);
    create(&admin, "clusterroles", cluster_role("system:scheduler", rules)).await;
    create(&admin, "clusterrolebindings", binding("b", ("ClusterRole", "system:scheduler"), bot())).await;
    post(&admin, PODS, &pod("p")).await;
    assert_eq!(get(&bot_client, "/api/v1/pods").await.0, StatusCode::OK);
    assert!(watch(&bot_client, "/api/v1/pods?watch=true").await.is_ok());
    assert_eq!(bind(&bot_client, "p", "n").await.0, StatusCode::CREATED);
    let leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
    for (method, path, wanted) in [
        (Method::DELETE, format!("{PODS}/p"), 403),
        (Method::PUT, format!("{PODS}/p/status"), 403),
        (Method::GET, format!("{leases}/mine"), 404),
        (Method::GET, format!("{leases}/yours"), 403),
        (Method::GET, leases.to_owned(), 403),
        (Method::GET, format!("{leases}?fieldSelector=metadata.name%3Dmine"), 200),
        (Method::GET, "/metrics".to_owned(), 200),
        (Method::GET, "/debug".to_owned(), 403),
    ] {
        assert_eq!(code(&bot_client, method.clone(), &path, Value::Null).await, wanted, "{method} {path}");
    }
    assert_eq!(get(&account(&server, "other"), "/api/v1/pods").await.0, StatusCode::FORBIDDEN);
    delete(&admin, &format!("{RBAC}/clusterrolebindings/b"), &Value::Null).await;
    assert_eq!(get(&bot_client, "/api/v1/pods").await.0, StatusCode::FORBIDDEN, "what is taken is gone");
}

#[tokio::test]
async fn a_role_applies_to_its_namespace_and_to_groups() {
    let server = server().await;
    let admin = admin(&server);
    let rules = json!([{"apiGroups": ["", "apps"], "resources": ["*"], "verbs": ["*"]}]);
    create(&admin, "namespaces/default/roles", cluster_role("all", rules)).await;
    let group = json!({"kind": "Group", "name": "system:serviceaccounts:default"});
    create(&admin, "namespaces/default/rolebindings", binding("b", ("Role", "all"), group)).await;
    let viewers = json!({"kind": "User", "name": "alice"});
    create(&admin, "namespaces/kube-system/rolebindings", binding("v", ("ClusterRole", "view"), viewers))
        .await;
    let bot = account(&server, "bot");
    assert_eq!(post(&bot, PODS, &pod("p")).await.0, StatusCode::CREATED);
    for path in ["/api/v1/namespaces/kube-system/pods", "/api/v1/pods", "/api/v1/nodes"] {
        assert_eq!(get(&bot, path).await.0, StatusCode::FORBIDDEN, "{path}");
    }
    let jobs = "/apis/batch/v1/namespaces/default/jobs";
    assert_eq!(get(&bot, jobs).await.0, StatusCode::FORBIDDEN);
    let alice = acting_as(&server, "alice", &[]);
    assert_eq!(get(&alice, "/api/v1/namespaces/kube-system/pods").await.0, StatusCode::OK);
    assert_eq!(get(&alice, "/api/v1/namespaces/kube-system/secrets").await.0, StatusCode::FORBIDDEN);
    assert_eq!(get(&alice, PODS).await.0, StatusCode::FORBIDDEN);
    // If the request names groups, only these apply.
    let bare = acting_as(&server, "system:serviceaccount:default:bot", &["others"]);
    assert_eq!(get(&bare, PODS).await.0, StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn a_service_account_token_has_the_account_roles() {
    let server = server().await;
    let admin = admin(&server);
    post(&admin, "/api/v1/namespaces/default/serviceaccounts", &json!({"metadata": {"name": "bot"}})).await;
    create(&admin, "clusterrolebindings", binding("b", ("ClusterRole", "view"), bot())).await;
    let path = "/api/v1/namespaces/default/serviceaccounts/bot/token";
    let (_, answer) = post(&admin, path, &json!({"spec": {}})).await;
    let mut config = server.admin_config();
    config.auth_info.token = Some(answer["status"]["token"].as_str().unwrap().to_owned().into());
    let bot = client(config);
    assert_eq!(get(&bot, "/api/v1/pods").await.0, StatusCode::OK);
    assert_eq!(post(&bot, PODS, &pod("p")).await.0, StatusCode::FORBIDDEN);
    let review = json!({"spec": {"resourceAttributes": {"verb": "list", "resource": "pods"}}});
    let reviews = "/apis/authorization.k8s.io/v1";
    let (_, answer) = post(&bot, &format!("{reviews}/selfsubjectaccessreviews"), &review).await;
    assert_eq!(answer["status"]["allowed"], true);
    let rules = json!({"spec": {"namespace": "default"}});
    let (_, answer) = post(&bot, &format!("{reviews}/selfsubjectrulesreviews"), &rules).await;
    let listed = answer["status"]["resourceRules"].as_array().unwrap();
    assert!(listed.iter().any(|rule| rule["resources"].to_string().contains("\"pods/log\"")), "{answer}");
}

#[tokio::test]
async fn a_cluster_role_may_aggregate_others() {
    let server = server().await;
    let admin = admin(&server);
    let mut part =
        cluster_role("part", json!([{"apiGroups": [""], "resources": ["nodes"], "verbs": ["list"]}]));
    part["metadata"]["labels"] = json!({"to": "whole"});
    create(&admin, "clusterroles", part).await;
    let whole = json!({"metadata": {"name": "whole"},
        "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"to": "whole"}}]}, "rules": []});
    create(&admin, "clusterroles", whole).await;
    create(&admin, "clusterrolebindings", binding("b", ("ClusterRole", "whole"), bot())).await;
    assert_eq!(get(&account(&server, "bot"), "/api/v1/nodes").await.0, StatusCode::OK);
}

#[tokio::test]
async fn users_cannot_grant_permissions_they_lack() {
    let server = server().await;
    let admin = admin(&server);
    let of_roles = json!([
        {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["*"], "verbs": ["create", "update"]},
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]},
    ]);
    create(&admin, "clusterroles", cluster_role("giver", of_roles)).await;
    create(&admin, "clusterrolebindings", binding("giver", ("ClusterRole", "giver"), bot())).await;
    let bot_client = account(&server, "bot");
    let pods = |verbs: &[&str]| json!([{"apiGroups": [""], "resources": ["pods"], "verbs": verbs}]);
    let roles = format!("{RBAC}/clusterroles");
    let fine = post(&bot_client, &roles, &cluster_role("less", pods(&["list"]))).await;
    assert_eq!(fine.0, StatusCode::CREATED, "{}", fine.1);
    let (code, refused) = post(&bot_client, &roles, &cluster_role("more", pods(&["list", "delete"]))).await;
    assert_eq!(code, StatusCode::FORBIDDEN);
    assert_eq!(
        refused["message"],
        "clusterroles.rbac.authorization.k8s.io \"more\" is forbidden: user \"system:serviceaccount:default:bot\" \
         (groups=[\"system:serviceaccounts\" \"system:serviceaccounts:default\" \"system:authenticated\"]) is attempting to \
         grant RBAC permissions not currently held:\n{APIGroups:[\"\"], Resources:[\"pods\"], Verbs:[\"list\" \"delete\"]}"
    );
    let bindings = format!("{RBAC}/clusterrolebindings");
    for (role, wanted) in [("less", 201), ("cluster-admin", 403), ("absent", 404)] {
        let given = binding(role, ("ClusterRole", role), json!({"kind": "User", "name": "eve"}));
        assert_eq!(code_of(post(&bot_client, &bindings, &given).await), wanted, "{role}");
    }
    let bind = json!([{"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterroles"],
        "resourceNames": ["cluster-admin"], "verbs": ["bind"]}]);
    create(&admin, "clusterroles", cluster_role("binder", bind)).await;
    create(&admin, "clusterrolebindings", binding("binder", ("ClusterRole", "binder"), bot())).await;
    let given = binding("now", ("ClusterRole", "cluster-admin"), json!({"kind": "User", "name": "eve"}));
    assert_eq!(code_of(post(&bot_client, &bindings, &given).await), 201, "whoever may bind it may");
}

fn code_of((code, _): (StatusCode, Value)) -> u16 {
    code.as_u16()
}

#[tokio::test]
async fn users_with_impersonate_may_act_as_others() {
    let server = server().await;
    let admin = admin(&server);
    post(&admin, "/api/v1/namespaces/default/serviceaccounts", &json!({"metadata": {"name": "bot"}})).await;
    let (_, answer) =
        post(&admin, "/api/v1/namespaces/default/serviceaccounts/bot/token", &json!({"spec": {}})).await;
    let mut config = server.admin_config();
    config.auth_info.token = Some(answer["status"]["token"].as_str().unwrap().to_owned().into());
    config.headers.push(("impersonate-user".parse().unwrap(), "alice".parse().unwrap()));
    let as_alice = client(config);
    let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let (code, refused) = post(&as_alice, path, &json!({})).await;
    assert_eq!(code, StatusCode::FORBIDDEN);
    assert_eq!(
        refused["message"],
        "users \"alice\" is forbidden: User \"system:serviceaccount:default:bot\" cannot impersonate resource \"users\" in \
         API group \"\" at the cluster scope"
    );
    let rules = json!([{"apiGroups": [""], "resources": ["users"], "resourceNames": ["alice"], "verbs": ["impersonate"]}]);
    create(&admin, "clusterroles", cluster_role("actor", rules)).await;
    create(&admin, "clusterrolebindings", binding("actor", ("ClusterRole", "actor"), bot())).await;
    let (_, me) = post(&as_alice, path, &json!({})).await;
    assert_eq!(me["status"]["userInfo"]["username"], "alice");
}

#[tokio::test]
async fn roles_are_served_like_other_resources() {
    let server = server().await;
    let admin = admin(&server);
    let (_, group) = get(&admin, RBAC).await;
    let kinds: Vec<&str> =
        group["resources"].as_array().unwrap().iter().map(|r| r["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["ClusterRoleBinding", "ClusterRole", "RoleBinding", "Role"]);
    create(&admin, "clusterrolebindings", binding("b", ("ClusterRole", "view"), bot())).await;
    let request = http::Request::get(format!("{RBAC}/clusterrolebindings/b"))
        .header("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
        .body(kube::client::Body::empty())
        .unwrap();
    let answer = admin.send(request).await.unwrap().into_body().collect_bytes().await.unwrap();
    let table: Value = serde_json::from_slice(&answer).unwrap();
    assert_eq!(table["rows"][0]["cells"][1], "ClusterRole/view");
    assert_eq!(table["rows"][0]["cells"][5], "default/bot");
    let (code, refused) = merge(
        &admin,
        &format!("{RBAC}/clusterrolebindings/b"),
        &json!({"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"}}),
    )
    .await;
    assert_eq!(code, StatusCode::UNPROCESSABLE_ENTITY);
    assert!(refused["message"].as_str().unwrap().ends_with("field is immutable"), "{refused}");
    for (path, object, wanted) in [
        (
            "clusterroles",
            cluster_role("x", json!([{"apiGroups": [""], "resources": ["pods"], "verbs": []}])),
            "ClusterRole.rbac.authorization.k8s.io \"x\" is invalid: rules[0].verbs: Required value",
        ),
        (
            "namespaces/default/roles",
            cluster_role("x", json!([{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}])),
            "Role.rbac.authorization.k8s.io \"x\" is invalid: rules[0].nonResourceURLs: Invalid value: [\"/metrics\"]: \
             namespaced rules cannot apply to non-resource URLs",
        ),
        (
            "clusterrolebindings",
            binding("x", ("Role", "view"), bot()),
            "ClusterRoleBinding.rbac.authorization.k8s.io \"x\" is invalid: roleRef.kind: Unsupported value: \"Role\": \
             supported values: \"ClusterRole\"",
        ),
    ] {
        let (code, refused) = post(&admin, &format!("{RBAC}/{path}"), &object).await;
        assert_eq!((code.as_u16(), &refused["message"]), (422, &json!(wanted)));
    }
}

/// A user with the rules of a role in the namespace `default`.
async fn user_with(server: &ApiServer, admin: &Client, user: &str, rules: Value) -> Client {
    create(admin, "namespaces/default/roles", json!({"metadata": {"name": user}, "rules": rules})).await;
    let subject = json!({"kind": "User", "name": user, "apiGroup": "rbac.authorization.k8s.io"});
    create(admin, "namespaces/default/rolebindings", binding(user, ("Role", user), subject)).await;
    acting_as(server, user, &[])
}

#[tokio::test]
async fn applying_a_new_object_needs_the_verb_create() {
    let server = server().await;
    let admin = admin(&server);
    let patcher = json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["patch"]}]);
    let patcher = user_with(&server, &admin, "patcher", patcher).await;
    let path = "/api/v1/namespaces/default/configmaps/a?fieldManager=m";
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}).to_string();
    let apply = |client: Client, map: String| async move {
        send(&client, Method::PATCH, path, "application/apply-patch+yaml", map).await.0
    };
    assert_eq!(apply(patcher.clone(), map.clone()).await, StatusCode::FORBIDDEN);
    assert_eq!(apply(admin.clone(), map.clone()).await, StatusCode::CREATED);
    assert_eq!(apply(patcher, map).await, StatusCode::OK);
}

#[tokio::test]
async fn permissions_for_objects_without_a_name_do_not_cover_all_names() {
    let server = server().await;
    let admin = admin(&server);
    let rules = json!([
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"], "resourceNames": [""]},
        {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles"], "verbs": ["create"]},
    ]);
    let user = user_with(&server, &admin, "nameless", rules).await;
    let roles = format!("{RBAC}/namespaces/default/roles");
    let role = |names: Value| {
        json!({"metadata": {"name": "more"}, "rules":
            [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"], "resourceNames": names}]})
    };
    assert_eq!(code(&user, Method::POST, &roles, role(json!([]))).await, 403);
    assert_eq!(code(&user, Method::POST, &roles, role(json!([""]))).await, 201);
}

#[tokio::test]
async fn a_role_in_a_namespace_may_grant_reading_it() {
    let server = server().await;
    let admin = admin(&server);
    let rules = json!([{"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get"]}]);
    let user = user_with(&server, &admin, "reader", rules).await;
    assert_eq!(get(&user, "/api/v1/namespaces/default").await.0, StatusCode::OK);
    assert_eq!(get(&user, "/api/v1/namespaces/kube-system").await.0, StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn approving_and_signing_need_a_permission_for_the_signer() {
    let server = server().await;
    let admin = admin(&server);
    let requests = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
    let spec =
        json!({"request": SIGNING_REQUEST, "signerName": "example.com/one", "usages": ["client auth"]});
    let (made, answer) = post(&admin, requests, &json!({"metadata": {"name": "r"}, "spec": spec})).await;
    assert_eq!(made, StatusCode::CREATED, "{answer}");
    let all = |resource: &str| json!({"apiGroups": ["certificates.k8s.io"], "resources": [resource], "verbs": ["*"]});
    let rules = json!([all("certificatesigningrequests/approval"), all("certificatesigningrequests/status")]);
    create(&admin, "clusterroles", cluster_role("approver", rules)).await;
    let subject = json!({"kind": "User", "name": "a", "apiGroup": "rbac.authorization.k8s.io"});
    create(&admin, "clusterrolebindings", binding("a", ("ClusterRole", "approver"), subject.clone())).await;
    let user = acting_as(&server, "a", &[]);
    let condition = json!({"type": "Approved", "status": "True", "reason": "r", "message": "m"});
    let approval = json!({"status": {"conditions": [condition]}});
    let certificate = json!({"status": {"certificate": SIGNING_REQUEST}});
    let (approve, status) = (format!("{requests}/r/approval"), format!("{requests}/r/status"));
    assert_eq!(merge(&user, &approve, &approval).await.0, StatusCode::FORBIDDEN);
    assert_eq!(merge(&user, &status, &certificate).await.0, StatusCode::FORBIDDEN);
    let failure = json!({"status": {"conditions": [{"type": "Failed", "status": "True"}]}});
    assert_eq!(merge(&user, &status, &failure).await.0, StatusCode::FORBIDDEN);
    let signer = json!([{"apiGroups": ["certificates.k8s.io"], "resources": ["signers"],
        "resourceNames": ["example.com/*"], "verbs": ["approve", "sign"]}]);
    create(&admin, "clusterroles", cluster_role("signer", signer)).await;
    create(&admin, "clusterrolebindings", binding("b", ("ClusterRole", "signer"), subject)).await;
    assert_eq!(merge(&user, &approve, &approval).await.0, StatusCode::OK);
    assert_eq!(merge(&user, &status, &certificate).await.0, StatusCode::OK);
}

#[tokio::test]
async fn a_status_update_approved_signing_requests() {
    let server = server().await;
    let admin = admin(&server);
    let requests = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
    let spec =
        json!({"request": SIGNING_REQUEST, "signerName": "example.com/one", "usages": ["client auth"]});
    post(&admin, requests, &json!({"metadata": {"name": "r"}, "spec": spec})).await;
    let (approve, status) = (format!("{requests}/r/approval"), format!("{requests}/r/status"));
    let with = |types: &[&str]| {
        let conditions: Value = types
            .iter()
            .map(|of| json!({"type": of, "status": "True", "reason": "r", "message": "m"}))
            .collect();
        json!({"status": {"conditions": conditions}})
    };
    let why = |(code, answer): (StatusCode, Value)| {
        assert_eq!(code, StatusCode::UNPROCESSABLE_ENTITY, "{answer}");
        let causes = answer["details"]["causes"].as_array().unwrap();
        causes
            .iter()
            .map(|cause| format!("{}: {}", cause["field"], cause["message"]).replace('"', ""))
            .collect::<Vec<_>>()
    };
    let added = "status.conditions: Forbidden: updates may not add a condition of type \\Approved\\";
    assert_eq!(why(merge(&admin, &status, &with(&["Approved"])).await), [added]);
    let both = with(&["Approved", "Denied"]);
    let exclusive = "status.conditions[1].type: Invalid value: \\Denied\\: Approved and Denied conditions are mutually exclusive";
    assert_eq!(why(merge(&admin, &approve, &both).await), [exclusive]);
    let twice = "status.conditions[1].type: Duplicate value: \\Approved\\";
    assert_eq!(why(merge(&admin, &approve, &with(&["Approved", "Approved"])).await), [twice]);
    assert_eq!(merge(&admin, &approve, &with(&["Approved"])).await.0, StatusCode::OK);
    let removed = "status.conditions: Forbidden: updates may not remove a condition of type \\Approved\\";
    for path in [&approve, &status] {
        assert_eq!(why(merge(&admin, path, &with(&[])).await), [removed]);
    }
    // Others are the signer's; an approval stays as it was.
    let mut failed = with(&["Approved", "Failed"]);
    failed["status"]["conditions"][0]["reason"] = "other".into();
    let (code, answer) = merge(&admin, &status, &failed).await;
    assert_eq!(code, StatusCode::OK, "{answer}");
    assert_eq!(answer["status"]["conditions"][0]["reason"], "r");
    assert_eq!(answer["status"]["conditions"][1]["type"], "Failed");
}

#[tokio::test]
async fn names_that_no_service_account_has_are_those_of_users() {
    let server = server().await;
    // The admin may be anybody: the groups of an account come with a name that an account can have.
    for (name, expected) in
        [("default:x", true), ("default:x:y", false), ("default:", false), ("a/b:x", false)]
    {
        let acting = acting_as(&server, &format!("system:serviceaccount:{name}"), &[]);
        let review = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
        let (_, answer) = post(&acting, review, &json!({})).await;
        let groups = answer["status"]["userInfo"]["groups"].to_string();
        assert_eq!(groups.contains("system:serviceaccounts"), expected, "{name}: {answer}");
    }
}

#[tokio::test]
async fn the_status_of_a_deployment_changes_no_labels() {
    let server = server().await;
    let admin = admin(&server);
    let path = "/apis/apps/v1/namespaces/default/deployments";
    let labels = json!({"a": "b"});
    let template =
        json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let spec = json!({"selector": {"matchLabels": labels}, "template": template});
    let made = post(&admin, path, &json!({"metadata": {"name": "d"}, "spec": spec})).await;
    assert_eq!(made.0, StatusCode::CREATED, "{}", made.1);
    let change = json!({"metadata": {"labels": {"x": "y"}, "annotations": {"x": "y"}}});
    let (_, changed) = merge(&admin, &format!("{path}/d/status"), &change).await;
    assert_eq!(
        (&changed["metadata"]["labels"]["x"], &changed["metadata"]["annotations"]["x"]),
        (&json!(null), &json!("y"))
    );
}

#[tokio::test]
async fn the_role_edit_allows_cron_jobs() {
    let server = server().await;
    let admin = admin(&server);
    create(&admin, "namespaces/default/rolebindings", binding("edit", ("ClusterRole", "edit"), bot())).await;
    let jobs = "/apis/batch/v1/namespaces/default/cronjobs";
    assert_eq!(get(&account(&server, "bot"), jobs).await.0, StatusCode::OK);
    let invalid = json!({"metadata": {"name": "c"}});
    assert_eq!(code(&account(&server, "bot"), Method::POST, jobs, invalid).await, 422);
}
