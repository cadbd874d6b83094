//! Topology spread constraints.

mod constraints;
mod filter;
mod hints;
mod natural_logarithm;
mod score;
pub(crate) mod view;

use berth_input::config::Plugin;

use super::hints::Hints;
use super::rule::{Filter, Normalization, Reads, Rule, Scorer};
use crate::cycle::context::Context;
use crate::state::node::NodeId;
use crate::state::rule_set::RuleSet;
use crate::verdict::ViolatedRule;

pub(crate) use filter::HardConstraints;

pub(super) struct PodTopologySpread;

impl Rule for PodTopologySpread {
    const PLUGIN: Plugin = Plugin::PodTopologySpread;
    const READS: Reads = Reads::COUNTERS.and(Reads::NODE_LABELS).and(Reads::NODE_CLASS);
    const NORMALIZATION: Normalization = Normalization::OfScorer;
    const VIOLATION: Option<ViolatedRule> = Some(ViolatedRule::PodTopologySpread);

    fn filter<'a>(context: Context<'a>) -> Option<Box<dyn Filter + 'a>> {
        filter::filter(context)
    }

    /// Preparing the filter counts the pods of all nodes.
    fn filter_of_changed_node<'a>(_context: Context<'a>) -> Option<Box<dyn Filter + 'a>> {
        None
    }

    fn scorer<'a>(context: Context<'a>, feasible: &[NodeId]) -> Option<Box<dyn Scorer + 'a>> {
        score::scorer(context, feasible)
    }

    fn fits_a_view(_rule_set: &RuleSet) -> bool {
        true
    }

    fn hints(context: Context<'_>) -> Option<Box<dyn Hints>> {
        hints::SpreadHints::new(context).map(|hints| Box::new(hints) as Box<dyn Hints>)
    }
}
