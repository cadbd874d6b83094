//! `berth up --console`: what-ifs that are applied to the cluster, and running grace periods.

use berth_client::call;
use berth_testkit::programs::TempDir;
use http::{HeaderValue, Method, header};
use kube::Client;
use serde_json::{Value, json};

use super::enforcer::label;
use super::running::PODS;
use crate::client::{connect, create, eventually, get, list, send, text};
use crate::process::{Berth, DEADLINE};

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const BUDGETS: &str = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";

/// The console of a cluster, as a viewer with its token sees it.
pub struct Viewer {
    client: Client,
    origin: String,
}

impl Viewer {
    /// Takes the URL that the console printed.
    pub fn of(up: &Berth) -> Viewer {
        let url = crate::process::eventually("the console is served", || {
            let log = up.stderr();
            let url = log.split_once("the console at ").and_then(|(_, rest)| rest.split_once('\n'));
            url.map(|(url, _)| url.to_owned()).ok_or(log.clone())
        });
        let (origin, token) = url.split_once("/?token=").unwrap();
        let mut config = kube::Config::new(origin.parse().unwrap());
        config.auth_info.token = Some(token.to_owned().into());
        Viewer { client: berth_client::connect::client(config).unwrap(), origin: origin.to_owned() }
    }

    pub async fn get(&self, path: &str) -> Result<String, String> {
        let sent = call::send(&self.client, call::get(path), DEADLINE, call::MAX_OBJECT_BYTES).await;
        Ok(String::from_utf8_lossy(&sent.map_err(|error| error.to_string())?).into_owned())
    }

    /// The answer to a form: an address that it leads to, or a page.
    async fn post(&self, path: &str, form: &str) -> Result<(Option<String>, String), String> {
        let content_type = "application/x-www-form-urlencoded";
        let mut request = call::with_body(Method::POST, path, content_type, form.as_bytes().to_vec());
        request.headers_mut().insert(header::ORIGIN, HeaderValue::from_str(&self.origin).unwrap());
        let answer = self
            .client
            .send(request.map(kube::client::Body::from))
            .await
            .map_err(|error| error.to_string())?;
        let location =
            answer.headers().get(header::LOCATION).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let body = answer.into_body().collect_bytes().await.map_err(|error| error.to_string())?;
        Ok((location, String::from_utf8_lossy(&body).into_owned()))
    }

    /// Applies a what-if when its list of writes has this text. Returns the address of the list and its page, when it has ended or waits.
    async fn apply(&self, query: &str, listed: &str) -> (String, String) {
        let location = eventually("the list is confirmed", async || {
            let (_, page) = self.post(&format!("/what-if/confirm?{query}"), "").await?;
            let (_, rest) = page.split_once("name=\"digest\" value=\"").ok_or(page.clone())?;
            let digest = rest.split('"').next().unwrap_or_default();
            if !page.contains(listed) {
                return Err(page);
            }
            let (location, page) =
                self.post(&format!("/what-if/apply?{query}"), &format!("digest={digest}")).await?;
            location.ok_or(page)
        })
        .await;
        let page = self.get(&location).await.unwrap();
        (location, page)
    }

    /// Stops a list that waits for the budget of the test, and returns its page.
    async fn stop(&self, (location, page): (String, String)) -> String {
        let waits = "Waiting: blocked by PodDisruptionBudget web: 0 disruptions allowed, needs 3 healthy pods and has 3 currently, tried again";
        assert!(page.contains(waits), "{page}");
        let (_, list) = location.split_once('?').unwrap();
        let (stopped, page) = self.post(&format!("/what-if/stop?{list}"), "").await.unwrap();
        assert_eq!(stopped.as_ref(), Some(&location), "{page}");
        self.get(&location).await.unwrap()
    }
}

fn deployment() -> Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "c", "image": "i"}], "terminationGracePeriodSeconds": 0},
            },
        },
    })
}

/// Name and node of the running pods, when there are this many.
async fn running(client: &Client, n: usize) -> Vec<(String, String)> {
    eventually("the pods run", async || {
        let pods = list(client, PODS).await.map_err(|error| error.to_string())?;
        let runs = |pod: &&Value| {
            text(pod, "/status/phase") == "Running" && text(pod, "/metadata/deletionTimestamp").is_empty()
        };
        let n_running = pods.iter().filter(runs).count();
        if (pods.len(), n_running) != (n, n) {
            return Err(format!("{n_running} of {} pods run, of {n}", pods.len()));
        }
        let names =
            |pod: &Value| (text(pod, "/metadata/name").to_owned(), text(pod, "/spec/nodeName").to_owned());
        Ok(pods.iter().map(names).collect())
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_what_if_is_applied_and_a_budget_refuses_an_eviction() {
    let directory = TempDir::new("applied");
    let args = [
        "up",
        "--nodes",
        "2",
        "--start-after",
        "0s",
        "--no-summary",
        "--console=127.0.0.1:0",
        "--allow-changes",
    ];
    let up = Berth::start(&directory, "up", &args);
    let client = connect(up.line_after("export KUBECONFIG=").as_ref()).await;
    let viewer = Viewer::of(&up);
    create(&client, DEPLOYMENTS, deployment()).await;
    running(&client, 1).await;

    let query = "scale=deploy/web%3D3&set-label=node-1+disk%3Dssd&taint=node-1+a%3Db:PreferNoSchedule&taint=node-1+c:NoSchedule";
    let (_, report) = viewer.apply(query, "4 changes will be written").await;
    assert!(report.contains("4 of 4 changes written"), "{report}");
    let pods = running(&client, 3).await;
    let node = get(&client, "/api/v1/nodes/node-1").await.unwrap();
    assert_eq!(text(&node, "/metadata/labels/disk"), "ssd");
    let taints = json!([{"key": "a", "value": "b", "effect": "PreferNoSchedule"}, {"key": "c", "effect": "NoSchedule"}]);
    assert_eq!(node["spec"]["taints"], taints);

    let budget = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web"},
        "spec": {"minAvailable": 3, "selector": {"matchLabels": {"app": "web"}}}});
    create(&client, BUDGETS, budget).await;
    eventually("the budget counts the pods", async || {
        let budget = get(&client, &format!("{BUDGETS}/web")).await.map_err(|e| e.to_string())?;
        if budget["status"]["currentHealthy"] == 3 { Ok(()) } else { Err(budget.to_string()) }
    })
    .await;
    let (evicted, on) = &pods[0];
    let query = format!("taint=node-1+c-&evict={evicted}&set-label={on}+disk%3Dhdd");
    let report = viewer.stop(viewer.apply(&query, "3 changes will be written").await).await;
    for part in ["1 of 3 changes written", "Failed: blocked by PodDisruptionBudget web", "Not tried"] {
        assert!(report.contains(part), "{part}: {report}");
    }
    assert_eq!(running(&client, 3).await, pods, "nothing is evicted");
    // A drain that stops half way: the page offers the rest, and the way back.
    let n_on = pods.iter().filter(|(_, node)| node == on).count();
    let listed = format!("{} changes will be written", n_on + 1);
    let report = viewer.stop(viewer.apply(&format!("drain={on}"), &listed).await).await;
    let back = format!("action=\"/what-if/confirm?uncordon={on}\"");
    for part in ["1 of", "Write the rest", &back] {
        assert!(report.contains(part), "{part}: {report}");
    }
    let (_, report) = viewer.apply(&format!("uncordon={on}"), "1 change will be written").await;
    assert!(report.contains("1 of 1 change written"), "{report}");
    let node = get(&client, &format!("/api/v1/nodes/{on}")).await.unwrap();
    assert_eq!(node["spec"]["unschedulable"], Value::Null);

    // A drain whose budget goes while it waits is completed.
    let (location, report) = viewer.apply(&format!("drain={on}"), &listed).await;
    assert!(report.contains("Waiting: blocked by"), "{report}");
    send(&client, Method::DELETE, &format!("{BUDGETS}/web"), None).await.unwrap();
    let all = format!("{0} of {0} changes written", n_on + 1);
    eventually("the drain is completed", async || {
        let report = viewer.get(&location).await?;
        if report.contains(&all) && !report.contains("Failed") { Ok(()) } else { Err(report) }
    })
    .await;
    eventually("the pods are on the other node", async || {
        let after = running(&client, 3).await;
        if after.iter().all(|(_, node)| node != on) { Ok(()) } else { Err(format!("{after:?}")) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_grace_period_of_a_rule_runs_from_when_it_broke() {
    let directory = TempDir::new("grace");
    let args = ["up", "--nodes", "1", "--start-after", "0s", "--no-summary", "--console=127.0.0.1:0"];
    let up = Berth::start(&directory, "up", &args);
    let client = connect(up.line_after("export KUBECONFIG=").as_ref()).await;
    let viewer = Viewer::of(&up);
    eventually("the node exists", async || {
        get(&client, "/api/v1/nodes/node-1").await.map_err(|e| e.to_string())
    })
    .await;
    label(&client, "node-1", json!("ssd")).await;
    let term = json!({"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]});
    let rule = json!({"requiredDuringSchedulingRequiredDuringExecution": {"nodeSelectorTerms": [term]}});
    let annotations = json!({"scheduling.berth.dev/eviction-grace": "1h"});
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "annotations": annotations},
        "spec": {"affinity": {"nodeAffinity": rule}, "containers": [{"name": "c", "image": "i"}]}});
    create(&client, PODS, pod).await;
    running(&client, 1).await;
    let page = viewer.get("/enforcer").await.unwrap();
    assert!(page.contains("no required rule of a running pod is broken."), "{page}");

    let before = jiff::Timestamp::now();
    label(&client, "node-1", Value::Null).await;
    let page = eventually("the rule is broken", async || {
        let page = viewer.get("/enforcer").await?;
        if page.contains(">3600 s</td>") { Ok(page) } else { Err(page) }
    })
    .await;
    let times: Vec<jiff::Timestamp> = page
        .split("<time datetime=\"")
        .skip(1)
        .map(|rest| rest.split('"').next().unwrap().parse().unwrap())
        .collect();
    // The end of the period is also in the sentence about what comes next, if the pod can be evicted then.
    let times = &times[times.len() - 2..];
    assert_eq!(times[1].duration_since(times[0]).as_secs(), 3600);
    let range = before.as_second()..=jiff::Timestamp::now().as_second();
    assert!(range.contains(&times[0].as_second()), "{times:?}");
    assert!(page.contains("The limits count no eviction now."), "{page}");
}
