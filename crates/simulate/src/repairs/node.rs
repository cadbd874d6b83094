//! Changes of one node: its cordon, taints and labels.
//!
//! Labels of the domains `kubernetes.io` and `k8s.io` say what a node is, and are set by the kubelet and the cloud
//! provider: they are changed only where a topology label is missing. Taints of `node.kubernetes.io` report the
//! condition of the node and return.

use std::collections::{BTreeMap, BTreeSet};

use berth_api::config::Plugin;
use berth_api::object::{Node, StringMap, Taint};
use berth_api::rules::{NodeRequirement, NodeTerm, Requirement, TaintEffect};
use berth_engine::{Counts, Verdict};

use super::{Change, Problem, Repair, Trial, commands};

/// The taint of cordoned nodes.
const UNSCHEDULABLE_TAINT: &str = "node.kubernetes.io/unschedulable";
const HOSTNAME: &str = "kubernetes.io/hostname";
/// The highest cost of a change of labels that is looked for.
const MAX_LABEL_COST: u32 = 4;
/// Number of existing values of a missing topology label that are tried.
const MAX_DOMAINS: usize = 20;

/// What has to change on a node.
struct Work {
    node: String,
    /// The cordon and the taints.
    forced: Vec<Change>,
    /// Label keys that have to change.
    needed: BTreeSet<String>,
    /// Whether a label has to change.
    labels: bool,
}

impl Trial<'_> {
    /// The cheapest change of one node.
    pub(super) fn change_node(&mut self, problem: &Problem) -> Option<Repair> {
        let works: Vec<_> = problem.rejecting.iter().filter_map(|(n, v)| self.work(problem, n, v)).collect();
        let values = self.label_values(problem);
        let least = |work: &Work| {
            let labels = work.needed.len().max(usize::from(work.labels));
            (work.forced.len() + labels) as u32
        };
        let mut by_cost: BTreeMap<u32, Vec<&Work>> = BTreeMap::new();
        for work in &works {
            for cost in least(work)..=work.forced.len() as u32 + MAX_LABEL_COST {
                by_cost.entry(cost).or_default().push(work);
                if !work.labels && work.needed.is_empty() {
                    break;
                }
            }
        }
        for (cost, works) in by_cost {
            for work in works {
                if let Some(changes) = self.changes_at(problem, work, cost, &values) {
                    let commands = commands::of_changes(&changes);
                    let node = work.node.clone();
                    return Some(Repair { cost, changes, node, commands, patch: Vec::new() });
                }
            }
        }
        None
    }

    /// What has to change on the node; none if no change of it helps.
    fn work(&self, problem: &Problem, name: &str, verdicts: &[Verdict]) -> Option<Work> {
        let node = self.nodes.get(name)?;
        let mut work =
            Work { node: name.to_owned(), forced: Vec::new(), needed: BTreeSet::new(), labels: false };
        let mut spread_may_change = false;
        for verdict in verdicts {
            let missing = verdict.topology.as_ref().filter(|pair| pair.value.is_none());
            match (verdict.plugin, &verdict.counts, missing) {
                (Plugin::NodeUnschedulable, ..) => {
                    work.forced.push(Change::Uncordon { node: name.to_owned() });
                }
                (Plugin::TaintToleration, ..) => {}
                (Plugin::NodeAffinity, ..) => {
                    let term = verdict.term.as_deref().unwrap_or_default();
                    let selector = problem.rules.node_selector.iter();
                    let key =
                        selector.map(|(key, _)| key).find(|key| term == format!("spec.nodeSelector[{key}]"));
                    let is_own = problem.rules.required_node_affinity.iter().any(|rule| rule.path == term);
                    if key.is_none() && !is_own {
                        return None;
                    }
                    work.needed.extend(key.cloned());
                    work.labels = true;
                }
                (Plugin::PodTopologySpread | Plugin::InterPodAffinity, _, Some(pair)) => {
                    work.needed.insert(pair.key.clone());
                }
                // Which nodes a constraint counts depends on their labels and taints.
                (_, Some(Counts::Spread { .. }), _) => spread_may_change = true,
                _ => return None,
            }
        }
        let untolerated = untolerated(problem, node);
        if untolerated.iter().any(|taint| is_owned(&taint.key) && taint.key != UNSCHEDULABLE_TAINT) {
            return None;
        }
        for taint in
            untolerated.into_iter().filter(|t| t.key != UNSCHEDULABLE_TAINT || !node.spec.unschedulable)
        {
            work.forced
                .push(Change::RemoveTaint { node: name.to_owned(), taint: commands::taint_text(taint) });
        }
        let is_changed = !work.forced.is_empty() || work.labels || !work.needed.is_empty();
        (is_changed || !spread_may_change).then_some(work)
    }

    /// By label key, the values that could satisfy the rules of the pod, and none for no label.
    fn label_values(&self, problem: &Problem) -> BTreeMap<String, BTreeSet<Option<String>>> {
        let mut values: BTreeMap<String, BTreeSet<Option<String>>> = BTreeMap::new();
        for (key, value) in &problem.rules.node_selector {
            values.entry(key.clone()).or_default().insert(Some(value.clone()));
        }
        let terms = problem.rules.required_node_affinity.iter().flat_map(|rule| &rule.terms);
        for term in terms {
            let NodeTerm::All(requirements) = term else { continue };
            for requirement in requirements {
                let NodeRequirement::Label(requirement) = requirement else { continue };
                let of_key = values.entry(requirement.key().to_owned()).or_default();
                match requirement {
                    Requirement::In(_, wanted) => of_key.extend(wanted.iter().cloned().map(Some)),
                    Requirement::Exists(_) => _ = of_key.insert(Some("true".to_owned())),
                    Requirement::NotIn(..) | Requirement::DoesNotExist(_) => _ = of_key.insert(None),
                    Requirement::Gt(_, bound) => {
                        of_key.extend(bound.checked_add(1).map(|n| Some(n.to_string())))
                    }
                    Requirement::Lt(_, bound) => {
                        of_key.extend(bound.checked_sub(1).map(|n| Some(n.to_string())))
                    }
                    Requirement::VersionGt(..) | Requirement::VersionLt(..) => {}
                }
            }
        }
        values
    }

    /// Changes of exactly this cost after which the pod fits on the node.
    fn changes_at(
        &mut self,
        problem: &Problem,
        work: &Work,
        cost: u32,
        values: &BTreeMap<String, BTreeSet<Option<String>>>,
    ) -> Option<Vec<Change>> {
        let node = self.nodes.get(&work.node)?;
        let mut values: Vec<_> = values
            .iter()
            .filter(|(key, _)| !is_owned(key))
            .map(|(key, values)| (key.clone(), values.iter().cloned().collect::<Vec<_>>()))
            .collect();
        let may_be_set = |key: &&String| !is_owned(key) || *key == HOSTNAME || key.starts_with("topology.");
        for key in
            work.needed.iter().filter(|key| !node.metadata.labels.contains_key(*key)).filter(may_be_set)
        {
            let domains: BTreeSet<_> = match key.as_str() {
                HOSTNAME => BTreeSet::from([Some(work.node.clone())]),
                key => self.nodes.values().map(|n| n.metadata.labels.get(key).cloned()).collect(),
            };
            let domains = domains.into_iter().flatten().take(MAX_DOMAINS).chain([new_domain(key)]).map(Some);
            match values.iter_mut().find(|(known, _)| known == key) {
                Some((_, values)) => values.extend(domains),
                None => values.push((key.clone(), domains.collect())),
            }
        }
        let mut search = Labels { trial: self, problem, work, values: &values, node };
        let mut labels = node.metadata.labels.clone();
        let mut changes = work.forced.clone();
        let left = cost.checked_sub(work.forced.len() as u32)?;
        search.assign(0, left, &mut labels, &mut changes).then_some(changes)
    }
}

/// The search for labels.
struct Labels<'s, 'a> {
    trial: &'s mut Trial<'a>,
    problem: &'s Problem,
    work: &'s Work,
    values: &'s [(String, Vec<Option<String>>)],
    node: &'s Node,
}

impl Labels<'_, '_> {
    /// Changes labels from the key on, at exactly the cost that is left.
    fn assign(&mut self, from: usize, left: u32, labels: &mut StringMap, changes: &mut Vec<Change>) -> bool {
        if left == 0 {
            return self.holds(labels, changes);
        }
        let (values, node) = (self.values, &self.work.node);
        for (i, (key, of_key)) in values.iter().enumerate().skip(from) {
            let before = labels.get(key).cloned();
            for value in of_key.iter().filter(|value| **value != before) {
                let (node, key) = (node.clone(), key.clone());
                let change = match value.clone() {
                    Some(value) => Change::SetLabel { node, key, value },
                    None => Change::RemoveLabel { node, key },
                };
                let Some(left) = left.checked_sub(change.cost(before.is_some())) else { continue };
                changes.push(change);
                set(labels, &values[i].0, value.clone());
                if self.assign(i + 1, left, labels, changes) {
                    return true;
                }
                set(labels, &values[i].0, before.clone());
                changes.pop();
            }
        }
        false
    }

    /// Whether the pod fits with these changes.
    fn holds(&mut self, labels: &StringMap, changes: &[Change]) -> bool {
        let rules = &self.problem.rules;
        let selected = rules.node_selector.iter().all(|(key, value)| labels.get(key) == Some(value));
        if !selected || !self.work.needed.iter().all(|key| labels.contains_key(key)) {
            return false;
        }
        let mut rules = rules.required_node_affinity.iter();
        // The engine decides about attributes: they are not known here.
        let has_attributes = |term: &NodeTerm| match term {
            NodeTerm::All(all) => all.iter().any(|r| matches!(r, NodeRequirement::Attribute(_))),
            _ => false,
        };
        if !rules.all(|rule| rule.matches(&self.work.node, labels) || rule.terms.iter().any(has_attributes)) {
            return false;
        }
        let mut changed = self.node.clone();
        changed.metadata.labels.clone_from(labels);
        for change in changes {
            match change {
                Change::Uncordon { .. } => {
                    changed.spec.unschedulable = false;
                    changed.spec.taints.retain(|t| t.key != UNSCHEDULABLE_TAINT);
                }
                Change::RemoveTaint { taint, .. } => {
                    changed.spec.taints.retain(|t| commands::taint_text(t) != *taint);
                }
                _ => {}
            }
        }
        let name = &self.work.node;
        self.trial.cluster.set_node(&changed);
        let fits = self.trial.cluster.fits_on(&self.problem.prepared, name)
            && self.trial.breaks_nothing(self.problem, name);
        self.trial.cluster.set_node(self.node);
        fits
    }
}

/// A value of a topology label that no node has.
pub(super) fn new_domain(key: &str) -> String {
    format!("new-{}", key.rsplit('/').next().unwrap_or(key))
}

fn set(labels: &mut StringMap, key: &str, value: Option<String>) {
    match value {
        Some(value) => _ = labels.insert(key.to_owned(), value),
        None => _ = labels.remove(key),
    }
}

/// The taints that keep the pod off the node.
pub(super) fn untolerated<'n>(problem: &Problem, node: &'n Node) -> Vec<&'n Taint> {
    let forbids = |t: &&Taint| TaintEffect::parse(&t.effect).forbids_scheduling();
    let tolerated = |t: &Taint| problem.rules.tolerations.iter().any(|rule| rule.tolerates(t));
    node.spec.taints.iter().filter(forbids).filter(|t| !tolerated(t)).collect()
}

/// Whether Kubernetes itself or a cloud provider sets the label or taint.
pub(super) fn is_owned(key: &str) -> bool {
    let domain = key.split_once('/').map_or("", |(domain, _)| domain);
    let is_of = |of: &str| domain == of || domain.strip_suffix(of).is_some_and(|rest| rest.ends_with('.'));
    domain != "node-role.kubernetes.io" && (is_of("kubernetes.io") || is_of("k8s.io"))
}
