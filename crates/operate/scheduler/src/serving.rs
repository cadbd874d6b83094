//! What the scheduler serves besides health and metrics: its configuration, and the resources of pods.

use std::fmt::Write as _;
use std::sync::Arc;

use berth_api::object::{Pod, ResourceList};
use berth_api::resource::PODS;
use berth_client::serving::StatusPages;
use berth_client::watch::ListError;
use berth_client::{Pages, WatchOptions};
use berth_input::config::SchedulerConfig;
use berth_rules::{pod_limits, pod_requests};
use berth_serve::health;
use http::StatusCode;
use serde_json::json;

/// The media type of `/metrics/resources`.
const TEXT_FORMAT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// `/configz` and `/metrics/resources`.
pub(crate) fn pages(config: &SchedulerConfig, client: kube::Client) -> StatusPages {
    let configz: Arc<str> = json!({"componentconfig": config.to_value()}).to_string().into();
    Arc::new(move |path| {
        let (configz, client) = (configz.clone(), client.clone());
        match path {
            "/configz" => Some(Box::pin(async move {
                health::response(StatusCode::OK, "application/json", configz.to_string())
            })),
            "/metrics/resources" => Some(Box::pin(async move {
                match resource_metrics(&client).await {
                    Ok(text) => health::response(StatusCode::OK, TEXT_FORMAT, text),
                    Err(error) => {
                        health::text(StatusCode::INTERNAL_SERVER_ERROR, format!("cannot list pods: {error}"))
                    }
                }
            })),
            _ => None,
        }
    })
}

/// The requests and limits of all pods, listed for each request: the state does not keep limits.
async fn resource_metrics(client: &kube::Client) -> Result<String, ListError> {
    let (mut requests, mut limits) = (String::new(), String::new());
    let options = WatchOptions::new(PODS.path(""));
    let mut pages = Pages::new(client, &options);
    while let Some(page) = pages.next().await? {
        let page: Vec<Pod> = page;
        if pages.is_first() {
            requests.clear();
            limits.clear();
        }
        for pod in page.iter().filter(|pod| pod.spec.node_name.is_empty() || !pod.is_terminal()) {
            write_resources(&mut requests, "kube_pod_resource_request", pod, &pod_requests(&pod.spec));
            write_resources(&mut limits, "kube_pod_resource_limit", pod, &pod_limits(&pod.spec));
        }
    }
    let what = "by workloads on the cluster, broken down by pod. This shows the resource usage the scheduler and kubelet \
                expect per pod for resources along with the unit for the resource if any.";
    Ok(format!(
        "# HELP kube_pod_resource_limit Resources limit {what}\n# TYPE kube_pod_resource_limit gauge\n{limits}\
         # HELP kube_pod_resource_request Resources requested {what}\n# TYPE kube_pod_resource_request gauge\n{requests}"
    ))
}

fn write_resources(text: &mut String, metric: &str, pod: &Pod, resources: &ResourceList) {
    let (metadata, spec) = (&pod.metadata, &pod.spec);
    for (resource, quantity) in resources {
        let unit = match resource.as_str() {
            "cpu" => "cores",
            "memory" | "storage" | "ephemeral-storage" => "bytes",
            name if name.starts_with("hugepages-") => "bytes",
            name if name.starts_with("attachable-volumes-") => "integer",
            _ => "",
        };
        let value = quantity.millis() as f64 / 1000.0;
        if value == 0.0 {
            continue;
        }
        let priority = spec.priority.map(|priority| priority.to_string()).unwrap_or_default();
        let labels = [
            ("namespace", metadata.namespace.as_str()),
            ("pod", &metadata.name),
            ("node", &spec.node_name),
            ("scheduler", &spec.scheduler_name),
            ("priority", &priority),
            ("resource", resource),
            ("unit", unit),
        ];
        let labels = labels.map(|(name, value)| format!("{name}=\"{}\"", escaped(value)));
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{metric}{{{}}} {value}", labels.join(","));
    }
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
