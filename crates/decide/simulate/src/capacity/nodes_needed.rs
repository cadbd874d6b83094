//! How many nodes a number of replicas needs, and in which domains.
//!
//! A greedy search adds a node where the next replica fits on it. Its number is an upper bound: smaller numbers are tried
//! in all distributions over the domains while that is cheap, and else in those next to the best one. A placement of all
//! replicas in the enlarged cluster verifies each answer.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use berth_api::object::device::{DeviceKind, DeviceObject};
use berth_api::object::{ObjectMeta, Pod, VolumeKind, VolumeObject};
use berth_api::work::WorkBudget;
use berth_engine::Verdict;
use serde::Serialize;

use super::label;
use super::node_types::Model;
use super::price::Price;
use super::room::Room;
use crate::explanation::EXPLAIN_STEPS;
use crate::simulation::{new_node_name, node_like, slices_like};

/// Maximum number of nodes that are added.
pub const MAX_NODES: usize = 20_000;
/// Number of replicas that the search for fewer nodes places in all.
const MAX_PLACED: usize = 2_000_000;

/// New nodes that are enough.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NewNodes {
    /// The name of the node that they are like, or of the node type.
    pub like: String,
    /// The label that tells the domains apart: that of the request, or the zone if the request's is the host name.
    pub topology_key: String,
    /// Their number by domain.
    pub by_domain: BTreeMap<String, usize>,
    /// Their price, if the node types have one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub price: Option<Price>,
}

/// Why no number of nodes of a type is enough: what keeps the next replica off a new one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Prevention {
    /// The name of the node or of the node type.
    pub like: String,
    /// The resources, and the terms in the pod; none if more than [`MAX_NODES`] would be needed.
    pub limited_by: Vec<String>,
    /// The same in words, with labels and amounts.
    pub message: String,
}

impl Prevention {
    fn too_many(model: &Model) -> Prevention {
        let message = format!("more than {MAX_NODES} nodes would be needed");
        Prevention { like: model.name.clone(), limited_by: Vec::new(), message }
    }
}

/// A verdict in words. `limit` is what it is about.
fn reason(verdict: &Verdict, limit: &str) -> String {
    let named = if verdict.detail.contains(limit) { String::new() } else { format!("{limit}: ") };
    let topology = verdict.topology.as_ref().map(|topology| format!(", {topology}")).unwrap_or_default();
    let counts = verdict.counts.as_ref().map(|counts| counts.text(verdict.topology.as_ref()));
    let counts = counts.map(|counts| format!(" ({counts})")).unwrap_or_default();
    format!("{named}{}{topology}{counts}", verdict.detail)
}

/// A distribution of new nodes: their number by position in [`Model::nodes`].
type Distribution = Vec<usize>;

impl Room {
    /// The cheapest nodes with which this many replicas fit, or why no number of each is enough.
    pub(super) fn cheapest(
        &mut self,
        models: &[Model],
        n_replicas: usize,
    ) -> Result<NewNodes, Vec<Prevention>> {
        let all_priced = models.iter().all(|model| model.price.is_some());
        let mut best: Option<NewNodes> = None;
        let mut prevented = Vec::new();
        for model in models {
            let cluster = self.simulation.cluster();
            let prepared =
                |daemons: &Vec<Pod>| daemons.iter().map(|daemon| cluster.prepare(daemon)).collect();
            self.daemons = model.daemons.iter().map(prepared).collect();
            let distribution = match self.nodes_needed(model, n_replicas) {
                Ok(distribution) => distribution,
                Err(prevention) => {
                    prevented.push(prevention);
                    continue;
                }
            };
            let n_nodes: usize = distribution.iter().sum();
            let price = model.price.map(|price| price.times(n_nodes));
            let domains = model.nodes.iter().zip(distribution).filter(|(_, n)| *n > 0);
            let by_domain = domains.map(|((domain, _), n)| (domain.clone(), n)).collect();
            let topology_key = model.topology_key.clone();
            let found = NewNodes { like: model.name.clone(), topology_key, by_domain, price };
            if !all_priced {
                return Ok(found);
            }
            if best.as_ref().is_none_or(|best| found.price.map(Price::sum) < best.price.map(Price::sum)) {
                best = Some(found);
            }
        }
        best.ok_or(prevented)
    }

    fn nodes_needed(&mut self, model: &Model, n_replicas: usize) -> Result<Distribution, Prevention> {
        let mut best = self.greedy(model, n_replicas)?;
        if model.in_turn {
            let n_domains = model.nodes.len();
            let mut numbers = best.iter().sum::<usize>().saturating_sub(n_domains).max(1)..=MAX_NODES;
            let found = numbers.find_map(|n_nodes| {
                let distribution = in_turn(n_nodes, n_domains);
                self.suffices(model, &distribution, n_replicas).then_some(distribution)
            });
            return found.ok_or_else(|| Prevention::too_many(model));
        }
        // The replicas of the greedy search were placed before the last nodes were there.
        while !self.suffices(model, &best, n_replicas) {
            if best.iter().sum::<usize>() > MAX_NODES {
                return Err(Prevention::too_many(model));
            }
            best.iter_mut().for_each(|n| *n += 1);
        }
        let mut left = (MAX_PLACED / n_replicas.max(1)).max(2 * model.nodes.len());
        while let Some(n_fewer) = best.iter().sum::<usize>().checked_sub(1) {
            let mut candidates = match n_distributions(n_fewer, model.nodes.len()) {
                Some(n) if n <= left => distributions(n_fewer, model.nodes.len()),
                _ => one_fewer(&best),
            };
            left = left.saturating_sub(candidates.len());
            candidates.sort_by_cached_key(|d| (unevenness(d), Reverse(d.clone())));
            let found = candidates.into_iter().find(|d| self.suffices(model, d, n_replicas));
            match found {
                Some(fewer) => best = fewer,
                None => break,
            }
        }
        Ok(best)
    }

    /// Adds nodes while replicas are missing: wherever the next one fits on a new node.
    fn greedy(&mut self, model: &Model, n_replicas: usize) -> Result<Distribution, Prevention> {
        let mut distribution = vec![0; model.nodes.len()];
        let mut added = Vec::new();
        let mut placed = self.fill(0, n_replicas);
        let mut prevention = None;
        while placed.len() < n_replicas && prevention.is_none() {
            let mut domains: Vec<usize> = (0..distribution.len()).collect();
            domains.sort_by_key(|i| distribution[*i]);
            let n_before = placed.len();
            for domain in domains {
                let node = self.add_node(model, domain);
                placed.extend(self.fill(placed.len(), n_replicas - placed.len()));
                if placed.len() > n_before {
                    distribution[domain] += 1;
                    added.push(node);
                    break;
                }
                self.remove_node(model, &node);
            }
            if placed.len() == n_before {
                // Only nodes in several domains help together.
                for (domain, n) in distribution.iter_mut().enumerate() {
                    added.push(self.add_node(model, domain));
                    *n += 1;
                }
                placed.extend(self.fill(placed.len(), n_replicas - placed.len()));
            }
            if placed.len() == n_before {
                // One was added in each domain, and they are empty.
                let empty = &added[added.len() - distribution.len()..];
                prevention = Some(self.prevention(model, empty, placed.len()));
            } else if added.len() >= MAX_NODES {
                prevention = Some(Prevention::too_many(model));
            }
        }
        let is_enough = placed.len() == n_replicas;
        self.take_back(&placed);
        added.iter().for_each(|node| self.remove_node(model, node));
        match prevention.filter(|_| !is_enough) {
            Some(prevention) => Err(prevention),
            None => Ok(distribution),
        }
    }

    /// Whether this many replicas fit with these new nodes.
    fn suffices(&mut self, model: &Model, distribution: &[usize], n_replicas: usize) -> bool {
        let mut added = Vec::new();
        for (domain, n) in distribution.iter().enumerate() {
            added.extend((0..*n).map(|_| self.add_node(model, domain)));
        }
        let placed = self.fill(0, n_replicas);
        let is_enough = placed.len() == n_replicas;
        self.take_back(&placed);
        added.iter().for_each(|node| self.remove_node(model, node));
        is_enough
    }

    /// What keeps the replica of this number off these new nodes.
    fn prevention(&mut self, model: &Model, added: &[String], n_placed: usize) -> Prevention {
        let mut limited_by = Vec::new();
        let mut reasons = Vec::new();
        let budget = WorkBudget::new(EXPLAIN_STEPS);
        let next = self.replica(n_placed);
        let pod = self.replicas.get(if self.has_claims { n_placed } else { 0 });
        if let Some(why) = pod.and_then(|pod| self.simulation.refusal_of(pod)) {
            let (limited_by, message) = (vec![why.limit()], why.to_string());
            return Prevention { like: model.name.clone(), limited_by, message };
        }
        if let Some((pod, next)) = pod.zip(next) {
            let cluster = self.simulation.cluster();
            for node in added {
                let explanation = cluster.explain(pod, &next, Some(node), &budget);
                for verdict in explanation.excluded.iter().flat_map(|group| &group.verdicts) {
                    let limit = label(verdict).to_owned();
                    if !limited_by.contains(&limit) {
                        reasons.push(reason(verdict, &limit));
                        limited_by.push(limit);
                    }
                }
            }
        }
        match reasons.is_empty() {
            true => Prevention::too_many(model),
            false => Prevention { like: model.name.clone(), limited_by, message: reasons.join("; ") },
        }
    }

    /// Adds a node with the pods of DaemonSets; returns its name.
    fn add_node(&mut self, model: &Model, domain: usize) -> String {
        let cluster = self.simulation.cluster();
        let name = new_node_name(&model.name, |name| cluster.has_node(name));
        cluster.set_node(&node_like(&model.nodes[domain].1, name.clone()));
        if let Some(mut csi_node) = model.csi_node.clone() {
            csi_node.metadata.name.clone_from(&name);
            cluster.set_volume_object(VolumeObject::CsiNode(csi_node));
        }
        for slice in slices_like(&model.slices, &model.name, &name) {
            cluster.set_device_object(&DeviceObject::ResourceSlice(Box::new(slice)));
        }
        for daemon in &self.daemons[domain] {
            cluster.assume(&daemon.named(&format!("{}-{name}", daemon.name())), &name);
        }
        name
    }

    fn remove_node(&mut self, model: &Model, name: &str) {
        let cluster = self.simulation.cluster();
        for daemon in model.daemons.iter().flatten() {
            let ObjectMeta { namespace, name: daemon, .. } = &daemon.metadata;
            cluster.remove_pod(namespace, &format!("{daemon}-{name}"));
        }
        if model.csi_node.is_some() {
            cluster.remove_volume_object(VolumeKind::CsiNode, "", name);
        }
        for slice in slices_like(&model.slices, &model.name, name) {
            cluster.remove_device_object(DeviceKind::ResourceSlice, "", &slice.metadata.name);
        }
        cluster.remove_node(name);
    }
}

/// The number of distributions of nodes over domains; none if it is very large.
fn n_distributions(n_nodes: usize, n_domains: usize) -> Option<usize> {
    let mut n: usize = 1;
    for i in 1..n_domains {
        n = n.checked_mul(n_nodes + i)? / i;
    }
    Some(n)
}

fn distributions(n_nodes: usize, n_domains: usize) -> Vec<Distribution> {
    if n_domains <= 1 {
        return vec![vec![n_nodes; n_domains]];
    }
    let with = |first: usize| {
        let rest = distributions(n_nodes - first, n_domains - 1).into_iter();
        rest.map(move |rest| [vec![first], rest].concat())
    };
    (0..=n_nodes).flat_map(with).collect()
}

/// Nodes that are added to the domains one after the other.
fn in_turn(n_nodes: usize, n_domains: usize) -> Distribution {
    (0..n_domains).map(|i| n_nodes / n_domains + usize::from(i < n_nodes % n_domains)).collect()
}

/// The difference between the largest and the smallest number.
fn unevenness(distribution: &[usize]) -> Option<usize> {
    Some(distribution.iter().max()? - distribution.iter().min()?)
}

/// The distributions with one node fewer in one domain.
fn one_fewer(distribution: &[usize]) -> Vec<Distribution> {
    let fewer = |i: usize| {
        let mut fewer = distribution.to_vec();
        fewer[i] -= 1;
        fewer
    };
    (0..distribution.len()).filter(|i| distribution[*i] > 0).map(fewer).collect()
}
