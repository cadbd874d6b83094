//! The nodes that match node selectors, found by their labels and names.

use std::collections::HashMap;

use berth_api::object::Node;
use berth_api::work::WorkBudget;
use berth_rules::{NodeRequirement, NodeTerm, Requirement};

use super::collect::Conjunction;

/// Nodes by name, and by those labels that some rule lists.
pub(super) struct NodeIndex<'a> {
    nodes: &'a [&'a Node],
    by_name: HashMap<&'a str, usize>,
    by_label: HashMap<(&'a str, &'a str), Vec<usize>>,
}

/// A list of nodes among which are all that match.
enum Candidates<'i> {
    All,
    Some(Vec<&'i [usize]>),
}

impl<'a> NodeIndex<'a> {
    pub(super) fn new(nodes: &'a [&'a Node], rules: impl Iterator<Item = &'a Conjunction>) -> NodeIndex<'a> {
        let mut by_label: HashMap<(&str, &str), Vec<usize>> = HashMap::new();
        for requirement in rules.flatten().flatten().flat_map(requirements) {
            if let NodeRequirement::Label(Requirement::In(key, values)) = requirement {
                by_label.extend(values.iter().map(|value| ((key.as_str(), value.as_str()), Vec::new())));
            }
        }
        for (i, node) in nodes.iter().enumerate() {
            for (key, value) in &node.metadata.labels {
                if let Some(nodes) = by_label.get_mut(&(key.as_str(), value.as_str())) {
                    nodes.push(i);
                }
            }
        }
        let by_name = nodes.iter().enumerate().map(|(i, node)| (node.metadata.name.as_str(), i)).collect();
        NodeIndex { nodes, by_name, by_label }
    }

    /// The positions of the nodes that match, ascending. None if it is too much work.
    pub(super) fn matching(&self, rules: &'a Conjunction, budget: &WorkBudget) -> Option<Vec<usize>> {
        let terms = rules.iter().flatten();
        let n_requirements: usize = terms.map(|term| 1 + requirements(term).len()).sum();
        budget.spend(n_requirements).ok()?;
        let fewest = rules.iter().map(|terms| self.of_terms(terms)).min_by_key(|c| self.n(c));
        let mut candidates: Vec<usize> = match fewest {
            Some(Candidates::Some(lists)) => lists.into_iter().flatten().copied().collect(),
            Some(Candidates::All) | None => (0..self.nodes.len()).collect(),
        };
        candidates.sort_unstable();
        candidates.dedup();
        budget.spend(candidates.len().saturating_mul(n_requirements)).ok()?;
        let holds = |node: &Node, term: &NodeTerm| match term {
            NodeTerm::Nothing | NodeTerm::Invalid(_) => false,
            NodeTerm::All(requirements) => requirements.iter().all(|r| r.holds_on(node)),
        };
        let matches = |i: &usize| rules.iter().all(|terms| terms.iter().any(|t| holds(self.nodes[*i], t)));
        candidates.retain(matches);
        Some(candidates)
    }

    fn n(&self, candidates: &Candidates<'_>) -> usize {
        match candidates {
            Candidates::All => self.nodes.len(),
            Candidates::Some(lists) => lists.iter().map(|list| list.len()).sum(),
        }
    }

    /// Of one of several terms.
    fn of_terms(&self, terms: &'a [NodeTerm]) -> Candidates<'_> {
        let mut lists = Vec::new();
        for term in terms {
            match self.of_term(term) {
                Candidates::All => return Candidates::All,
                Candidates::Some(of_term) => lists.extend(of_term),
            }
        }
        Candidates::Some(lists)
    }

    fn of_term(&self, term: &'a NodeTerm) -> Candidates<'_> {
        match term {
            NodeTerm::Nothing | NodeTerm::Invalid(_) => Candidates::Some(Vec::new()),
            NodeTerm::All(requirements) => {
                let of_each = requirements.iter().map(|requirement| self.of_requirement(requirement));
                of_each.min_by_key(|candidates| self.n(candidates)).unwrap_or(Candidates::All)
            }
        }
    }

    fn of_requirement(&self, requirement: &'a NodeRequirement) -> Candidates<'_> {
        match requirement {
            NodeRequirement::Label(Requirement::In(key, values)) => {
                let list = |value: &'a String| self.by_label.get(&(key.as_str(), value.as_str()));
                Candidates::Some(values.iter().filter_map(list).map(Vec::as_slice).collect())
            }
            NodeRequirement::Name(Requirement::In(_, names)) => {
                let list = |name: &'a String| self.by_name.get(name.as_str()).map(std::slice::from_ref);
                Candidates::Some(names.iter().filter_map(list).collect())
            }
            _ => Candidates::All,
        }
    }
}

fn requirements(term: &NodeTerm) -> &[NodeRequirement] {
    match term {
        NodeTerm::Nothing | NodeTerm::Invalid(_) => &[],
        NodeTerm::All(requirements) => requirements,
    }
}
