use std::sync::Arc;

use serde_json::{Value, json};

use super::plan::*;
use crate::view::{EndpointSlice, Pod, Service};

fn service(spec: Value) -> Service {
    serde_json::from_value(json!({"metadata": {"name": "web", "namespace": "default"}, "spec": spec}))
        .unwrap()
}

fn pod(name: &str, port: i32, ready: &str) -> Arc<Pod> {
    Arc::new(
        serde_json::from_value(json!({
            "metadata": {"name": name, "namespace": "default", "uid": format!("uid-{name}")},
            "spec": {"nodeName": "n1", "containers": [{"ports": [{"name": "http", "containerPort": port}]}]},
            "status": {"phase": "Running", "podIP": "10.0.0.1", "conditions": [{"type": "Ready", "status": ready}]},
        }))
        .unwrap(),
    )
}

fn named_port() -> Service {
    service(json!({"selector": {"app": "web"},
        "ports": [{"name": "", "protocol": "TCP", "port": 80, "targetPort": "http"}]}))
}

fn existing(slices: &[Slice]) -> Vec<Arc<EndpointSlice>> {
    let slice = |(i, slice): (usize, &Slice)| {
        let name = slice.name.clone().unwrap_or(format!("web-{i}"));
        let object = json!({"metadata": {"name": name}, "ports": slice.ports, "endpoints": slice.endpoints});
        Arc::new(serde_json::from_value(object).unwrap())
    };
    slices.iter().enumerate().map(slice).collect()
}

#[test]
fn a_named_port_is_that_of_each_pod() {
    let pods = [pod("a", 8080, "True"), pod("b", 9090, "True"), pod("c", 8080, "False")];
    let (subsets, is_cut) = subsets(&named_port(), &pods);
    let shown: Vec<_> = subsets
        .iter()
        .map(|subset| {
            let names = |field: &str| -> Vec<String> {
                let list = subset[field].as_array().into_iter().flatten();
                list.map(|address| address["targetRef"]["name"].as_str().unwrap().to_owned()).collect()
            };
            (subset["ports"].clone(), names("addresses"), names("notReadyAddresses"))
        })
        .collect();
    let port = |number: i32| json!([{"protocol": "TCP", "port": number}]);
    assert!(!is_cut);
    assert_eq!(
        shown,
        [
            (port(8080), vec!["a".to_owned()], vec!["c".to_owned()]),
            (port(9090), vec!["b".to_owned()], vec![])
        ]
    );
}

#[test]
fn a_slice_has_a_hundred_endpoints_and_keeps_them() {
    let pods: Vec<_> = (0..150).map(|i| pod(&format!("p{i:03}"), 80, "True")).collect();
    let zone = |_: &str| Some("zone-1".to_owned());
    let first = slices(endpoints(&named_port(), &pods, zone), &[]);
    assert_eq!(first.iter().map(|slice| slice.endpoints.len()).collect::<Vec<_>>(), [100, 50]);
    assert_eq!(first[0].endpoints[0]["zone"], "zone-1");
    // Without ten pods of the first slice and with one new pod, the second slice stays as it is.
    let mut changed: Vec<_> = pods[10..].to_vec();
    changed.push(pod("new", 80, "True"));
    let second = slices(endpoints(&named_port(), &changed, zone), &existing(&first));
    assert_eq!(second.iter().map(|slice| slice.endpoints.len()).collect::<Vec<_>>(), [91, 50]);
    assert_eq!(second[1].endpoints, first[1].endpoints);
    assert!(second.iter().all(|slice| slice.name.is_some()));
    // Without pods, one empty slice is left.
    let last = slices(endpoints(&named_port(), &[], zone), &existing(&second));
    assert_eq!(last, [Slice { name: Some("web-0".to_owned()), ports: vec![], endpoints: vec![] }]);
}

#[test]
fn only_ready_pods_that_are_not_deleted_are_ready_endpoints() {
    let ready = |service: &Service, pod: &Arc<Pod>| {
        let groups = endpoints(service, std::slice::from_ref(pod), |_| None);
        let (_, endpoints) = groups.into_values().next().unwrap();
        endpoints.into_values().next().unwrap()["conditions"].clone()
    };
    let mut ending = Pod::clone(&pod("a", 80, "True"));
    ending.metadata.deletion_timestamp = Some("2026-01-01T00:00:00Z".parse().unwrap());
    let conditions = |ready: bool, serving: bool, terminating: bool| json!({"ready": ready, "serving": serving, "terminating": terminating});
    let plain = named_port();
    assert_eq!(ready(&plain, &pod("a", 80, "True")), conditions(true, true, false));
    assert_eq!(ready(&plain, &pod("a", 80, "False")), conditions(false, false, false));
    assert_eq!(ready(&plain, &Arc::new(ending)), conditions(false, true, true));
    let mut open = named_port();
    open.spec.publish_not_ready_addresses = true;
    assert_eq!(ready(&open, &pod("a", 80, "False")), conditions(true, false, false));
}

#[test]
fn addresses_of_endpoints_are_sorted_as_addresses() {
    let pod = |name: &str, ip: &str| {
        let mut pod = Pod::clone(&pod(name, 8080, "True"));
        ip.clone_into(&mut pod.status.pod_ip);
        Arc::new(pod)
    };
    let pods = [pod("a", "10.0.0.10"), pod("b", "10.0.0.9"), pod("c", "10.0.0.1")];
    let (subsets, _) = subsets(&named_port(), &pods);
    let addresses = subsets[0]["addresses"].as_array().unwrap().iter().map(|address| address["ip"].as_str());
    assert_eq!(addresses.flatten().collect::<Vec<_>>(), ["10.0.0.1", "10.0.0.9", "10.0.0.10"]);
}
