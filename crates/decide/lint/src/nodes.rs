//! The nodes of the input, and what rules about nodes leave of them.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::rc::Rc;

use berth_api::object::{Node, ResourceList};
use berth_rules::{
    Dialect, NodeRequirement, NodeSelectorRule, NodeTerm, PodRules, Requirement, Selector, SpreadConstraint,
    TaintEffect, Tolerations,
};

use crate::subject::Subject;
use crate::work::Work;

/// Alternatives beyond this many are not compared.
const MAX_ALTERNATIVES: usize = 1024;

/// What decides which nodes a pod may run on.
type NodeRules = (Vec<(String, String)>, Vec<NodeSelectorRule>, Tolerations);

/// The values of a label, each with the nodes that have it.
type Domains<'a> = Rc<BTreeMap<&'a str, Vec<usize>>>;

pub(crate) struct Nodes<'a> {
    all: Vec<&'a Node>,
    /// Of each node, the position of the first one that offers the same resources.
    first_of_size: Vec<usize>,
    work: Work,
    domains: RefCell<HashMap<String, Domains<'a>>>,
    eligible: RefCell<HashMap<NodeRules, Rc<Eligible<'a>>>>,
    /// The same, by the place of the object: rules can be large.
    of_subjects: RefCell<HashMap<usize, Rc<Eligible<'a>>>>,
}

/// The nodes that a pod may run on.
#[derive(Default)]
pub(crate) struct Eligible<'a> {
    /// Positions, ascending.
    pub(crate) nodes: Vec<usize>,
    /// Those that the node selector and the node affinity match, whatever their taints.
    pub(crate) matching: Vec<usize>,
    /// Those of the first nodes with each different list of resources.
    pub(crate) sizes: Vec<usize>,
    domains: RefCell<HashMap<String, Rc<BTreeSet<&'a str>>>>,
    has_closed: RefCell<HashMap<(String, bool, bool), bool>>,
}

impl<'a> Nodes<'a> {
    pub(crate) fn new(all: Vec<&'a Node>, work: Work) -> Nodes<'a> {
        let mut known = HashMap::new();
        let first = |(i, node): (usize, &&'a Node)| *known.entry(offered(node)).or_insert(i);
        let first_of_size = all.iter().enumerate().map(first).collect();
        Nodes {
            all,
            first_of_size,
            work,
            domains: RefCell::default(),
            eligible: RefCell::default(),
            of_subjects: RefCell::default(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(crate) fn all(&self) -> &[&'a Node] {
        &self.all
    }

    pub(crate) fn get(&self, i: usize) -> &'a Node {
        self.all[i]
    }

    /// The values of a label, each with the nodes that have it.
    pub(crate) fn domains(&self, key: &str) -> Domains<'a> {
        if let Some(domains) = self.domains.borrow().get(key) {
            return domains.clone();
        }
        self.work.spend(self.all.len());
        let mut domains: BTreeMap<&'a str, Vec<usize>> = BTreeMap::new();
        for (i, node) in self.all.iter().enumerate() {
            if let Some(value) = node.metadata.label(key) {
                domains.entry(value).or_default().push(i);
            }
        }
        let domains = Rc::new(domains);
        self.domains.borrow_mut().insert(key.to_owned(), domains.clone());
        domains
    }

    /// Whether all nodes with one label also have another one.
    pub(crate) fn have_label_if(&self, with: &str, key: &str) -> bool {
        let n_nodes = |key: &str| self.domains(key).values().map(Vec::len).sum::<usize>();
        // Most nodes have both labels.
        if n_nodes(key) == self.all.len() {
            return true;
        }
        let with = self.domains(with);
        let mut nodes = with.values().flatten();
        self.work.spend(self.all.len()) && nodes.all(|i| self.all[*i].metadata.label(key).is_some())
    }

    /// The nodes that the node selector, the required node affinity and the tolerations of a pod allow. Taints that nodes
    /// get for a time, such as while they are cordoned, do not count.
    pub(crate) fn eligible(&self, subject: &Subject<'_>) -> Rc<Eligible<'a>> {
        let order = subject.object.order;
        if let Some(eligible) = self.of_subjects.borrow().get(&order) {
            return eligible.clone();
        }
        let rules = &subject.pod.rules;
        if !self.work.spend(steps(rules)) {
            return Rc::default();
        }
        let eligible = self.eligible_by(rules);
        if !self.work.is_spent() {
            self.of_subjects.borrow_mut().insert(order, eligible.clone());
        }
        eligible
    }

    fn eligible_by(&self, rules: &PodRules) -> Rc<Eligible<'a>> {
        let key =
            (rules.node_selector.clone(), rules.required_node_affinity.clone(), rules.tolerations.clone());
        if let Some(eligible) = self.eligible.borrow().get(&key) {
            return eligible.clone();
        }
        let matching = self.matching(rules);
        let tolerates = |i: &usize| {
            self.all[*i].spec.taints.iter().all(|taint| {
                self.work.spend(1);
                !TaintEffect::parse(&taint.effect).forbids_scheduling()
                    || is_condition(&taint.key)
                    || rules.tolerations.tolerate(taint)
            })
        };
        let nodes: Vec<usize> = matching.iter().copied().filter(tolerates).collect();
        let mut seen = HashSet::new();
        let sizes = nodes.iter().copied().filter(|i| seen.insert(self.first_of_size[*i])).collect();
        let eligible = Rc::new(Eligible { nodes, matching, sizes, ..Eligible::default() });
        if !self.work.is_spent() {
            self.eligible.borrow_mut().insert(key, eligible.clone());
        }
        eligible
    }

    /// The nodes that the node selector and the required node affinity of a pod match.
    pub(crate) fn matching(&self, rules: &PodRules) -> Vec<usize> {
        let steps = steps(rules);
        let matches = |i: &usize| {
            let node = self.all[*i];
            self.work.spend(steps)
                && rules.node_selector.iter().all(|(key, value)| node.metadata.label(key) == Some(value))
                && rules.required_node_affinity.iter().all(|rule| matches(rule, node))
        };
        (0..self.all.len()).filter(matches).collect()
    }

    /// The domains of a topology key that have an eligible node.
    pub(crate) fn domains_of(&self, key: &str, eligible: &Eligible<'a>) -> Rc<BTreeSet<&'a str>> {
        let mut known = eligible.domains.borrow_mut();
        if let Some(domains) = known.get(key) {
            return domains.clone();
        }
        self.work.spend(eligible.nodes.len());
        let values = eligible.nodes.iter().filter_map(|i| self.all[*i].metadata.label(key));
        let domains = Rc::new(values.collect::<BTreeSet<_>>());
        known.insert(key.to_owned(), domains.clone());
        domains
    }
}

/// Why a domain takes no pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Closed {
    Cordoned,
    Tainted,
    Excluded,
}

impl<'a> Nodes<'a> {
    /// The domains that a spread constraint counts, by its policies and by the topology keys that its nodes must have, each with the
    /// reason for which no node of it takes a pod whatever its resources, if that is so.
    pub(crate) fn counted(
        &self,
        eligible: &Eligible<'a>,
        constraint: &SpreadConstraint,
        keys: &[&str],
    ) -> BTreeMap<&'a str, Option<Closed>> {
        let mut domains = BTreeMap::new();
        if !self.work.spend(self.all.len()) {
            return domains;
        }
        for (i, node) in self.all.iter().enumerate() {
            let is_cordoned = node.spec.unschedulable;
            let closed = if eligible.nodes.binary_search(&i).is_ok() {
                is_cordoned.then_some(Closed::Cordoned)
            } else if eligible.matching.binary_search(&i).is_ok() {
                Some(Closed::Tainted)
            } else {
                Some(Closed::Excluded)
            };
            let counts = match closed {
                Some(Closed::Excluded) => !constraint.honor_node_affinity,
                Some(Closed::Tainted | Closed::Cordoned) => !constraint.honor_node_taints,
                None => true,
            };
            let mut keys = keys.iter();
            if let Some(domain) = node.metadata.label(&constraint.topology_key)
                && counts
                && keys.all(|key| node.metadata.label(key).is_some())
            {
                let known = domains.entry(domain).or_insert(closed);
                *known = known.and(closed);
            }
        }
        domains
    }

    /// Whether a spread constraint counts a domain that takes no pod.
    pub(crate) fn has_closed_domain(&self, eligible: &Eligible<'a>, constraint: &SpreadConstraint) -> bool {
        let SpreadConstraint { topology_key, honor_node_affinity, honor_node_taints, .. } = constraint;
        let key = (topology_key.clone(), *honor_node_affinity, *honor_node_taints);
        let known = eligible.has_closed.borrow().get(&key).copied();
        known.unwrap_or_else(|| {
            let has = self.counted(eligible, constraint, &[]).values().any(Option::is_some);
            eligible.has_closed.borrow_mut().insert(key, has);
            has
        })
    }
}

pub(crate) fn offered(node: &Node) -> Option<&ResourceList> {
    node.status.allocatable.as_ref().or(node.status.capacity.as_ref())
}

/// How much of a resource a node offers: cpu in thousandths.
pub(crate) fn allocatable(node: &Node, name: &str) -> i64 {
    let quantity = offered(node).and_then(|list| list.get(name)).copied().unwrap_or_default();
    if name == "cpu" { quantity.millis() } else { quantity.units() }
}

/// Whether the taint is about a condition of a node, which ends.
pub(crate) fn is_condition(key: &str) -> bool {
    key.starts_with("node.kubernetes.io/") || key.starts_with("node.cloudprovider.kubernetes.io/")
}

/// Rules on annotations and other fields are not checked: nodes of manifests lack them.
pub(crate) fn matches(rule: &NodeSelectorRule, node: &Node) -> bool {
    let has_attributes = rule.terms.iter().any(|term| match term {
        NodeTerm::All(requirements) => {
            requirements.iter().any(|r| matches!(r, NodeRequirement::Attribute(_)))
        }
        _ => false,
    });
    has_attributes || rule.matches(&node.metadata.name, &node.metadata.labels)
}

/// Steps that it costs to compare the rules about nodes with one node.
fn steps(rules: &PodRules) -> usize {
    let of_term = |term: &NodeTerm| match term {
        NodeTerm::All(requirements) => {
            let of_requirement = |requirement: &NodeRequirement| match requirement {
                NodeRequirement::Label(requirement) | NodeRequirement::Name(requirement) => {
                    requirement_steps(requirement)
                }
                NodeRequirement::Attribute(_) => 1,
            };
            1 + requirements.iter().map(of_requirement).sum::<usize>()
        }
        _ => 1,
    };
    let terms = rules.required_node_affinity.iter().flat_map(|rule| &rule.terms);
    1 + rules.node_selector.len() + terms.map(of_term).sum::<usize>()
}

/// Steps that it costs to copy a requirement, or to compare it with a value.
pub(crate) fn requirement_steps(requirement: &Requirement) -> usize {
    match requirement {
        Requirement::In(_, values) | Requirement::NotIn(_, values) => 1 + values.len(),
        _ => 1,
    }
}

/// The requirements of a node term on labels and on the name; those on versions, annotations and other fields are left
/// out. None for a term that matches no node.
pub(crate) fn term_requirements(term: &NodeTerm) -> Option<Vec<Requirement>> {
    let NodeTerm::All(requirements) = term else { return None };
    let of_label = |requirement: &NodeRequirement| match requirement {
        NodeRequirement::Label(Requirement::VersionGt(..) | Requirement::VersionLt(..)) => None,
        NodeRequirement::Label(requirement) | NodeRequirement::Name(requirement) => Some(requirement.clone()),
        NodeRequirement::Attribute(_) => None,
    };
    Some(requirements.iter().filter_map(of_label).collect())
}

/// What the node selector and the required node affinity of a pod allow: one of these conjunctions must hold. None if
/// there are too many.
pub(crate) fn alternatives(rules: &PodRules, work: &Work) -> Option<Vec<Vec<Requirement>>> {
    let selector = rules.node_selector.iter();
    let selector = selector.map(|(key, value)| Requirement::In(key.clone(), vec![value.clone()])).collect();
    conjunction(vec![selector], &rules.required_node_affinity, work)
}

/// The conjunctions that also satisfy node selector rules.
pub(crate) fn conjunction(
    mut alternatives: Vec<Vec<Requirement>>,
    rules: &[NodeSelectorRule],
    work: &Work,
) -> Option<Vec<Vec<Requirement>>> {
    for rule in rules {
        let terms: Vec<_> = rule.terms.iter().filter_map(term_requirements).collect();
        let size = |all: &[Vec<Requirement>]| 1 + all.iter().flatten().map(requirement_steps).sum::<usize>();
        let steps = size(&alternatives) * terms.len() + size(&terms) * alternatives.len();
        if alternatives.len() * terms.len() > MAX_ALTERNATIVES || !work.spend(steps) {
            return None;
        }
        let with = |all: &Vec<Requirement>| {
            terms.iter().map(|term| all.iter().chain(term).cloned().collect()).collect::<Vec<_>>()
        };
        alternatives = alternatives.iter().flat_map(with).collect();
    }
    Some(alternatives)
}

/// Whether a node could satisfy all requirements.
pub(crate) fn is_satisfiable(requirements: &[Requirement]) -> bool {
    Selector::new(requirements.to_vec()).is_satisfiable()
}

pub(crate) fn volume_rule(selector: &berth_api::object::NodeSelector) -> NodeSelectorRule {
    NodeSelectorRule::parse(selector, String::new(), Dialect::V1, false)
}

/// The values of a node label that the rules of a pod allow, if they list them.
pub(crate) fn listed_values(rules: &PodRules, key: &str, work: &Work) -> Option<BTreeSet<String>> {
    let mut values = BTreeSet::new();
    for requirements in alternatives(rules, work)?.iter().filter(|requirements| is_satisfiable(requirements))
    {
        let of_key: Vec<_> = requirements.iter().filter(|r| r.key() == key).collect();
        let listed =
            of_key.iter().find_map(|r| if let Requirement::In(_, values) = r { Some(values) } else { None });
        let allowed = |value: &&String| of_key.iter().all(|r| r.matches(Some(value)));
        values.extend(listed?.iter().filter(allowed).cloned());
    }
    Some(values)
}
