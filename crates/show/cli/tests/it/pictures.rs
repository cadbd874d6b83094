//! `-o svg` and `-o html`: the files are well-formed and self-contained, and have the numbers of `-o json`.

mod terminal;

use std::path::PathBuf;

use berth_testkit::documents::repository;
use berth_testkit::programs::difference;
use roxmltree::Document;
use serde_json::Value;

use crate::program::berth;

/// The pictures of the documents with the commands that draw them.
const IN_DOCUMENTS: [(&str, &str); 9] = [
    ("sets.svg", "sets -f examples/overlapping-sets"),
    ("node-sets.svg", "sets -f examples/node-sets --of nodes"),
    ("topology.svg", "simulate -f examples/redis-web --nodes 6 --zones 3 --racks 2 --color-by workload"),
    ("rules.svg", "simulate -f examples/redis-web --nodes 6 --zones 3 --picture rules"),
    ("spread.svg", "simulate -f examples/redis-web --nodes 6 --zones 3 --picture spread"),
    ("explanation.svg", "explain -f examples/zone-anti-affinity --nodes 2 --zones 2 quorum-2"),
    ("what-if.svg", "what-if --dump examples/outage/cluster.yaml --drain a1"),
    ("timeline.svg", "replay examples/recording"),
    ("losses.svg", "what-if --dump examples/outage/cluster.yaml --each zone"),
];

fn output(command: &str, format: &str) -> String {
    let args: Vec<_> = command.split(' ').chain(["-o", format]).collect();
    let ran = berth(&repository(), &args, b"");
    assert!(ran.code == 0 || ran.code == 1, "{}", ran.stderr);
    ran.stdout
}

#[test]
fn the_pictures_in_the_documents_are_those_of_their_commands() {
    let wrong = IN_DOCUMENTS.iter().filter_map(|(file, command)| {
        difference(&repository().join("docs").join(file), &output(command, "svg"))
    });
    let wrong: Vec<String> = wrong.collect();
    assert!(wrong.is_empty(), "{}", wrong.concat());
}

/// Fails unless a picture is well-formed XML without references to other files and without scripts.
fn check(svg: &str) {
    let document = Document::parse(svg).unwrap_or_else(|error| panic!("{error}: {svg}"));
    for node in document.descendants().filter(roxmltree::Node::is_element) {
        assert!(node.tag_name().name() != "script", "{svg}");
        let references = node.attributes().filter(|a| a.name() == "href" || a.name().starts_with("on"));
        assert_eq!(references.count(), 0, "{svg}");
    }
    let links = svg.replace("http://www.w3.org/2000/svg", "");
    assert!(!links.contains("://") && !links.contains("url("), "{svg}");
}

#[test]
fn pictures_and_pages_are_well_formed_and_self_contained() {
    for (_, command) in IN_DOCUMENTS {
        check(&output(command, "svg"));
        let page = output(command, "html");
        assert!(page.starts_with("<!doctype html>") && page.ends_with("</html>\n"), "{page}");
        let figures: Vec<_> = page.split("<figure>\n").skip(1).collect();
        let expected = match command.split_once(' ') {
            Some(("simulate", _)) => 3,
            Some(("what-if", changes)) if !changes.contains("--each") => 6,
            _ => 1,
        };
        assert_eq!(figures.len(), expected, "{command}");
        for figure in figures {
            let (figure, _) = figure.split_once("</figure>").unwrap();
            check(figure.split_once("</figcaption>").map_or(figure, |(_, picture)| picture.trim_start()));
        }
        assert!(!page.contains('\u{1b}') && !page.contains("<script"), "{page}");
    }
}

#[test]
fn the_page_of_lint_is_self_contained_and_has_the_findings_of_its_report() {
    let manifests = "lint -f examples/affinity-terms";
    let page = output(manifests, "html");
    assert!(page.starts_with("<!doctype html>") && page.ends_with("</html>\n"), "{page}");
    assert!(!page.contains("<script") && !page.contains("://") && !page.contains("href="), "{page}");
    let report: Value = serde_json::from_str(&output(manifests, "json")).unwrap();
    let findings = report["findings"].as_array().unwrap();
    assert!(!findings.is_empty());
    assert_eq!(page.matches("fix: ").count(), findings.len(), "{page}");
    for finding in findings {
        let name = finding["name"].as_str().unwrap();
        let heading = format!("{} default/{name}", finding["kind"].as_str().unwrap());
        let position = format!("{}:{}", finding["file"].as_str().unwrap(), finding["line"]);
        assert!(page.contains(&heading) && page.contains(&position), "{finding}: {page}");
    }
}

#[test]
fn reports_without_pictures_are_pages_with_their_text() {
    for (command, text) in [
        ("capacity --dump examples/outage/cluster.yaml deploy/web", "more replicas fit"),
        (
            "compare --dump examples/outage/cluster.yaml --to-filename examples/outage/web.yaml",
            "placed differently",
        ),
    ] {
        let page = output(command, "html");
        assert!(page.starts_with("<!doctype html>") && page.ends_with("</html>\n"), "{page}");
        assert!(page.contains(text) && !page.contains('\u{1b}') && !page.contains("<script"), "{page}");
    }
}

#[test]
fn names_cannot_leave_their_element() {
    let directory = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let input = "{apiVersion: v1, kind: Node, metadata: {name: node-1, labels: {topology.kubernetes.io/zone: '<b>&\"'}}}";
    let ran = berth(&directory, &["simulate", "-f", "-", "-o", "svg"], input.as_bytes());
    if ran.code == 0 {
        check(&ran.stdout);
        assert!(ran.stdout.contains("&lt;b&gt;&amp;"), "{}", ran.stdout);
    } else {
        assert!(ran.stderr.contains("topology.kubernetes.io/zone"), "{}", ran.stderr);
    }
}

/// The titles of all elements.
fn titles(svg: &str) -> Vec<String> {
    let document = Document::parse(svg).unwrap();
    let titles =
        document.descendants().filter(|node| node.has_tag_name(("http://www.w3.org/2000/svg", "title")));
    titles.filter_map(|node| node.text().map(str::to_owned)).collect()
}

#[test]
fn pictures_have_the_numbers_of_the_json_report() {
    let command = "simulate -f examples/redis-web --nodes 6 --zones 3";
    let report: Value = serde_json::from_str(&output(command, "json")).unwrap();
    let summary = &report["summary"];
    let number = |field: &str| summary[field].as_u64().unwrap();
    let n_pods = number("nRunning") + number("nPlaced") + number("nUnplaced");
    let all = titles(&output(command, "svg"));
    let pods = if n_pods == 1 { "pod" } else { "pods" };
    assert_eq!(
        all[0],
        format!("{} nodes, {n_pods} {pods}, {} pending", number("nNodes"), number("nUnplaced"))
    );

    let spread = titles(&output(&format!("{command} --picture spread"), "svg"));
    let mut n_checked = 0;
    for workload in summary["workloads"].as_array().unwrap().iter().filter(|w| w["nPods"].as_u64() > Some(1))
    {
        for (domain, n) in workload["byDomain"].as_object().unwrap() {
            let pods = if n == 1 { "pod" } else { "pods" };
            let title = format!("topology.kubernetes.io/zone={domain}: {n} {pods}");
            assert!(spread.contains(&title), "{title}: {spread:?}");
            n_checked += 1;
        }
    }
    assert!(n_checked > 0);

    let command = "explain -f examples/zone-anti-affinity --nodes 2 --zones 2 quorum-2";
    let report: Value = serde_json::from_str(&output(command, "json")).unwrap();
    let all = titles(&output(command, "svg"));
    for term in report["terms"].as_array().unwrap().iter().filter(|term| term["excludes"].as_u64() > Some(0))
    {
        let (term, n, alone) = (term["term"].as_str().unwrap(), &term["excludes"], &term["excludesAlone"]);
        let nodes = if n == 1 { "node" } else { "nodes" };
        let text = format!("{term}: excludes {n} {nodes}, {alone} by itself alone");
        assert!(all.iter().any(|title| title.ends_with(&text)), "{text}: {all:?}");
    }
}

#[test]
fn pictures_of_changes_have_the_numbers_of_the_json_report() {
    let command = "what-if --dump examples/outage/cluster.yaml --drain a1";
    let report: Value = serde_json::from_str(&output(command, "json")).unwrap();
    let text = output(command, "svg");
    let all = titles(&text);
    let n = |field: &str| report[field].as_array().unwrap().len();
    assert!(all[0].ends_with(&format!(", {} pending", n("unplaced"))) && n("unplaced") > 0, "{}", all[0]);
    // The drained node, and those where the moved pods are.
    let mut targets: Vec<_> = report["moved"].as_array().unwrap().iter().map(|pod| &pod["to"]).collect();
    targets.dedup();
    let marks = |mark: &str| text.matches(&format!(">{mark} ")).count();
    assert!(marks("-") >= 1 && marks("-") + marks("+") > targets.len(), "{text}");

    let command = "what-if --dump examples/outage/cluster.yaml --each zone";
    let report: Value = serde_json::from_str(&output(command, "json")).unwrap();
    let all = titles(&output(command, "svg"));
    for loss in report["domains"].as_array().unwrap() {
        let n = |field: &str| loss[field].as_array().unwrap().len();
        let (domain, moved) = (loss["domain"].as_str().unwrap(), &loss["moved"]);
        let numbers = format!(
            "{moved} moved, {} unplaced, {} evicted, {} with rules that break",
            n("unplaced"),
            n("evicted"),
            n("brokenRules")
        );
        let found = |title: &String| title.starts_with(domain) && title.ends_with(&numbers);
        assert!(all.iter().any(found), "{domain}: {numbers}: {all:?}");
    }
}

#[test]
fn timelines_have_the_numbers_of_the_json_report() {
    let report: Value =
        serde_json::from_str(&output("replay --timeline examples/recording", "json")).unwrap();
    let all = titles(&output("replay examples/recording", "svg"));
    let intervals = report["timeline"]["intervals"].as_array().unwrap();
    let fields = [
        ("nDecisions", "decisions"),
        ("nEvictions", "evictions"),
        ("nPending", "pending pods"),
        ("nBrokenRules", "broken rules"),
    ];
    let mut expected = Vec::new();
    for (field, name) in fields {
        for interval in intervals.iter().filter(|interval| interval[field].as_u64() > Some(0)) {
            let begin = interval["begin"].as_str().unwrap();
            let time = begin.trim_end_matches('Z').split_once('-').unwrap().1.replace('T', " ");
            expected.push(format!("{time}: {} {name}", interval[field]));
        }
    }
    assert_eq!(&all[1..], expected);
    let sum = |field: &str| intervals.iter().map(|interval| interval[field].as_u64().unwrap()).sum::<u64>();
    // Each decision of the journal, and each pod that was evicted or preempted.
    assert_eq!((sum("nDecisions"), sum("nEvictions")), (18, 3));
    let last = intervals.last().unwrap();
    assert_eq!((&last["nPending"], &last["nBrokenRules"]), (&Value::from(0), &Value::from(2)));
}
