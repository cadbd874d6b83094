//! Node selector terms compiled to symbols.

use berth_api::rules::{NodeRequirement, NodeTerm};

use super::intern::{Symbol, Symbols};
use super::node::NodeRecord;
use super::selector::LabelRequirement;

/// One requirement of a node term.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum NodeCondition {
    Label(LabelRequirement),
    Name { name: Symbol, equal: bool },
}

/// A node term: its conditions are ANDed; `None` matches no node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct NodeMatcher(Option<Box<[NodeCondition]>>);

impl NodeMatcher {
    pub(crate) fn compile(symbols: &mut Symbols, term: &NodeTerm) -> NodeMatcher {
        match term {
            NodeTerm::Nothing | NodeTerm::Invalid(_) => NodeMatcher(None),
            NodeTerm::All(requirements) => Self::all(symbols, requirements),
        }
    }

    /// A term that all of these must hold for.
    pub(crate) fn all(symbols: &mut Symbols, requirements: &[NodeRequirement]) -> NodeMatcher {
        let compile = |requirement: &NodeRequirement| match requirement {
            NodeRequirement::Label(requirement) => {
                NodeCondition::Label(LabelRequirement::compile(symbols, requirement))
            }
            NodeRequirement::Name { name, equal } => {
                NodeCondition::Name { name: symbols.intern(name), equal: *equal }
            }
        };
        NodeMatcher(Some(requirements.iter().map(compile).collect()))
    }

    pub(crate) fn symbols(&self) -> impl Iterator<Item = Symbol> + '_ {
        self.0.iter().flatten().flat_map(|condition| {
            let (requirement, name) = match condition {
                NodeCondition::Label(requirement) => (Some(requirement), None),
                NodeCondition::Name { name, .. } => (None, Some(*name)),
            };
            requirement.into_iter().flat_map(LabelRequirement::symbols).chain(name)
        })
    }

    pub(crate) fn matches(&self, symbols: &Symbols, node: &NodeRecord) -> bool {
        let holds = |condition: &NodeCondition| match condition {
            NodeCondition::Label(requirement) => requirement.matches(symbols, &node.labels),
            NodeCondition::Name { name, equal } => (node.name == *name) == *equal,
        };
        self.0.as_ref().is_some_and(|all| all.iter().all(holds))
    }
}

/// A required node selector: its terms are ORed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct NodeSelectorMatcher(Box<[NodeMatcher]>);

impl NodeSelectorMatcher {
    pub(crate) fn compile(symbols: &mut Symbols, terms: &[NodeTerm]) -> NodeSelectorMatcher {
        NodeSelectorMatcher(terms.iter().map(|t| NodeMatcher::compile(symbols, t)).collect())
    }

    pub(crate) fn symbols(&self) -> impl Iterator<Item = Symbol> + '_ {
        self.0.iter().flat_map(NodeMatcher::symbols)
    }

    /// A label that every matching node has, with its value, if there is a single term that says so.
    pub(crate) fn required_label(&self) -> Option<(Symbol, Symbol)> {
        let [NodeMatcher(Some(conditions))] = &*self.0 else { return None };
        conditions.iter().find_map(|condition| match condition {
            NodeCondition::Label(LabelRequirement::In(key, values)) => match **values {
                [value] => Some((*key, value)),
                _ => None,
            },
            _ => None,
        })
    }

    /// The values that a label of a matching node can have; none if terms leave it open.
    pub(crate) fn values_of(&self, key: Symbol) -> Option<Vec<Symbol>> {
        let of_term = |NodeMatcher(conditions): &NodeMatcher| match conditions {
            None => Some(Vec::new()),
            Some(conditions) => conditions.iter().find_map(|condition| match condition {
                NodeCondition::Label(LabelRequirement::In(k, values)) if *k == key => Some(values.to_vec()),
                _ => None,
            }),
        };
        let terms: Option<Vec<_>> = self.0.iter().map(of_term).collect();
        terms.map(|terms| terms.concat())
    }

    pub(crate) fn matches(&self, symbols: &Symbols, node: &NodeRecord) -> bool {
        self.0.iter().any(|term| term.matches(symbols, node))
    }
}
