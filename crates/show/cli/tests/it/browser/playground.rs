//! The playground, opened from a disk without any network.

use std::path::{Path, PathBuf};

use berth_testkit::documents::repository;
use serde_json::json;

use super::driver::{Browser, is_possible};

/// The folder that `cargo xtask playground` writes.
fn folder() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap().join("playground-site")
}

/// A browser without a network that shows the start of the playground.
fn start(test: &str) -> Option<(Browser, String)> {
    let index = folder().join("index.html");
    let remedy = "build it with `cargo xtask playground`";
    if !is_possible(test, index.exists(), "BERTH_REQUIRE_PLAYGROUND", remedy) {
        return None;
    }
    let browser = Browser::start(test)?;
    browser.devtools("Network.enable", &json!({}));
    let offline = json!({"offline": true, "latency": 0, "downloadThroughput": 0, "uploadThroughput": 0});
    browser.devtools("Network.emulateNetworkConditions", &offline);
    Some((browser, format!("file://{}", index.display())))
}

fn open_start(browser: &Browser, url: &str) {
    browser.open(url);
    browser.until("!document.getElementById('open').disabled");
}

/// Drops a file on the page.
fn drop_file(browser: &Browser, name: &str, bytes: &[u8]) {
    browser.run(&format!(
        "const data = new DataTransfer();
         data.items.add(new File([new Uint8Array({bytes:?})], {name:?}));
         document.body.dispatchEvent(new DragEvent('drop', {{ dataTransfer: data, bubbles: true }}));"
    ));
}

#[test]
#[ignore = "at night"]
fn the_pages_work_without_a_network_and_send_nothing() {
    let Some((browser, url)) = start("playground") else { return };
    open_start(&browser, &url);
    browser.click("#example");
    browser.until("document.title.startsWith('Overview')");
    browser.until_text("12 nodes, 25 pods, 2 pending");
    // Every page of the navigation, each with a URL.
    let links = browser
        .run("return [...document.querySelectorAll('#page nav a')].map((link) => link.getAttribute('href'))");
    let links: Vec<&str> = links.as_array().unwrap().iter().map(|link| link.as_str().unwrap()).collect();
    assert!(links.len() > 1 && links.iter().all(|link| link.starts_with("#/")), "{links:?}");
    for link in &links {
        browser.click(&format!("#page nav a[href='{link}']"));
        browser.until(&format!("document.querySelector(\"#page nav a[href='{link}'][aria-current=page]\")"));
        let heading = browser.text("return document.querySelector('#page h1').innerText");
        assert!(heading != "Not found", "{link}");
    }
    browser.run("history.back()");
    let back = links[links.len() - 2];
    browser.until(&format!("document.querySelector(\"#page nav a[href='{back}'][aria-current=page]\")"));
    // An explanation, and a what-if.
    browser.run("location.hash = '#/pods/shop/index-3'");
    browser.until_text(
        "0/12 nodes are available: 10 node(s) didn't match pod anti-affinity rules, 2 Insufficient cpu.",
    );
    browser.run("location.hash = '#/what-if'");
    browser.until("document.querySelector('#page input[name=drain]')");
    browser.run("document.querySelector('#page input[name=drain]').value = 'a1'");
    browser.run("document.querySelector('#page input[name=drain]').form.requestSubmit()");
    browser.until("document.querySelector('#page .outcome')");
    assert!(browser.text("return location.hash").contains("drain=a1"));
    // The link that skips the navigation is not a page.
    browser.run("document.querySelector('#page .skip').click()");
    assert_eq!(browser.text("return document.activeElement.id"), "content");
    browser.check_clean(&url.replace("index.html", ""));
    let refused = "return fetch('http://127.0.0.1:1/').then(() => 'sent', () => 'refused')";
    assert_eq!(browser.text(refused), "refused");
    let sent =
        "return performance.getEntriesByType('resource').filter((e) => e.name.startsWith('http')).length";
    assert_eq!(browser.run(sent), 0);
}

#[test]
#[ignore = "at night"]
fn files_can_be_dropped_compressed_and_pasted() {
    let Some((browser, url)) = start("playground-files") else { return };
    open_start(&browser, &url);
    let dump = std::fs::read(repository().join("examples/outage/cluster.yaml")).unwrap();
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut encoder, &dump).unwrap();
    drop_file(&browser, "cluster.yaml.gz", &encoder.finish().unwrap());
    browser.until("document.title.endsWith('cluster.yaml.gz - Berth')");
    browser.until_text("3 nodes");

    // An error has the place, and the page can be used on.
    drop_file(&browser, "bad.yaml", b"kind: Node\nmetadata: {name: [}\n");
    browser.until_text("bad.yaml:2:");
    drop_file(
        &browser,
        "other.json",
        b"{\"apiVersion\": \"v1\", \"kind\": \"Namespace\", \"metadata\": {\"name\": \"a\"}}",
    );
    browser.until_text("other.json: no nodes, pods or workloads");
    browser.run(
        "document.getElementById('text').value = '{apiVersion: v1, kind: Node, metadata: {name: worker-1}}'",
    );
    browser.click("#open");
    browser.until_text("1 node, 0 pods, 0 pending");
    browser.check_clean(&url.replace("index.html", ""));
}

#[test]
#[ignore = "at night"]
fn a_panic_is_shown_and_the_page_goes_on() {
    let Some((browser, url)) = start("playground-panic") else { return };
    // The third request to the module fails as after a panic.
    let source = "const instantiate = WebAssembly.instantiate;
        let n = 0;
        WebAssembly.instantiate = async (...args) => {
          const { exports } = await instantiate(...args);
          const respond = exports.playground_respond;
          const failing = () => { n += 1; if (n === 3) throw new WebAssembly.RuntimeError('unreachable'); return respond(); };
          return { exports: { ...exports, playground_respond: failing } };
        };";
    browser.devtools("Page.addScriptToEvaluateOnNewDocument", &json!({"source": source}));
    open_start(&browser, &url);
    browser.click("#example");
    browser.until("document.title.startsWith('Overview')");
    browser.click("#page nav a[href='#/pending']");
    browser.until_text("The module stopped and was started again with the same files: unreachable");
    browser.click("#back");
    browser.until("document.title.startsWith('Overview')");
    browser.check_clean(&url.replace("index.html", ""));
}
