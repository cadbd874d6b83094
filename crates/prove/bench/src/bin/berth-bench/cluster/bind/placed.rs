//! The placement, as the API server has it at the end.

use berth_api::resource::PODS;
use berth_bench::bind::decidable;
use berth_bench::scale::nodes;
use berth_bench::scale::templates::{PodTemplate, namespaces};
use berth_client::{Pages, WatchGroup, WatchOptions};
use berth_testkit::check::{self, Findings, Placed};
use kube::Client;
use serde::Deserialize;

use crate::error::BenchError;

/// Pods on a page: their text is some MiB.
const PAGE: u32 = 5_000;

#[derive(Deserialize)]
struct Listed {
    metadata: Metadata,
    spec: Spec,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    name: String,
    resource_version: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    #[serde(default)]
    node_name: String,
}

/// The pods with nodes, in an order in which they may have been decided.
pub async fn read(
    seed: u64,
    client: &Client,
    templates: &[PodTemplate],
    n_pods: usize,
) -> Result<Vec<Placed>, BenchError> {
    let options = WatchOptions { page_size: PAGE, ..WatchOptions::new(PODS.path("")) };
    let options = WatchOptions { group: WatchGroup::new(usize::MAX), ..options };
    let template_of = |name: &str| {
        let (app, _) = name.rsplit_once('-')?;
        u32::try_from(templates.iter().position(|t| t.pod.metadata.name == app)?).ok()
    };
    let placed_of = |pod: &Listed| {
        let node = u32::try_from(nodes::node_index(&pod.spec.node_name)?).ok()?;
        let version: u64 = pod.metadata.resource_version.parse().ok()?;
        Some((version, Placed { template: template_of(&pod.metadata.name)?, node }))
    };
    let mut placed = Vec::with_capacity(n_pods);
    let mut pages = Pages::new(client, &options);
    while let Some(page) = pages.next::<Listed>().await? {
        placed.extend(page.iter().filter_map(placed_of));
    }
    let zone_of = |node: u32| nodes::node(seed, node as usize).metadata.labels.remove(nodes::ZONE);
    Ok(decidable(placed, templates, zone_of))
}

/// Checks the placement with code that is independent of the engine.
pub fn check(seed: u64, templates: &[PodTemplate], n_nodes: usize, placed: &[Placed]) -> Findings {
    let templates: Vec<_> = templates.iter().map(|t| t.pod.clone()).collect();
    let made = (0..n_nodes).map(|i| nodes::node(seed, i));
    check::check(made, &namespaces(), &templates, placed)
}
