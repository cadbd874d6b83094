//! Inter-pod affinity and anti-affinity, from the counters per term and topology domain.

mod existing;
mod filter;
mod hints;
mod score;
mod terms;
pub(crate) mod view;

use berth_input::config::Plugin;

use super::hints::Hints;
use super::rule::{Filter, Normalization, PreFilter, Reads, Rule, Scorer};
use crate::cycle::context::Context;
use crate::state::node::NodeId;
use crate::state::rule_set::RuleSet;

pub(crate) use terms::{REASON_AFFINITY, REASON_ANTI_AFFINITY, rejects, requires, requires_together};

pub(super) struct InterPodAffinity;

impl Rule for InterPodAffinity {
    const PLUGIN: Plugin = Plugin::InterPodAffinity;
    const READS: Reads = Reads::COUNTERS.and(Reads::NODE_LABELS);
    const NORMALIZATION: Normalization = Normalization::OfScorer;

    fn pre_filter(context: Context<'_>) -> PreFilter {
        filter::pre_filter(context)
    }

    fn filter<'a>(context: Context<'a>) -> Option<Box<dyn Filter + 'a>> {
        filter::filter(context)
    }

    fn scorer<'a>(context: Context<'a>, _feasible: &[NodeId]) -> Option<Box<dyn Scorer + 'a>> {
        score::scorer(context)
    }

    fn fits_a_view(rule_set: &RuleSet) -> bool {
        rule_set.rules().pod_term_error.is_none()
            && rule_set.required_affinity.len() <= view::MAX_AFFINITY_TERMS
    }

    fn hints(context: Context<'_>) -> Option<Box<dyn Hints>> {
        Some(Box::new(hints::InterPodHints::new(context)))
    }
}
