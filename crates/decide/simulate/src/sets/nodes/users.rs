//! The pods that select nodes and can use them. DaemonSets do not count: their pods run on whatever nodes there are.

use std::collections::{BTreeMap, HashSet};

use berth_api::object::Node;
use berth_api::work::WorkBudget;
use berth_rules::{NodeRequirement, NodeTerm};

use super::NodeGroup;
use super::collect::{PodClass, PodClasses};
use super::distinct::Distinct;
use super::rules::Evaluated;
use super::tolerated::Taints;

/// Steps of the search for pods that can use nodes.
const STEPS: u64 = 20_000_000;

/// The pods that are not of DaemonSets.
pub(super) struct Users<'a> {
    classes: Vec<&'a PodClass>,
    /// The sets that their node selectors match.
    selected: HashSet<usize>,
    /// Whether the nodes of one of their node selectors are not known.
    has_unknown: bool,
    pods: &'a PodClasses,
    taints: &'a Taints,
    rules: &'a [Evaluated],
    distinct: &'a Distinct,
    budget: WorkBudget,
}

impl<'a> Users<'a> {
    pub(super) fn new(
        pods: &'a PodClasses,
        taints: &'a Taints,
        rules: &'a [Evaluated],
        distinct: &'a Distinct,
    ) -> Users<'a> {
        let classes: Vec<_> = pods.all.iter().filter(|class| !class.is_daemon).collect();
        let selectors = || classes.iter().filter_map(|class| class.selector);
        let selected = selectors().filter_map(|i| distinct.set_of_rule[i]).collect();
        let has_unknown = selectors().any(|i| rules[i].nodes.is_none());
        Users {
            classes,
            selected,
            has_unknown,
            pods,
            taints,
            rules,
            distinct,
            budget: WorkBudget::new(STEPS),
        }
    }

    /// Whether a node selector matches the nodes in exactly these sets, or may match them.
    pub(super) fn selects(&self, sets: &[usize]) -> bool {
        self.has_unknown || sets.iter().any(|set| self.selected.contains(set))
    }

    /// Whether a pod can use a node in exactly these sets, as far as its node selector, its profile and its tolerations say.
    /// What is too much work is taken as true.
    pub(super) fn can_use(&self, sets: &[usize], node: usize) -> bool {
        let matches = |rule: usize| match (&self.rules[rule].nodes, self.distinct.set_of_rule[rule]) {
            (None, _) => true,
            (_, Some(set)) => sets.binary_search(&set).is_ok(),
            (_, None) => false,
        };
        let taints = &self.taints.of_node[node];
        let taints: Vec<_> = taints.iter().map(|i| &self.taints.all[*i]).collect();
        let n_selectors = self.pods.selectors.values.len();
        self.classes.iter().any(|class| {
            let tolerations = &self.pods.tolerations.values[class.tolerations];
            let tolerates = || {
                taints.iter().filter(|tainted| tainted.effect.forbids_scheduling()).all(|tainted| {
                    self.budget.spend(1).is_err()
                        || tolerations.tolerate_parts(
                            &tainted.taint.key,
                            &tainted.taint.value,
                            &tainted.effect,
                        )
                })
            };
            self.budget.spend(1).is_err()
                || (class.selector.is_none_or(matches)
                    && class.added.is_none_or(|added| matches(n_selectors + added))
                    && tolerates())
        })
    }
}

/// The labels that rules mention, and the taints.
type Likeness<'a> = (Vec<(&'a str, &'a str)>, &'a [usize]);

/// Nodes in groups with equal taints and equal values of the labels that rules mention, the largest group first.
pub(super) fn alike(
    members: &[usize],
    nodes: &[&Node],
    taints: &Taints,
    classes: &PodClasses,
) -> Vec<NodeGroup> {
    let conjunctions = classes.selectors.values.iter().chain(&classes.added.values);
    let requirements = conjunctions.flatten().flatten().flat_map(|term| match term {
        NodeTerm::All(requirements) => requirements.as_slice(),
        NodeTerm::Nothing | NodeTerm::Invalid(_) => &[],
    });
    let keys: HashSet<&str> = requirements
        .filter_map(|requirement| match requirement {
            NodeRequirement::Label(requirement) => Some(requirement.key()),
            NodeRequirement::Name(_) | NodeRequirement::Attribute(_) => None,
        })
        .collect();
    let mut groups: BTreeMap<Likeness<'_>, Vec<usize>> = BTreeMap::new();
    for &i in members {
        let labels = nodes[i].metadata.labels.iter().filter(|(key, _)| keys.contains(key.as_str()));
        let labels = labels.map(|(key, value)| (key.as_str(), value.as_str())).collect();
        groups.entry((labels, &taints.of_node[i])).or_default().push(i);
    }
    let group = |((labels, of_node), members): (Likeness<'_>, Vec<usize>)| NodeGroup {
        labels: labels.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect(),
        taints: of_node.iter().map(|i| taints.all[*i].text()).collect(),
        n_nodes: members.len(),
        nodes: members.iter().map(|i| nodes[*i].metadata.name.clone()).collect(),
    };
    let mut groups: Vec<_> = groups.into_iter().map(group).collect();
    groups.sort_by_key(|group| std::cmp::Reverse(group.n_nodes));
    groups
}
