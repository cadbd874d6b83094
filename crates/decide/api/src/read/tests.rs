use super::*;

fn manifests(text: &str) -> Vec<Manifest> {
    collect_manifests(text, "f").unwrap()
}

fn names(text: &str) -> Vec<String> {
    manifests(text).iter().map(Manifest::to_string).collect()
}

fn read_error(text: &[u8]) -> String {
    read_manifests::<ReadError>(text, "f", &mut |_| Ok(())).unwrap_err().to_string()
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
fn arrays_events_of_watches_and_dumps_with_logs_are_read() {
    let (a, b) = (
        r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}"#,
        r#"{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "b"}}"#,
    );
    let log = |text: &str| {
        format!(
            "==== START logs for container c of pod d/a ====\n{text}==== END logs for container c of pod d/a ====\n"
        )
    };
    let long = "{\"kind\": \"Pod\"\n".repeat(200_000);
    for text in [
        format!("[{a},\n{b}]"),
        format!("- {a}\n- {b}\n"),
        format!(
            r#"{{"type": "ADDED", "object": {a}}}{{"type": "BOOKMARK", "object": {{"kind": "Pod", "apiVersion": "v1"}}}}
            {{"type": "MODIFIED", "object": {b}}}"#
        ),
        format!("object: {a}\ntype: ADDED\n---\nobject: {b}\ntype: ADDED\n"),
        format!("{a}\n{}{}{}{b}\n{}", log(""), log("no end of line"), log(&long), log("x\n")),
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: a}}\n{}---\n{b}\n{}",
            log(": [\n"),
            log("---\n")
        ),
    ] {
        assert_eq!(names(&text), ["Pod default/a", "Node b"], "{}", &text[..200.min(text.len())]);
    }
    assert_eq!(
        read_error(b"[1]"),
        "f: items[0]: a number, not a Kubernetes object: it must have apiVersion, kind and metadata"
    );
}

#[test]
fn what_kubectl_prints_for_people_is_no_input() {
    for (text, found) in [
        ("NAME    READY   STATUS\nweb-0   1/1     Running\n", "a table"),
        ("NAMESPACE   NAME    NOMINATED-NODE\nshop        web-0   <none>\n", "a table"),
        ("pod/web-0\npod/web-1\n", "names"),
        ("deployment.apps/web\n", "names"),
        ("Name:             web-0\nNamespace:        shop\n", "a description"),
        ("Name:               node-1\nRoles:              <none>\n", "a description"),
    ] {
        let message = format!(
            "f: {found} that kubectl printed for people: save the objects with `-o yaml` or `-o json`"
        );
        assert_eq!(read_error(text.as_bytes()), message);
    }
    assert_eq!(names("NAME: x\n").len() + names("Name: x\nvalue: y\n").len(), 2);
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
    assert!(collect_manifests(&error, "f").is_err());
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
        ("[1]", "f: items[0]: a number, not a Kubernetes object: it must have apiVersion, kind and metadata"),
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

proptest::proptest! {
    #[test]
    fn no_text_makes_the_readers_panic(
        yaml in "([a-zA-Z0-9~.é]|[{}\\[\\]:,&*<'\"|>#!%?-]|[ \n]{1,3}|---\n|kind: Pod\n|items:\n|: ){0,80}",
        json in "([a-z0-9é]|[{}\\[\\]:,\"\\\\.-]|\"kind\": \"List\",|\"items\": \\[\\{){0,40}",
        bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..200),
    ) {
        for text in [yaml.as_bytes(), format!("{{\"{json}").as_bytes(), &bytes] {
            if let Err(error) = read_manifests::<ReadError>(text, "f", &mut |_| Ok(())) {
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
