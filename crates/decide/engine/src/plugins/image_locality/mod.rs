//! Images that the node already has.

use berth_input::config::Plugin;

use super::rule::{MAX_NODE_SCORE, Reads, Rule, Scorer};
use crate::cycle::context::{Context, NodeRef};
use crate::state::State;
use crate::state::interned::intern::Symbol;
use crate::state::node::NodeId;
use crate::state::rule_set::RuleSet;

const MEBIBYTE: i64 = 1024 * 1024;
/// Fewer bytes than this score 0.
const MIN_THRESHOLD: i64 = 23 * MEBIBYTE;
/// More bytes per container than this do not raise the score.
const MAX_CONTAINER_THRESHOLD: i64 = 1000 * MEBIBYTE;

pub(super) struct ImageLocality;

impl Rule for ImageLocality {
    const PLUGIN: Plugin = Plugin::ImageLocality;
    const READS: Reads = Reads::IMAGES;

    fn scorer<'a>(context: Context<'a>, _feasible: &[NodeId]) -> Option<Box<dyn Scorer + 'a>> {
        Some(Box::new(PresentImages { context }))
    }
}

/// Whether any node has an image of a rule set: scores then change with the number of nodes that have it.
pub(crate) fn images_in_use(state: &State, rule_set: &RuleSet) -> bool {
    rule_set.images.iter().any(|image| state.images.n_nodes(*image) > 0)
}

struct PresentImages<'a> {
    context: Context<'a>,
}

impl PresentImages<'_> {
    /// Bytes of an image on the node, times the share of nodes that have the image: pods should not all be placed on
    /// the one node that ran them before.
    fn scaled_bytes(&self, node: NodeRef<'_>, image: Symbol) -> Option<i64> {
        let images = &node.record.images;
        let (_, bytes) = images[images.binary_search_by_key(&image, |(name, _)| *name).ok()?];
        let state = self.context.state;
        let spread = state.images.n_nodes(image) as f64 / state.nodes.len() as f64;
        Some((bytes as f64 * spread) as i64)
    }
}

impl Scorer for PresentImages<'_> {
    fn score(&self, node: NodeRef<'_>) -> i64 {
        let rule_set = self.context.rule_set;
        let n_containers = rule_set.rules().images.len();
        if node.record.images.is_empty() || n_containers == 0 {
            return 0;
        }
        let sum: i64 = rule_set.images.iter().filter_map(|i| self.scaled_bytes(node, *i)).sum();
        // Images of volumes count in the sum, and not in the threshold.
        let max_threshold = MAX_CONTAINER_THRESHOLD * n_containers as i64;
        let sum = sum.clamp(MIN_THRESHOLD, max_threshold);
        MAX_NODE_SCORE * (sum - MIN_THRESHOLD) / (max_threshold - MIN_THRESHOLD)
    }

    fn parts(&self, node: NodeRef<'_>) -> Vec<(String, i64)> {
        let images = self.context.rule_set.images.iter();
        let part = |image: &Symbol| {
            let bytes = self.scaled_bytes(node, *image)?;
            Some((
                format!(
                    "bytes of {}, times the share of nodes that have it",
                    self.context.state.symbols.text(*image)
                ),
                bytes,
            ))
        };
        images.filter_map(part).collect()
    }
}
