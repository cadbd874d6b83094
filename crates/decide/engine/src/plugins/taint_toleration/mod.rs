//! Taints and tolerations.

mod filter;
mod score;

use berth_input::config::Plugin;

use super::rule::{Filter, Normalization, Reads, Rule, Scorer};
use crate::cycle::context::Context;
use crate::state::node::NodeId;
use crate::verdict::ViolatedRule;

pub(crate) use filter::tolerate;

pub(super) struct TaintToleration;

impl Rule for TaintToleration {
    const PLUGIN: Plugin = Plugin::TaintToleration;
    const READS: Reads = Reads::NODE_CLASS;
    const NORMALIZATION: Normalization = Normalization::HighestReversed;
    const VIOLATION: Option<ViolatedRule> = Some(ViolatedRule::TaintToleration);

    fn filter<'a>(context: Context<'a>) -> Option<Box<dyn Filter + 'a>> {
        filter::filter(context)
    }

    fn scorer<'a>(context: Context<'a>, _feasible: &[NodeId]) -> Option<Box<dyn Scorer + 'a>> {
        score::scorer(context)
    }
}
