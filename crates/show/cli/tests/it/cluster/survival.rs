//! Whether a domain that `berth what-if --each` reports as survived is survived by a cluster.

use std::path::Path;

use berth_testkit::programs::TempDir;
use http::Method;
use serde_json::Value;

use crate::client::{connect, eventually, list, send, text};
use crate::process::Berth;

const ZONE: &str = "/metadata/labels/topology.kubernetes.io~1zone";

#[tokio::test(flavor = "multi_thread")]
#[ignore = "at night: it waits a minute for the collection of pods"]
async fn a_domain_reported_as_survived_is_survived_by_a_cluster() {
    let directory = TempDir::new("survival");
    // Three nodes in zone-1, two in zone-2; three pods of each of two Deployments, each on its own node.
    let args = [
        "up",
        "--nodes",
        "5",
        "--zones",
        "2",
        "-f",
        "examples/redis-web",
        "--no-summary",
        "--start-after",
        "0s",
        "--stop-after",
        "0s",
    ];
    let berth = Berth::start(&directory, "up", &args);
    let kubeconfig = berth.line_after("export KUBECONFIG=");
    let client = connect(Path::new(&kubeconfig)).await;
    let running = async |n_wanted: usize| {
        let pods = list(&client, "/api/v1/pods").await.map_err(|e| e.to_string())?;
        let nodes = list(&client, "/api/v1/nodes").await.map_err(|e| e.to_string())?;
        let names: Vec<&str> = nodes.iter().map(|node| text(node, "/metadata/name")).collect();
        let is_running = |pod: &&Value| {
            text(pod, "/status/phase") == "Running"
                && pod.pointer("/metadata/deletionTimestamp").is_none()
                && names.contains(&text(pod, "/spec/nodeName"))
        };
        let n_running = pods.iter().filter(is_running).count();
        let n_pods = pods.len();
        if (n_running, n_pods) == (n_wanted, n_wanted) {
            Ok(())
        } else {
            Err(format!("{n_running} of {n_pods} run"))
        }
    };
    eventually("all pods run", async || running(6).await).await;

    let mut what_if = Berth::start(
        &directory,
        "what-if",
        &["what-if", "--kubeconfig", &kubeconfig, "--each", "zone", "-o", "json"],
    );
    let report: Value = serde_json::from_str(&what_if.rest()).unwrap();
    assert_eq!(what_if.wait().code(), Some(1), "{report}");
    let survives = |zone: &str| {
        let domains = report["domains"].as_array().unwrap();
        domains.iter().find(|loss| loss["domain"] == zone).unwrap()["survives"].as_bool().unwrap()
    };
    // Two nodes have room for two pods of a Deployment.
    assert_eq!((survives("zone-1"), survives("zone-2")), (false, true), "{report}");

    for node in list(&client, "/api/v1/nodes").await.unwrap() {
        if text(&node, ZONE) == "zone-2" {
            let path = format!("/api/v1/nodes/{}", text(&node, "/metadata/name"));
            send(&client, Method::DELETE, &path, None).await.unwrap();
        }
    }
    eventually("all pods run without zone-2", async || running(6).await).await;
}
