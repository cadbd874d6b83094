//! The registry: one line for each rule.
//!
//! Views, queueing hints, preemption and decisions read here which rules there are and what they read. The order of rules
//! is that of the profile.

use berth_input::config::Plugin;

use super::dynamic_resources::DynamicResources;
use super::hints::Hints;
use super::image_locality::ImageLocality;
use super::inter_pod_affinity::InterPodAffinity;
use super::node_affinity::NodeAffinity;
use super::node_declared_features::NodeDeclaredFeatures;
use super::node_name::NodeName;
use super::node_ports::NodePorts;
use super::node_resources_balanced_allocation::NodeResourcesBalancedAllocation;
use super::node_resources_fit::NodeResourcesFit;
use super::node_unschedulable::NodeUnschedulable;
use super::node_volume_limits::NodeVolumeLimits;
use super::pod_topology_spread::PodTopologySpread;
use super::rule::{Filter, Normalization, PreFilter, Reads, Rule, Scorer};
use super::taint_toleration::TaintToleration;
use super::volume_binding::VolumeBinding;
use super::volume_restrictions::VolumeRestrictions;
use super::volume_zone::VolumeZone;
use crate::cycle::context::{Context, NodeRef};
use crate::state::State;
use crate::state::node::NodeId;
use crate::state::rule_set::RuleSet;
use crate::state::rule_set::profile::ProfileState;
use crate::verdict::ViolatedRule;

pub(super) const RULES: &[RuleEntry] = &[
    RuleEntry::of::<NodeUnschedulable>(),
    RuleEntry::of::<NodeName>(),
    RuleEntry::of::<TaintToleration>(),
    RuleEntry::of::<NodeAffinity>(),
    RuleEntry::of::<NodePorts>(),
    RuleEntry::of::<NodeResourcesFit>(),
    RuleEntry::of::<NodeResourcesBalancedAllocation>(),
    RuleEntry::of::<ImageLocality>(),
    RuleEntry::of::<VolumeRestrictions>(),
    RuleEntry::of::<NodeVolumeLimits>(),
    RuleEntry::of::<VolumeBinding>(),
    RuleEntry::of::<VolumeZone>(),
    RuleEntry::of::<PodTopologySpread>(),
    RuleEntry::of::<InterPodAffinity>(),
    RuleEntry::of::<DynamicResources>(),
    RuleEntry::of::<NodeDeclaredFeatures>(),
    #[cfg(test)]
    RuleEntry::of::<super::tests::OpenNodes>(),
];

type PrepareFilter = for<'a> fn(Context<'a>) -> Option<Box<dyn Filter + 'a>>;
type PrepareScorer = for<'a> fn(Context<'a>, &[NodeId]) -> Option<Box<dyn Scorer + 'a>>;

/// A rule as a value: [`Rule`] has what the members mean.
#[derive(Clone, Copy)]
pub(crate) struct RuleEntry {
    pub(crate) plugin: Plugin,
    pub(crate) reads: Reads,
    pub(crate) normalization: Normalization,
    pub(crate) violation: Option<ViolatedRule>,
    pub(crate) filter: PrepareFilter,
    pub(crate) scorer: PrepareScorer,
    pub(crate) hints: fn(Context<'_>) -> Option<Box<dyn Hints>>,
    pub(crate) filter_of_changed_node: PrepareFilter,
    pre_filter: fn(Context<'_>) -> PreFilter,
    pre_score: fn(Context<'_>) -> Result<(), String>,
    fits_a_view: fn(&RuleSet) -> bool,
}

impl RuleEntry {
    pub(crate) const fn of<R: Rule>() -> RuleEntry {
        assert!(
            !matches!(R::NORMALIZATION, Normalization::OfScorer)
                || R::READS.any_of(Reads::COUNTERS.and(Reads::DEVICES)),
            "views normalize the scores of rules that read a node alone"
        );
        RuleEntry {
            plugin: R::PLUGIN,
            reads: R::READS,
            normalization: R::NORMALIZATION,
            violation: R::VIOLATION,
            filter: R::filter,
            scorer: R::scorer,
            hints: R::hints,
            filter_of_changed_node: R::filter_of_changed_node,
            pre_filter: R::pre_filter,
            pre_score: R::pre_score,
            fits_a_view: R::fits_a_view,
        }
    }

    /// Whether views keep its raw scores to normalize them.
    pub(crate) const fn has_raw_scores(&self) -> bool {
        matches!(self.normalization, Normalization::Highest | Normalization::HighestReversed)
    }
}

/// The rules by plugin. Some plugins are no rules about nodes.
static BY_PLUGIN: [Option<RuleEntry>; Plugin::ALL.len()] = {
    let mut by_plugin = [None; Plugin::ALL.len()];
    let mut i = 0;
    while i < RULES.len() {
        by_plugin[RULES[i].plugin as usize] = Some(RULES[i]);
        i += 1;
    }
    by_plugin
};

/// Number of rules whose raw scores views keep.
pub(crate) const N_RAW_SCORES: usize = {
    let (mut n, mut i) = (0, 0);
    while i < RULES.len() {
        n += RULES[i].has_raw_scores() as usize;
        i += 1;
    }
    n
};

/// The rules whose raw scores views keep, and how they are normalized.
pub(crate) const RAW_SCORES: [(Plugin, Normalization); N_RAW_SCORES] = {
    let mut raw_scores = [(RULES[0].plugin, Normalization::None); N_RAW_SCORES];
    let (mut n, mut i) = (0, 0);
    while i < RULES.len() {
        if RULES[i].has_raw_scores() {
            raw_scores[n] = (RULES[i].plugin, RULES[i].normalization);
            n += 1;
        }
        i += 1;
    }
    raw_scores
};

pub(crate) fn rule(plugin: Plugin) -> Option<&'static RuleEntry> {
    BY_PLUGIN[plugin as usize].as_ref()
}

/// Whether the rule of a plugin reads volumes, or other objects that volumes depend on.
pub fn reads_volumes(plugin: Plugin) -> bool {
    rule(plugin).is_some_and(|rule| rule.reads.any_of(Reads::VOLUMES))
}

/// The filters of a profile, in its order.
pub(crate) type Filters<'a> = Vec<(Plugin, Box<dyn Filter + 'a>)>;

/// A scorer with its place in the profile.
pub(crate) struct Weighted<'a> {
    pub(crate) plugin: Plugin,
    pub(crate) weight: i64,
    pub(crate) scorer: Box<dyn Scorer + 'a>,
    normalization: Normalization,
}

impl Weighted<'_> {
    /// The normalized scores of the feasible nodes, without the weight.
    pub(crate) fn scores(&self, state: &State, feasible: &[NodeId]) -> Vec<i64> {
        let score = |id: &NodeId| self.scorer.score(NodeRef::new(*id, state.nodes.get(*id)));
        let mut scores: Vec<_> = feasible.iter().map(score).collect();
        match self.normalization {
            Normalization::None => {}
            Normalization::OfScorer => self.scorer.normalize(feasible, &mut scores),
            by_highest => {
                let max = scores.iter().copied().max().unwrap_or(0);
                scores.iter_mut().for_each(|score| *score = by_highest.of_highest(*score, max));
            }
        }
        scores
    }
}

pub(crate) fn pre_filter(context: Context<'_>) -> PreFilter {
    let mut result = PreFilter::AllNodes;
    for rule in context.profile.profile.pre_filter.iter().filter_map(|plugin| rule(*plugin)) {
        let outcome = (rule.pre_filter)(context);
        match outcome {
            PreFilter::AllNodes => {}
            PreFilter::Rejected(_) => return outcome,
            PreFilter::Nodes(..) => result = outcome,
        }
    }
    result
}

/// Prepares the filters of the pod's profile, in order. Rules that cannot reject are left out.
pub(crate) fn filters(context: Context<'_>) -> Filters<'_> {
    filters_of(context, |_| true)
}

/// The same for some of the rules.
pub(crate) fn filters_of(context: Context<'_>, is_meant: impl Fn(Plugin) -> bool) -> Filters<'_> {
    let plugins = context.profile.profile.filter.iter().filter(|plugin| is_meant(**plugin));
    plugins.filter_map(|plugin| Some((*plugin, filter(*plugin, context)?))).collect()
}

/// Prepares one filter; none if it cannot reject.
pub(crate) fn filter<'a>(plugin: Plugin, context: Context<'a>) -> Option<Box<dyn Filter + 'a>> {
    (rule(plugin)?.filter)(context)
}

/// Prepares the scorers of the pod's profile, in order, with their weights. Rules that do not concern this pod are left out.
///
/// # Errors
/// A rule cannot score this pod; the text is kube-scheduler's.
pub(crate) fn scorers<'a>(context: Context<'a>, feasible: &[NodeId]) -> Result<Vec<Weighted<'a>>, String> {
    let rules = || {
        let score = context.profile.profile.score.iter();
        score.filter_map(|(plugin, weight)| Some((rule(*plugin)?, *weight)))
    };
    for (rule, _) in rules() {
        (rule.pre_score)(context)
            .map_err(|error| format!("running PreScore plugin \"{}\": {error}", rule.plugin.name()))?;
    }
    let weighted = |(rule, weight): (&RuleEntry, i64)| {
        let scorer = (rule.scorer)(context, feasible)?;
        Some(Weighted { plugin: rule.plugin, weight, scorer, normalization: rule.normalization })
    };
    Ok(rules().filter_map(weighted).collect())
}

/// The rules of a profile that nodes are filtered by.
pub(crate) fn filtering(profile: &ProfileState) -> impl Iterator<Item = &'static RuleEntry> {
    profile.profile.filter.iter().filter_map(|plugin| rule(*plugin))
}

/// Whether views can follow all rules for pods of a rule set.
pub(crate) fn fit_a_view(state: &State, rule_set: &RuleSet) -> bool {
    let Some(profile) = rule_set.key.profile.map(|profile| &state.profiles[profile].profile) else {
        return false;
    };
    let score = profile.score.iter().map(|(plugin, _)| plugin);
    let mut plugins = profile.pre_filter.iter().chain(&profile.filter).chain(score);
    plugins.all(|plugin| rule(*plugin).is_none_or(|rule| (rule.fits_a_view)(rule_set)))
}
