//! The console of a cluster from a file.

use std::collections::BTreeMap;

use berth_testkit::documents::repository;
use berth_testkit::programs::TempDir;
use serde_json::{Value, json};

use super::driver::{Browser, ENTER, TAB};
use crate::process::{Berth, eventually};

pub const EXAMPLE: [&str; 2] = ["--dump", "examples/console/cluster.yaml"];
/// Nodes with GPUs, and pods with claims.
pub const GPUS: [&str; 2] = ["-f", "examples/gpus"];
/// A pod group that does not fit.
pub const RAY_CLUSTER: [&str; 2] = ["-f", "examples/ray-cluster"];

/// A console with a browser that shows its first page.
pub struct Shown {
    pub browser: Browser,
    /// Begin of all URLs, without a slash.
    pub origin: String,
    pub berth: Berth,
    _directory: TempDir,
}

/// Starts `berth` with these arguments, and opens the URL of the console that it prints.
pub fn show(test: &str, args: &[&str]) -> Option<Shown> {
    let browser = Browser::start(test)?;
    let directory = TempDir::new(test);
    let berth = Berth::start(&directory, test, args);
    let url = eventually("the console is served", || {
        let log = berth.stderr();
        let (_, rest) = log.split_once("the console at ").ok_or_else(|| log.clone())?;
        let (url, _) = rest.split_once('\n').ok_or_else(|| log.clone())?;
        Ok::<_, String>(url.to_owned())
    });
    browser.open(&url);
    let origin = url.split_once("/?").unwrap().0.to_owned();
    Some(Shown { browser, origin, berth, _directory: directory })
}

pub fn show_file(test: &str, input: &[&str]) -> Option<Shown> {
    show(test, &[&["console", "--address", "127.0.0.1:0"], input].concat())
}

/// The links of a page into the console.
fn links(browser: &Browser) -> Vec<String> {
    let script =
        "return [...document.querySelectorAll('a[href^=\"/\"]')].map((link) => link.getAttribute('href'))";
    let links = browser.run(script);
    links.as_array().unwrap().iter().map(|link| link.as_str().unwrap().to_owned()).collect()
}

/// What makes two links lead to the same kind of page: the first segment, the number of segments, and the parameters.
fn kind(link: &str) -> String {
    let (path, query) = link.split_once('?').unwrap_or((link, ""));
    let names: Vec<&str> = query.split('&').filter_map(|pair| pair.split('=').next()).collect();
    let segments: Vec<&str> = path.trim_matches('/').split('/').collect();
    format!("{} {} {}", segments[0], segments.len(), names.join(" "))
}

/// The elements with text that can hardly be read: the contrast to the background is below 4.5.
pub const FAINT: &str = "
    const parse = (color) => color.match(/[\\d.]+/g).map(Number);
    const light = ([r, g, b]) => [r, g, b].map((c) => c / 255).map((c) => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
      .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
    const back = (element) => {
      for (let e = element; e; e = e.parentElement) {
        const color = parse(getComputedStyle(e).backgroundColor);
        if (color.length < 4 || color[3] > 0) return color;
      }
      return matchMedia('(prefers-color-scheme: dark)').matches ? [18, 18, 18] : [255, 255, 255];
    };
    const isRead = (e) => e.checkVisibility() && [...e.childNodes].some((n) => n.nodeType === 3 && n.nodeValue.trim());
    return [...document.body.querySelectorAll(':not(svg *):not(option):not([disabled])')].filter(isRead).flatMap((e) => {
      const [a, b] = [light(parse(getComputedStyle(e).color)), light(back(e))].sort((x, y) => y - x);
      return (a + 0.05) / (b + 0.05) < 4.5 ? [e.tagName + '.' + e.className + ' ' + e.innerText.slice(0, 40)] : [];
    });";

/// Opens up to two pages of each kind that links lead to, and returns their number.
fn visit(Shown { browser, origin, .. }: &Shown, check: impl Fn(&str)) -> usize {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut next = links(browser);
    let mut n_pages = 0;
    while let Some(link) = next.pop() {
        let n_seen = seen.entry(kind(&link)).or_default();
        *n_seen += 1;
        if *n_seen <= 2 {
            n_pages += 1;
            browser.open(&format!("{origin}{link}"));
            let heading = browser.text("return document.querySelector('main h1').innerText");
            assert!(!["Not found", "Bad parameter"].contains(&heading.as_str()), "{link}: {heading}");
            check(&link);
            next.extend(links(browser));
        }
    }
    browser.check_clean(origin);
    n_pages
}

#[test]
fn every_page_can_be_read_in_both_themes() {
    let Some(shown) = &show_file("pages", &EXAMPLE) else { return };
    let browser = &shown.browser;
    let n_pages = visit(shown, |link| {
        let page = browser.run(
            "return { heading: document.title.startsWith(document.querySelector('main h1').innerText),
              n: document.querySelectorAll('main, h1').length, language: document.documentElement.lang,
              unnamed: [...document.querySelectorAll('input, select, textarea')].filter((e) => !e.labels?.length && !e.ariaLabel && e.type !== 'hidden').length,
              wide: document.documentElement.scrollWidth > innerWidth }",
        );
        let expected = json!({"heading": true, "n": 2, "language": "en", "unnamed": 0, "wide": false});
        assert_eq!(page, expected, "{link}");
        for theme in ["light", "dark"] {
            browser.prefer(theme);
            assert_eq!(browser.run(FAINT), Value::Array(Vec::new()), "{link} in the {theme} theme");
        }
    });
    assert!(n_pages >= 10, "{n_pages}");
}

/// Texts that run a script where they are not escaped.
const HOSTILE: &str = r#"
{apiVersion: v1, kind: Node, metadata: {name: "n<img src=x onerror='window.hit=1'>\"", labels: {topology.kubernetes.io/zone: "<script>window.hit=1</script>", topology.berth.dev/rack: "javascript:window.hit=1", "a<b>": "\"><svg onload=window.hit=1>"}, annotations: {a: "</style><script>window.hit=1</script>"}}, status: {allocatable: {cpu: 1, memory: 1Gi, pods: 9}}}
---
{apiVersion: v1, kind: Node, metadata: {name: "../../etc"}, status: {allocatable: {cpu: 1, memory: 1Gi, pods: 9}}}
---
{apiVersion: v1, kind: Pod, metadata: {name: pending, annotations: {a: "</script><script>window.hit=1</script>"}}, spec: {containers: [{name: c, image: "<script>window.hit=1</script>", resources: {requests: {cpu: 2}}}]}}
---
{apiVersion: apps/v1, kind: Deployment, metadata: {name: "javascript:window.hit=1", namespace: "<script>"}, spec: {replicas: 0, selector: {matchLabels: {app: "i"}}, template: {metadata: {labels: {app: "i"}}, spec: {containers: [{name: c, image: "<script>window.hit=1</script>"}]}}}}
"#;

#[test]
#[ignore = "at night"]
fn texts_of_objects_and_addresses_run_no_script() {
    let directory = TempDir::new("hostile-input");
    let file = directory.file("<script>window.hit=1<!--.yaml");
    let long = format!(
        "---\n{{apiVersion: v1, kind: Namespace, metadata: {{name: a, annotations: {{a: {}}}}}}}",
        "<b>".repeat(1 << 18)
    );
    std::fs::write(&file, format!("{HOSTILE}{long}")).unwrap();
    let Some(shown) = &show_file("hostile", &["--dump", file.to_str().unwrap()]) else { return };
    let (browser, origin) = (&shown.browser, &shown.origin);
    let check = |link: &str| assert_eq!(browser.run("return window.hit ?? null"), Value::Null, "{link}");
    assert!(visit(shown, check) >= 10);
    let script = "%22%3E%3Cscript%3Ewindow.hit=1%3C/script%3E";
    for address in [
        "search?q=",
        "what-if?drain=",
        "topology?color=",
        "topology?pod=",
        "pods?q=",
        "pods/default/",
        "nodes/",
        "lint?rule=",
        "sets?a=",
    ] {
        browser.open(&format!("{origin}/{address}{script}"));
        check(address);
        assert_eq!(browser.run("return document.querySelectorAll('script').length"), 2, "{address}");
    }
}

#[test]
#[ignore = "at night"]
fn the_keyboard_alone_leads_from_the_topology_to_an_explanation() {
    let Some(Shown { browser, origin, .. }) = &show_file("keyboard", &EXAMPLE) else { return };
    let focused =
        || browser.text("return (document.activeElement.getAttribute('href') ?? document.activeElement.id)");
    browser.press(&[TAB]);
    assert_eq!(focused(), "#content");
    let place = "return document.activeElement.getBoundingClientRect().left >= 0";
    assert_eq!(
        browser.run(place),
        true,
        "the link that skips the navigation is visible when it has the focus"
    );
    let tab_to = |link: &str| {
        let mut passed = Vec::new();
        while focused() != link {
            assert!(passed.len() < 200, "{link} is not reached: {passed:?}");
            passed.push(focused());
            browser.press(&[TAB]);
        }
        browser.press(&[ENTER]);
    };
    tab_to("/pending");
    browser.until("document.title.startsWith('Pending')");
    tab_to("#content");
    browser.until("document.activeElement.id === 'content'");
    tab_to("/pods/shop/index-3");
    browser.until_text(
        "0/12 nodes are available: 10 node(s) didn't match pod anti-affinity rules, 2 Insufficient cpu.",
    );
    browser.until("document.querySelector('main svg')");
    browser.check_clean(origin);
}

#[test]
#[ignore = "at night"]
fn a_what_if_has_the_answer_of_the_command() {
    let Some(Shown { browser, origin, .. }) = &show_file("what-if", &EXAMPLE) else { return };
    browser.open(&format!("{origin}/what-if"));
    browser.click("input[name=drain]");
    browser.press(&['a', '1', ENTER]);
    browser.until("document.querySelector('.outcome')");
    assert!(browser.text("return location.search").contains("drain=a1"));
    let outcome = browser.text("return document.querySelector('.outcome').innerText");
    let command = std::process::Command::new(env!("CARGO_BIN_EXE_berth"))
        .args([&["what-if", "--drain", "a1"][..], &EXAMPLE].concat())
        .current_dir(repository())
        .output()
        .unwrap();
    let text = String::from_utf8(command.stdout).unwrap();
    assert_eq!(Some(outcome.trim()), text.lines().next());
    // Before and after side by side, and the form beside both.
    let figures = "return [...document.querySelectorAll('.sides > section')].map((part) => part.getBoundingClientRect().top)";
    let moved = "return [...document.querySelectorAll('.sides .leaves')].length";
    assert!(browser.run(moved).as_u64() > Some(0), "pods that leave are drawn as such");
    let beside = "return document.querySelector('form.card').getBoundingClientRect().top - document.querySelector('.verdict').getBoundingClientRect().top";
    assert_eq!(browser.run(beside), 0);
    let figures = browser.run(figures);
    assert_eq!(figures[0], figures[1], "{figures}");

    // A manifest is sent as a form.
    browser.run("document.querySelector('textarea[name=manifest]').value = `{apiVersion: v1, kind: Node, metadata: {name: new,
        labels: {disk: nvme}}, status: {allocatable: {cpu: 4, memory: 8Gi, pods: 9}}}`");
    browser.run("document.querySelector('textarea[name=manifest]').form.requestSubmit()");
    browser.until_text("13 nodes");
    browser.check_clean(origin);
}

#[test]
#[ignore = "at night"]
fn five_thousand_nodes_are_shown() {
    let input = ["--nodes", "5000", "--zones", "10", "--racks", "20", "-f", "examples/redis-web"];
    let Some(Shown { browser, origin, .. }) = &show_file("large", &input) else { return };
    // The overview has a point for each node, the topology a cell for each rack, a zone one for each of its nodes.
    let n_points = "return [...document.querySelectorAll('.dots path')].reduce((n, path) => n + path.getAttribute('d').split('M').length - 1, 0)";
    browser.until(&format!("(() => {{ {n_points} }})() === 5000"));
    browser.until_text("5,000 nodes");
    browser.open(&format!("{origin}/topology"));
    assert_eq!(browser.run(n_points), 5000);
    assert_eq!(browser.run("return document.querySelectorAll('.cell').length"), 200);
    browser.click(".zone h3 a");
    browser.until("location.search.startsWith('?zone=')");
    browser.open(&format!("{origin}/topology?level=node"));
    assert_eq!(browser.run("return document.querySelectorAll('.tile').length"), 5000);
    browser.check_clean(origin);
}
