//! Preferred inter-pod affinity and anti-affinity: the score.

use berth_api::rules::PodTerm;

use super::super::rule::{MAX_NODE_SCORE, Scorer};
use super::existing::existing_terms;
use crate::cycle::context::{Context, NodeRef};
use crate::state::State;
use crate::state::counting::counter::Counter;
use crate::state::counting::topology::TopologyId;
use crate::state::node::NodeId;
use crate::state::rule_set::PreferredTerm;

struct Preferences<'a> {
    context: Context<'a>,
    parts: Vec<Part<'a>>,
}

/// A counter that contributes to the score.
struct Part<'a> {
    topology: TopologyId,
    counter: &'a Counter,
    value: Value,
    source: Source<'a>,
}

/// The contribution of a counter to the score.
enum Value {
    /// Number of pods times this.
    Count(i64),
    /// Sum of the weights times this.
    Weight(i64),
}

enum Source<'a> {
    Own(&'a PodTerm),
    ExistingPreferred,
    ExistingRequired,
}

impl Part<'_> {
    fn score(&self, state: &State, node: NodeId) -> i64 {
        let Some(domain) = state.topologies.domain(self.topology, node) else { return 0 };
        let tally = self.counter.get(domain);
        match self.value {
            Value::Count(factor) => tally.count * factor,
            Value::Weight(factor) => tally.weight * factor,
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
        let PreferredTerm { weight, matcher, topologies } = preferred;
        let matcher = state.matchers.get(*matcher);
        for (topology, sign) in topologies {
            if let Some(counter) = matcher.matching_in(*topology) {
                let value = Value::Count(weight * sign);
                parts.push(Part { topology: *topology, counter, value, source: Source::Own(term) });
            }
        }
    }
    for (_, topology, owners) in existing_terms(context) {
        let mut part = |counter, factor, source| {
            parts.push(Part { topology, counter, value: Value::Weight(factor), source });
        };
        part(&owners.preferred, 1, Source::ExistingPreferred);
        if !args.ignore_preferred_anti_affinity_of_existing_pods {
            part(&owners.preferred_anti_affinity, 1, Source::ExistingPreferred);
        }
        if args.hard_pod_affinity_weight > 0 {
            part(&owners.required_affinity, args.hard_pod_affinity_weight, Source::ExistingRequired);
        }
    }
    parts.retain(|p| !p.counter.is_empty());
    (!parts.is_empty()).then(|| Box::new(Preferences { context, parts }) as Box<dyn Scorer>)
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
                Source::Own(term) => term.path.clone(),
                Source::ExistingPreferred => "preferred terms of existing pods".to_owned(),
                Source::ExistingRequired => "required affinity of existing pods".to_owned(),
            };
            (score != 0).then_some((text, score))
        };
        self.parts.iter().filter_map(part).collect()
    }
}
