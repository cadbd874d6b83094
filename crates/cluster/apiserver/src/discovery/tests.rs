use berth_api::feature_gates::{FeatureGates, KubernetesVersion};
use berth_schema::resource::{METRICS, RESOURCES};

use super::*;

fn gates() -> FeatureGates {
    let names = ["GenericWorkload", "CompositePodGroup", "DRADeviceTaintRules"].map(str::to_owned);
    FeatureGates::of_names(KubernetesVersion::V1_37, &names)
}

fn get(path: &str, accept: Option<&str>) -> Option<(&'static str, Value)> {
    let document = document(path, accept, "127.0.0.1:6443", gates(), &[])?;
    let value = serde_json::from_slice(&document.body).expect("documents are JSON");
    Some((document.content_type, value))
}

/// What kubectl 1.32 sends.
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
    application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";

#[test]
fn plain_discovery_lists_every_resource() {
    let (_, versions) = get("/api", None).expect("/api is there");
    assert_eq!(versions["versions"][0], "v1");
    assert_eq!(versions["serverAddressByClientCIDRs"][0]["serverAddress"], "127.0.0.1:6443");
    let (_, groups) = get("/apis", Some("application/json")).expect("/apis is there");
    let mut lists = vec!["/api/v1".to_owned()];
    for group in groups["groups"].as_array().expect("groups") {
        let name = group["name"].as_str().expect("named");
        assert_eq!(get(&format!("/apis/{name}"), None).expect("group").1["kind"], "APIGroup");
        let versions = group["versions"].as_array().expect("versions").iter();
        lists.extend(versions.map(|v| format!("/apis/{}", v["groupVersion"].as_str().expect("version"))));
    }
    let mut seen = 0;
    for path in lists {
        let (_, list) = get(&path, None).expect("a listed version is there");
        let named = |entry: &&Value| !entry["name"].as_str().expect("named").contains('/');
        seen += list["resources"].as_array().expect("resources").iter().filter(named).count();
    }
    let is_served = |of: &&&Resource| of.is_discoverable(gates());
    assert_eq!(seen, RESOURCES.iter().filter(is_served).count() + METRICS.len());
}

#[test]
fn groups_of_pods_hid_resources_of_the_same_name_without_their_gate() {
    let versions = |gates| {
        let document = document("/apis/scheduling.k8s.io", None, "", gates, &[]).expect("the group is there");
        let group: Value = serde_json::from_slice(&document.body).expect("JSON");
        let versions = group["versions"].as_array().expect("versions").iter();
        versions.map(|version| version["version"].as_str().expect("named").to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(versions(FeatureGates::default()), ["v1"]);
    assert_eq!(versions(gates()), ["v1", "v1beta1", "v1alpha3"]);
}

#[test]
fn groups_were_listed_by_name_instead_of_their_priority() {
    let (_, list) = get("/apis", None).expect("/apis");
    let names: Vec<&str> = list["groups"]
        .as_array()
        .expect("groups")
        .iter()
        .filter_map(|group| group["name"].as_str())
        .collect();
    assert_eq!(names[..3], ["apiregistration.k8s.io", "apps", "events.k8s.io"]);
    assert_eq!(names[names.len() - 2..], ["flowcontrol.apiserver.k8s.io", "metrics.k8s.io"]);
}

#[test]
fn resources_are_described() {
    let (_, list) = get("/api/v1", None).expect("core");
    let entry = |name: &str| {
        let resources = list["resources"].as_array().expect("resources");
        resources.iter().find(|r| r["name"] == name).cloned().unwrap_or_default()
    };
    assert_eq!(entry("pods")["shortNames"], serde_json::json!(["po"]));
    assert_eq!(entry("pods")["categories"], serde_json::json!(["all"]));
    assert_eq!(entry("pods")["singularName"], "pod");
    assert_eq!(entry("pods/eviction")["group"], "policy");
    assert_eq!(entry("pods/status").get("group"), None);
    assert_eq!(entry("nodes")["namespaced"], false);
}

#[test]
fn aggregated_discovery_is_served_on_request() {
    let (content_type, list) = get("/apis", Some(AGGREGATED)).expect("/apis");
    assert_eq!(content_type, "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList");
    assert_eq!(list["apiVersion"], "apidiscovery.k8s.io/v2");
    let apps = list["items"].as_array().expect("items").iter().find(|g| g["metadata"]["name"] == "apps");
    let resources = &apps.expect("apps")["versions"][0]["resources"];
    let deployments = resources.as_array().expect("list").iter().find(|r| r["resource"] == "deployments");
    let deployments = deployments.expect("deployments");
    assert_eq!(deployments["scope"], "Namespaced");
    assert_eq!(deployments["subresources"][0]["responseKind"]["kind"], "Scale");

    let (_, core) = get("/api", Some(AGGREGATED)).expect("/api");
    assert_eq!(core["items"].as_array().map(Vec::len), Some(1));
    assert_eq!(core["items"][0]["metadata"].get("name"), None);

    let beta = "application/json;as=APIGroupDiscoveryList;v=v2beta1;g=apidiscovery.k8s.io, application/json";
    assert_eq!(get("/apis", Some(beta)).expect("/apis").1["apiVersion"], "apidiscovery.k8s.io/v2beta1");
    for plain in ["application/json", "*/*", "application/json,application/json;as=APIGroupDiscoveryList"] {
        assert_eq!(get("/apis", Some(plain)).expect("/apis").1["kind"], "APIGroupList", "{plain}");
    }
}

#[test]
fn unknown_groups_and_versions_are_not_found() {
    for path in ["/api/v2", "/apis/none", "/apis/apps/v1beta1", "/apis//v1", "/apis/apps/v1/deployments", "/"]
    {
        assert!(get(path, None).is_none(), "{path}");
    }
}
