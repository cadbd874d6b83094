//! Placement policies: validation, and the rules that new pods get.

use std::collections::HashMap;
use std::time::Instant;

use berth_admission::{AdmissionController, Answer, Endpoint, Nothing, Policy, ReviewError, review};
use berth_api::object::{Shared, StringMap};
use berth_input::policy::{PlacementPolicy, PolicySet};
use serde_json::{Value, json};

use crate::world::{creation, one_pod, policy, request};

fn admission(policy: Policy, policies: &[Value], namespaces: &[&str]) -> std::sync::Arc<AdmissionController> {
    let admission = AdmissionController::stateless(policy);
    let namespaces: HashMap<_, _> = namespaces.iter().map(|n| ((*n).to_owned(), Shared::default())).collect();
    let policies = policies.iter().map(|policy| PlacementPolicy::read(policy).unwrap());
    admission.set_placement_policies(PolicySet::new(policies, namespaces));
    admission
}

fn gpu(spec: Value) -> Value {
    let mut policy = json!({"kind": "ClusterPlacementPolicy", "metadata": {"name": "gpu"},
        "spec": {"tolerations": [{"key": "gpu", "operator": "Exists"}]}});
    for (name, value) in spec.as_object().unwrap() {
        policy["spec"][name] = value.clone();
    }
    policy
}

async fn create(admission: &AdmissionController, pod: &str) -> Result<Answer, ReviewError> {
    admission.review(Endpoint::MutatePods, &creation(&one_pod(pod))).await
}

fn patched(answer: &Answer, pod: &str) -> Value {
    let mut value = serde_json::to_value(one_pod(pod)).unwrap();
    let patch: json_patch::Patch = serde_json::from_value(answer.patch.clone().into()).unwrap();
    json_patch::patch(&mut value, &patch).unwrap();
    value
}

#[tokio::test]
async fn new_pods_get_the_rules() {
    let pod = "pod team/web app=web";
    let webhook = admission(Policy::default(), &[gpu(json!({}))], &[]);
    let answer = create(&webhook, pod).await.unwrap();
    let after = patched(&answer, pod);
    assert_eq!(after["spec"]["tolerations"], json!([{"key": "gpu", "operator": "Exists"}]));
    assert_eq!(after["metadata"]["annotations"]["scheduling.berth.dev/placement-policies"], "gpu");
    assert!(answer.warnings.is_empty());

    let dry_run = admission(Policy::default(), &[gpu(json!({"dryRun": true}))], &[]);
    let answer = create(&dry_run, pod).await.unwrap();
    let warning = "ClusterPlacementPolicy gpu: spec.tolerations[0]: dry run: would be added";
    assert_eq!((answer.patch, answer.warnings), (vec![], vec![warning.to_owned()]));
}

#[tokio::test]
async fn label_keys_of_added_terms_are_merged() {
    let term = json!({"topologyKey": "zone", "labelSelector": {}, "matchLabelKeys": ["app"]});
    let affinity = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}});
    let pod = "pod team/web app=web";
    let webhook = admission(Policy::default(), &[gpu(json!({"affinity": affinity}))], &[]);
    let after = patched(&create(&webhook, pod).await.unwrap(), pod);
    let term =
        &after["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][0];
    let app = json!([{"key": "app", "operator": "In", "values": ["web"]}]);
    assert_eq!((&term["labelSelector"]["matchExpressions"], term.get("matchLabelKeys")), (&app, None));
}

#[tokio::test]
async fn pods_get_limits_of_anti_affinity() {
    let term = json!({"topologyKey": "rack", "labelSelector": {"matchLabels": {"app": "web"}}, "limit": 3});
    let affinity = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}});
    let pod = "pod team/web app=web";
    let webhook = admission(Policy::default(), &[gpu(json!({"extendedAffinity": affinity}))], &[]);
    let after = patched(&create(&webhook, pod).await.unwrap(), pod);
    let annotation = after["metadata"]["annotations"]["scheduling.berth.dev/affinity"].as_str().unwrap();
    assert_eq!(serde_json::from_str::<Value>(annotation).unwrap(), affinity);
}

#[tokio::test]
async fn a_pod_waits_for_the_labels_of_its_namespace() {
    let selects = || gpu(json!({"namespaceSelector": {"matchLabels": {"tier": "gold"}}}));
    let webhook = admission(Policy::default(), &[selects()], &["other"]);
    let unseen = review(
        Endpoint::MutatePods,
        &creation(&one_pod("pod team/web")),
        webhook.policy(),
        &*webhook,
        Instant::now(),
    );
    assert_eq!(unseen, Err(ReviewError::Unseen("namespace \"team\"".to_owned())));
    let later = async {
        let labels = StringMap::from([("tier".to_owned(), "gold".to_owned())]);
        let policy = PlacementPolicy::read(&selects()).unwrap();
        webhook.set_placement_policies(PolicySet::new(
            [policy],
            HashMap::from([("team".to_owned(), labels.into())]),
        ));
    };
    let (answer, ()) = tokio::join!(create(&webhook, "pod team/web"), later);
    assert!(!answer.unwrap().patch.is_empty());
}

#[tokio::test]
async fn invalid_policies_are_refused() {
    let webhook = admission(Policy::default(), &[], &[]);
    let validate = async |resource: &str, object: Value, old: Value| {
        let resource = json!({"group": "scheduling.berth.dev", "version": "v1alpha1", "resource": resource});
        let fields = json!({"resource": resource, "name": "gpu", "object": object, "oldObject": old});
        webhook.review(Endpoint::ValidatePolicies, &request(fields)).await.unwrap().denied.map(|d| d.text())
    };
    assert_eq!(validate("clusterplacementpolicies", gpu(json!({})), Value::Null).await, None);
    let wrong = gpu(json!({"podSelectors": {"matchLabels": {"a": "b"}}, "priority": 1}));
    let message = "ClusterPlacementPolicy \"gpu\" is invalid: spec.podSelectors: unknown field; did you mean \"podSelector\"?";
    assert_eq!(
        validate("clusterplacementpolicies", wrong.clone(), Value::Null).await.as_deref(),
        Some(message)
    );
    // What was valid for an earlier version can be labelled and deleted.
    assert_eq!(validate("clusterplacementpolicies", wrong.clone(), wrong).await, None);
}

fn said(admission: &AdmissionController, fields: Value) -> (Option<String>, Vec<String>) {
    let request = request(fields);
    let answer =
        review(Endpoint::ValidatePods, &request, admission.policy(), &Nothing, Instant::now()).unwrap();
    (answer.denied.map(|denial| denial.text()), answer.warnings)
}

#[test]
fn required_anti_affinity_can_be_for_trusted_users() {
    let restricted = policy(
        r#""requiredAntiAffinity": {"topologyKeys": ["kubernetes.io/hostname"], "users": ["ann"], "groups": ["sre"],
           "serviceAccounts": ["ci/deployer"]}"#,
    );
    let webhook = admission(restricted, &[], &[]);
    let pod = |text: &str| serde_json::to_value(one_pod(text)).unwrap();
    let zone = pod("pod default/web app=web anti(app=web @zone)");
    let by = |user: &str, groups: &[&str], object: &Value| {
        let user = json!({"username": user, "groups": groups});
        said(&webhook, json!({"name": "web", "namespace": "default", "userInfo": user, "object": object})).0
    };
    let message = "pods \"web\" is forbidden: spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0]: \
                   required anti-affinity is for trusted users, and \"bob\" is none; other users may use the topology key \
                   kubernetes.io/hostname";
    assert_eq!(by("bob", &[], &zone).as_deref(), Some(message));
    assert_eq!(by("bob", &[], &pod("pod default/web anti(app=web @hostname)")), None);
    assert_eq!(by("bob", &[], &pod("pod default/web prefer-anti(1 app=web @zone) aff(app=db @zone)")), None);
    assert!(by("bob", &[], &pod("pod default/web note-anti(app=web @*)")).is_some());
    for (user, groups) in [("ann", &[][..]), ("bob", &["sre"]), ("system:serviceaccount:ci:deployer", &[])] {
        assert_eq!(by(user, groups, &zone), None, "{user}");
    }
    assert!(by("system:serviceaccount:other:deployer", &[], &zone).is_some());

    // Controllers create the pods of workloads, which are checked themselves.
    let controllers = &["system:serviceaccounts", "system:serviceaccounts:kube-system"];
    let controller = "system:serviceaccount:kube-system:replicaset-controller";
    assert!(by(controller, controllers, &zone).is_some());
    let mut owned = zone.clone();
    owned["metadata"]["ownerReferences"] = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "1", "controller": true}]);
    assert_eq!(by(controller, controllers, &owned), None);
    assert!(by("bob", &[], &owned).is_some());
    let workload = |group: &str, resource: &str, user: Value, metadata: Value| {
        let object = json!({"metadata": metadata, "spec": {"template": zone}, "template": zone});
        said(
            &webhook,
            json!({"resource": {"group": group, "version": "v1", "resource": resource}, "name": "web",
                "namespace": "default", "userInfo": user, "object": object}),
        )
    };
    let deployment = |user: &str| workload("apps", "deployments", json!({"username": user}), json!({}));
    let refused = deployment("bob").0.unwrap();
    assert!(
        refused.starts_with("deployments.apps \"web\" is forbidden: spec.template: spec.affinity."),
        "{refused}"
    );
    assert_eq!(deployment("ann"), (None, vec![]));
    assert!(workload("", "podtemplates", json!({"username": "bob"}), json!({})).0.is_some());
    // They also make the Jobs of CronJobs and the ReplicaSets of Deployments.
    let user = json!({"username": controller, "groups": controllers});
    for (group, resource) in [("batch", "jobs"), ("apps", "replicasets")] {
        assert_eq!(workload(group, resource, user.clone(), owned["metadata"].clone()), (None, vec![]));
        assert!(workload(group, resource, user.clone(), json!({})).0.is_some());
        assert!(workload(group, resource, json!({"username": "bob"}), owned["metadata"].clone()).0.is_some());
    }
}

#[test]
fn an_annotation_that_the_scheduler_does_not_read_causes_a_warning() {
    let mut pod = one_pod("pod default/web note-aff(app=db @zone)");
    let mut warnings = |scheduler: &str, names: &str| {
        scheduler.clone_into(&mut pod.spec.scheduler_name);
        let webhook = admission(policy(&format!(r#""schedulerNames": {names}"#)), &[], &[]);
        said(&webhook, json!({"name": "web", "namespace": "default", "object": pod})).1
    };
    let warning = "metadata.annotations[scheduling.berth.dev/affinity]: the scheduler \"default-scheduler\" does not read it: \
                   set spec.schedulerName to berth or edge";
    for (scheduler, expected) in [("", &[warning][..]), ("default-scheduler", &[warning]), ("edge", &[])] {
        assert_eq!(warnings(scheduler, r#"["berth", "edge"]"#), expected, "{scheduler}");
    }
    assert!(warnings("", "[]").is_empty());
}
