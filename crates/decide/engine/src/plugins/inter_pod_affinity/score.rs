//! Preferred inter-pod affinity and anti-affinity: the score.

use berth_input::config::InterPodAffinityArgs;
use berth_rules::{Dialect, PodTerm, TopologyScope};

use super::super::rule::{MAX_NODE_SCORE, Scorer};
use super::existing::existing_matchers;
use crate::cycle::context::{Context, NodeRef};
use crate::state::State;
use crate::state::counting::counter::{Counter, Tally};
use crate::state::counting::matcher::{ExistingTermKind, PreferenceOf, TopologyCounter};
use crate::state::counting::topology::TopologyId;
use crate::state::node::NodeId;
use crate::state::rule_set::PreferredTerm;

struct Preferences<'a> {
    context: Context<'a>,
    parts: Vec<Part<'a>>,
}

/// Counters that contribute to the score.
struct Part<'a> {
    topology: TopologyId,
    value: Value<'a>,
    factor: i64,
    source: Source<'a>,
}

/// What the factor is multiplied with.
enum Value<'a> {
    /// The number of pods.
    Count(&'a Counter),
    /// One if there are any.
    Once(&'a Counter),
    /// The sum of the weights.
    Weight(&'a Counter),
    Difference(Difference<'a>),
}

/// The owners of a preference of the proposals for which the pod makes the difference: no other pod in the domain matches.
struct Difference<'a> {
    /// Those that do not match their own term, and those that do.
    owners: [Option<&'a Counter>; 2],
    matching: Option<&'a Counter>,
}

impl Difference<'_> {
    fn is_empty(&self) -> bool {
        self.owners.iter().flatten().all(|counter| counter.is_empty())
    }
}

/// The weight of the owners whose preference one more pod satisfies, or no longer satisfies, where `n_matching` pods match.
pub(super) fn difference(n_matching: i64, weight_of_owners: impl FnOnce(usize) -> i64) -> i64 {
    // The one that matches is the owner itself.
    if n_matching > 1 { 0 } else { weight_of_owners(n_matching as usize) }
}

enum Source<'a> {
    Own(&'a PodTerm),
    ExistingPreferred,
    ExistingRequired,
}

impl Part<'_> {
    fn score(&self, state: &State, node: NodeId) -> i64 {
        let Some(domain) = state.topologies.domain(self.topology, node) else { return 0 };
        let tally = |counter: Option<&Counter>| counter.map_or(Tally::default(), |c| c.get(domain));
        self.factor
            * match &self.value {
                Value::Count(counter) => counter.get(domain).count,
                Value::Once(counter) => i64::from(counter.get(domain).count > 0),
                Value::Weight(counter) => counter.get(domain).weight,
                Value::Difference(Difference { owners, matching }) => {
                    difference(tally(*matching).count, |i| tally(owners[i]).weight)
                }
            }
    }

    fn is_empty(&self) -> bool {
        match &self.value {
            Value::Count(counter) | Value::Once(counter) | Value::Weight(counter) => counter.is_empty(),
            Value::Difference(difference) => difference.is_empty(),
        }
    }
}

/// None if no preference concerns the pod: kube-scheduler then skips the plugin.
pub(super) fn scorer<'a>(context: Context<'a>) -> Option<Box<dyn Scorer + 'a>> {
    let Context { state, rule_set, profile, .. } = context;
    let args = &profile.profile.inter_pod_affinity;
    if rule_set.preferred.is_empty() && args.ignore_preferred_terms_of_existing_pods {
        return None;
    }
    let rules = rule_set.rules();
    let terms = rules.preferred_affinity.iter().chain(&rules.preferred_anti_affinity).map(|p| &p.term);
    let mut parts = Vec::new();
    for (preferred, term) in rule_set.preferred.iter().zip(terms) {
        let PreferredTerm { weight, dialect, matcher, topologies } = preferred;
        let matcher = state.matchers.get(*matcher);
        for topology in topologies {
            if let Some(counter) = matcher.matching_in(*topology) {
                let value = match dialect {
                    Dialect::V1 => Value::Count(counter),
                    Dialect::Proposal => Value::Once(counter),
                };
                parts.push(Part { topology: *topology, value, factor: *weight, source: Source::Own(term) });
            }
        }
    }
    for (_, matcher) in existing_matchers(context) {
        for TopologyCounter { topology, kind, counter, .. } in &matcher.owners {
            let Some((factor, of)) = preference(*kind, args) else { continue };
            let source = match kind {
                ExistingTermKind::RequiredAffinity(_) => Source::ExistingRequired,
                _ => Source::ExistingPreferred,
            };
            let value = match of {
                PreferenceOf::V1 => Value::Weight(counter),
                PreferenceOf::Proposal { matches_itself: true } => continue,
                PreferenceOf::Proposal { matches_itself: false } => Value::Difference(Difference {
                    owners: [Some(counter), matcher.owners_in(*topology, kind.of_owner(true))],
                    matching: matcher.matching_in(*topology),
                }),
            };
            parts.push(Part { topology: *topology, value, factor, source });
        }
    }
    parts.retain(|p| !p.is_empty());
    (!parts.is_empty()).then(|| Box::new(Preferences { context, parts }) as Box<dyn Scorer>)
}

/// The factor with which a profile counts a preference of existing pods; none if it does not.
pub(super) fn preference(
    mut kind: ExistingTermKind,
    args: &InterPodAffinityArgs,
) -> Option<(i64, PreferenceOf)> {
    let of = *kind.preference_mut()?;
    let factor = match kind {
        ExistingTermKind::RequiredAffinity(_) => args.hard_pod_affinity_weight,
        ExistingTermKind::PreferredAntiAffinity(_) => {
            i64::from(!args.ignore_preferred_anti_affinity_of_existing_pods)
        }
        _ => 1,
    };
    (factor > 0).then_some((factor, of))
}

impl Scorer for Preferences<'_> {
    fn score(&self, node: NodeRef<'_>) -> i64 {
        self.parts.iter().map(|p| p.score(self.context.state, node.id)).sum()
    }

    /// The lowest becomes 0, the highest 100.
    fn normalize(&self, _nodes: &[NodeId], scores: &mut [i64]) {
        let min = scores.iter().copied().min().unwrap_or(0);
        let max = scores.iter().copied().max().unwrap_or(0);
        for score in scores {
            let share = if max > min { (*score - min) as f64 / (max - min) as f64 } else { 0.0 };
            *score = (MAX_NODE_SCORE as f64 * share) as i64;
        }
    }

    fn parts(&self, node: NodeRef<'_>) -> Vec<(String, i64)> {
        let part = |p: &Part<'_>| {
            let score = p.score(self.context.state, node.id);
            let text = match &p.source {
                Source::Own(term) => match (&term.topology, self.context.state.topologies.key(p.topology)) {
                    // It counts in each topology.
                    (TopologyScope::All, Some(key)) => {
                        format!("{} in {}", term.path, self.context.state.symbols.text(key))
                    }
                    _ => term.path.clone(),
                },
                Source::ExistingPreferred => "preferred terms of existing pods".to_owned(),
                Source::ExistingRequired => "required affinity of existing pods".to_owned(),
            };
            (score != 0).then_some((text, score))
        };
        self.parts.iter().filter_map(part).collect()
    }
}
