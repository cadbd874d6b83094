use serde_json::{Value, json};

use super::*;
use berth_api::object::{DeviceKind, DeviceObject, NamespacedName, Pod, VolumeKind, VolumeObject};
use berth_api::read::{Kind, Manifest, SourceLocation, collect_manifests, decode};
use berth_api::resource::{DEPLOYMENTS, NODES, PODS};

fn manifests(text: &str) -> Vec<Manifest> {
    collect_manifests(text, "f").unwrap()
}

fn input_error(text: &str) -> String {
    Inventory::from_text(text).unwrap_err().to_string()
}

#[test]
fn wrong_types_name_the_object_the_field_and_the_remedy() {
    let pod = |rest: &str| input_error(&format!("apiVersion: v1\nkind: Pod\nmetadata:\n  name: web\n{rest}"));
    assert_eq!(
        pod("  labels: {version: 20}\n"),
        "input:1: Pod default/web: metadata.labels.version: invalid type: integer `20`, expected a string: quote it"
    );
    assert_eq!(
        pod("  labels: {app.kubernetes.io/part-of: on}\n"),
        "input:1: Pod default/web: metadata.labels[app.kubernetes.io/part-of]: invalid type: boolean `true`, expected a string: quote it"
    );
    assert_eq!(
        pod("spec:\n  containers:\n  - resources: {requests: {cpu: abc}}\n"),
        "input:1: Pod default/web: spec.containers[0].resources.requests.cpu: \"abc\" is not a quantity: write a number with an optional suffix, such as 100m, 0.5, 2, 1e3, 128Mi or 1.5Gi"
    );
    assert_eq!(
        pod("spec: {hostNetwork: \"yes\"}\n"),
        "input:1: Pod default/web: spec.hostNetwork: invalid type: string \"yes\", expected a boolean"
    );
    assert_eq!(
        pod(
            "spec: {affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Gt, values: [20]}]}]}}}}\n"
        ),
        "input:1: Pod default/web: spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].values[0]: invalid type: integer `20`, expected a string: quote it"
    );
}

#[test]
fn quantities_and_booleans_are_read_as_people_write_them() {
    let inventory = Inventory::from_text(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  hostNetwork: yes\n  containers:\n  - resources:\n      requests: {a: 1e3, b: 0.5, c: 100m, d: 1Ki, e: -1, f: 2, g: \"3\"}\n",
    )
    .unwrap();
    let spec = &inventory.pods[0].object.spec;
    let millis: Vec<i64> = spec.containers[0].resources.requests.values().map(|q| q.millis()).collect();
    assert_eq!(millis, [1_000_000, 500, 100, 1_024_000, -1000, 2000, 3000]);
    assert!(spec.host_network);
}

#[test]
fn integer_bounds_of_pod_terms_become_strings_and_only_those() {
    let expression = |op: &str| json!({"key": "a", "operator": op, "values": [20, "30"]});
    let term =
        |op: &str| json!({"labelSelector": {"matchExpressions": [expression(op)]}, "topologyKey": "z"});
    let affinity = json!({
        "podAffinity": {
            "requiredDuringSchedulingRequiredDuringExecution": [term("Gt"), term("In")],
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": term("Lt")}],
        },
        "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term("Lt")]},
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            {"matchExpressions": [expression("Gt")]}]}},
    });
    let before = affinity.to_string();
    let pod =
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"affinity": affinity}});
    let affinity = &manifests(&pod.to_string())[0].value["spec"]["affinity"];
    let quoted = |op: &str, text: &str| {
        let bound = format!(r#""operator":"{op}","values":[20,"#);
        text.replace(&bound, &bound.replace("20", "\"20\""))
    };
    let (pods, nodes) = before.split_at(before.find(r#""nodeAffinity""#).unwrap());
    assert_eq!(affinity.to_string(), format!("{}{nodes}", quoted("Lt", &quoted("Gt", pods))));

    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: z, labelSelector: {matchExpressions: [{key: a, operator: Gt, values: [20]}]}}]}}}\n";
    assert!(decode::<Pod>(&manifests(pod)[0]).is_ok());
    assert!(decode::<Pod>(&manifests(&pod.replace("Gt", "In"))[0]).is_err());
}

#[test]
fn a_duplicate_object_names_both_places() {
    let text = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: default}\n";
    assert_eq!(input_error(text), "input:5: Pod default/a is also in input:1: remove or rename one of them");
    assert!(Inventory::from_text(&text.replace("namespace: default", "namespace: other")).is_ok());
    let node = "apiVersion: v1\nkind: Node\nmetadata: {name: n1}\n";
    assert_eq!(
        input_error(&format!("{node}---\n{node}")),
        "input:5: Node n1 is also in input:1: remove or rename one of them"
    );
    assert_eq!(
        input_error("apiVersion: v1\nkind: Node\n"),
        "input:1: Node: metadata.name is missing: add it"
    );
}

#[test]
fn a_watch_stream_has_later_versions_of_objects_and_deletions() {
    let deployment = |replicas: usize| {
        format!(
            r#"{{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {{"name": "web", "uid": "1"}}, "spec": {{"replicas": {replicas},
            "selector": {{"matchLabels": {{"a": "b"}}}}, "template": {{"metadata": {{"labels": {{"a": "b"}}}},
            "spec": {{"containers": [{{"name": "c", "image": "i{replicas}"}}]}}}}}}}}"#
        )
    };
    let pod = r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": "default", "uid": "2"}}"#;
    let text = format!(
        r#"{}{{"type": "ADDED", "object": {pod}}}{}{{"type": "DELETED", "object": {pod}}}"#,
        deployment(2),
        deployment(3)
    );
    for mut inventory in [Inventory::default(), Inventory::keeping_raw()] {
        inventory.read(text.as_bytes(), "stream").unwrap();
        assert_eq!((inventory.pods.len(), inventory.replaced.len()), (0, 0));
        let workload = &inventory.workloads[0].object;
        assert!(workload.replaced.is_none(), "it is no change of the template");
        let WorkloadSpec::Deployment(deployment) = &workload.spec else { panic!("{workload:?}") };
        assert_eq!(deployment.spec.replicas, Some(3));
    }
}

#[test]
fn objects_of_a_later_input_replace_earlier_ones_in_their_places() {
    let base = "
{apiVersion: v1, kind: Node, metadata: {name: n1}, status: {allocatable: {pods: '5'}}}
---
{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {nodeName: n1}}
---
{apiVersion: v1, kind: Pod, metadata: {name: b}}
";
    let overlay = "
{apiVersion: v1, kind: Pod, metadata: {name: c}}
---
{apiVersion: v1, kind: Pod, metadata: {name: a, namespace: default}}
---
{apiVersion: v1, kind: Node, metadata: {name: n1, labels: {disk: ssd}}}
";
    let mut inventory = Inventory::keeping_raw();
    inventory.read(base.as_bytes(), "base").unwrap();
    inventory.read(overlay.as_bytes(), "overlay").unwrap();
    assert_eq!(inventory.replaced, ["Pod default/a", "Node n1"]);
    let names: Vec<_> = inventory.pods.iter().map(|e| e.object.metadata.name.as_str()).collect();
    assert_eq!(names, ["a", "b", "c"]);
    let a = &inventory.pods[0];
    assert_eq!((a.object.spec.node_name.as_str(), &*a.source.file), ("", "overlay"));
    let orders: Vec<_> = inventory.pods.iter().map(|e| e.order).collect();
    assert!(orders.is_sorted() && orders[0] < orders[1], "{orders:?}");
    // The kubelet writes the status of a node: a manifest without one does not change it.
    let node = &inventory.nodes[0].object;
    assert_eq!(
        (node.metadata.labels["disk"].as_str(), node.status.allocatable.as_ref().unwrap().len()),
        ("ssd", 1)
    );
}

#[test]
fn kinds_are_told_apart_by_group() {
    let text = "
{apiVersion: serving.knative.dev/v1, kind: Service, metadata: {name: a}}
---
{apiVersion: v1, kind: Service, metadata: {name: a}, spec: {selector: {a: b}}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: b}}
---
{image: {tag: 1}}
---
{apiVersion: extensions/v1beta1, kind: Deployment, metadata: {name: a}}
---
{apiVersion: kubescheduler.config.k8s.io/v1, kind: KubeSchedulerConfiguration, profiles: []}
";
    let inventory = Inventory::from_text(text).unwrap();
    assert_eq!(
        inventory.skipped.iter().map(|(kind, n)| format!("{kind} {n}")).collect::<Vec<_>>(),
        ["(no kind) 1", "ConfigMap 2", "Service.serving.knative.dev 1"]
    );
    assert_eq!((inventory.services.len(), inventory.services[0].order), (1, 0));
    assert_eq!(inventory.workloads[0].object.to_string(), "Deployment default/a");
    assert_eq!(inventory.scheduler_configurations.len(), 1);
}

#[test]
fn raw_objects_are_kept_as_they_were_only_on_request() {
    let text = r#"{"kind":"Pod","apiVersion":"v1","x":{"z":1,"a":null},"metadata":{"name":"a"}}"#;
    assert_eq!(Inventory::from_text(text).unwrap().pods[0].raw.as_ref().unwrap().to_string(), text);
    let mut inventory = Inventory::default();
    inventory.read(text.as_bytes(), "f").unwrap();
    assert_eq!(inventory.pods[0].raw, None::<Value>);
}

#[test]
fn volume_objects_are_read_and_malformed_ones_are_named() {
    let inventory = Inventory::from_text(
        "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: c}\nspec: {resources: {requests: {storage: 1Gi}}}\n---\n\
         apiVersion: storage.k8s.io/v1\nkind: CSINode\nmetadata: {name: node}\nspec: {drivers: [{name: d, allocatable: {count: 2}}]}\n",
    );
    let objects: Vec<_> = inventory.unwrap().volume_objects.into_iter().map(|entry| entry.object).collect();
    let VolumeObject::PersistentVolumeClaim(claim) = &objects[0] else { panic!("{objects:?}") };
    assert_eq!((claim.requested().units(), claim.metadata.namespace.as_str()), (1 << 30, "default"));
    assert_eq!(objects[1].kind(), VolumeKind::CsiNode);
    let error = |text| input_error(text);
    assert_eq!(
        error(
            "apiVersion: v1\nkind: PersistentVolume\nmetadata: {name: v}\nspec: {capacity: {storage: lots}}\n"
        ),
        "input:1: PersistentVolume v: spec.capacity.storage: \"lots\" is not a quantity: write a number with an optional \
         suffix, such as 100m, 0.5, 2, 1e3, 128Mi or 1.5Gi"
    );
    assert_eq!(
        error(
            "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: c, namespace: a}\nspec: {accessModes: all}\n"
        ),
        "input:1: PersistentVolumeClaim a/c: spec.accessModes: invalid type: string \"all\", expected a list"
    );
}

#[test]
fn an_input_replaced_other_pods_after_the_lists_were_changed() {
    let pod = |name: &str, node: &str| {
        format!(
            "{{apiVersion: v1, kind: Pod, metadata: {{name: {name}}}, spec: {{nodeName: '{node}'}}}}\n---\n"
        )
    };
    let mut inventory =
        Inventory::from_text(&[pod("a", "x"), pod("b", "x"), pod("c", "x")].concat()).unwrap();
    inventory.pods.remove(0);
    inventory.index();
    inventory.read([pod("c", "y"), pod("d", "y")].concat().as_bytes(), "second").unwrap();
    let pods =
        inventory.pods.iter().map(|e| (e.object.metadata.name.as_str(), e.object.spec.node_name.as_str()));
    assert_eq!(pods.collect::<Vec<_>>(), [("b", "x"), ("c", "y"), ("d", "y")]);
    assert_eq!(inventory.replaced, ["Pod default/c"]);
}

#[test]
fn whole_objects_are_kept_of_all_kinds_but_pods() {
    let text = "{apiVersion: v1, kind: Pod, metadata: {name: a}}\n---\n{apiVersion: v1, kind: Node, metadata: {name: a}}";
    let mut inventory = Inventory::keeping_raw_but_pods();
    inventory.read(text.as_bytes(), "input").unwrap();
    assert!(inventory.pods[0].raw.is_none() && inventory.nodes[0].raw.is_some());
}

#[test]
fn pods_that_are_decoded_from_their_text_equal_those_of_their_manifests() {
    let list = |item: &str| {
        let first = r#"{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}"#;
        format!(
            r#"{{"apiVersion": "v1", "items": [{first}, {{"apiVersion": "v1", "kind": "Pod", {item}}}], "kind": "List"}}"#
        )
    };
    let read = |mut inventory: Inventory, text: &str| {
        let result = inventory.read(text.as_bytes(), "f").map_err(|error| error.to_string());
        result.map(|()| {
            let pods = inventory.pods.into_iter().map(|e| (e.object, e.source, e.order));
            pods.collect::<Vec<_>>()
        })
    };
    for (item, is_read) in [
        (
            r#""metadata": {"name": "a\u00e9", "labels": {"a": "b"}, "managedFields": [{"x": [null, 1e3]}]}"#,
            true,
        ),
        (
            r#""metadata": {"name": "a"}, "spec": {"nodeName": "n", "containers": [{"resources": {"requests": {"cpu": 0.5, "memory": 1024}}}]}"#,
            true,
        ),
        (
            r#""metadata": {"name": "a"}, "spec": {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "z", "labelSelector": {"matchExpressions": [{"key": "a", "operator": "Gt", "values": [5]}]}}]}}}"#,
            true,
        ),
        (r#""spec": null, "metadata": {"name": "a"}, "metadata": {"name": "b"}"#, true),
        (r#""metadata": {"generateName": "a-"}"#, true),
        (r#""metadata": {}"#, false),
        (r#""metadata": {"name": 1}"#, false),
        (r#""metadata": {"name": "a"}, "status": {"x": [1,]}"#, false),
        (r#""metadata": {"name": "a"}, "status": {"x": [1"#, false),
    ] {
        let text = list(item);
        let decoded = read(Inventory::default(), &text);
        assert_eq!(decoded, read(Inventory::keeping_raw(), &text), "{item}");
        assert_eq!(decoded.is_ok_and(|pods| pods.len() == 1), is_read, "{item}");
    }
    let mut text = list(r#""metadata": {"name": "a"}, "status": {"x": "?"}"#).into_bytes();
    let at = text.iter().position(|byte| *byte == b'?').unwrap();
    text[at] = 0xff;
    let message = Inventory::default().read(&text[..], "f").unwrap_err().to_string();
    assert_eq!(message, Inventory::keeping_raw().read(&text[..], "f").unwrap_err().to_string());
}

#[test]
fn objects_that_are_added_decoded_equal_those_of_whole_objects() {
    let place = SourceLocation::file("server");
    let node = r#"{"metadata": {"name": "n", "namespace": "x"}, "status": {"allocatable": {"cpu": 2}}}"#;
    let pod = r#"{"metadata": {"name": "a"}, "spec": {"nodeName": "n"}, "kind": "Node"}"#;
    let mut whole = Inventory::default();
    whole.add_item(&NODES, node.as_bytes(), place.clone()).unwrap();
    whole.add_item(&PODS, pod.as_bytes(), place.clone()).unwrap();
    let mut decoded = Inventory::default();
    decoded.add_node(serde_json::from_str(node).unwrap(), place.clone()).unwrap();
    decoded.add_pod(serde_json::from_str(pod).unwrap(), place.clone()).unwrap();
    assert_eq!((&decoded.nodes, &decoded.pods), (&whole.nodes, &whole.pods));
    let duplicate = decoded.add_pod(serde_json::from_str(pod).unwrap(), place.clone()).unwrap_err();
    assert!(duplicate.to_string().contains("Pod default/a is also in"), "{duplicate}");
    let unnamed = decoded.add_pod(Pod::default(), place).unwrap_err();
    assert!(unnamed.to_string().contains("metadata.name is missing"), "{unnamed}");
}

#[test]
fn items_of_lists_are_added_as_objects_of_their_resource() {
    let place = SourceLocation::file("server");
    let mut inventory = Inventory::default();
    for (resource, item, message) in [
        (&NODES, r#"{"metadata": {"name": "n"}, "spec": {"taints": [{"key": 1}]}}"#, "spec.taints[0].key"),
        (&PODS, r#"{"metadata": {"name": "a"}, "spec": {"nodeName": 1}}"#, "spec.nodeName"),
        (&PODS, r#"{"metadata": {}}"#, "metadata.name is missing"),
        (&PODS, "5", "expected a map"),
    ] {
        let error = inventory.add_item(resource, item.as_bytes(), place.clone()).unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
    }
    inventory.add_item(&DEPLOYMENTS, br#"{"metadata": {"name": "web"}}"#, place).unwrap();
    assert_eq!(inventory.workloads.len(), 1);
}

#[test]
fn monitors_of_both_kinds_are_read_replaced_and_removed() {
    let monitor = |kind: &str, port: &str| {
        format!(
            "---\n{{apiVersion: monitoring.coreos.com/v1, kind: {kind}, metadata: {{name: web, namespace: a}}, \
             spec: {{selector: {{}}, namespaceSelector: {{any: true}}, endpoints: [{{port: {port}}}]}}}}\n"
        )
    };
    let text = monitor("PodMonitor", "x") + &monitor("ServiceMonitor", "x");
    let mut inventory = Inventory::from_text(&text).unwrap();
    inventory.index();
    inventory.read(monitor("ServiceMonitor", "changed").as_bytes(), "second").unwrap();
    assert_eq!(inventory.replaced, ["ServiceMonitor a/web"]);
    let read: Vec<_> = inventory.monitors.iter().map(|entry| &entry.object).collect();
    let ports =
        read.iter().map(|monitor| (monitor.selects_services, monitor.spec.endpoints[0].port.as_str()));
    assert_eq!(ports.collect::<Vec<_>>(), [(false, "x"), (true, "changed")]);
    assert!(read[0].spec.namespace_selector.any && inventory.skipped.is_empty());
    let name = NamespacedName::new("a", "web");
    assert!(inventory.remove(Kind::PodMonitor, &name) && inventory.has(Kind::ServiceMonitor, &name));
    assert_eq!(inventory.monitors.len(), 1);
}

#[test]
fn objects_of_devices_are_read_in_all_versions_and_changed_by_name() {
    let text = "
apiVersion: v1
kind: List
items:
- {apiVersion: resource.k8s.io/v1beta1, kind: ResourceSlice, metadata: {name: s}, spec: {driver: d, devices: [{name: a, basic: {}}]}}
- {apiVersion: resource.k8s.io/v1, kind: DeviceClass, metadata: {name: gpu}, spec: {extendedResourceName: example.com/gpu}}
- {apiVersion: resource.k8s.io/v1beta2, kind: ResourceClaim, metadata: {name: c}, spec: {devices: {}}}
- {apiVersion: resource.k8s.io/v1, kind: ResourceClaimTemplate, metadata: {name: t, namespace: ns}, spec: {spec: {devices: {}}}}
- {apiVersion: resource.k8s.io/v1alpha3, kind: DeviceTaintRule, metadata: {name: r}, spec: {taint: {key: k, effect: NoExecute}}}
";
    let mut inventory = Inventory::from_text(text).unwrap();
    let kinds: Vec<_> = inventory.device_objects.iter().map(|entry| entry.object.kind()).collect();
    assert_eq!(kinds, DeviceKind::ALL);
    let namespaces = inventory.device_objects.iter().map(|entry| entry.object.metadata().namespace.as_str());
    assert_eq!(namespaces.collect::<Vec<_>>(), ["", "", "default", "ns", ""]);
    assert_eq!(
        inventory.device_classes().map(|class| class.metadata.name.as_str()).collect::<Vec<_>>(),
        ["gpu"]
    );
    let applied = |status: &str| {
        let claim =
            format!("{{apiVersion: resource.k8s.io/v1, kind: ResourceClaim, metadata: {{name: c}}{status}}}");
        let mut inventory = inventory.clone();
        inventory.read(claim.as_bytes(), "first").unwrap();
        inventory
            .read(
                "{apiVersion: resource.k8s.io/v1, kind: ResourceClaim, metadata: {name: c}}".as_bytes(),
                "second",
            )
            .unwrap();
        let claims = inventory.device_objects.into_iter().filter_map(|entry| match entry.object {
            DeviceObject::ResourceClaim(claim) => Some(claim.status.allocation.is_some()),
            _ => None,
        });
        claims.collect::<Vec<_>>()
    };
    assert_eq!(applied(""), [false]);
    assert_eq!(
        applied(", status: {allocation: {}}"),
        [true],
        "a manifest without status leaves that of the cluster"
    );
    let claim = NamespacedName::new("default", "c");
    assert!(inventory.remove(Kind::Device(DeviceKind::ResourceClaim), &claim));
    assert_eq!(inventory.device_objects.len(), 4);
    assert_eq!(Kind::named("resourceclaims.resource.k8s.io"), Some(Kind::Device(DeviceKind::ResourceClaim)));
}
