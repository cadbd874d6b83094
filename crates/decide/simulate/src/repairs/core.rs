//! The smallest set of rules that together exclude all nodes.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use berth_api::work::WorkBudget;
use berth_engine::{Explanation, Outcome};
use serde::Serialize;

/// Steps of the search; a core that takes longer to find is reported as found greedily.
const SEARCH_STEPS: u64 = 20_000_000;

/// A rule of the core.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CoreTerm {
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
    let groups = least(groups);
    let n_terms = explanation.terms.len();
    let mut search = Search::new(&groups, n_terms);
    let budget = WorkBudget::new(SEARCH_STEPS);
    let mut sizes = (1..=n_terms).take_while(|_| !budget.is_spent());
    let found = sizes.any(|n| search.choose(n, &budget));
    let mut chosen = if found { search.chosen } else { Search::new(&groups, n_terms).greedy() };
    chosen.sort_unstable();
    let term = |i: usize| {
        let term = &explanation.terms[i];
        CoreTerm { plugin: term.plugin.name(), term: term.term.clone(), detail: term.detail.clone() }
    };
    chosen.into_iter().map(term).collect()
}

/// The groups, those of the fewest terms first, without those that contain all terms of another.
fn least(mut groups: Vec<Vec<usize>>) -> Vec<Vec<usize>> {
    groups.sort_by_key(Vec::len);
    let mut least: Vec<Vec<usize>> = Vec::new();
    let mut by_first: HashMap<usize, Vec<usize>> = HashMap::new();
    for group in groups {
        let Some(first) = group.first().copied() else { continue };
        let mut with_first = group.iter().filter_map(|term| by_first.get(term)).flatten();
        let contains = |other: &usize| least[*other].iter().all(|term| group.binary_search(term).is_ok());
        if !with_first.any(contains) {
            by_first.entry(first).or_default().push(least.len());
            least.push(group);
        }
    }
    least
}

/// Terms are chosen until every group has one.
struct Search<'a> {
    /// The terms that exclude each group of nodes.
    groups: &'a [Vec<usize>],
    /// The groups of each term.
    of_term: Vec<Vec<usize>>,
    chosen: Vec<usize>,
    /// Of each group, the number of chosen terms.
    n_chosen: Vec<usize>,
}

impl<'a> Search<'a> {
    fn new(groups: &'a [Vec<usize>], n_terms: usize) -> Search<'a> {
        let mut of_term = vec![Vec::new(); n_terms];
        for (i, group) in groups.iter().enumerate() {
            group.iter().for_each(|term| of_term[*term].push(i));
        }
        Search { groups, of_term, chosen: Vec::new(), n_chosen: vec![0; groups.len()] }
    }

    fn push(&mut self, term: usize) {
        self.chosen.push(term);
        self.of_term[term].iter().for_each(|group| self.n_chosen[*group] += 1);
    }

    fn pop(&mut self) {
        let Some(term) = self.chosen.pop() else { return };
        self.of_term[term].iter().for_each(|group| self.n_chosen[*group] -= 1);
    }

    /// Chooses `n` more terms so that every group has one.
    fn choose(&mut self, n: usize, budget: &WorkBudget) -> bool {
        if budget.spend(self.groups.len() + 1).is_err() {
            return false;
        }
        let Some(open) = self.n_chosen.iter().position(|n| *n == 0) else { return true };
        if n == 0 {
            return false;
        }
        for term in &self.groups[open] {
            self.push(*term);
            if self.choose(n - 1, budget) {
                return true;
            }
            self.pop();
        }
        false
    }

    /// Each time the term of most groups without one, the first of several; none of them is needless in the end.
    fn greedy(mut self) -> Vec<usize> {
        let mut n_open: Vec<usize> = self.of_term.iter().map(Vec::len).collect();
        let mut ranked: BTreeSet<_> =
            n_open.iter().enumerate().map(|(term, n)| (*n, Reverse(term))).collect();
        while let Some((n, Reverse(best))) = ranked.pop_last().filter(|(n, _)| *n > 0) {
            debug_assert_eq!(n, n_open[best]);
            for group in self.of_term[best].iter().filter(|group| self.n_chosen[**group] == 0) {
                for term in &self.groups[*group] {
                    if ranked.remove(&(n_open[*term], Reverse(*term))) {
                        ranked.insert((n_open[*term] - 1, Reverse(*term)));
                    }
                    n_open[*term] -= 1;
                }
            }
            self.push(best);
        }
        let mut chosen = std::mem::take(&mut self.chosen);
        chosen.retain(|term| {
            let groups = &self.of_term[*term];
            let is_needed = groups.iter().any(|group| self.n_chosen[*group] == 1);
            if !is_needed {
                groups.iter().for_each(|group| self.n_chosen[*group] -= 1);
            }
            is_needed
        });
        chosen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_core_found_greedily_has_a_term_of_every_group_and_none_that_is_needless() {
        for n in [1, 10, 300] {
            // Groups of 3 neighbours: each term is in 3 groups.
            let groups: Vec<Vec<usize>> = (0..n).map(|i| vec![i, i + 1, i + 2]).collect();
            let chosen = Search::new(&groups, n + 2).greedy();
            let has_one =
                |chosen: &[usize]| groups.iter().all(|group| group.iter().any(|term| chosen.contains(term)));
            assert!(has_one(&chosen), "{n}: {chosen:?}");
            for i in 0..chosen.len() {
                let mut without = chosen.clone();
                without.remove(i);
                assert!(!has_one(&without), "{n}: {chosen:?} without {i}");
            }
        }
        assert_eq!(least(vec![vec![1, 2, 3], vec![2, 3], vec![4], vec![4, 9]]), [vec![4], vec![2, 3]]);
    }
}
