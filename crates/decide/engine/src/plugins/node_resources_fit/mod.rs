//! Requests of the pod against the allocatable resources of the node.

mod filter;
pub(crate) mod placement;
mod score;
pub(super) mod scored_resource;

pub(super) use score::piecewise_linear;

use berth_input::config::Plugin;

use super::hints::{Hints, QueueingHint};
use super::rule::{Filter, Reads, Rule, Scorer};
use crate::cycle::context::Context;
use crate::state::change::{Change, DeviceChange};
use crate::state::node::NodeId;
use crate::verdict::ViolatedRule;

pub(crate) use filter::is_extended_resource;

pub(super) struct NodeResourcesFit;

impl Rule for NodeResourcesFit {
    const PLUGIN: Plugin = Plugin::NodeResourcesFit;
    const READS: Reads = Reads::NODE_CLASS.and(Reads::NODE_USAGE);
    const VIOLATION: Option<ViolatedRule> = Some(ViolatedRule::NodeResourcesFit);

    fn filter<'a>(context: Context<'a>) -> Option<Box<dyn Filter + 'a>> {
        filter::filter(context)
    }

    fn scorer<'a>(context: Context<'a>, _feasible: &[NodeId]) -> Option<Box<dyn Scorer + 'a>> {
        score::scorer(context)
    }

    fn hints(context: Context<'_>) -> Option<Box<dyn Hints>> {
        (!context.rule_set.requests.scalar.is_empty()).then(|| Box::new(ClassHints) as Box<dyn Hints>)
    }
}

/// A device class may provide an extended resource that nodes lack.
#[derive(Debug)]
struct ClassHints;

impl Hints for ClassHints {
    fn hint(&self, _context: Context<'_>, change: &Change) -> QueueingHint {
        QueueingHint::queue_if(matches!(change, Change::Device(DeviceChange::Class)))
    }
}
