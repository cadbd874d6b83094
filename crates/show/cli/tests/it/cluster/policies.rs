//! Placement policies in a cluster: validated, applied to new pods, with a status.

use std::path::Path;

use berth_testkit::programs::TempDir;
use http::Method;
use serde_json::{Value, json};

use crate::client::{connect, create, eventually, get, send};
use crate::process::Berth;

const POLICIES: &str = "/apis/scheduling.berth.dev/v1alpha1/namespaces/default/placementpolicies";

fn policy(name: &str, seconds: i64) -> Value {
    json!({"apiVersion": "scheduling.berth.dev/v1alpha1", "kind": "PlacementPolicy", "metadata": {"name": name},
        "spec": {"podSelector": {"matchLabels": {"app": "web"}}, "tolerations": [
            {"key": "maintenance", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds}]}})
}

#[tokio::test]
async fn policies_are_applied_and_have_a_status() {
    let directory = TempDir::new("policies");
    // Manifests: the pod gets the rules of the policy beside it.
    let file = directory.file("first.json");
    let pod = |name: &str| {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": "web"}},
            "spec": {"containers": [{"name": "c", "image": "i"}]}})
    };
    let list = json!({"apiVersion": "v1", "kind": "List", "items": [pod("first"), policy("a", 60)]});
    std::fs::write(&file, list.to_string()).unwrap();
    let args = ["up", "--no-summary", "--nodes", "1", "-f", file.to_str().unwrap()];
    let berth = Berth::start(&directory, "up", &args);
    let client = connect(Path::new(&berth.line_after("export KUBECONFIG="))).await;
    let applied = |pod: &Value| {
        let tolerations = pod["spec"]["tolerations"].as_array().cloned().unwrap_or_default();
        let mine =
            tolerations.iter().find(|t| t["key"] == "maintenance").map(|t| t["tolerationSeconds"].clone());
        (mine, pod["metadata"]["annotations"]["scheduling.berth.dev/placement-policies"].clone())
    };
    let first = eventually("the pod exists", async || {
        get(&client, "/api/v1/namespaces/default/pods/first").await.map_err(|e| e.to_string())
    })
    .await;
    assert_eq!(applied(&first), (Some(json!(60)), json!("default/a")));

    let mut wrong = policy("wrong", 1);
    wrong["spec"]["tolerations"][0]["operator"] = json!("Is");
    let error = send(&client, Method::POST, POLICIES, Some(wrong)).await.unwrap_err();
    assert_eq!(error.code(), Some(422));
    assert!(error.message().contains("spec.tolerations[0].operator: Unsupported value: \"Is\""), "{error}");

    create(&client, POLICIES, policy("b", 90)).await;
    let status = async |name: &str, is_right: &dyn Fn(&Value) -> bool| {
        eventually("the status is right", async || {
            let policy = get(&client, &format!("{POLICIES}/{name}")).await.map_err(|e| e.to_string())?;
            if is_right(&policy["status"]) { Ok(policy["status"].clone()) } else { Err(policy.to_string()) }
        })
        .await
    };
    let has = |status: &Value, condition: &str, value: &str| {
        let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
        conditions.iter().any(|c| c["type"] == condition && c["status"] == value)
    };
    let second = status("b", &|status| has(status, "Conflicting", "True")).await;
    assert_eq!((&second["matchedPods"], &second["observedGeneration"]), (&json!(1), &json!(1)));
    assert!(second.to_string().contains("PlacementPolicy default/a comes first"), "{second}");
    assert!(has(&second, "Valid", "True"));

    create(&client, "/api/v1/namespaces/default/pods", pod("second")).await;
    let both = status("a", &|status| status["matchedPods"] == 2).await;
    assert!(has(&both, "Conflicting", "False"));
    send(&client, Method::DELETE, &format!("{POLICIES}/a"), None).await.unwrap();
    status("b", &|status| has(status, "Conflicting", "False")).await;
    let third = create(&client, "/api/v1/namespaces/default/pods", pod("third")).await;
    assert_eq!(applied(&third), (Some(json!(90)), json!("default/b")));
}
