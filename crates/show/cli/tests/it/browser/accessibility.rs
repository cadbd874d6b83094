//! What a screen reader gets of each page: the accessibility tree of the browser.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;

use berth_testkit::programs::TempDir;
use serde_json::{Value, json};

use super::console::{EXAMPLE, GPUS, RAY_CLUSTER, Shown, show_file};
use super::driver::Browser;
use super::layout::{DEVICE_PAGES, GROUP_PAGES, PAGES, WINDOWS, cluster};

/// Roles of what a reader can use.
const INTERACTIVE: [&str; 15] = [
    "button",
    "link",
    "textbox",
    "searchbox",
    "combobox",
    "listbox",
    "checkbox",
    "radio",
    "slider",
    "spinbutton",
    "switch",
    "tab",
    "menuitem",
    "DisclosureTriangle",
    "Details",
];
/// Roles of pictures; those without a meaning are hidden from the tree.
const PICTURES: [&str; 7] =
    ["image", "img", "SvgRoot", "Canvas", "graphics-document", "meter", "progressbar"];
/// Landmarks, of which several need names.
const LANDMARKS: [&str; 8] =
    ["banner", "navigation", "main", "search", "form", "region", "complementary", "contentinfo"];

/// Form controls whose name is not a label: a placeholder goes when something is typed.
const UNLABELED: &str = "
    const hasLabel = (e) => e.labels?.length || e.ariaLabel || e.ariaLabelledByElements?.length;
    return [...document.querySelectorAll('input:not([type=hidden]), select, textarea')].filter((e) => e.checkVisibility() && !hasLabel(e))
      .map((e) => e.outerHTML.slice(0, 80));";

struct Node<'a> {
    role: &'a str,
    name: &'a str,
    value: &'a Value,
}

/// The nodes that a reader gets, in their order in the document.
fn in_order(tree: &Value) -> Vec<Node<'_>> {
    let nodes = tree["nodes"].as_array().unwrap();
    let by_id: HashMap<&str, &Value> =
        nodes.iter().map(|node| (node["nodeId"].as_str().unwrap(), node)).collect();
    let (mut left, mut found) = (vec![nodes[0]["nodeId"].as_str().unwrap()], Vec::new());
    while let Some(node) = left.pop().and_then(|id| by_id.get(id)) {
        if node["ignored"] != true {
            let text = |field: &str| node[field]["value"].as_str().unwrap_or_default();
            found.push(Node { role: text("role"), name: text("name").trim(), value: node });
        }
        left.extend(node["childIds"].as_array().into_iter().flatten().rev().filter_map(Value::as_str));
    }
    found
}

/// What is wrong with a tree.
fn problems(tree: &Value) -> Vec<String> {
    let nodes = in_order(tree);
    let mut problems = Vec::new();
    let mut landmarks: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    let mut level_before = 0;
    for node in &nodes {
        let Node { role, name, value } = node;
        if (INTERACTIVE.contains(role) || PICTURES.contains(role)) && name.is_empty() {
            problems.push(format!("{role} without a name, element {}", value["backendDOMNodeId"]));
        }
        // A form without a name is no landmark.
        if LANDMARKS.contains(role) && (*role != "form" || !name.is_empty()) {
            *landmarks.entry((role, name)).or_default() += 1;
        }
        if *role == "heading" {
            let properties = value["properties"].as_array().into_iter().flatten();
            let level = properties
                .filter(|property| property["name"] == "level")
                .find_map(|p| p["value"]["value"].as_u64());
            let level = level.unwrap_or_default();
            if level > level_before + 1 {
                problems
                    .push(format!("a heading of level {level} after one of level {level_before}: {name}"));
            }
            level_before = level;
        }
    }
    for ((role, name), n) in landmarks {
        if n > 1 {
            problems.push(format!("{n} landmarks {role} with the name '{name}'"));
        }
    }
    for landmark in ["main", "navigation", "banner"] {
        let is_there = nodes.iter().any(|node| node.role == landmark);
        if !is_there && (landmark != "navigation" || !is_folded(&nodes)) {
            problems.push(format!("no landmark {landmark}"));
        }
    }
    // The headers of a table are within it, before the next one.
    let is_table = |node: &Node<'_>| ["table", "LayoutTable", "grid"].contains(&node.role);
    for (i, table) in nodes.iter().enumerate().filter(|(_, node)| is_table(node)) {
        let within = nodes[i + 1..].iter().take_while(|node| !is_table(node));
        let n_headers = within.filter(|node| ["columnheader", "rowheader"].contains(&node.role)).count();
        if n_headers == 0 || table.role == "LayoutTable" {
            problems.push(format!("a {} with {n_headers} header cells: {}", table.role, table.name));
        }
        if table.name.is_empty() {
            problems.push(format!("a {} without a name", table.role));
        }
    }
    problems
}

/// On a phone, a button shows the navigation.
fn is_folded(nodes: &[Node<'_>]) -> bool {
    nodes.iter().any(|node| node.role == "button" && node.name == "Menu")
}

/// What is wrong with the page that is shown; the first of many problems.
pub fn problems_of(browser: &Browser) -> Vec<String> {
    let unlabeled = browser.run(UNLABELED);
    let unlabeled = unlabeled.as_array().unwrap().iter().map(|element| format!("without a label: {element}"));
    let tree = browser.devtools("Accessibility.getFullAXTree", &json!({}));
    problems(&tree).into_iter().chain(unlabeled).take(10).collect()
}

fn check(Shown { browser, origin, .. }: &Shown, pages: &[(&str, &str)]) {
    let mut found = String::new();
    for (window, width, height) in WINDOWS {
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500});
        browser.devtools("Emulation.setDeviceMetricsOverride", &size);
        for (page, link) in pages {
            browser.open(&format!("{origin}{link}"));
            let all = problems_of(browser);
            all.iter().for_each(|problem| _ = writeln!(found, "{page}, {window}: {problem}"));
        }
    }
    assert!(found.is_empty(), "{found}");
}

#[test]
#[ignore = "at night"]
fn a_screen_reader_gets_names_headings_tables_and_landmarks_of_each_page() {
    let Some(shown) = &show_file("accessibility", &EXAMPLE) else { return };
    check(shown, &PAGES);
}

#[test]
#[ignore = "at night"]
fn a_screen_reader_gets_the_same_of_the_pages_about_devices() {
    let Some(shown) = &show_file("accessibility-devices", &GPUS) else { return };
    check(shown, &DEVICE_PAGES);
}

#[test]
#[ignore = "at night"]
fn a_screen_reader_gets_the_same_of_the_pages_about_pod_groups() {
    let Some(shown) = &show_file("accessibility-groups", &RAY_CLUSTER) else { return };
    check(shown, &GROUP_PAGES);
}

#[test]
#[ignore = "at night"]
fn a_screen_reader_gets_the_same_of_a_large_cluster() {
    let directory = TempDir::new("accessibility-large");
    let file = directory.file("cluster.yaml");
    std::fs::write(&file, cluster(400, 2000)).unwrap();
    let Some(shown) = &show_file("accessibility-large", &["--dump", file.to_str().unwrap()]) else { return };
    let pages = [
        ("overview", "/"),
        ("topology", "/topology"),
        ("racks", "/topology?level=rack&color=namespace"),
        ("zones", "/topology?level=zone"),
        ("pod", "/pods/team-0/service-with-a-long-name-0"),
        ("nodes", "/nodes?sort=-requested"),
    ];
    check(shown, &pages);
}

#[test]
#[ignore = "at night"]
fn a_tree_with_each_mistake_is_found_out() {
    let node = |id: usize, role: &str, name: &str, children: &[&str]| {
        json!({"nodeId": id.to_string(), "role": {"value": role}, "name": {"value": name}, "childIds": children,
            "properties": [{"name": "level", "value": {"value": 3}}]})
    };
    let tree = json!({"nodes": [
        node(1, "RootWebArea", "", &["2", "3", "4", "5", "6", "7", "8"]),
        node(2, "main", "", &[]),
        node(3, "heading", "Nodes", &[]),
        node(4, "link", " ", &[]),
        node(5, "SvgRoot", "", &[]),
        node(6, "table", "Pods", &["9"]),
        node(7, "navigation", "Pages", &[]),
        node(8, "navigation", "Pages", &[]),
        node(9, "cell", "a", &[]),
    ]});
    let found = problems(&tree);
    for expected in [
        "link without a name",
        "SvgRoot without a name",
        "a heading of level 3 after one of level 0: Nodes",
        "2 landmarks navigation with the name 'Pages'",
        "no landmark banner",
        "a table with 0 header cells: Pods",
    ] {
        assert!(found.iter().any(|problem| problem.starts_with(expected)), "{expected}: {found:?}");
    }
    assert_eq!(found.len(), 6, "{found:?}");
}
