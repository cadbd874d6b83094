//! Identities: nodes and what they may do, impersonation, service accounts, access reviews.

use http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::support::*;

#[tokio::test]
async fn a_node_may_change_only_itself() {
    let server = server().await;
    let (admin, node) = (admin(&server), node(&server, "n1"));
    let own = json!({"metadata": {"name": "n1", "labels": {"kubernetes.io/hostname": "n1", "color": "red"}},
        "status": {"capacity": {"cpu": "4"}}});
    let (code, created) = post(&node, "/api/v1/nodes", &own).await;
    assert_eq!(
        (code, &created["status"]["capacity"]["cpu"]),
        (StatusCode::CREATED, &json!("4")),
        "{created}"
    );
    post(&admin, "/api/v1/nodes", &json!({"metadata": {"name": "n2"}})).await;

    let (code, refused) =
        merge(&node, "/api/v1/nodes/n2/status", &json!({"status": {"capacity": {"cpu": "1"}}})).await;
    assert_eq!(code, StatusCode::FORBIDDEN);
    assert_eq!(
        refused["message"],
        "nodes \"n2\" is forbidden: node \"n1\" is not allowed to modify node \"n2\""
    );
    let restricted = json!({"metadata": {"labels": {"node-restriction.kubernetes.io/x": "y"}}});
    let (code, refused) = merge(&node, "/api/v1/nodes/n1", &restricted).await;
    assert_eq!(code, StatusCode::FORBIDDEN);
    assert_eq!(
        refused["message"],
        "nodes \"n1\" is forbidden: is not allowed to modify labels: node-restriction.kubernetes.io/x"
    );
    for (patch, wanted) in [
        (json!({"metadata": {"labels": {"color": "blue"}}}), StatusCode::OK),
        (json!({"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}}), StatusCode::FORBIDDEN),
        (json!({"metadata": {"labels": {"node-role.kubernetes.io/master": ""}}}), StatusCode::FORBIDDEN),
    ] {
        assert_eq!(merge(&node, "/api/v1/nodes/n1", &patch).await.0, wanted, "{patch}");
    }
    let (code, refused) = post(&node, "/api/v1/nodes", &json!({"metadata": {"name": "n3"}})).await;
    assert_eq!(code, StatusCode::FORBIDDEN, "{refused}");

    let leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
    let lease = |name: &str| json!({"metadata": {"name": name}, "spec": {"holderIdentity": name}});
    assert_eq!(post(&node, leases, &lease("n1")).await.0, StatusCode::CREATED);
    assert_eq!(post(&node, leases, &lease("n2")).await.0, StatusCode::FORBIDDEN);
    let elsewhere = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
    assert_eq!(post(&node, elsewhere, &lease("n1")).await.0, StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn a_node_may_report_on_its_own_pods_only() {
    let server = server().await;
    let (admin, node) = (admin(&server), node(&server, "n1"));
    for (name, place) in [("mine", "n1"), ("other", "n2")] {
        post(&admin, PODS, &pod(name)).await;
        bind(&admin, name, place).await;
    }
    let running = json!({"status": {"phase": "Running"}});
    assert_eq!(merge(&node, &format!("{PODS}/mine/status"), &running).await.0, StatusCode::OK);
    let (code, refused) = merge(&node, &format!("{PODS}/other/status"), &running).await;
    assert_eq!(code, StatusCode::FORBIDDEN);
    assert_eq!(
        refused["message"],
        "pods \"other\" is forbidden: node \"n1\" can only update pod status for pods with spec.nodeName set to itself"
    );
    let (code, refused) =
        merge(&node, &format!("{PODS}/mine"), &json!({"metadata": {"labels": {"a": "b"}}})).await;
    assert_eq!(code, StatusCode::FORBIDDEN);
    assert_eq!(
        refused["message"],
        "pods \"mine\" is forbidden: User \"system:node:n1\" cannot patch resource \"pods\" in API group \"\" in the \
         namespace \"default\""
    );
    let at_once = json!({"gracePeriodSeconds": 0});
    assert_eq!(delete(&node, &format!("{PODS}/other"), &at_once).await.0, StatusCode::FORBIDDEN);
    assert_eq!(delete(&node, &format!("{PODS}/mine"), &at_once).await.0, StatusCode::OK);
    assert_eq!(bind(&node, "other", "n1").await.0, StatusCode::FORBIDDEN);
    assert_eq!(post(&node, PODS, &pod("new")).await.0, StatusCode::FORBIDDEN);
    let mut mirror = pod("mirror");
    mirror["metadata"]["annotations"] = json!({"kubernetes.io/config.mirror": "x"});
    mirror["spec"]["nodeName"] = json!("n1");
    let (code, refused) = post(&node, PODS, &mirror).await;
    assert_eq!(code, StatusCode::FORBIDDEN, "{refused}");
    let (_, n1) = post(&node, "/api/v1/nodes", &json!({"metadata": {"name": "n1"}})).await;
    mirror["metadata"]["ownerReferences"] = json!([{"apiVersion": "v1", "kind": "Node", "name": "n1",
        "uid": n1["metadata"]["uid"], "controller": true}]);
    let (code, created) = post(&node, PODS, &mirror).await;
    assert_eq!(code, StatusCode::CREATED, "{created}");
}

#[tokio::test]
async fn the_admin_may_act_as_others() {
    let server = server().await;
    let as_node = |config: kube::Config, user: &str, groups: &[&str]| {
        let mut config = config;
        config.headers.push(("impersonate-user".parse().unwrap(), user.parse().unwrap()));
        for group in groups {
            config.headers.push(("impersonate-group".parse().unwrap(), group.parse().unwrap()));
        }
        client(config)
    };
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let client = as_node(server.admin_config(), "system:node:n7", &["system:nodes"]);
    let (_, me) = post(&client, path, &review).await;
    assert_eq!(me["status"]["userInfo"]["username"], "system:node:n7");
    let (code, _) = post(&client, "/api/v1/nodes", &json!({"metadata": {"name": "n8"}})).await;
    assert_eq!(code, StatusCode::FORBIDDEN);
    let (code, _) = post(&client, "/api/v1/nodes", &json!({"metadata": {"name": "n7"}})).await;
    assert_eq!(code, StatusCode::CREATED);
    let nobody = as_node(server.admin_config(), "alice", &[]);
    assert_eq!(get(&nobody, PODS).await.0, StatusCode::FORBIDDEN);
    assert_eq!(get(&nobody, "/apis").await.0, StatusCode::OK);
    let thief = as_node(server.node_config("n1"), "kubernetes-admin", &["system:masters"]);
    assert_eq!(get(&thief, PODS).await.0, StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn access_reviews_use_the_same_rules() {
    let server = server().await;
    let (admin, node) = (admin(&server), node(&server, "n1"));
    let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let review = |verb: &str, resource: &str| {
        json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": {"verb": verb, "resource": resource, "namespace": "default"}}})
    };
    for (client, verb, resource, wanted) in
        [(&admin, "delete", "nodes", true), (&node, "create", "pods", true), (&node, "update", "pods", false)]
    {
        let (code, answer) = post(client, path, &review(verb, resource)).await;
        assert_eq!((code, &answer["status"]["allowed"]), (StatusCode::CREATED, &json!(wanted)), "{answer}");
    }
    let other = json!({"spec": {"user": "system:node:n9", "groups": ["system:nodes"],
        "resourceAttributes": {"verb": "list", "resource": "services"}}});
    let (_, answer) = post(&admin, "/apis/authorization.k8s.io/v1/subjectaccessreviews", &other).await;
    assert_eq!(answer["status"]["allowed"], true);
    let (_, rules) = post(
        &admin,
        "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews",
        &json!({"spec": {"namespace": "default"}}),
    )
    .await;
    assert_eq!(rules["status"]["resourceRules"][0]["verbs"], json!(["*"]));
    let (code, _) = post(&admin, path, &json!({"spec": {}})).await;
    assert_eq!(code, StatusCode::UNPROCESSABLE_ENTITY);
}

#[tokio::test]
async fn service_account_tokens_are_valid_while_the_account_exists() {
    let server = server().await;
    let admin = admin(&server);
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    post(&admin, accounts, &json!({"metadata": {"name": "bot"}})).await;
    let path = format!("{accounts}/bot/token");
    let (code, answer) = post(&admin, &path, &json!({"spec": {"expirationSeconds": 700}})).await;
    assert_eq!(code, StatusCode::CREATED, "{answer}");
    let token = answer["status"]["token"].as_str().unwrap().to_owned();
    let mut config = server.admin_config();
    config.auth_info.token = Some(token.clone().into());
    let bot = client(config);
    let (code, refused) = get(&bot, PODS).await;
    assert_eq!(code, StatusCode::FORBIDDEN);
    assert!(refused["message"].as_str().unwrap().contains("\"system:serviceaccount:default:bot\""));
    let review = json!({"spec": {"token": &token}});
    let reviews = "/apis/authentication.k8s.io/v1/tokenreviews";
    let (_, answer) = post(&admin, reviews, &review).await;
    assert_eq!(answer["status"]["user"]["username"], "system:serviceaccount:default:bot");
    assert_eq!(answer["spec"]["token"], token, "the answer lost what was asked");
    let (code, _) = call(&admin, Method::DELETE, &format!("{accounts}/bot"), &Value::Null).await;
    assert_eq!(code, StatusCode::OK);
    assert_eq!(get(&bot, PODS).await.0, StatusCode::UNAUTHORIZED);
    let (code, _) =
        post(&admin, &format!("{accounts}/default/token"), &json!({"spec": {"expirationSeconds": 5}})).await;
    assert_eq!(code, StatusCode::UNPROCESSABLE_ENTITY);
}

/// A client with a token of the account `default`, and the token.
async fn with_token(server: &berth_apiserver::ApiServer, spec: Value) -> (kube::Client, String) {
    let path = "/api/v1/namespaces/default/serviceaccounts/default/token";
    let (code, answer) = post(&admin(server), path, &json!({"spec": spec})).await;
    assert_eq!(code, StatusCode::CREATED, "{answer}");
    let token = answer["status"]["token"].as_str().unwrap().to_owned();
    let mut config = server.admin_config();
    config.auth_info.token = Some(token.clone().into());
    (client(config), token)
}

#[tokio::test]
async fn a_token_is_valid_for_its_audiences_only() {
    let server = server().await;
    let admin = admin(&server);
    let (_, plain) = with_token(&server, json!({})).await;
    let (vault_client, vault) = with_token(&server, json!({"audiences": ["vault", "other"]})).await;
    assert_eq!(get(&vault_client, "/api").await.0, StatusCode::UNAUTHORIZED);
    let api = "https://kubernetes.default.svc.cluster.local";
    for (token, audiences, wanted) in [
        (&plain, vec![], Some(vec![api])),
        (&plain, vec!["vault"], None),
        (&vault, vec![], None),
        (&vault, vec!["x", "vault"], Some(vec!["vault"])),
        (&server.node_token("n"), vec![api], Some(vec![api])),
        (&server.node_token("n"), vec!["vault"], None),
    ] {
        let review = json!({"spec": {"token": token, "audiences": audiences}});
        let (_, answer) = post(&admin, "/apis/authentication.k8s.io/v1/tokenreviews", &review).await;
        let status = &answer["status"];
        assert_eq!(status["authenticated"] == true, wanted.is_some(), "{audiences:?} {status}");
        assert_eq!(status["audiences"], json!(wanted), "{status}");
    }
}

#[tokio::test]
async fn a_token_ends_with_the_object_that_it_is_bound_to() {
    let server = server().await;
    let admin = admin(&server);
    post(&admin, "/api/v1/nodes", &json!({"metadata": {"name": "n"}})).await;
    for (kind, path, object) in [
        ("Pod", PODS, pod("b")),
        ("Secret", "/api/v1/namespaces/default/secrets", json!({"metadata": {"name": "b"}})),
        ("Node", "/api/v1/nodes", json!({"metadata": {"name": "b"}})),
    ] {
        post(&admin, path, &object).await;
        if kind == "Pod" {
            bind(&admin, "b", "n").await;
        }
        let reference = json!({"apiVersion": "v1", "kind": kind, "name": "b"});
        let (bot, _) = with_token(&server, json!({"boundObjectRef": reference})).await;
        let reviews = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
        let (code, me) = post(&bot, reviews, &json!({})).await;
        assert_eq!(code, StatusCode::CREATED, "{me}");
        let extra = &me["status"]["userInfo"]["extra"];
        let node = &extra["authentication.kubernetes.io/node-name"];
        assert_eq!(
            *node,
            json!(match kind {
                "Pod" => Some(["n"]),
                "Node" => Some(["b"]),
                _ => None,
            }),
            "{me}"
        );
        let path = format!("{path}/b");
        delete(&admin, &path, &json!({"gracePeriodSeconds": 0})).await;
        assert_eq!(post(&bot, reviews, &json!({})).await.0, StatusCode::UNAUTHORIZED, "{kind}");
        // Another object of the same name is not the same.
        post(&admin, path.strip_suffix("/b").unwrap(), &object).await;
        assert_eq!(post(&bot, reviews, &json!({})).await.0, StatusCode::UNAUTHORIZED, "{kind}");
    }
    let token = "/api/v1/namespaces/default/serviceaccounts/default/token";
    for (reference, wanted) in [
        (json!({"apiVersion": "v1", "kind": "Pod", "name": "absent"}), StatusCode::NOT_FOUND),
        (json!({"apiVersion": "v1", "kind": "Pod", "name": "b", "uid": "x"}), StatusCode::CONFLICT),
        (json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "b"}), StatusCode::BAD_REQUEST),
    ] {
        let (code, answer) = post(&admin, token, &json!({"spec": {"boundObjectRef": reference}})).await;
        assert_eq!(code, wanted, "{answer}");
    }
}

#[tokio::test]
async fn uid_and_extra_are_impersonated_and_authorized() {
    let server = server().await;
    let admin = admin(&server);
    let role = json!({"metadata": {"name": "impersonator"}, "rules": [
        {"apiGroups": [""], "resources": ["users"], "verbs": ["impersonate"], "resourceNames": ["alice"]},
        {"apiGroups": ["authentication.k8s.io"], "resources": ["uids"], "verbs": ["impersonate"], "resourceNames": ["7"]},
        {"apiGroups": ["authentication.k8s.io"], "resources": ["userextras/scopes"], "verbs": ["impersonate"],
            "resourceNames": ["view"]}]});
    let binding = json!({"metadata": {"name": "impersonator"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "impersonator"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "system:node:n"}]});
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    assert_eq!(post(&admin, &format!("{rbac}/clusterroles"), &role).await.0, StatusCode::CREATED);
    assert_eq!(post(&admin, &format!("{rbac}/clusterrolebindings"), &binding).await.0, StatusCode::CREATED);
    let me = async |headers: &[(&str, &str)]| {
        let mut config = server.node_config("n");
        for (name, value) in headers {
            config.headers.push((name.parse().unwrap(), value.parse().unwrap()));
        }
        post(&client(config), "/apis/authentication.k8s.io/v1/selfsubjectreviews", &json!({})).await
    };
    let alice = ("impersonate-user", "alice");
    let (code, answer) = me(&[alice, ("impersonate-uid", "7"), ("impersonate-extra-Scopes", "view")]).await;
    assert_eq!(code, StatusCode::CREATED, "{answer}");
    let wanted = json!({"username": "alice", "uid": "7", "groups": ["system:authenticated"],
        "extra": {"scopes": ["view"]}});
    assert_eq!(answer["status"]["userInfo"], wanted);
    for (headers, wanted) in [
        (&[alice, ("impersonate-uid", "8")][..], "uids.authentication.k8s.io \"8\" is forbidden"),
        (&[alice, ("impersonate-extra-scopes", "edit")], "cannot impersonate resource \"userextras/scopes\""),
        (&[alice, ("impersonate-extra-a%2Fb", "view")], "cannot impersonate resource \"userextras/a/b\""),
        (&[alice, ("impersonate-group", "system:masters")], "groups \"system:masters\" is forbidden"),
        (&[("impersonate-uid", "7")], "without impersonating a user"),
        (&[("impersonate-extra-scopes", "view")], "without impersonating a user"),
    ] {
        let (code, answer) = me(headers).await;
        assert!(code.is_client_error() && answer["message"].as_str().unwrap().contains(wanted), "{answer}");
    }
}
