//! The rules about nodes with the nodes that they match.

use berth_api::object::Node;
use berth_api::work::WorkBudget;

use super::collect::{Conjunction, PodClasses, Table, Workloads, groups, text};
use super::index::NodeIndex;
use super::tolerated::{Taints, Tolerating};
use super::{NodeRule, NodeRuleRole};

/// Steps of the search for the nodes of rules, and for the pods that tolerate taints: about a second each.
const RULE_STEPS: u64 = 20_000_000;
const TAINT_STEPS: u64 = 20_000_000;
/// A rule with its nodes: positions, ascending; none if they are not known.
pub(super) struct Evaluated {
    pub rule: NodeRule,
    pub nodes: Option<Vec<usize>>,
}

/// All rules: node selectors, then added affinity, both in the order of [`PodClasses`], then taints.
pub(super) struct Rules {
    pub evaluated: Vec<Evaluated>,
    pub n_selectors: usize,
    pub n_taints_not_tolerated: usize,
    pub n_taints_left_out: usize,
}

impl Rules {
    pub(super) fn new(classes: &PodClasses, taints: &Taints, nodes: &[&Node]) -> Rules {
        let PodClasses { selectors, added, profiles, .. } = classes;
        let index = NodeIndex::new(nodes, selectors.values.iter().chain(&added.values));
        let budget = WorkBudget::new(RULE_STEPS);
        let mut evaluated = Vec::new();
        for (i, selector) in selectors.values.iter().enumerate() {
            let rule = of_pods(NodeRuleRole::NodeSelector, text(selector), selectors, i);
            evaluated.push(Evaluated { rule, nodes: index.matching(selector, &budget) });
        }
        for (i, affinity) in added.values.iter().enumerate() {
            let rule = of_pods(NodeRuleRole::AddedAffinity, text(affinity), added, i);
            let rule = NodeRule { profiles: profiles[i].clone(), ..rule };
            evaluated.push(Evaluated { rule, nodes: index.matching(affinity, &budget) });
        }
        let budget = WorkBudget::new(TAINT_STEPS);
        let (mut n_taints_not_tolerated, mut n_taints_left_out) = (0, 0);
        for tainted in &taints.all {
            let tolerating = tainted.tolerating(classes, &budget);
            n_taints_left_out += usize::from(tolerating.is_none());
            let is_known = tolerating.is_some();
            let Tolerating { named, n_workloads, n_pods, has_others } = tolerating.unwrap_or_default();
            let is_open = is_known && !has_others && tainted.effect.forbids_scheduling();
            n_taints_not_tolerated += usize::from(is_open);
            let rule = of_workloads(NodeRuleRole::Taint, tainted.text(), &named);
            let rule = NodeRule { n_workloads, n_pods, ..rule };
            evaluated.push(Evaluated { rule, nodes: Some(tainted.nodes.clone()) });
        }
        Rules { evaluated, n_selectors: selectors.values.len(), n_taints_not_tolerated, n_taints_left_out }
    }
}

fn of_pods(role: NodeRuleRole, rule: String, table: &Table<Conjunction>, position: usize) -> NodeRule {
    of_workloads(role, rule, &table.workloads[position])
}

fn of_workloads(role: NodeRuleRole, rule: String, workloads: &Workloads) -> NodeRule {
    NodeRule {
        role,
        rule,
        profiles: Vec::new(),
        workloads: groups(workloads).collect(),
        n_workloads: workloads.len(),
        n_pods: workloads.values().sum(),
    }
}
