mod policies;
#[allow(dead_code, reason = "the tests over HTTP use the rest")]
mod responder;

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use serde_json::{Value, json};

use super::*;
use crate::request::{Reason, User};
use crate::strategy::fields::Causes;
use crate::strategy::webhook_check::check;
use responder::Responder;

fn hooks(webhooks: &[Value]) -> Vec<Hook> {
    Hook::of(&json!({"metadata": {"name": "c"}, "webhooks": webhooks}))
}

fn form(resource: (&'static str, &'static str, &'static str), kind: &'static str) -> ServedForm {
    ServedForm { resource, kind: (resource.0, resource.1, kind), conversion: None }
}

static USER: std::sync::OnceLock<User> = std::sync::OnceLock::new();

fn attributes() -> AdmissionAttributes<'static> {
    AdmissionAttributes {
        operation: Operation::Create,
        form: form(("", "v1", "pods"), "Pod"),
        equivalent: None,
        subresource: "",
        namespace: "default",
        name: "p",
        user: USER.get_or_init(User::admin),
        old_object: None,
        namespace_object: None,
        dry_run: false,
        deadline: Instant::now() + Duration::from_secs(60),
    }
}

fn pod() -> Value {
    json!({"metadata": {"name": "p", "labels": {"app": "x"}}, "spec": {"containers": [{"name": "c"}]}})
}

/// A response with a patch.
fn patched(operations: Value) -> Option<Value> {
    let patch = base64::engine::general_purpose::STANDARD.encode(operations.to_string());
    Some(json!({"allowed": true, "patchType": "JSONPatch", "patch": patch}))
}

async fn mutate(webhooks: &[Value]) -> Result<(Value, Vec<String>), Denied> {
    let mut warnings = Vec::new();
    let called = Webhooks::new(nowhere());
    let mutated = called.mutate(&hooks(webhooks), &attributes(), Some(pod()), &mut warnings).await?;
    Ok((mutated.map(|mutated| mutated.object).unwrap_or_default(), warnings))
}

async fn denied(webhook: Value) -> Denied {
    mutate(&[webhook]).await.expect_err("denied")
}

#[tokio::test]
async fn an_answer_of_many_small_values_took_forty_times_its_size() {
    let many = |n: usize| json!(vec![json!([]); n]);
    let annotation = many(300_000).to_string();
    let responder = Responder::start(move |name, _| match name {
        "more" => Some(json!({"allowed": true, "more": many(300_000)})),
        "patch" => patched(json!([{"op": "add", "path": "/spec/x", "value": many(300_000)}])),
        _ => patched(json!([{"op": "add", "path": "/metadata/annotations", "value": {"text": annotation}}])),
    })
    .await;
    for name in ["more", "patch"] {
        let message = denied(responder.webhook(name, json!({}))).await.message;
        assert!(message.ends_with("not JSON: it has more than 200000 values"), "{message}");
    }
    let (object, _) = mutate(&[responder.webhook("text", json!({}))]).await.expect("a text is one value");
    assert!(object["metadata"]["annotations"]["text"].is_string());
}

#[tokio::test]
async fn mutating_webhooks_run_in_sequence() {
    let responder = Responder::start(|name, request| match name {
        "first" => patched(json!([{"op": "add", "path": "/metadata/labels/first", "value": "1"},
                                  {"op": "add", "path": "/spec/priority", "value": 5}])),
        _ => {
            assert_eq!(request["object"]["metadata"]["labels"]["first"], "1", "it sees what the first did");
            Some(json!({"allowed": true, "warnings": ["careful"]}))
        }
    })
    .await;
    let webhooks = [responder.webhook("first", json!({})), responder.webhook("second", json!({}))];
    let (object, warnings) = mutate(&webhooks).await.expect("allowed");
    assert_eq!(object["spec"]["priority"], 5);
    assert_eq!(warnings, ["careful"]);
    let seen = responder.seen.lock().expect("unpoisoned")[0].clone();
    assert_eq!(seen["operation"], "CREATE");
    assert_eq!(seen["resource"], json!({"group": "", "version": "v1", "resource": "pods"}));
    assert_eq!(seen["userInfo"]["username"], "kubernetes-admin");
    assert_eq!(seen["oldObject"], Value::Null);
    assert_eq!(seen["namespace"], "default");
}

#[tokio::test]
async fn a_webhook_is_reinvoked_after_later_changes() {
    let responder = Responder::start(|name, request| match name {
        "late" => patched(json!([{"op": "add", "path": "/metadata/labels/late", "value": "1"}])),
        _ => {
            let late = request["object"]["metadata"]["labels"]["late"] == "1";
            let value = if late { "saw it" } else { "did not" };
            patched(json!([{"op": "add", "path": format!("/metadata/labels/{name}"), "value": value}]))
        }
    })
    .await;
    let again = json!({"reinvocationPolicy": "IfNeeded"});
    let webhooks = [
        responder.webhook("again", again.clone()),
        responder.webhook("once", json!({})),
        responder.webhook("late", again),
    ];
    let (object, _) = mutate(&webhooks).await.expect("allowed");
    assert_eq!(object["metadata"]["labels"]["again"], "saw it");
    assert_eq!(object["metadata"]["labels"]["once"], "did not");
    assert_eq!(responder.called(), ["again", "once", "late", "again"]);
}

#[tokio::test]
async fn an_old_webhook_gets_an_old_review_and_may_omit_uid_and_patch_type() {
    let responder = Responder::start(|_, _| {
        let mut response = patched(json!([{"op": "add", "path": "/spec/priority", "value": 5}]))?;
        (response["uid"], response["patchType"]) = ("".into(), Value::Null);
        Some(response)
    })
    .await;
    let versions = json!({"admissionReviewVersions": ["v1alpha1", "v1beta1", "v1"]});
    let (object, _) = mutate(&[responder.webhook("old", versions)]).await.expect("allowed");
    assert_eq!(object["spec"]["priority"], 5);
    let seen = responder.seen.lock().expect("unpoisoned")[0].clone();
    assert_eq!(seen["apiVersion"], "admission.k8s.io/v1beta1");
}

#[tokio::test]
async fn denial_messages_match_kubernetes() {
    let responder = Responder::start(|name, _| match name {
        "message" => {
            Some(json!({"allowed": false, "status": {"message": "no", "code": 403, "reason": "Forbidden"}}))
        }
        "reason" => Some(json!({"allowed": false, "status": {"reason": "Because", "code": 200}})),
        _ => Some(json!({"allowed": false})),
    })
    .await;
    for (name, code, message) in [
        ("message", 403, "admission webhook \"message\" denied the request: no"),
        ("reason", 400, "admission webhook \"reason\" denied the request: Because"),
        ("silent", 400, "admission webhook \"silent\" denied the request without explanation"),
    ] {
        let found = denied(responder.webhook(name, json!({}))).await;
        assert_eq!((found.code, found.message.as_str()), (code, message));
    }
    let mut warnings = Vec::new();
    let all = hooks(&[responder.webhook("message", json!({})), responder.webhook("silent", json!({}))]);
    let found = Webhooks::new(nowhere()).validate(&all, &attributes(), Some(&pod()), &mut warnings).await;
    assert_eq!(found.map_err(|denied| denied.code), Err(403), "the first of the configuration is reported");
}

#[tokio::test]
async fn the_failure_policy_applies_to_failed_calls() {
    let responder = Responder::start(|name, _| match name {
        "hangs" => None,
        "other" => Some(json!({"allowed": true, "uid": "another"})),
        _ => Some(json!({"allowed": true, "patchType": "JSONPatch"})),
    })
    .await;
    let gone = json!({"url": "https://127.0.0.1:1/gone"});
    let untrusted = {
        let mut client = responder.webhook("untrusted", json!({}))["clientConfig"].clone();
        let other = Responder::start(|_, _| None).await;
        client["caBundle"] = other.webhook("x", json!({}))["clientConfig"]["caBundle"].clone();
        client
    };
    for (name, more, why) in [
        ("hangs", json!({"timeoutSeconds": 1}), "context deadline exceeded"),
        ("other", json!({}), "expected response.uid="),
        ("half", json!({}), "but not response.patch"),
        (
            "gone",
            json!({"clientConfig": gone}),
            "failed to call webhook: Post \"https://127.0.0.1:1/gone?timeout=10s\"",
        ),
        ("untrusted", json!({"clientConfig": untrusted}), "failed to call webhook"),
        ("old", json!({"admissionReviewVersions": ["v1alpha1"]}), "no supported version"),
    ] {
        let found = denied(responder.webhook(name, more.clone())).await;
        assert_eq!(found.code, 500, "{name}");
        let start = format!("Internal error occurred: failed calling webhook \"{name}\": ");
        assert!(found.message.starts_with(&start) && found.message.contains(why), "{}", found.message);
        let mut more = more;
        more["failurePolicy"] = "Ignore".into();
        let (object, _) = mutate(&[responder.webhook(name, more)]).await.expect("ignored");
        assert_eq!(object, pod(), "{name}");
    }
}

#[tokio::test]
async fn an_invalid_patch_is_an_error_under_every_failure_policy() {
    let responder = Responder::start(|name, _| match name {
        "path" => patched(json!([{"op": "remove", "path": "/not/there"}])),
        _ => patched(json!([{"op": "add", "path": "/spec/containers", "value": 1}])),
    })
    .await;
    for name in ["path", "type"] {
        let found = denied(responder.webhook(name, json!({"failurePolicy": "Ignore"}))).await;
        assert_eq!(found.code, 500, "{}", found.message);
    }
}

#[tokio::test]
async fn webhooks_were_called_one_after_the_other_beyond_the_time_of_the_request() {
    let responder = Responder::start(|_, _| None).await;
    let names: Vec<_> = (0..20).map(|i| format!("w{i}")).collect();
    let webhooks: Vec<_> = names.iter().map(|name| responder.webhook(name, json!({}))).collect();
    let attributes = AdmissionAttributes { deadline: Instant::now(), ..attributes() };
    for policy in ["Fail", "Ignore"] {
        let webhooks = webhooks.iter().cloned().map(|mut webhook| {
            webhook["failurePolicy"] = policy.into();
            webhook
        });
        let hooks = hooks(&webhooks.collect::<Vec<_>>());
        let called = Webhooks::new(nowhere());
        let denied = called.mutate(&hooks, &attributes, Some(pod()), &mut Vec::new()).await.unwrap_err();
        assert!(denied.message.contains("context deadline exceeded"), "{policy}: {denied}");
    }
}

/// Finds no service.
fn nowhere() -> Resolver {
    Arc::new(|_, name, _| Err(format!("no endpoints available for service {name:?}")))
}

#[tokio::test]
async fn the_resolver_finds_services() {
    let responder = Responder::start(|_, _| Some(json!({"allowed": true, "warnings": ["reached"]}))).await;
    let webhooks = hooks(&[responder.service("svc")]);
    let mut warnings = Vec::new();
    let unresolved =
        Webhooks::new(nowhere()).validate(&webhooks, &attributes(), Some(&pod()), &mut warnings).await;
    assert_eq!(
        unresolved.map_err(|denied| denied.message),
        Err("Internal error occurred: failed calling webhook \"svc\": failed to call webhook: Post \
             \"https://hook.default.svc:443/svc?timeout=10s\": no endpoints available for service \"hook\""
            .to_owned())
    );
    let address = responder.address();
    let resolver: Resolver = Arc::new(move |namespace, name, port| {
        let known = (namespace, name, port) == ("default", "hook", 443);
        known.then(|| address.to_string()).ok_or_else(String::new)
    });
    let called = Webhooks::new(resolver);
    called.validate(&webhooks, &attributes(), Some(&pod()), &mut warnings).await.expect("allowed");
    assert_eq!(warnings, ["reached"]);
}

#[tokio::test]
async fn a_dry_run_reaches_only_webhooks_without_side_effects() {
    let responder = Responder::start(|_, _| Some(json!({"allowed": true}))).await;
    let attributes = AdmissionAttributes { dry_run: true, ..attributes() };
    let called = Webhooks::new(nowhere());
    let mut warnings = Vec::new();
    let safe = hooks(&[responder.webhook("safe", json!({"sideEffects": "NoneOnDryRun"}))]);
    called.validate(&safe, &attributes, Some(&pod()), &mut warnings).await.expect("allowed");
    let unsafe_one = hooks(&[responder.webhook("some", json!({"sideEffects": "Some"}))]);
    let found = called.validate(&unsafe_one, &attributes, Some(&pod()), &mut warnings).await;
    assert_eq!(
        found.map_err(|denied| denied.message),
        Err("admission webhook \"some\" does not support dry run".to_owned())
    );
    assert_eq!(responder.called(), ["safe"]);
}

#[test]
fn webhooks_receive_requests_that_match_their_rules() {
    let rule = |operations: &[&str], groups: &[&str], resources: &[&str], scope: &str| {
        json!({"name": "w", "clientConfig": {"url": "https://x/"}, "rules": [{
            "operations": operations, "apiGroups": groups, "apiVersions": ["*"], "resources": resources,
            "scope": scope}]})
    };
    let status = AdmissionAttributes { operation: Operation::Update, subresource: "status", ..attributes() };
    let node = AdmissionAttributes { form: form(("", "v1", "nodes"), "Node"), namespace: "", ..attributes() };
    let cases = [
        (rule(&["CREATE"], &[""], &["pods"], "*"), attributes(), true),
        (rule(&["UPDATE"], &[""], &["pods"], "*"), attributes(), false),
        (rule(&["*"], &["apps"], &["*"], "*"), attributes(), false),
        (rule(&["*"], &["*"], &["*/*"], "*"), attributes(), true),
        (rule(&["*"], &["*"], &["*"], "Namespaced"), attributes(), true),
        (rule(&["*"], &["*"], &["*"], "Cluster"), attributes(), false),
        (rule(&["*"], &["*"], &["*"], "Cluster"), node, true),
        (rule(&["*"], &["*"], &["pods"], "*"), status, false),
        (rule(&["*"], &["*"], &["*"], "*"), status, false),
        (rule(&["*"], &["*"], &["pods/*"], "*"), status, true),
        (rule(&["*"], &["*"], &["*/status"], "*"), status, true),
        (rule(&["*"], &["*"], &["pods/binding"], "*"), status, false),
    ];
    for (webhook, attributes, expected) in cases {
        assert_eq!(
            hooks(std::slice::from_ref(&webhook))[0].criteria.matches(&attributes, Some(&pod())).is_some(),
            expected,
            "{webhook}"
        );
    }
}

#[test]
fn selectors_match_objects_and_namespaces() {
    let with = |field: &str, selector: Value| {
        let mut webhook = json!({"name": "w", "clientConfig": {"url": "https://x/"}, "rules": [{
            "operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}]});
        webhook[field] = selector;
        hooks(&[webhook]).remove(0)
    };
    let namespace = json!({"metadata": {"labels": {"team": "a"}}});
    let in_team = AdmissionAttributes { namespace_object: Some(&namespace), ..attributes() };
    let of_team = || json!({"matchLabels": {"team": "a"}});
    assert!(with("namespaceSelector", of_team()).criteria.matches(&in_team, Some(&pod())).is_some());
    assert!(with("namespaceSelector", of_team()).criteria.matches(&attributes(), Some(&pod())).is_none());
    let not_in = json!({"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["a"]}]});
    assert!(with("namespaceSelector", not_in).criteria.matches(&in_team, Some(&pod())).is_none());
    let cluster = AdmissionAttributes { namespace: "", ..attributes() };
    assert!(
        with("namespaceSelector", of_team()).criteria.matches(&cluster, Some(&pod())).is_some(),
        "nodes are in no namespace"
    );
    let namespace = AdmissionAttributes {
        form: form(("", "v1", "namespaces"), "Namespace"),
        name: "n",
        namespace: "",
        ..attributes()
    };
    let object = json!({"metadata": {"name": "n", "labels": {"team": "a"}}});
    assert!(with("namespaceSelector", of_team()).criteria.matches(&namespace, Some(&object)).is_some());
    assert!(
        with("namespaceSelector", of_team())
            .criteria
            .matches(&namespace, Some(&json!({"metadata": {}})))
            .is_none()
    );

    let of_app = || json!({"matchLabels": {"app": "x"}});
    let old = pod();
    let updated = AdmissionAttributes { old_object: Some(&old), ..attributes() };
    let without = json!({"metadata": {}});
    assert!(with("objectSelector", of_app()).criteria.matches(&attributes(), Some(&pod())).is_some());
    assert!(with("objectSelector", of_app()).criteria.matches(&attributes(), Some(&without)).is_none());
    assert!(
        with("objectSelector", of_app()).criteria.matches(&updated, Some(&without)).is_some(),
        "one of both is enough"
    );
}

fn wrong_fields(webhook: &Value) -> Vec<String> {
    let mut causes = Causes::default();
    check("w", webhook, &mut causes);
    causes.0.into_iter().map(|cause| cause.field).collect()
}

#[test]
fn invalid_webhook_configurations_are_refused() {
    let fine = json!({"name": "a.example.com", "sideEffects": "None", "failurePolicy": "Fail", "matchPolicy": "Exact",
        "timeoutSeconds": 5, "clientConfig": {"url": "https://host/path"}, "admissionReviewVersions": ["v1"],
        "rules": [{"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}]});
    assert_eq!(wrong_fields(&fine), [""; 0]);
    for (field, value, wrong) in [
        ("/clientConfig/url", json!("http://host"), "w.clientConfig.url"),
        ("/clientConfig/url", json!("https://host?x=1"), "w.clientConfig.url"),
        ("/clientConfig/url", json!("https://user:word@host"), "w.clientConfig.url"),
        ("/clientConfig/url", json!("https://host/path#part"), "w.clientConfig.url"),
        ("/clientConfig/caBundle", json!("bm8gcGVt"), "w.clientConfig.caBundle"),
        ("/clientConfig/caBundle", json!("%"), "w.clientConfig.caBundle"),
        ("/admissionReviewVersions", json!(["v1alpha1"]), "w.admissionReviewVersions"),
        (
            "/objectSelector",
            json!({"matchExpressions": [{"key": "a", "operator": "Near"}]}),
            "w.objectSelector.matchExpressions[0].operator",
        ),
        ("/rules/0/operations", json!(["READ"]), "w.rules[0].operations[0]"),
        ("/rules/0/resources", json!([]), "w.rules[0].resources"),
        ("/rules/0/scope", json!("Galaxy"), "w.rules[0].scope"),
    ] {
        let mut webhook = fine.clone();
        let (parent, name) = field.rsplit_once('/').expect("a path");
        webhook.pointer_mut(parent).expect("a parent")[name] = value;
        assert_eq!(wrong_fields(&webhook), [wrong], "{webhook}");
    }
}

#[tokio::test]
async fn match_conditions_decide_whether_a_webhook_is_called() {
    let responder = Responder::start(|_, _| Some(json!({"allowed": false}))).await;
    let with = |policy: &str, expressions: &[&str]| {
        let named = expressions.iter().enumerate();
        let conditions: Vec<Value> =
            named.map(|(i, e)| json!({"name": format!("c{i}"), "expression": e})).collect();
        responder.webhook("w", json!({"failurePolicy": policy, "matchConditions": conditions}))
    };
    let is_x = "object.metadata.labels.app == 'x'";
    let by_admin = "request.operation == 'CREATE' && request.userInfo.username == 'kubernetes-admin' && oldObject == null";
    let broken = "object.spec.none.deeper == 1";
    assert_eq!(denied(with("Fail", &[is_x, by_admin])).await.code, 400, "called");
    mutate(&[with("Fail", &[is_x, "object.metadata.name != 'p'"])]).await.expect("not called");
    mutate(&[with("Fail", &[broken, "false"])]).await.expect("one is false");
    mutate(&[with("Ignore", &[broken])]).await.expect("not called");
    let error = denied(with("Fail", &[broken])).await;
    assert_eq!((error.code, error.reason), (403, Reason::Forbidden));
    let message = "pods \"p\" is forbidden: expression 'object.spec.none.deeper == 1' resulted in error: no such key: none";
    assert_eq!(error.message, message);
    // It was stored before the types of results were checked.
    let error = denied(with("Fail", &["object.metadata.name"])).await;
    assert!(error.message.contains("must evaluate to bool"), "{}", error.message);
    for (condition, field) in [
        (json!({"name": "a", "expression": "authorizer.path('/x').check('get').allowed()"}), "expression"),
        (json!({"name": "a", "expression": "objekt == 1"}), "expression"),
        (json!({"name": "not a name", "expression": "true"}), "name"),
    ] {
        let mut webhook = with("Fail", &[]);
        webhook["matchConditions"] = json!([condition]);
        let found = wrong_fields(&webhook);
        assert!(found.contains(&format!("w.matchConditions[0].{field}")), "{condition}: {found:?}");
    }
}
