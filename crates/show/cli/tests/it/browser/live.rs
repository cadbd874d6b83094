//! Pages that follow a running cluster.

use std::time::Duration;

use serde_json::json;

use super::accessibility::problems_of;
use super::console::{FAINT, show};
use super::driver::ENTER;
use crate::client::{connect, create, eventually, send};

const PODS: &str = "/api/v1/namespaces/default/pods";

/// A pod that fits on no node.
fn huge(name: &str) -> serde_json::Value {
    let container = json!({"name": "c", "image": "i", "resources": {"requests": {"cpu": "1000"}}});
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [container]}})
}

#[tokio::test]
#[ignore = "at night"]
async fn a_page_follows_the_cluster_and_keeps_the_focus() {
    let Some(shown) = show("live", &["up", "--no-summary", "--nodes", "2", "--console=127.0.0.1:0"]) else {
        return;
    };
    let kubeconfig = shown.berth.line_after("export KUBECONFIG=");
    let client = connect(kubeconfig.as_ref()).await;
    let (browser, origin) = (&shown.browser, &shown.origin);
    browser.open(&format!("{origin}/pending"));
    browser.run("window.isSame = true");

    let link = |name: &str| format!("document.querySelector('a[href=\"/pods/default/{name}\"]')");
    create(&client, PODS, huge("middle")).await;
    browser.until(&link("middle"));
    browser.until_text("2 Insufficient cpu");
    browser.run(&format!("{}.focus()", link("middle")));
    create(&client, PODS, huge("first")).await;
    create(&client, PODS, huge("second")).await;
    browser.until(&link("first"));
    browser.until(&link("second"));
    assert_eq!(browser.run(&format!("return document.activeElement === {}", link("middle"))), true);

    send(&client, http::Method::DELETE, &format!("{PODS}/middle"), None).await.unwrap();
    browser.until(&format!("!{}", link("middle")));
    assert_eq!(browser.text("return document.activeElement.id"), "content");
    assert_eq!(browser.run("return window.isSame"), true, "the page was not loaded again");

    // What is shown is the page as it would be loaded now, also where several rows are about the same object.
    let is_same = "const text = await (await fetch(location.href)).text();
        const page = new DOMParser().parseFromString(text, 'text/html');
        // Ages go on.
        const shown = (page) => page.querySelector('main').outerHTML.replace(/<time.*?<.time>/g, '');
        return shown(page) === shown(document);";
    for page in ["events", "nodes", "workloads", "pending"] {
        browser.open(&format!("{origin}/{page}"));
        for i in 0..3 {
            create(&client, PODS, huge(&format!("{page}-{i}"))).await;
        }
        eventually("the page is up to date", async || {
            let same = browser.run(is_same);
            if same == true { Ok(()) } else { Err(format!("{page}: {same}")) }
        })
        .await;
    }
    browser.check_clean(origin);

    // A page that does not follow any more says so.
    drop(shown.berth);
    browser.until("document.querySelector('.stale').innerText.startsWith('Not up to date')");
}

#[tokio::test]
#[ignore = "at night"]
async fn a_what_if_is_applied_with_the_keyboard_and_the_topology_follows() {
    let args = [
        "up",
        "--no-summary",
        "--nodes",
        "2",
        "--start-after",
        "0s",
        "--console=127.0.0.1:0",
        "--allow-changes",
    ];
    let Some(shown) = show("apply", &args) else { return };
    let kubeconfig = shown.berth.line_after("export KUBECONFIG=");
    let client = connect(kubeconfig.as_ref()).await;
    let (browser, origin) = (&shown.browser, &shown.origin);
    let container = json!({"name": "c", "image": "i"});
    let template = json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container]}});
    let spec = json!({"replicas": 1, "selector": {"matchLabels": {"app": "web"}}, "template": template});
    let web =
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec});
    create(&client, "/apis/apps/v1/namespaces/default/deployments", web).await;
    browser.open(origin);
    browser.until_text("2 nodes, 1 pod");

    let heading = |text: &str| format!("document.querySelector('main h1').innerText === '{text}'");
    let press = |button: &str| {
        browser.run(&format!(
            "[...document.querySelectorAll('button')].find((b) => b.innerText.startsWith('{button}')).focus()"
        ));
        browser.press(&[ENTER]);
    };
    browser.open(&format!("{origin}/what-if?scale=deploy/web%3D3&add-nodes=1&like=node-1"));
    browser.until_text("Scale Deployment default/web to 3 replicas (now 1)");
    // The key is lost if the page is replaced after a change just then.
    eventually("the changes are shown before they are written", async || {
        press("Apply");
        for _ in 0..40 {
            if browser.run(&format!("return {}", heading("Apply to the cluster?"))) == true {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Err("the page is the same".to_owned())
    })
    .await;
    assert_eq!(browser.run(FAINT), json!([]));
    assert_eq!(problems_of(browser), [""; 0]);
    press("Write 1 change");
    browser.until(&heading("Applied to the cluster"));
    assert_eq!(
        browser.text("return document.querySelector('[role=status]').innerText"),
        "1 of 1 change written"
    );
    assert_eq!(browser.run(FAINT), json!([]));
    assert_eq!(problems_of(browser), [""; 0]);
    browser.open(origin);
    browser.until_text("2 nodes, 3 pods");
    for page in ["timeline", "events", "enforcer"] {
        browser.open(&format!("{origin}/{page}"));
        assert_eq!(problems_of(browser), [""; 0], "{page}");
    }
    browser.check_clean(origin);
}
