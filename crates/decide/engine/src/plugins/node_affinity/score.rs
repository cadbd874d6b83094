//! Preferred node affinity, including the added affinity of the profile.

use super::super::rule::Scorer;
use crate::cycle::context::{Context, NodeRef};

struct PreferredNodeAffinity<'a> {
    context: Context<'a>,
}

/// Only for pods with valid preferred terms: for the others kube-scheduler fails.
pub(super) fn scorer<'a>(context: Context<'a>) -> Option<Box<dyn Scorer + 'a>> {
    let needed = context.rule_set.rules().has_preferred_node_affinity || context.profile.has_added_preferred;
    needed.then(|| Box::new(PreferredNodeAffinity { context }) as Box<dyn Scorer>)
}

impl PreferredNodeAffinity<'_> {
    /// The paths and weights of the terms that match the node.
    fn matched(&self, node: NodeRef<'_>) -> impl Iterator<Item = (&str, i64)> {
        let Context { state, rule_set, profile, .. } = self.context;
        let added = profile.added_preferred.iter().map(|(t, m)| (t, m));
        let own = rule_set.rules().preferred_node_affinity.iter().zip(&rule_set.preferred_node_affinity);
        let matches = added.chain(own).filter(move |(_, m)| m.matches(&state.symbols, node.record));
        matches.map(|(term, _)| (term.path.as_str(), term.weight))
    }
}

impl Scorer for PreferredNodeAffinity<'_> {
    /// Sum of the weights of the matching terms.
    fn score(&self, node: NodeRef<'_>) -> i64 {
        self.matched(node).map(|(_, weight)| weight).sum()
    }

    fn parts(&self, node: NodeRef<'_>) -> Vec<(String, i64)> {
        self.matched(node).map(|(path, weight)| (path.to_owned(), weight)).collect()
    }
}
