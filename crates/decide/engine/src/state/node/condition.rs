//! Node selector terms compiled to symbols.

use berth_rules::{NodeRequirement, NodeTerm, Requirement};

use crate::state::interned::intern::{Symbol, Symbols};
use crate::state::node::NodeRecord;
use crate::state::rule_set::selector::LabelRequirement;

/// One requirement of a node term.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum NodeCondition {
    Label(LabelRequirement),
    Name(LabelRequirement),
    /// On an annotation or a field, which nodes know that were set in the epoch `since` or later.
    Attribute {
        requirement: LabelRequirement,
        since: u32,
    },
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
        let mut compile = |requirement: &Requirement| LabelRequirement::compile(symbols, requirement);
        let compile = |requirement: &NodeRequirement| match requirement {
            NodeRequirement::Label(requirement) => NodeCondition::Label(compile(requirement)),
            NodeRequirement::Name(requirement) => NodeCondition::Name(compile(requirement)),
            NodeRequirement::Attribute(requirement) => {
                NodeCondition::Attribute { requirement: compile(requirement), since: 0 }
            }
        };
        NodeMatcher(Some(requirements.iter().map(compile).collect()))
    }

    pub(crate) fn symbols(&self) -> impl Iterator<Item = Symbol> + '_ {
        self.0.iter().flatten().flat_map(|condition| match condition {
            NodeCondition::Label(requirement)
            | NodeCondition::Name(requirement)
            | NodeCondition::Attribute { requirement, .. } => requirement.symbols(),
        })
    }

    /// The keys of its annotations and fields, each with the epoch since when nodes know it.
    pub(in crate::state) fn attributes_mut(&mut self) -> impl Iterator<Item = (Symbol, &mut u32)> + '_ {
        self.0.iter_mut().flatten().filter_map(|condition| match condition {
            NodeCondition::Attribute { requirement, since } => Some((requirement.key(), since)),
            NodeCondition::Label(_) | NodeCondition::Name(_) => None,
        })
    }

    /// Whether a node knows all annotations and fields that it asks for.
    fn is_known(&self, node: &NodeRecord) -> bool {
        self.0.iter().flatten().all(|condition| match condition {
            NodeCondition::Attribute { since, .. } => *since <= node.attributes_epoch,
            NodeCondition::Label(_) | NodeCondition::Name(_) => true,
        })
    }

    pub(crate) fn matches(&self, symbols: &Symbols, node: &NodeRecord) -> bool {
        let holds = |condition: &NodeCondition| match condition {
            NodeCondition::Label(requirement) => requirement.matches(symbols, &node.labels),
            NodeCondition::Name(requirement) => requirement.holds_for(symbols, Some(node.name)),
            NodeCondition::Attribute { requirement, since } => {
                *since <= node.attributes_epoch && requirement.matches(symbols, &node.labels)
            }
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

    pub(in crate::state) fn attributes_mut(&mut self) -> impl Iterator<Item = (Symbol, &mut u32)> + '_ {
        self.0.iter_mut().flat_map(NodeMatcher::attributes_mut)
    }

    /// Whether a node knows all annotations and fields that it asks for.
    pub(crate) fn is_known(&self, node: &NodeRecord) -> bool {
        self.0.iter().all(|term| term.is_known(node))
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

    /// The labels that it requires, such as `topology.kubernetes.io/zone=a or b`; none if it requires something else, or more than
    /// a few.
    pub(crate) fn required_labels(&self, symbols: &Symbols) -> Option<String> {
        const MAX_NAMED: usize = 50;
        if self.symbols().nth(MAX_NAMED).is_some() {
            return None;
        }
        let of_condition = |condition: &NodeCondition| match condition {
            NodeCondition::Label(LabelRequirement::In(key, values)) => {
                let mut values: Vec<_> = values.iter().map(|value| symbols.text(*value)).collect();
                values.sort_unstable();
                Some(format!("{}={}", symbols.text(*key), values.join(" or ")))
            }
            _ => None,
        };
        let of_term = |NodeMatcher(conditions): &NodeMatcher| {
            let conditions = conditions.as_deref()?.iter().map(of_condition);
            Some(conditions.collect::<Option<Vec<_>>>()?.join(" and "))
        };
        let terms: Vec<_> = self.0.iter().map(of_term).collect::<Option<_>>()?;
        Some(terms.join(", or ")).filter(|text| !text.is_empty())
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
