//! EndpointSlices and Endpoints of services.

use serde_json::{Value, json};

use super::world::*;

const SERVICES: &str = "/api/v1/namespaces/default/services";
const ENDPOINTS: &str = "/api/v1/namespaces/default/endpoints";
const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";

/// Names of the pods among the ready addresses of Endpoints.
fn ready(endpoints: &Value) -> Vec<&str> {
    let addresses = endpoints["subsets"][0]["addresses"].as_array();
    addresses.into_iter().flatten().filter_map(|address| address["targetRef"]["name"].as_str()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_service_has_the_ready_pods_as_endpoints() {
    let world = World::new(1).await;
    let service = json!({"metadata": {"name": "web"}, "spec": {"selector": {"app": "web"},
        "ports": [{"port": 80, "targetPort": 8080}]}});
    world.create(SERVICES, &service).await;
    let path = format!("{ENDPOINTS}/web");
    world.until("endpoints of a service without pods", &path, |e| ready(e).is_empty()).await;
    for (name, image) in [("a", "run"), ("b", "run"), ("waits", "stuck"), ("ended", "succeed")] {
        let mut pod = template("web", image);
        pod["metadata"]["name"] = name.into();
        pod["spec"]["restartPolicy"] = "Never".into();
        world.create(PODS, &pod).await;
        let ip =
            json!({"status": {"podIP": format!("10.0.0.{}", name.len()), "podIPs": [{"ip": "10.0.0.1"}]}});
        world.patch(&format!("{PODS}/{name}/status"), ip).await;
    }
    let not_ready = |e: &Value| e["subsets"][0]["notReadyAddresses"][0]["targetRef"]["name"] == "waits";
    let endpoints = world.until("two ready pods", &path, |e| ready(e) == ["a", "b"] && not_ready(e)).await;
    assert_eq!(endpoints["subsets"][0]["ports"], json!([{"port": 8080, "protocol": "TCP"}]));
    let of_slice = |slices: &[Value]| -> Vec<(String, bool)> {
        let endpoints = slices.iter().flat_map(|slice| slice["endpoints"].as_array().into_iter().flatten());
        let mut all: Vec<_> = endpoints
            .map(|e| (e["targetRef"]["name"].as_str().unwrap().to_owned(), e["conditions"]["ready"] == true))
            .collect();
        all.sort();
        all
    };
    let wanted = [("a".to_owned(), true), ("b".to_owned(), true), ("waits".to_owned(), false)];
    let slices = world.until_listed("slices", SLICES, |slices| of_slice(slices) == wanted).await;
    let labels = &slices[0]["metadata"]["labels"];
    assert_eq!((slices.len(), &labels["kubernetes.io/service-name"]), (1, &json!("web")));
    assert_eq!(slices[0]["ports"], json!([{"name": "", "port": 8080, "protocol": "TCP"}]));

    world.delete(&format!("{PODS}/a")).await;
    world.until("one ready pod", &path, |e| ready(e) == ["b"]).await;
    // What another client deletes is made again.
    world.delete(&path).await;
    world.until("again", &path, |e| ready(e) == ["b"]).await;
    world.delete(&format!("{SERVICES}/web")).await;
    world.until_gone(&path).await;
    world.until_listed("no slices", SLICES, <[Value]>::is_empty).await;
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn endpoints_of_a_service_without_selector_belong_to_their_author() {
    let world = World::new(1).await;
    world.create(SERVICES, &json!({"metadata": {"name": "db"}, "spec": {"ports": [{"port": 80}]}})).await;
    let own = json!({"metadata": {"name": "db"}, "subsets": [{"addresses": [{"ip": "192.0.2.1"}]}]});
    world.create(ENDPOINTS, &own).await;
    let service =
        json!({"metadata": {"name": "web"}, "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}});
    world.create(SERVICES, &service).await;
    world.until("the controller works", &format!("{ENDPOINTS}/web"), |_| true).await;
    let kept = world.get(&format!("{ENDPOINTS}/db")).await;
    assert_eq!(kept["subsets"][0]["addresses"][0]["ip"], "192.0.2.1");
    world.end().await;
}
