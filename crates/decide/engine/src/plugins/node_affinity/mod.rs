//! Node selector and node affinity.

mod filter;
mod score;

use berth_input::config::Plugin;

use super::rule::{Filter, Normalization, PreFilter, Reads, Rule, Scorer};
use crate::cycle::context::Context;
use crate::state::node::NodeId;
use crate::state::rule_set::RuleSet;
use crate::verdict::ViolatedRule;

pub(crate) use filter::required_verdict;

pub(super) struct NodeAffinity;

impl Rule for NodeAffinity {
    const PLUGIN: Plugin = Plugin::NodeAffinity;
    const READS: Reads = Reads::NODE_LABELS;
    const NORMALIZATION: Normalization = Normalization::Highest;
    const VIOLATION: Option<ViolatedRule> = Some(ViolatedRule::NodeAffinity);

    fn pre_filter(context: Context<'_>) -> PreFilter {
        filter::pre_filter(context)
    }

    fn filter<'a>(context: Context<'a>) -> Option<Box<dyn Filter + 'a>> {
        filter::filter(context)
    }

    fn pre_score(context: Context<'_>) -> Result<(), String> {
        context.rule_set.rules().preferred_node_affinity_error.clone().map_or(Ok(()), Err)
    }

    fn scorer<'a>(context: Context<'a>, _feasible: &[NodeId]) -> Option<Box<dyn Scorer + 'a>> {
        score::scorer(context)
    }

    /// Pods that select nodes by `metadata.name` have no view, nor have pods whose preferences do not parse.
    fn fits_a_view(rule_set: &RuleSet) -> bool {
        filter::node_names(rule_set).is_none() && rule_set.rules().preferred_node_affinity_error.is_none()
    }
}
