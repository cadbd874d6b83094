//! Features that gates turn on.

use berth_api::feature_gates::FeatureGates;
use berth_apiserver::{ApiServer, ServerOptions};
use http::StatusCode;
use serde_json::{Value, json};

use crate::support::*;

async fn server_with(feature_gates: FeatureGates) -> ApiServer {
    ApiServer::start(ServerOptions { feature_gates, ..ServerOptions::default() }).await.unwrap()
}

fn pod(name: &str, operator: &str, value: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}], "tolerations": [
        {"key": "sla", "operator": operator, "value": value, "effect": "NoSchedule"}]}})
}

/// Enhancement 5471: "When TaintTolerationComparisonOperators=false, the API server rejects pods using the new operators."
#[tokio::test]
async fn tolerations_that_compare_are_accepted_with_their_gate() {
    let more = json!({"spec": {"tolerations": [{"key": "more", "operator": "Lt", "value": "x"}]}});
    for is_on in [false, true] {
        let gates = FeatureGates { taint_toleration_comparison_operators: is_on, ..FeatureGates::default() };
        let server = server_with(gates).await;
        let client = admin(&server);
        let accepted = if is_on { StatusCode::CREATED } else { StatusCode::UNPROCESSABLE_ENTITY };
        assert_eq!(post(&client, PODS, &pod("p", "Gt", "950")).await.0, accepted);
        let (code, refused) = post(&client, PODS, &pod("q", "Gt", "95.5")).await;
        assert_eq!(code, StatusCode::UNPROCESSABLE_ENTITY);
        let field = if is_on { "spec.tolerations[0].value" } else { "spec.tolerations[0].operator" };
        assert_eq!(refused["details"]["causes"][0]["field"], field, "{refused}");
        // An update is validated as a creation is.
        assert_eq!(post(&client, PODS, &pod("r", "Exists", "")).await.0, StatusCode::CREATED);
        let (_, mut stored) = get(&client, &format!("{PODS}/r")).await;
        let added = more["spec"]["tolerations"][0].clone();
        stored["spec"]["tolerations"].as_array_mut().unwrap().push(added);
        let (code, refused) = put(&client, &format!("{PODS}/r"), &stored).await;
        assert_eq!(code, StatusCode::UNPROCESSABLE_ENTITY, "{refused}");
    }
}

/// Enhancement 5030: the field exists with its gate; a value that is there already stays.
#[tokio::test]
async fn the_requirement_of_a_csi_driver_needs_its_gate() {
    let driver = json!({"metadata": {"name": "d"}, "spec": {"preventPodSchedulingIfMissing": true}});
    for volume_limit_scaling in [false, true] {
        let server = server_with(FeatureGates { volume_limit_scaling, ..FeatureGates::default() }).await;
        let (_, created) = post(&admin(&server), "/apis/storage.k8s.io/v1/csidrivers", &driver).await;
        let stored = &created["spec"]["preventPodSchedulingIfMissing"];
        assert_eq!(stored.as_bool(), volume_limit_scaling.then_some(true), "{created}");
    }
}
