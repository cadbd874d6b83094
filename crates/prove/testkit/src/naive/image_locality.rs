//! `ImageLocality`: prefers nodes that have the pod's images, weighted by size.

use berth_api::object::{Container, Node};

use super::{MAX_NODE_SCORE, Question};

const MEBIBYTE: i64 = 1024 * 1024;
/// Image bytes with score 0.
const MIN_BYTES: i64 = 23 * MEBIBYTE;
/// Image bytes per container with the highest score.
const MAX_BYTES_PER_CONTAINER: i64 = 1000 * MEBIBYTE;

pub fn score(q: Question, feasible: &[&Node]) -> Vec<i64> {
    let containers: Vec<&Container> =
        q.pod.spec.init_containers.iter().chain(&q.pod.spec.containers).collect();
    let score = |node: &&Node| {
        let volumes =
            q.pod.spec.volumes.iter().filter_map(|v| v.image.as_ref()).map(|i| i.reference.as_str());
        let images = containers.iter().map(|c| c.image.as_str()).chain(volumes);
        let bytes = images.map(|image| spread_bytes(q, node, image)).fold(0, i64::saturating_add);
        let max = MAX_BYTES_PER_CONTAINER * containers.len() as i64;
        MAX_NODE_SCORE * (bytes.min(max).max(MIN_BYTES) - MIN_BYTES) / (max - MIN_BYTES)
    };
    feasible.iter().map(score).collect()
}

/// The size of an image on this node, scaled by the share of nodes that have it.
fn spread_bytes(q: Question, node: &Node, image: &str) -> i64 {
    let name = with_tag(image);
    let size = |node: &Node| {
        let found = node.status.images.iter().find(|i| i.names.contains(&name));
        found.map(|i| i.size_bytes)
    };
    let n_having = q.world.nodes.iter().filter(|n| size(n).is_some()).count();
    match size(node) {
        Some(bytes) => (bytes as f64 * (n_having as f64 / q.world.nodes.len() as f64)) as i64,
        None => 0,
    }
}

fn with_tag(image: &str) -> String {
    if image.rfind(':') <= image.rfind('/') { format!("{image}:latest") } else { image.to_owned() }
}
