//! Addresses and node ports of services: each is given once.

use std::collections::HashSet;

use futures::future::join_all;
use http::{Method, StatusCode};
use kube::Client;
use serde_json::{Value, json};

use crate::support::*;

const SERVICES: &str = "/api/v1/namespaces/default/services";

fn service(name: &str, spec: Value) -> Value {
    let mut service = json!({"metadata": {"name": name}, "spec": spec});
    let ports = &mut service["spec"]["ports"];
    if ports.is_null() {
        *ports = json!([{"port": 80}]);
    }
    service
}

async fn create(client: &Client, name: &str, spec: Value) -> (StatusCode, Value) {
    post(client, SERVICES, &service(name, spec)).await
}

#[tokio::test]
async fn services_get_addresses() {
    let server = server().await;
    let client = admin(&server);
    let path = "/api/v1/namespaces/default/services";
    let (_, built_in) = get(&client, &format!("{path}/kubernetes")).await;
    assert_eq!(built_in["spec"]["clusterIP"], "10.96.0.1");
    let service = json!({"metadata": {"name": "web"}, "spec": {"type": "NodePort", "ports": [{"port": 80}]}});
    let (code, created) = post(&client, path, &service).await;
    assert_eq!(code, StatusCode::CREATED, "{created}");
    assert!(created["spec"]["clusterIP"].as_str().unwrap().starts_with("10.96."));
    let port = &created["spec"]["ports"][0];
    assert_eq!((&port["protocol"], &port["targetPort"]), (&json!("TCP"), &json!(80)));
    assert!((30_000..=32_767).contains(&port["nodePort"].as_i64().unwrap()));
    let (_, labelled) =
        merge(&client, &format!("{path}/web"), &json!({"spec": {"selector": {"app": "web"}}})).await;
    assert_eq!(labelled["spec"]["clusterIP"], created["spec"]["clusterIP"]);
    let (code, _) =
        merge(&client, &format!("{path}/web"), &json!({"spec": {"clusterIP": "10.96.1.1"}})).await;
    assert_eq!(code, StatusCode::UNPROCESSABLE_ENTITY);
}

/// Creates services at once. Returns the specs of those that were created, and the messages of the other answers.
async fn create_at_once(client: &Client, specs: Vec<Value>) -> (Vec<Value>, Vec<String>) {
    let requests = specs.into_iter().enumerate().map(|(i, spec)| async move {
        let (code, answer) = create(client, &format!("s{i}"), spec).await;
        match code {
            StatusCode::CREATED => Ok(answer["spec"].clone()),
            _ => Err(answer["message"].as_str().unwrap().to_owned()),
        }
    });
    let (mut created, mut refused) = (Vec::new(), Vec::new());
    for answer in join_all(requests).await {
        match answer {
            Ok(spec) => created.push(spec),
            Err(message) => refused.push(message),
        }
    }
    (created, refused)
}

async fn concurrent_creations_get_different_values(client: &Client) {
    let fixed =
        json!({"type": "NodePort", "clusterIP": "10.96.9.9", "ports": [{"port": 80, "nodePort": 30009}]});
    let (created, refused) = create_at_once(client, vec![fixed; 16]).await;
    assert_eq!((created.len(), refused.len()), (1, 15));
    for message in refused {
        assert!(message.contains("provided IP is already allocated"), "{message}");
    }
    let (_, list) = get(client, SERVICES).await;
    for item in
        list["items"].as_array().unwrap().iter().filter(|item| item["metadata"]["name"] != "kubernetes")
    {
        delete(client, &format!("{SERVICES}/{}", item["metadata"]["name"].as_str().unwrap()), &Value::Null)
            .await;
    }
    // All other node ports of a part of the range are asked for, so that allocations meet requests.
    let explicit =
        (30_000..30_060).map(|port| json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": port}]}));
    let allocated = (0..60).map(|_| json!({"type": "NodePort"}));
    let specs: Vec<Value> = allocated.zip(explicit).flat_map(|(a, b)| [a, b]).collect();
    let (created, _) = create_at_once(client, specs).await;
    assert!(created.len() >= 60);
    let addresses: HashSet<&str> = created.iter().map(|spec| spec["clusterIP"].as_str().unwrap()).collect();
    let ports: HashSet<i64> =
        created.iter().map(|spec| spec["ports"][0]["nodePort"].as_i64().unwrap()).collect();
    assert_eq!((addresses.len(), ports.len()), (created.len(), created.len()));
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_creations_get_different_addresses_and_ports_in_memory() {
    concurrent_creations_get_different_values(&admin(&server().await)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_creations_get_different_addresses_and_ports_on_disk() {
    let dir = DataDir::new();
    let server = dir.server().await;
    concurrent_creations_get_different_values(&admin(&server)).await;
    server.shutdown().await;
}

#[tokio::test]
async fn values_that_another_service_has_are_refused_until_it_is_gone() {
    let dir = DataDir::new();
    let server = dir.server().await;
    let client = admin(&server);
    let address = json!({"clusterIP": "10.96.3.3"});
    let port = |number: u16| json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": number}]});
    assert_eq!(create(&client, "a", address.clone()).await.0, StatusCode::CREATED);
    assert_eq!(create(&client, "b", port(30_003)).await.0, StatusCode::CREATED);
    let of_address = "Service \"c\" is invalid: spec.clusterIPs: Invalid value: [\"10.96.3.3\"]: failed to allocate IP \
                      10.96.3.3: provided IP is already allocated";
    let of_port = "Service \"c\" is invalid: spec.ports[0].nodePort: Invalid value: 30003: provided port is already \
                   allocated";
    for (spec, message) in [(address.clone(), of_address), (port(30_003), of_port)] {
        for path in [SERVICES.to_owned(), format!("{SERVICES}?dryRun=All")] {
            let (code, refused) = post(&client, &path, &service("c", spec.clone())).await;
            assert_eq!(
                (code, refused["message"].as_str()),
                (StatusCode::UNPROCESSABLE_ENTITY, Some(message))
            );
            assert_eq!(refused["details"]["causes"][0]["reason"], "FieldValueInvalid");
        }
    }
    server.shutdown().await;

    // The values are known after a restart.
    let server = dir.server().await;
    let client = admin(&server);
    assert_eq!(create(&client, "c", address.clone()).await.0, StatusCode::UNPROCESSABLE_ENTITY);
    // A service keeps its own values, and another one's are refused in updates as well.
    let (code, _) =
        merge(&client, &format!("{SERVICES}/b"), &json!({"metadata": {"labels": {"x": "y"}}})).await;
    assert_eq!(code, StatusCode::OK);
    assert_eq!(create(&client, "d", port(30_004)).await.0, StatusCode::CREATED);
    let taken = json!({"spec": {"ports": [{"port": 80, "nodePort": 30_003}]}});
    for path in [format!("{SERVICES}/d"), format!("{SERVICES}/d?dryRun=All")] {
        let (code, refused) = merge(&client, &path, &taken).await;
        assert_eq!(code, StatusCode::UNPROCESSABLE_ENTITY, "{refused}");
        assert!(
            refused["message"].as_str().unwrap().ends_with("provided port is already allocated"),
            "{refused}"
        );
    }
    // Without node ports, b gives its port up; a is deleted.
    let (code, _) =
        call(&client, Method::PUT, &format!("{SERVICES}/b"), &service("b", json!({"type": "ClusterIP"})))
            .await;
    assert_eq!(code, StatusCode::OK);
    assert_eq!(merge(&client, &format!("{SERVICES}/d"), &taken).await.0, StatusCode::OK);
    delete(&client, &format!("{SERVICES}/a"), &Value::Null).await;
    assert_eq!(create(&client, "c", address).await.0, StatusCode::CREATED);
    server.shutdown().await;
}

#[tokio::test]
async fn a_full_range_of_ports_leaves_no_port_twice() {
    let server = server().await;
    let client = admin(&server);
    let ports = |from: u16, n: u16| -> Value {
        (from..from + n).map(|port| json!({"name": format!("p{port}"), "port": port})).collect()
    };
    let mut seen = HashSet::new();
    for i in 0..4_u16 {
        let (code, created) =
            create(&client, &format!("s{i}"), json!({"type": "NodePort", "ports": ports(1, 700)})).await;
        assert_eq!(code, StatusCode::CREATED);
        for port in created["spec"]["ports"].as_array().unwrap() {
            if let Some(number) = port["nodePort"].as_i64() {
                assert!(seen.insert(number), "{number} was given twice");
            }
        }
    }
    assert_eq!(seen.len(), 2768, "all ports of the range are given");
}
