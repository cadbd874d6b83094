use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::*;
use crate::object::{DeviceKind, DeviceObject, NamespacedName, Pod, VolumeKind, VolumeObject};
use crate::read::{Kind, Manifest, ReadError, SourceLocation, collect_manifests, decode, read_manifests};
use crate::resource::{DEPLOYMENTS, NODES, PODS};

fn manifests(text: &str) -> Vec<Manifest> {
    collect_manifests(text, "f").unwrap()
}

fn names(text: &str) -> Vec<String> {
    manifests(text).iter().map(Manifest::to_string).collect()
}

fn read_error(text: &[u8]) -> String {
    read_manifests::<ReadError>(text, "f", &mut |_| Ok(())).unwrap_err().to_string()
}

fn input_error(text: &str) -> String {
    Inventory::from_text(text).unwrap_err().to_string()
}

#[test]
fn documents_and_lists_are_flattened() {
    let two = ["Pod default/a", "Node b"];
    for text in [
        "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n---\n# nothing\n---\napiVersion: v1\nkind: Node\nmetadata: {name: b}\n",
        "apiVersion: v1\nitems:\n- {apiVersion: v1, kind: Pod, metadata: {name: a}}\n- {apiVersion: v1, kind: Node, metadata: {name: b}}\nkind: List\n",
        "\u{feff}{apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: Pod, metadata: {name: a}}, {apiVersion: v1, kind: NodeList, items: [{metadata: {name: b}}]}]}",
        "\u{feff} {\"apiVersion\": \"v1\", \"kind\": \"Pod\", \"metadata\": {\"name\": \"a\"}}\n{\"apiVersion\": \"v1\", \"kind\": \"Node\", \"metadata\": {\"name\": \"b\"}}\n",
        "{\"items\": [{\"apiVersion\": \"v1\", \"kind\": \"Pod\", \"metadata\": {\"name\": \"a\"}}], \"apiVersion\": \"v1\", \"kind\": \"List\"}{\"items\": [{\"metadata\": {\"name\": \"b\"}}], \"apiVersion\": \"v1\", \"kind\": \"NodeList\"}",
        "{\"kind\": \"NodeList\", \"apiVersion\": \"v1\", \"items\": null} null {\"kind\": \"List\", \"apiVersion\": \"v1\", \"items\": [{\"apiVersion\": \"v1\", \"kind\": \"List\", \"items\": [{\"apiVersion\": \"v1\", \"kind\": \"Pod\", \"metadata\": {\"name\": \"a\"}}]}, {\"apiVersion\": \"v1\", \"kind\": \"Node\", \"metadata\": {\"name\": \"b\"}}]}",
    ] {
        assert_eq!(names(text), two, "{text}");
    }
    assert_eq!(names(""), [""; 0]);
    assert_eq!(names("---\n---\n# only comments\n"), [""; 0]);
}

#[test]
fn an_object_that_merely_has_items_is_left_whole() {
    for text in [
        r#"{"apiVersion": "x/v1", "items": [1, {"a": 2}], "kind": "Menu"}"#,
        "apiVersion: x/v1\nitems: [1, {a: 2}]\nkind: Menu\n",
    ] {
        let value = &manifests(text)[0].value;
        assert_eq!(value.to_string(), r#"{"apiVersion":"x/v1","items":[1,{"a":2}],"kind":"Menu"}"#);
    }
    let text = r#"{"kind": "Menu", "apiVersion": "x/v1", "items": [{"kind": "Dish", "apiVersion": "x/v1"}]}"#;
    assert_eq!(names(text), ["Menu"]);
    assert_eq!(names(r#"{"kind": "AllowList", "apiVersion": "x/v1", "items": {"a": 1}}"#).len(), 1);
}

#[test]
fn sources_tell_the_line_or_the_item() {
    let places = |text| manifests(text).iter().map(|m| m.source.to_string()).collect::<Vec<_>>();
    let yaml = "a: &a\n  x: 1\nkind: K\napiVersion: v1\n---\n\nitems:\n- kind: P\n  apiVersion: v1\n-\n  kind: P\n  apiVersion: v1\nkind: List\n";
    assert_eq!(places(yaml), ["f:1", "f:8", "f:11"]);
    let json = r#"{"kind": "K", "apiVersion": "v1"}{"kind": "PList", "apiVersion": "v1", "items": [{}, {}]}"#;
    assert_eq!(places(json), ["f: document 1", "f: document 2: items[0]", "f: document 2: items[1]"]);
}

#[test]
fn order_anchors_merges_and_tags_survive() {
    let text = "
kind: K
apiVersion: v1
base: &base {z: 1, a: 2}
same: *base
merged:
  <<: *base
  a: 3
texts: [\"1\", '2', !!str 3, |-
  4
  , \"yes\"]
typed: !!int \"5\"
on: keys stay as written
";
    let value = &manifests(&text.replace("|-\n  4\n  ", "4x"))[0].value;
    assert_eq!(
        value.to_string(),
        concat!(
            r#"{"kind":"K","apiVersion":"v1","base":{"z":1,"a":2},"same":{"z":1,"a":2},"merged":{"a":3,"z":1},"#,
            r#""texts":["1","2","3","4x","yes"],"typed":5,"on":"keys stay as written"}"#
        )
    );
}

#[test]
fn continuation_lines_may_be_indented_too_little() {
    let text = "kind: K\napiVersion: v1\nitems:\n- {kind: A, apiVersion: v1}\n- kind: B\n  apiVersion: v1\n  a:\n    b: 'one\n    two\n    three\n\n    four'\n---\nkind: C\napiVersion: v1\n"
        .replace("kind: K", "kind: List");
    let manifests = manifests(&text);
    let places: Vec<_> = manifests.iter().map(|m| format!("{m} {}", m.source)).collect();
    assert_eq!(places, ["A f:4", "B f:5", "C f:14"]);
    assert_eq!(manifests[1].value["a"]["b"], "one two three\nfour");
}

#[test]
fn documents_are_split_only_at_markers() {
    let text = "# c\n%YAML 1.1\n---\nkind: A\napiVersion: v1\ntext: |\n  ---\n  x\n--- # second\nkind: B\napiVersion: v1\n----: x\n...\n---\nkind: C\napiVersion: v1";
    assert_eq!(names(text), ["A", "B", "C"]);
    assert_eq!(manifests(text)[0].value["text"], "---\nx\n");
}

#[test]
fn json_objects_may_have_separators_of_yaml_between_them() {
    let object = |name: &str| {
        format!("{{\"apiVersion\": \"v1\", \"kind\": \"Pod\", \"metadata\": {{\"name\": \"{name}\"}}}}")
    };
    let text = format!("{}\n---\n{}\n--- \n\n---\n{}\n---\n", object("a"), object("b"), object("c"));
    let read = manifests(&text);
    assert_eq!(read.iter().map(|m| m.name().to_owned()).collect::<Vec<_>>(), ["a", "b", "c"]);
    let error = format!("{}\n--\n", object("a"));
    assert!(Inventory::from_text(&error).is_err());
}

#[test]
fn broken_text_is_reported_with_file_line_and_column() {
    for (text, message) in [
        (
            "kind: Pod\nmetadata:\n  name: a\n bad\n",
            "f:4:2: invalid YAML: while parsing a block mapping, did not find expected key",
        ),
        ("a: [1\n", "f:1:4: invalid YAML: unclosed bracket '['"),
        ("kind: Pod\nkind: Pod\n", "f:2:1: invalid YAML: duplicate key \"kind\""),
        ("spec:\n  a: 1\n  a: 2\n", "f:3:3: invalid YAML: duplicate key \"a\""),
        ("a: *b\n", "f:1:4: invalid YAML: while parsing node, found unknown anchor"),
        ("a: &a [*a]\n", "f:1:8: invalid YAML: an alias refers to a value that contains the alias"),
        ("? [a]\n: b\n", "f:1:3: invalid YAML: a key must be a string"),
        ("{\"kind\": \"Pod\",\n  \"x\": }", "f:2:8: invalid JSON: expected value"),
        ("{\"kind\": \"Pod\"", "f:1:14: invalid JSON: EOF while parsing an object"),
        ("{\"kind\": \"Pod\", \"apiVersion\": \"v1\"} garbage", "f:1:37: invalid JSON: expected value"),
        (
            "[1]",
            "f: document 1: an array, not a Kubernetes object: it must have apiVersion, kind and metadata",
        ),
        ("hello", "f:1: a string, not a Kubernetes object: it must have apiVersion, kind and metadata"),
        (
            "kind: List\napiVersion: v1\nitems:\n- 5\n",
            "f:4: a number, not a Kubernetes object: it must have apiVersion, kind and metadata",
        ),
        ("---\n---\nmetadata: {}\n", "f:3: kind is missing: add it, such as `kind: Pod`"),
        ("kind: Pod\n", "f:1: apiVersion is missing: add it, such as `apiVersion: v1`"),
        (r#"{"metadata": {}}"#, "f: document 1: kind is missing: add it, such as `kind: Pod`"),
        (
            r#"{"apiVersion": "v1", "items": [{"kind": "P", "apiVersion": "v1"}], "kind": "Menu"}"#,
            "f: document 1: kind \"Menu\" has items but is not a list: use kind List",
        ),
        (
            "kind: List\napiVersion: v1\nitems: 3\n",
            "f:1: a list whose items are no array, not a Kubernetes object: it must have apiVersion, kind and metadata",
        ),
        ("kind: List\n---\n\na: [\n", "f:4:4: invalid YAML: unclosed bracket '['"),
    ] {
        assert_eq!(read_error(text.as_bytes()), message, "{text:?}");
    }
}

#[test]
fn garbage_fails_at_once_and_is_not_echoed() {
    let mut noise = 0x9e37_79b9_u32;
    let mut random = move || {
        noise ^= noise << 13;
        noise ^= noise >> 17;
        noise ^= noise << 5;
        noise as u8
    };
    const SIZE: usize = 10 << 20;
    let repeat = |text: &str| text.repeat(SIZE / text.len()).into_bytes();
    let bytes: Vec<u8> = (0..SIZE).map(|_| random()).collect();
    assert_eq!(
        read_error(&bytes),
        "f: binary data, not text: give YAML or JSON, optionally compressed with gzip"
    );
    let no_zeros: Vec<u8> = std::iter::once(b'a').chain((0..SIZE).map(|_| random() | 1)).collect();
    assert_eq!(
        read_error(&no_zeros),
        "f: line 1 is not UTF-8 text: give YAML or JSON, optionally compressed with gzip"
    );
    assert_eq!(read_error(b"\xff\xfea\0"), "f: UTF-16 text: save it as UTF-8");
    let printable: Vec<u8> = (0..SIZE).map(|_| b' ' + random() % 95).collect();
    for text in [printable, repeat("a"), repeat("["), repeat("{"), repeat("- "), repeat("? "), repeat("\"")]
        .into_iter()
        .chain([repeat("{\"a\":"), repeat("a: "), repeat("&a "), repeat("%\n"), repeat("a\n"), repeat("!a ")])
    {
        let message = read_error(&text);
        assert!(message.len() < 300, "{message}");
    }
}

#[test]
fn alias_bombs_are_refused() {
    let mut text = String::from("a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol, lol]\n");
    for level in 1..10 {
        let alias = format!("*a{}, ", level - 1);
        text.push_str(&format!("a{level}: &a{level} [{}]\n", alias.repeat(10)));
    }
    let message = read_error(text.as_bytes());
    assert!(
        message.ends_with(
            "YAML aliases of a file repeat more than 8192 KiB of data: write the repeated parts out"
        )
    );
    assert!(message.starts_with("f:5:55:"), "{message}");

    // A chain of aliases nests as deeply as it is long.
    let mut chain = String::from("a0: &a0 {x: 1}\n");
    for level in 1..100_000 {
        chain.push_str(&format!("a{level}: &a{level} {{x: *a{}}}\n", level - 1));
    }
    assert!(read_error(chain.as_bytes()).ends_with("write the repeated parts out"));
}

#[test]
fn aliases_that_are_keys_are_counted() {
    let keys = |n: usize| format!("a: &a {}\nb:\n{}", "x".repeat(100_000), "- {*a : 1}\n".repeat(n));
    let document = |n| format!("kind: A\napiVersion: v1\n{}", keys(n));
    assert!(collect_manifests(&document(20), "f").is_ok());
    assert!(read_error(document(100).as_bytes()).ends_with("write the repeated parts out"));
}

#[test]
fn aliases_are_counted_over_all_documents() {
    let document =
        format!("kind: A\napiVersion: v1\na: &a {}\nb: [{}]\n", "x".repeat(100_000), ["*a"; 20].join(", "));
    assert!(collect_manifests(&document, "f").is_ok());
    let several = vec![document; 6].join("---\n");
    assert!(read_error(several.as_bytes()).ends_with("write the repeated parts out"));
}

#[test]
fn too_many_empty_documents_are_refused() {
    let empty = |n: usize| "---\n".repeat(n) + "---\nkind: A\napiVersion: v1\n";
    assert_eq!(collect_manifests(&empty(1000), "f").map(|found| found.len()).ok(), Some(1));
    let message = "f: more than 100000 empty documents: remove them";
    assert_eq!(read_error(empty(100_001).as_bytes()), message);
}

#[test]
fn names_that_would_look_like_several_lines_are_refused() {
    for (field, name) in [("name", "a\\nb"), ("name", "\\u001b[31m"), ("namespace", "a\\rb")] {
        let item = format!(r#"{{"apiVersion": "v1", "kind": "Pod", "metadata": {{"{field}": "{name}"}}}}"#);
        let list = format!(r#"{{"apiVersion": "v1", "kind": "PodList", "items": [{item}]}}"#);
        for text in [item.clone(), format!("# YAML\n{item}"), list] {
            let message = read_error(text.as_bytes());
            let expected = format!("metadata.{field} has a control character, such as the end of a line: ");
            assert!(message.contains(&expected) && !message.contains(char::is_control), "{message}");
        }
    }
}

#[test]
fn objects_and_lines_without_end_are_refused() {
    let endless = |head: &'static str, next: u8| {
        let text = std::io::Read::chain(head.as_bytes(), std::io::repeat(next));
        read_manifests::<ReadError>(text, "f", &mut |_| Ok(())).unwrap_err().to_string()
    };
    let large = "f: document 1: an object of more than 16 MiB: no API server accepts it; remove or split it";
    assert_eq!(endless(r#"{"kind": "Pod", "a": ""#, b'x'), large);
    assert_eq!(endless(r#"{"kind": "List", "items": [{"a": ""#, b'x'), large);
    let line = "f: a line of more than 16 MiB: give YAML or JSON, optionally compressed with gzip";
    assert_eq!(endless("a: ", b'x'), line);
    assert_eq!(
        endless("", 0),
        "f: binary data, not text: give YAML or JSON, optionally compressed with gzip"
    );

    // Lists may be larger than an object.
    let item = format!(r#"{{"kind": "A", "apiVersion": "v1", "text": "{}"}},"#, "x".repeat(1 << 20));
    let items = item.repeat(20);
    let list =
        format!(r#"{{"kind": "List", "apiVersion": "v1", "items": [{}]}}"#, items.trim_end_matches(','));
    assert_eq!(collect_manifests(&list, "f").unwrap().len(), 20);
    let text = "x\n".repeat(9 << 20);
    let yaml = format!("kind: A\napiVersion: v1\ntext: |\n{}", text.replace('x', "  x"));
    assert!(
        read_error(yaml.as_bytes()).contains("an object of more than 16 MiB"),
        "{}",
        read_error(yaml.as_bytes())
    );
}

#[test]
fn deep_nesting_is_refused() {
    for (open, close, message) in [
        ("[", "]", "f:1:131: nested deeper than 128 levels: no Kubernetes object is"),
        ("{a: ", "}", "f:1:513: nested deeper than 128 levels: no Kubernetes object is"),
        ("{\"a\": ", "}", "f:1:769: nested deeper than 128 levels: no Kubernetes object is"),
    ] {
        let text = format!("{}{}", open.repeat(140), close.repeat(140));
        let text = if open == "[" { format!("a: {text}") } else { text };
        assert_eq!(read_error(text.as_bytes()), message);
    }
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

/// The folder of real manifests and dumps beside the workspace; not part of it.
pub(crate) fn shared_files() -> Vec<PathBuf> {
    let shared = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../../shared");
    let mut files = Vec::new();
    let mut folders = vec![shared.join("manifests"), shared.join("data")];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = std::fs::read_dir(&folder) else {
            eprintln!("{} not found: nothing is read from it", folder.display());
            continue;
        };
        for path in entries.map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "yaml" || e == "yml" || e == "json") {
                files.push(path);
            }
        }
    }
    files.sort();
    files
}

#[test]
fn real_manifests_and_dumps_are_read() {
    for path in shared_files() {
        let text = std::fs::read_to_string(&path).unwrap();
        let mut inventory = Inventory::keeping_raw();
        let result = inventory.read(text.as_bytes(), "f");
        assert!(result.is_ok(), "{}: {}", path.display(), result.unwrap_err());
    }
}

proptest::proptest! {
    #[test]
    fn no_text_makes_the_readers_panic(
        yaml in "([a-zA-Z0-9~.é]|[{}\\[\\]:,&*<'\"|>#!%?-]|[ \n]{1,3}|---\n|kind: Pod\n|items:\n|: ){0,80}",
        json in "([a-z0-9é]|[{}\\[\\]:,\"\\\\.-]|\"kind\": \"List\",|\"items\": \\[\\{){0,40}",
        bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..200),
    ) {
        for text in [yaml.as_bytes(), format!("{{\"{json}").as_bytes(), &bytes] {
            if let Err(error) = read_manifests::<InputError>(text, "f", &mut |_| Ok(())) {
                proptest::prop_assert!(error.to_string().len() < 1200);
            }
        }
    }
}

#[test]
fn carriage_returns_in_an_under_indented_scalar_do_not_make_reading_slow() {
    let lines = "\r".repeat(200);
    let text =
        format!("apiVersion: v1\nkind: Pod\nmetadata:{lines}\n  name: \"a\n{lines}b\"\n{lines} c: \"x\ny\"");
    let read = collect_manifests(&text, "cr.yaml");
    assert!(read.is_err() || read.is_ok_and(|m| m.len() == 1));
    let carriage_returns_only = "apiVersion: v1\rkind: Pod\rmetadata:\r  name: \"a\rb\"\r";
    assert_eq!(collect_manifests(carriage_returns_only, "cr.yaml").unwrap()[0].name(), "a b");
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
