//! The running pods that may move: not those of higher priority, of DaemonSets, of pod groups and of exempt namespaces, nor
//! mirror pods.

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use berth_api::object::{Node, Pod, StringMap};
use berth_api::rules::{PodRules, Selector};
use berth_engine::TopologyPair;

use super::trial::Trial;
use crate::simulation::{Pods, SimulatedPod};

/// What each pod contributes, by its position.
pub(super) type Weights = Rc<BTreeMap<usize, i64>>;
/// The pods of each value of a topology key.
type ByDomain = HashMap<String, Weights>;

/// The running pods that may move.
pub(super) struct Movable<'a> {
    pub(super) pods: &'a Pods,
    pub(super) by_name: HashMap<(&'a str, &'a str), usize>,
    pub(super) by_node: HashMap<&'a str, Vec<usize>>,
    /// The pods that a term or constraint of the pod matches, by its path.
    matching: HashMap<String, Weights>,
    /// By path and topology key, the same by domain.
    domains: HashMap<(String, String), ByDomain>,
    /// Requests by pod.
    pub(super) requests: HashMap<usize, PodRules>,
}

impl<'a> Movable<'a> {
    pub(super) fn new(trial: &Trial<'a>) -> Movable<'a> {
        let settings = trial.cluster.settings();
        let priority = trial.pod.pod.spec.priority.unwrap_or(0);
        let may_move = |p: &SimulatedPod| {
            let Pod { metadata, spec, .. } = &p.pod;
            let is_exempt = settings.extensions && settings.exempt_namespaces.contains(&metadata.namespace);
            p.was_running
                && trial.nodes.contains_key(&spec.node_name)
                && !metadata.is_deleting()
                && p.group.is_none()
                && spec.priority.unwrap_or(0) <= priority
                && !(is_exempt || p.pod.belongs_to_node())
        };
        let (mut by_name, mut by_node) = (HashMap::new(), HashMap::<_, Vec<_>>::new());
        for (i, p) in trial.pods.iter().enumerate().filter(|(_, p)| may_move(p)) {
            by_name.insert((p.pod.metadata.namespace.as_str(), p.pod.metadata.name.as_str()), i);
            by_node.entry(p.pod.spec.node_name.as_str()).or_default().push(i);
        }
        Movable {
            pods: trial.pods,
            by_name,
            by_node,
            matching: HashMap::new(),
            domains: HashMap::new(),
            requests: HashMap::new(),
        }
    }

    /// The pods that a selector matches: more than a term does that selects namespaces.
    pub(super) fn matching(&mut self, path: &str, selector: &Selector) -> Weights {
        let Movable { pods, by_node, matching, .. } = self;
        let matches = |labels: &StringMap| selector.matches(|key| labels.get(key).map(String::as_str));
        let found = || {
            let all = by_node.values().flatten().filter(|i| matches(&pods[**i].pod.metadata.labels));
            Rc::new(all.map(|i| (*i, 1)).collect())
        };
        matching.entry(path.to_owned()).or_insert_with(found).clone()
    }

    /// Those of them in a domain.
    pub(super) fn matching_in(
        &mut self,
        path: &str,
        selector: &Selector,
        domain: Option<&TopologyPair>,
        nodes: &BTreeMap<String, Node>,
    ) -> Weights {
        let all = self.matching(path, selector);
        let Some(TopologyPair { key, value: Some(value) }) = domain else { return all };
        let pods = self.pods;
        let domains = self.domains.entry((path.to_owned(), key.clone())).or_insert_with(|| {
            let mut domains: HashMap<String, BTreeMap<usize, i64>> = HashMap::new();
            for i in all.keys() {
                let labels = nodes.get(&pods[*i].pod.spec.node_name).map(|node| &node.metadata.labels);
                if let Some(value) = labels.and_then(|labels| labels.get(key)) {
                    domains.entry(value.clone()).or_default().insert(*i, 1);
                }
            }
            domains.into_iter().map(|(value, pods)| (value, Rc::new(pods))).collect()
        });
        domains.get(value).cloned().unwrap_or_default()
    }

    pub(super) fn on(&self, node: &str) -> impl Iterator<Item = usize> {
        self.by_node.get(node).into_iter().flatten().copied()
    }

    pub(super) fn node_of(&self, i: usize) -> &'a str {
        &self.pods[i].pod.spec.node_name
    }
}
