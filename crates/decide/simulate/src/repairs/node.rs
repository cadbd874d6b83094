//! Changes of one node: its cordon, taints and labels.
//!
//! Labels of the domains `kubernetes.io` and `k8s.io` say what a node is, and are set by the kubelet and the cloud
//! provider: they are changed only where a topology label is missing. Taints of `node.kubernetes.io` report the
//! condition of the node and return.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use berth_api::object::{Node, Shared, StringMap, Taint, UNSCHEDULABLE_TAINT};
use berth_api::syntax::labels::HOSTNAME;
use berth_engine::{Counts, Verdict};
use berth_input::config::Plugin;
use berth_rules::{NodeRequirement, NodeTerm, Requirement, TaintEffect};

use super::change::{Change, Repair};
use super::commands;
use super::trial::{Problem, Trial};

/// The highest cost of a change of labels that is looked for.
const MAX_LABEL_COST: u32 = 4;
/// Number of sets of labels that are tried.
const MAX_TRIES: usize = 100_000;
/// Number of changes of one node besides those of labels.
const MAX_FORCED: usize = 100;
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
        let least = |work: &Work| {
            let labels = work.needed.len().max(usize::from(work.labels));
            (work.forced.len() + labels) as u32
        };
        let mut by_cost: BTreeMap<u32, Vec<&Work>> = BTreeMap::new();
        for work in &works {
            let most = match work.labels || !work.needed.is_empty() {
                true => work.forced.len() as u32 + MAX_LABEL_COST,
                false => least(work),
            };
            (least(work)..=most).for_each(|cost| by_cost.entry(cost).or_default().push(work));
        }
        let values = self.label_values(problem, &works);
        let mut search = Labels { trial: self, problem, values, impossible: HashSet::new(), n_tried: 0 };
        by_cost.into_iter().find_map(|(cost, works)| {
            works.into_iter().find_map(|work| {
                let changes = search.changes_at(work, cost)?;
                let commands = commands::of_changes(&changes);
                Some(Repair { cost, ..Repair::new(changes, work.node.clone(), commands) })
            })
        })
    }

    /// What has to change on the node; none if no change of it helps.
    fn work(&self, problem: &Problem, name: &str, verdicts: &[Verdict]) -> Option<Work> {
        let node = self.nodes.get(name)?;
        let mut work =
            Work { node: name.to_owned(), forced: Vec::new(), needed: BTreeSet::new(), labels: false };
        let mut spread_may_change = false;
        for verdict in verdicts {
            self.budget.spend(1).ok()?;
            let missing = verdict.topology.as_ref().filter(|pair| pair.value.is_none());
            match (verdict.plugin, &verdict.counts, missing) {
                (Plugin::NodeUnschedulable, ..) => {
                    work.forced.push(Change::Uncordon { node: name.to_owned() });
                }
                (Plugin::TaintToleration, ..) => {}
                (Plugin::NodeAffinity, ..) => {
                    let term = verdict.term.as_deref().unwrap_or_default();
                    let key = term.strip_prefix("spec.nodeSelector[").and_then(|key| key.strip_suffix(']'));
                    self.budget.spend(problem.rules.required_node_affinity.len()).ok()?;
                    let is_own = problem.rules.required_node_affinity.iter().any(|rule| rule.path == term);
                    let may_be_set = |key: &str| may_be_set(key, node.metadata.labels.contains_key(key));
                    if key.map_or(!is_own, |key| !may_be_set(key)) {
                        return None;
                    }
                    work.needed.extend(key.map(str::to_owned));
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
        if work.forced.len() > MAX_FORCED {
            return None;
        }
        let is_changed = !work.forced.is_empty() || work.labels || !work.needed.is_empty();
        (is_changed || !spread_may_change).then_some(work)
    }

    /// By label key, the values that could satisfy the rules of the pod, and none for no label. Of a topology key that a
    /// node lacks: the values on other nodes, and a new one.
    fn label_values(&self, problem: &Problem, works: &[Work]) -> LabelValues {
        let mut values = LabelValues::new();
        for (key, value) in &problem.rules.node_selector {
            values.entry(key.clone()).or_default().push(Some(value.clone()));
        }
        let terms = problem.rules.required_node_affinity.iter().flat_map(|rule| &rule.terms);
        for term in terms {
            let NodeTerm::All(requirements) = term else { continue };
            for requirement in requirements {
                let NodeRequirement::Label(requirement) = requirement else { continue };
                let of_key = values.entry(requirement.key().to_owned()).or_default();
                match requirement {
                    Requirement::In(_, wanted) => of_key.extend(wanted.iter().cloned().map(Some)),
                    Requirement::Exists(_) => of_key.push(Some("true".to_owned())),
                    Requirement::NotIn(..) | Requirement::DoesNotExist(_) => of_key.push(None),
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
        let missing: BTreeSet<&String> = works.iter().flat_map(|work| &work.needed).collect();
        for key in missing.into_iter().filter(|key| *key != HOSTNAME) {
            let known = self.nodes.values().filter_map(|node| node.metadata.labels.get(key));
            let known: BTreeSet<_> = known.cloned().collect();
            let domains = known.into_iter().take(MAX_DOMAINS).chain([new_domain(key)]);
            values.entry(key.clone()).or_default().extend(domains.map(Some));
        }
        for of_key in values.values_mut() {
            let mut seen = HashSet::new();
            of_key.retain(|value| seen.insert(value.clone()));
        }
        values
    }
}

/// Values of labels by key, in the order in which they are tried; none: no label.
type LabelValues = BTreeMap<String, Vec<Option<String>>>;

/// The search for labels.
struct Labels<'s, 'a> {
    trial: &'s mut Trial<'a>,
    problem: &'s Problem,
    values: LabelValues,
    /// Nodes that differ in nothing that matters here: what failed for one of them at a cost fails for all.
    impossible: HashSet<(Vec<Option<String>>, BTreeSet<String>, u32)>,
    n_tried: usize,
}

/// One node of the search.
struct Site<'s> {
    work: &'s Work,
    node: &'s Node,
    /// The labels that may change, with their values.
    values: Vec<(String, Vec<Option<String>>)>,
    labels: Shared<StringMap>,
    changes: Vec<Change>,
    /// Whether some labels satisfy the rules about labels, though the pod does not fit.
    is_close: bool,
}

impl Labels<'_, '_> {
    /// Changes of exactly this cost after which the pod fits on the node.
    fn changes_at(&mut self, work: &Work, cost: u32) -> Option<Vec<Change>> {
        let node = self.trial.nodes.get(&work.node)?;
        self.trial.budget.spend(self.values.len() + work.needed.len()).ok()?;
        let left = cost.checked_sub(work.forced.len() as u32)?;
        let labels = &node.metadata.labels;
        let now = self.values.keys().map(|key| labels.get(key).cloned()).collect();
        let like = (now, work.needed.clone(), left);
        if left > 0 && self.impossible.contains(&like) {
            return None;
        }
        let settable = self.values.iter().filter(|(key, _)| may_be_set(key, labels.contains_key(*key)));
        let mut values: Vec<_> = settable.map(|(k, v)| (k.clone(), v.clone())).collect();
        if work.needed.contains(HOSTNAME) && !labels.contains_key(HOSTNAME) {
            values.push((HOSTNAME.to_owned(), vec![Some(work.node.clone())]));
        }
        let (labels, changes) = (labels.clone(), work.forced.clone());
        if !self.could_match(&work.node, &labels, left) {
            return None;
        }
        let mut site = Site { work, node, values, labels, changes, is_close: false };
        if self.assign(&mut site, 0, left) {
            return Some(site.changes);
        }
        if !site.is_close && !self.names_nodes() {
            self.impossible.insert(like);
        }
        None
    }

    /// Whether each rule about labels has a term that as many changed labels could satisfy.
    fn could_match(&self, name: &str, labels: &StringMap, n_changes: u32) -> bool {
        let mut terms = self.problem.rules.required_node_affinity.iter().map(|rule| &rule.terms);
        terms.all(|terms| {
            terms.iter().any(|term| {
                let NodeTerm::All(requirements) = term else { return false };
                if self.trial.budget.spend(requirements.len()).is_err() {
                    return false;
                }
                let broken = requirements.iter().filter(|requirement| !requirement.holds(name, labels));
                let keys = broken.filter_map(|requirement| match requirement {
                    NodeRequirement::Label(requirement) => Some(requirement.key()),
                    _ => None,
                });
                keys.collect::<HashSet<_>>().len() <= n_changes as usize
            })
        })
    }

    /// Whether a rule names nodes, and so tells nodes with equal labels apart.
    fn names_nodes(&self) -> bool {
        let terms = self.problem.rules.required_node_affinity.iter().flat_map(|rule| &rule.terms);
        terms.into_iter().any(|term| match term {
            NodeTerm::All(all) => all.iter().any(|r| matches!(r, NodeRequirement::Name(_))),
            _ => false,
        })
    }

    /// Changes labels from the key on, at exactly the cost that is left.
    fn assign(&mut self, site: &mut Site<'_>, from: usize, left: u32) -> bool {
        if left == 0 {
            return self.holds(site);
        }
        for i in from..site.values.len() {
            let (key, of_key) = site.values[i].clone();
            if self.trial.budget.spend(of_key.len()).is_err() {
                return false;
            }
            let before = site.labels.get(&key).cloned();
            for value in of_key.into_iter().filter(|value| *value != before) {
                let (node, key) = (site.work.node.clone(), key.clone());
                let change = match value.clone() {
                    Some(value) => Change::SetLabel { node, key, value },
                    None => Change::RemoveLabel { node, key },
                };
                let Some(left) = left.checked_sub(change.cost(before.is_some())) else { continue };
                site.changes.push(change);
                set(&mut site.labels, &site.values[i].0, value);
                if self.assign(site, i + 1, left) {
                    return true;
                }
                set(&mut site.labels, &site.values[i].0, before.clone());
                site.changes.pop();
            }
        }
        false
    }

    /// Whether the pod fits with these changes.
    fn holds(&mut self, site: &mut Site<'_>) -> bool {
        self.n_tried += 1;
        let rules = &self.problem.rules;
        let n_rules = rules.node_selector.len() + rules.required_node_affinity.len();
        if self.trial.budget.spend(n_rules + site.work.needed.len()).is_err() {
            return false;
        }
        let (rules, labels, name) = (&self.problem.rules, &site.labels, &site.work.node);
        let selected = rules.node_selector.iter().all(|(key, value)| labels.get(key) == Some(value));
        let is_possible = selected && site.work.needed.iter().all(|key| labels.contains_key(key));
        if !is_possible || self.n_tried > MAX_TRIES {
            return false;
        }
        let mut rules = rules.required_node_affinity.iter();
        // The engine decides about attributes: they are not known here.
        let has_attributes = |term: &NodeTerm| match term {
            NodeTerm::All(all) => all.iter().any(|r| matches!(r, NodeRequirement::Attribute(_))),
            _ => false,
        };
        if !rules.all(|rule| rule.matches(name, labels) || rule.terms.iter().any(has_attributes)) {
            return false;
        }
        site.is_close = true;
        let changed = changed_node(site.node, &site.changes);
        self.trial.cluster.set_node(&changed);
        let fits = self.trial.cluster.fits_on(&self.problem.prepared, name)
            && self.trial.breaks_nothing(self.problem, name);
        self.trial.cluster.set_node(site.node);
        fits
    }
}

pub(super) fn changed_node(node: &Node, changes: &[Change]) -> Node {
    let mut changed = node.clone();
    for change in changes {
        match change {
            Change::Uncordon { .. } => {
                changed.spec.unschedulable = false;
                changed.spec.taints.retain(|t| t.key != UNSCHEDULABLE_TAINT);
            }
            Change::RemoveTaint { taint, .. } => {
                changed.spec.taints.retain(|t| commands::taint_text(t) != *taint);
            }
            Change::SetLabel { key, value, .. } => {
                changed.metadata.labels.insert(key.clone(), value.clone());
            }
            Change::RemoveLabel { key, .. } => _ = changed.metadata.labels.remove(key),
            _ => {}
        }
    }
    changed
}

/// Whether a label may be set: labels that say what a node is are set only where a topology label is missing.
fn may_be_set(key: &str, is_there: bool) -> bool {
    !is_owned(key) || (!is_there && key.starts_with("topology."))
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
    node.spec.taints.iter().filter(forbids).filter(|t| !problem.rules.tolerations.tolerate(t)).collect()
}

/// Whether Kubernetes itself or a cloud provider sets the label or taint.
pub(super) fn is_owned(key: &str) -> bool {
    let domain = key.split_once('/').map_or("", |(domain, _)| domain);
    let is_of = |of: &str| domain == of || domain.strip_suffix(of).is_some_and(|rest| rest.ends_with('.'));
    domain != "node-role.kubernetes.io" && (is_of("kubernetes.io") || is_of("k8s.io"))
}
