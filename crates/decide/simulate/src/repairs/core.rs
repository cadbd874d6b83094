//! The smallest set of rules that together exclude all nodes.

use std::collections::BTreeMap;

use berth_engine::{Explanation, Outcome};
use serde::Serialize;

/// Number of sets that are tried at most; a larger core is reported as found greedily.
const MAX_TRIED: usize = 200_000;

/// A rule of the core.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CoreTerm {
    /// Its plugin.
    pub plugin: &'static str,
    /// Its path in the pod, or in what it belongs to.
    pub term: String,
    /// What it requires.
    pub detail: String,
}

/// The fewest terms that together exclude all nodes: without any of them, the others leave a node. Empty for a pod that fits.
pub(crate) fn unsatisfiable_core(explanation: &Explanation) -> Vec<CoreTerm> {
    let is_whole = explanation.excluded.iter().map(|g| g.nodes.len()).sum::<usize>() == explanation.n_nodes;
    if !matches!(explanation.outcome, Outcome::Unschedulable { .. }) || !is_whole {
        return Vec::new();
    }
    let terms: BTreeMap<_, _> = explanation
        .terms
        .iter()
        .enumerate()
        .map(|(i, t)| ((t.plugin, t.term.as_str(), t.detail.as_str()), i))
        .collect();
    // The terms that exclude each group of nodes; groups excluded by more terms than another one need no look.
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for group in &explanation.excluded {
        let keys = group.verdicts.iter();
        let keys = keys.map(|v| (v.plugin, v.term.as_deref().unwrap_or_default(), v.detail.as_str()));
        let mut of_group: Vec<_> = keys.filter_map(|key| terms.get(&key).copied()).collect();
        of_group.sort_unstable();
        of_group.dedup();
        groups.push(of_group);
    }
    groups.sort_by_key(Vec::len);
    let mut least: Vec<Vec<usize>> = Vec::new();
    for group in groups {
        if !least.iter().any(|other| other.iter().all(|term| group.contains(term))) {
            least.push(group);
        }
    }
    let mut search = Search { groups: &least, tried: 0 };
    let found = (1..=explanation.terms.len()).find_map(|n| {
        let mut chosen = Vec::new();
        search.choose(n, &mut chosen).then_some(chosen)
    });
    let mut chosen = found.unwrap_or_else(|| search.greedy(explanation.terms.len()));
    chosen.sort_unstable();
    let term = |i: usize| {
        let term = &explanation.terms[i];
        CoreTerm { plugin: term.plugin.name(), term: term.term.clone(), detail: term.detail.clone() }
    };
    chosen.into_iter().map(term).collect()
}

struct Search<'a> {
    /// The terms that exclude each group of nodes.
    groups: &'a [Vec<usize>],
    tried: usize,
}

impl<'a> Search<'a> {
    /// The first group that no chosen term excludes.
    fn open(&self, chosen: &[usize]) -> Option<&'a [usize]> {
        let is_open = |group: &&Vec<usize>| !group.iter().any(|term| chosen.contains(term));
        self.groups.iter().find(is_open).map(Vec::as_slice)
    }

    /// Chooses `n` more terms so that every group is excluded.
    fn choose(&mut self, n: usize, chosen: &mut Vec<usize>) -> bool {
        self.tried += 1;
        let Some(open) = self.open(chosen) else { return true };
        if n == 0 || self.tried > MAX_TRIED {
            return false;
        }
        for term in open.iter().copied() {
            chosen.push(term);
            if self.choose(n - 1, chosen) {
                return true;
            }
            chosen.pop();
        }
        false
    }

    /// Terms until every group is excluded, and none of them needless.
    fn greedy(&self, n_terms: usize) -> Vec<usize> {
        let mut chosen: Vec<usize> = Vec::new();
        while self.open(&chosen).is_some() {
            let is_open = |group: &&Vec<usize>| !group.iter().any(|term| chosen.contains(term));
            let closes =
                |term: usize| self.groups.iter().filter(is_open).filter(|g| g.contains(&term)).count();
            let Some(best) = (0..n_terms).max_by_key(|term| (closes(*term), std::cmp::Reverse(*term))) else {
                break;
            };
            chosen.push(best);
        }
        let mut i = 0;
        while i < chosen.len() {
            let mut without = chosen.clone();
            without.remove(i);
            if self.open(&without).is_none() { chosen = without } else { i += 1 }
        }
        chosen
    }
}
