//! Node selector terms.

use super::attribute::{NODE_FIELDS, annotation_key, field_key, node_attribute};
use super::selector::Comparison;
use super::{Dialect, Requirement};
use berth_api::object::{Node, NodeAffinity, NodeSelector, NodeSelectorTerm, SelectorRequirement, StringMap};

/// A required node selector: its terms are ORed; without terms it matches no node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NodeSelectorRule {
    /// Field path in the pod, such as `spec.affinity.podAffinity...[0]`.
    pub path: String,
    pub dialect: Dialect,
    /// Whether the rule also holds during execution: the enforcer evicts pods that break it.
    pub required_during_execution: bool,
    pub terms: Vec<NodeTerm>,
    /// The only nodes it can match, when every term of a v1 rule names nodes by `metadata.name`.
    ///
    /// kube-scheduler then considers no other node. An empty list means that the terms contradict each other.
    pub node_names: Option<Vec<String>>,
}

/// A node selector term: its requirements are ANDed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum NodeTerm {
    /// Matches no node: an empty term of v1, or null.
    Nothing,
    /// Matches no node, because it is invalid; the text is the error.
    Invalid(String),
    /// Matches nodes that satisfy all requirements; none at all matches every node.
    All(Vec<NodeRequirement>),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum NodeRequirement {
    Label(Requirement),
    /// On `metadata.name`.
    Name(Requirement),
    /// On an annotation or another field: in the proposals only.
    Attribute(Requirement),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PreferredNodeTerm {
    /// Field path in the pod, such as `spec.affinity.podAffinity...[0]`.
    pub path: String,
    /// Added to the score of matching nodes, 1 to 100.
    pub weight: i64,
    pub requirements: Vec<NodeRequirement>,
}

impl NodeTerm {
    /// Parses one term in the meaning of `dialect`.
    pub fn parse(term: &NodeSelectorTerm, dialect: Dialect) -> NodeTerm {
        if term.is_null || (dialect == Dialect::V1 && is_empty(term)) {
            return NodeTerm::Nothing;
        }
        parse_requirements(term, dialect).map_or_else(NodeTerm::Invalid, NodeTerm::All)
    }
}

impl NodeRequirement {
    /// Whether a node with this name and these labels satisfies it, as in [`NodeSelectorRule::matches`].
    pub fn holds(&self, name: &str, labels: &StringMap) -> bool {
        self.holds_with(name, labels, |_| None)
    }

    pub fn holds_on(&self, node: &Node) -> bool {
        let Node { metadata, .. } = node;
        self.holds_with(&metadata.name, &metadata.labels, |key| node_attribute(node, key))
    }

    fn holds_with<'a>(
        &self,
        name: &str,
        labels: &StringMap,
        attribute: impl Fn(&str) -> Option<&'a str>,
    ) -> bool {
        match self {
            NodeRequirement::Label(requirement) => {
                requirement.matches(labels.get(requirement.key()).map(String::as_str))
            }
            NodeRequirement::Name(requirement) => requirement.matches(Some(name)),
            NodeRequirement::Attribute(requirement) => requirement.matches(attribute(requirement.key())),
        }
    }
}

impl NodeSelectorRule {
    /// Parses a required node selector in the meaning of `dialect`.
    pub fn parse(
        selector: &NodeSelector,
        path: String,
        dialect: Dialect,
        required_during_execution: bool,
    ) -> Self {
        let terms = selector.node_selector_terms.iter().map(|t| NodeTerm::parse(t, dialect)).collect();
        let node_names = if dialect == Dialect::V1 { Self::node_names(selector) } else { None };
        NodeSelectorRule { path, dialect, required_during_execution, terms, node_names }
    }

    /// Whether a node with this name and these labels satisfies it. Annotations and other fields, which only the proposals
    /// select by, count as absent.
    pub fn matches(&self, name: &str, labels: &StringMap) -> bool {
        let holds = |requirement: &NodeRequirement| requirement.holds(name, labels);
        self.terms.iter().any(|term| match term {
            NodeTerm::Nothing | NodeTerm::Invalid(_) => false,
            NodeTerm::All(requirements) => requirements.iter().all(holds),
        })
    }

    fn node_names(selector: &NodeSelector) -> Option<Vec<String>> {
        let mut names: Vec<String> = Vec::new();
        for term in &selector.node_selector_terms {
            let mut of_term: Option<Vec<String>> = None;
            for field in term.match_fields.iter().filter(|f| f.key == "metadata.name" && f.operator == "In") {
                match &mut of_term {
                    None => of_term = Some(field.values.clone()),
                    Some(names) => names.retain(|n| field.values.contains(n)),
                }
            }
            names.extend(of_term?);
        }
        names.sort_unstable();
        names.dedup();
        (!selector.node_selector_terms.is_empty()).then_some(names)
    }
}

impl PreferredNodeTerm {
    /// Parses preferred terms. Terms without weight or requirements have no effect and are left out.
    ///
    /// # Errors
    /// A term is invalid; kube-scheduler then cannot score the pod.
    pub fn parse_all(
        affinity: &NodeAffinity,
        path: &str,
        dialect: Dialect,
    ) -> Result<Vec<PreferredNodeTerm>, String> {
        let mut terms = Vec::new();
        for (i, preferred) in affinity.preferred_during_scheduling_ignored_during_execution.iter().enumerate()
        {
            let term = NodeSelectorTerm {
                match_expressions: preferred.match_expressions.clone(),
                ..Default::default()
            };
            let term = preferred.preference.as_ref().unwrap_or(&term);
            if preferred.weight == 0 || (is_empty(term) && term.match_annotations.is_empty()) {
                continue;
            }
            let requirements = parse_requirements(term, dialect).map_err(|e| format!("[{i}].{e}"))?;
            let path = format!("{path}.preferredDuringSchedulingIgnoredDuringExecution[{i}]");
            terms.push(PreferredNodeTerm { path, weight: i64::from(preferred.weight), requirements });
        }
        Ok(terms)
    }
}

fn is_empty(term: &NodeSelectorTerm) -> bool {
    term.match_expressions.is_empty() && term.match_fields.is_empty()
}

fn parse_requirements(term: &NodeSelectorTerm, dialect: Dialect) -> Result<Vec<NodeRequirement>, String> {
    let comparison = match dialect {
        Dialect::V1 => Comparison::LabelValues,
        Dialect::Proposal => Comparison::IntegersAndVersions,
    };
    let labels = Requirement::parse_all(&term.match_expressions, comparison)?;
    let mut requirements: Vec<_> = labels.into_iter().map(NodeRequirement::Label).collect();
    for (i, field) in term.match_fields.iter().enumerate() {
        requirements.push(parse_field(field, dialect).map_err(|e| format!("matchFields[{i}].{e}"))?);
    }
    // The API server knows no such field and drops it.
    for (i, annotation) in term.match_annotations.iter().enumerate().filter(|_| dialect == Dialect::Proposal)
    {
        let key = annotation_key(&annotation.key);
        let parsed = Requirement::parse_for_key(key, annotation, comparison);
        let parsed = parsed.map_err(|e| format!("matchAnnotations[{i}].{e}"))?;
        requirements.push(NodeRequirement::Attribute(parsed));
    }
    Ok(requirements)
}

fn parse_field(field: &SelectorRequirement, dialect: Dialect) -> Result<NodeRequirement, String> {
    const NAME: &str = "metadata.name";
    let SelectorRequirement { key, operator, values } = field;
    let is_v1 = dialect == Dialect::V1;
    if is_v1 && !matches!(operator.as_str(), "In" | "NotIn") {
        return Err(format!("operator: Invalid value: {operator:?}: not a valid selector operator"));
    }
    if key != NAME && (is_v1 || !NODE_FIELDS.contains(&key.as_str())) {
        return Err(format!("key: Invalid value: {key:?}: not a valid field selector key"));
    }
    if is_v1 && values.len() != 1 {
        return Err("values: Invalid value: must have one element".to_owned());
    }
    let parse = |key| Requirement::parse_for_key(key, field, Comparison::IntegersAndVersions);
    if key == NAME {
        return parse(key.clone()).map(NodeRequirement::Name);
    }
    parse(field_key(key)).map(NodeRequirement::Attribute)
}

impl std::fmt::Display for NodeRequirement {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            NodeRequirement::Name(Requirement::NotIn(key, names)) if names.len() == 1 => {
                write!(f, "{key}!={}", names[0])
            }
            NodeRequirement::Label(requirement)
            | NodeRequirement::Name(requirement)
            | NodeRequirement::Attribute(requirement) => requirement.fmt(f),
        }
    }
}
