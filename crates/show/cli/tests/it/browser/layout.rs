//! The layout of each page, in both widths and themes, with clusters of several sizes.

use std::fmt::Write;

use berth_testkit::programs::TempDir;
use serde_json::{Value, json};

use super::console::{EXAMPLE, FAINT, GPUS, RAY_CLUSTER, Shown, show_file};
use super::driver::{ARROW_DOWN, ARROW_RIGHT, ENTER};

/// The pages of the console, each with an example of its kind.
pub const PAGES: [(&str, &str); 22] = [
    ("overview", "/"),
    ("topology", "/topology?color=workload"),
    ("topology-node", "/topology?node=b1"),
    ("topology-pod", "/topology?color=workload&pod=shop/redis-1"),
    ("pending", "/pending"),
    ("pod", "/pods/shop/index-3"),
    ("pod-running", "/pods/data/db-1"),
    ("pods", "/pods"),
    ("workloads", "/workloads"),
    ("workload", "/workloads/Deployment/shop/web?capacity=zone"),
    ("nodes", "/nodes"),
    ("node", "/nodes/b1"),
    ("what-if", "/what-if?drain=b1"),
    ("what-if-each", "/what-if?each=zone"),
    ("rules", "/rules"),
    ("sets", "/sets"),
    ("lint", "/lint"),
    ("enforcer", "/enforcer"),
    ("timeline", "/timeline"),
    ("events", "/events"),
    ("yaml", "/yaml/Pod/shop/index-3"),
    ("design", "/design"),
];
/// The pages about devices.
pub const DEVICE_PAGES: [(&str, &str); 4] = [
    ("node-devices", "/nodes/gpu-2"),
    ("node-partitions", "/nodes/mig-1"),
    ("claims", "/claims"),
    ("claim", "/claims/default/eight-gpus"),
];
/// The pages about pod groups.
pub const GROUP_PAGES: [(&str, &str); 3] = [
    ("groups", "/groups"),
    ("group", "/groups/scheduling.x-k8s.io/default/tune"),
    ("pod-of-group", "/pods/default/tune-head-4jq7m"),
];
/// Width and height of the windows.
pub const WINDOWS: [(&str, u64, u64); 2] = [("wide", 1280, 800), ("phone", 390, 844)];

/// What is wrong with the layout: an array of texts.
///
/// Nothing is wider than the window unless its own box scrolls; no text is cut unless its title has it whole; texts of a picture do not
/// overlap; what is clicked is not tiny; the page is used to its right edge; and each control has a name.
const PROBLEMS: &str = "
    const problems = [];
    const name = (e) => e.tagName + '.' + (e.className.baseVal ?? e.className) + ' ' + e.textContent.trim().slice(0, 40);
    const boxes = (e) => e.getBoundingClientRect();
    const isShown = (e) => e.checkVisibility() && boxes(e).width > 1 && boxes(e).height > 1;
    const isIn = (e, test) => { for (let p = e; p; p = p.parentElement) if (test(p)) return true; return false; };
    const scrolls = (e) => ['auto', 'scroll'].includes(getComputedStyle(e).overflowX) || e.classList.contains('unseen');
    // A phone's window grows with what is too wide.
    if (document.documentElement.scrollWidth > WIDTH) problems.push('the page is ' + document.documentElement.scrollWidth + ' wide');
    const all = [...document.body.querySelectorAll('*')].filter(isShown);
    for (const e of all) {
      if (boxes(e).right > WIDTH + 1 && !isIn(e, scrolls)) problems.push('wider than the window: ' + name(e));
      const style = getComputedStyle(e);
      const isCut = ['hidden', 'clip'].includes(style.overflowX) && e.scrollWidth > e.clientWidth + 1 && e.textContent.trim();
      if (isCut && !e.title && !e.classList.contains('unseen') && !e.closest('svg')) problems.push('cut: ' + name(e));
    }
    for (const svg of document.querySelectorAll('main svg')) {
      const texts = [...svg.querySelectorAll('text')].slice(0, 300).map((e) => [e, boxes(e)]);
      texts.forEach(([a, p], i) => texts.slice(i + 1).forEach(([b, q]) => {
        const overlaps = Math.min(p.right, q.right) - Math.max(p.left, q.left) > 2 && Math.min(p.bottom, q.bottom) - Math.max(p.top, q.top) > 4;
        if (overlaps) problems.push('overlap: ' + a.textContent + ' / ' + b.textContent);
      }));
    }
    for (const e of document.querySelectorAll('main button, main .button, main input, main select')) {
      if (isShown(e) && e.type !== 'checkbox' && boxes(e).height < 24) problems.push('too small: ' + name(e));
    }
    const main = boxes(document.querySelector('main'));
    const right = Math.max(...[...document.querySelectorAll('main .card, main .zone')].filter(isShown).map((e) => boxes(e).right));
    if (main.right - right > 40) problems.push('the right ' + Math.round(main.right - right) + ' pixels are empty');
    for (const e of document.querySelectorAll('a[href], button')) {
      if (isShown(e) && !(e.textContent.trim() || e.title || e.ariaLabel)) problems.push('without a name: ' + e.outerHTML.slice(0, 80));
    }
    return problems.slice(0, 10);";

/// What is wrong with pages, in both widths and themes.
fn problems(Shown { browser, origin, .. }: &Shown, pages: &[(&str, &str)]) -> String {
    let mut found = String::new();
    for (window, width, height) in WINDOWS {
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500});
        browser.devtools("Emulation.setDeviceMetricsOverride", &size);
        for (name, link) in pages {
            browser.open(&format!("{origin}{link}"));
            let mut add = |what: &str, problems: Value| {
                for problem in problems.as_array().unwrap() {
                    let _ =
                        writeln!(found, "{name}, {window}{what}: {}", problem.as_str().unwrap_or_default());
                }
            };
            add("", browser.run(&PROBLEMS.replace("WIDTH", &width.to_string())));
            for theme in ["light", "dark"] {
                browser.prefer(theme);
                add(&format!(", {theme}, faint"), browser.run(FAINT));
            }
        }
    }
    browser.check_clean(origin);
    found
}

#[test]
#[ignore = "at night"]
fn each_page_fits_both_widths_and_its_texts_can_be_read() {
    let Some(shown) = &show_file("layout", &EXAMPLE) else { return };
    let found = problems(shown, &PAGES);
    assert!(found.is_empty(), "{found}");
}

#[test]
#[ignore = "at night"]
fn the_pages_about_devices_fit_both_widths_and_their_texts_can_be_read() {
    let Some(shown) = &show_file("layout-devices", &GPUS) else { return };
    let found = problems(shown, &DEVICE_PAGES);
    assert!(found.is_empty(), "{found}");
}

#[test]
#[ignore = "at night"]
fn the_pages_about_pod_groups_fit_both_widths_and_their_texts_can_be_read() {
    let Some(shown) = &show_file("layout-groups", &RAY_CLUSTER) else { return };
    let found = problems(shown, &GROUP_PAGES);
    assert!(found.is_empty(), "{found}");
}

/// Nodes with the long names of a cloud, in zones and racks, with pods that request GPUs.
pub fn cluster(n_nodes: usize, n_pods: usize) -> String {
    let node = |i: usize| {
        let (zone, rack) = (i % 4, i / 4 % 12);
        format!(
            "{{apiVersion: v1, kind: Node, metadata: {{name: ip-10-{zone}-{rack}-{i}.eu-west-1.compute.internal, labels: \
             {{topology.kubernetes.io/zone: eu-west-1{zone}, topology.berth.dev/rack: rack-{zone}-{rack}}}}}, status: {{allocatable: \
             {{cpu: 32, memory: 128Gi, pods: 110, nvidia.com/gpu: {}}}}}}}",
            if i.is_multiple_of(20) { 8 } else { 0 }
        )
    };
    let pod = |i: usize| {
        let (on, gpu) = match i {
            0 => (String::new(), "nvidia.com/gpu: 16"),
            _ => (
                format!(
                    "nodeName: ip-10-{}-{}-{}.eu-west-1.compute.internal, ",
                    i % n_nodes % 4,
                    i % n_nodes / 4 % 12,
                    i % n_nodes
                ),
                "",
            ),
        };
        format!(
            "{{apiVersion: v1, kind: Pod, metadata: {{name: service-with-a-long-name-{i}, namespace: team-{}}}, spec: {{{on}containers: \
             [{{name: c, image: i, resources: {{requests: {{cpu: {}, memory: 2Gi}}, limits: {{{gpu}}}}}}}]}}}}",
            i % 3,
            i % 9 + 1
        )
    };
    let objects = (0..n_nodes).map(node).chain((0..n_pods).map(pod));
    objects.collect::<Vec<_>>().join("\n---\n")
}

#[test]
#[ignore = "at night"]
fn large_clusters_fit_both_widths() {
    let directory = TempDir::new("layout-large");
    for (n_nodes, n_pods) in [(15, 60), (200, 2000), (5000, 5000)] {
        let file = directory.file("cluster.yaml");
        std::fs::write(&file, cluster(n_nodes, n_pods)).unwrap();
        let Some(shown) = &show_file(&format!("layout-{n_nodes}"), &["--dump", file.to_str().unwrap()])
        else {
            return;
        };
        let pages = [
            ("overview", "/"),
            ("topology", "/topology"),
            ("racks", "/topology?level=rack&color=namespace"),
            ("zones", "/topology?level=zone"),
            ("zone", "/topology?zone=eu-west-10"),
            ("pod", "/pods/team-0/service-with-a-long-name-0"),
            ("nodes", "/nodes?sort=-requested"),
            ("pods", "/pods"),
            ("pending", "/pending"),
            ("what-if", "/what-if?drain=ip-10-1-0-1.eu-west-1.compute.internal"),
        ];
        let found = problems(shown, &pages);
        assert!(found.is_empty(), "{n_nodes} nodes: {found}");
    }
}

#[test]
#[ignore = "at night"]
fn the_pages_fold_into_a_menu_on_a_phone() {
    let Some(Shown { browser, origin, .. }) = &show_file("menu", &EXAMPLE) else { return };
    let size = json!({"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": true});
    browser.devtools("Emulation.setDeviceMetricsOverride", &size);
    browser.open(&format!("{origin}/nodes"));
    let is_shown = "return document.querySelector('#menu').checkVisibility()";
    assert_eq!(browser.run(is_shown), false);
    browser.click(".menu-button");
    assert_eq!(browser.run(is_shown), true);
    browser.click("#menu a[href='/pending']");
    browser.until("document.title.startsWith('Pending')");
    browser.check_clean(origin);
}

#[test]
#[ignore = "at night"]
fn the_focus_on_a_pod_shows_its_partners_and_rules() {
    let Some(Shown { browser, origin, .. }) = &show_file("focus", &EXAMPLE) else { return };
    browser.open(&format!("{origin}/topology?color=workload"));
    browser.run("document.querySelector('.pod[href=\"/pods/shop/redis-1\"]').focus()");
    browser.until("document.querySelector('.map.focused')");
    let names = |class: &str| {
        browser.run(&format!("return [...document.querySelectorAll('.pod.{class}')].map((pod) => pod.getAttribute('href')).sort()"))
    };
    assert_eq!(names("same"), json!(["/pods/shop/redis-0", "/pods/shop/redis-1", "/pods/shop/redis-2"]));
    assert!(names("partner").to_string().contains("/pods/shop/cart-7c4-k"));
    assert!(names("neighbour").to_string().contains("/pods/data/db-1"));
    browser.until_text("avoids StatefulSet redis per topology.kubernetes.io/zone");
    // The page that the server renders about a pod says the same without the script.
    browser.open(&format!("{origin}/topology?color=workload&pod=shop/redis-1"));
    assert_eq!(names("same"), json!(["/pods/shop/redis-0", "/pods/shop/redis-1", "/pods/shop/redis-2"]));
    browser.until_text("avoids StatefulSet redis per topology.kubernetes.io/zone");
    browser.check_clean(origin);
}

#[test]
#[ignore = "at night"]
fn the_topology_is_walked_with_the_arrows_and_can_be_skipped() {
    let Some(Shown { browser, origin, .. }) = &show_file("arrows", &EXAMPLE) else { return };
    browser.open(&format!("{origin}/topology"));
    let focused = || browser.text("return document.activeElement.getAttribute('href')");
    browser.run("document.querySelector('a.skip.here').focus()");
    assert_eq!(browser.run("return document.activeElement.getBoundingClientRect().height > 20"), true);
    browser.run("document.querySelector('.cell > a[href*=\"node=a1\"]').focus()");
    browser.press(&[ARROW_RIGHT, ARROW_RIGHT]);
    assert_eq!(focused(), "/pods/shop/redis-0");
    browser.until_text("avoids StatefulSet redis per topology.kubernetes.io/zone");
    browser.press(&[ARROW_DOWN]);
    assert_eq!(focused(), "/topology?node=a2");
    browser.press(&[ENTER]);
    browser.until_text("Each is a what-if first");
    browser.check_clean(origin);
}

#[test]
#[ignore = "at night"]
fn a_node_of_the_topology_offers_what_ifs_and_a_repair_is_tried() {
    let Some(Shown { browser, origin, .. }) = &show_file("tried", &EXAMPLE) else { return };
    browser.open(&format!("{origin}/topology"));
    browser.click(".cell a[href*='node=b1']");
    browser.until_text("Each is a what-if first");
    browser.click("#inspector a[href='/what-if?cordon=b1']");
    browser.until("document.querySelector('.outcome')");
    browser.open(&format!("{origin}/pods/shop/search-7c4-k"));
    browser.until_text("lack the label disk=nvme");
    browser.run("[...document.querySelectorAll('.repairs .button, .repairs form button')][0].click()");
    browser.until("document.querySelector('.outcome') && location.pathname === '/what-if'");
    browser.until_text("1 newly placed");
    browser.check_clean(origin);
}
