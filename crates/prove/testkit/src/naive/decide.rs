//! One decision: filters in the profile's order, scores, the best nodes and the summary.

use std::collections::{BTreeMap, BTreeSet};

use berth_api::object::{Node, Pod};
use berth_input::config::{Plugin, Profile};

use super::{
    Code, Decision, NodeResult, Options, Question, Rejection, Verdict, World, balanced_allocation, devices,
    image_locality, inter_pod_affinity, node_affinity, node_declared_features, node_name, node_ports,
    node_unschedulable, node_volume_limits, resources_fit, taint_toleration, topology_spread, volume_binding,
    volume_restrictions, volume_zone,
};

pub fn evaluate(world: &World, pod: &Pod, profile: &Profile, options: &Options) -> Decision {
    let q = Question { world, cycle: world, pod, profile, options };
    if profile.scheduling_gates && !pod.spec.scheduling_gates.is_empty() {
        let names: Vec<&str> = pod.spec.scheduling_gates.iter().map(|g| g.name.as_str()).collect();
        let reason = format!("waiting for scheduling gates: [{}]", names.join(" "));
        return rejected_beforehand(Plugin::SchedulingGates.name(), reason.clone(), reason);
    }
    if world.nodes.is_empty() {
        let message = "no nodes available to schedule pods".to_owned();
        return Decision { message: Some(message), ..Decision::default() };
    }
    let named = match pre_filter(q) {
        Ok(named) => named,
        Err((plugin, reason)) => {
            let message = format!("0/{} nodes are available: {reason}.", world.nodes.len());
            return rejected_beforehand(plugin, reason, message);
        }
    };

    let mut decision = Decision::default();
    let mut feasible: Vec<&Node> = Vec::new();
    for node in &world.nodes {
        let name = node.metadata.name.clone();
        let result = if named.as_ref().is_some_and(|names| !names.contains(&name)) {
            NodeResult::Rejected(Rejection {
                plugin: "PreFilterResult".to_owned(),
                code: Code::UnschedulableAndUnresolvable,
                reasons: Vec::new(),
            })
        } else {
            match rejection(q, node) {
                Ok(Some(rejection)) => NodeResult::Rejected(rejection),
                Ok(None) => {
                    feasible.push(node);
                    NodeResult::Unscored
                }
                Err(error) => return Decision { error: Some(error), ..Decision::default() },
            }
        };
        decision.nodes.insert(name, result);
    }
    // An error on one node ends the decision.
    let mut rejections = decision.nodes.values().filter_map(|result| match result {
        NodeResult::Rejected(rejection) if rejection.code == Code::Error => rejection.reasons.first(),
        _ => None,
    });
    if let Some(error) = rejections.next() {
        decision.error = Some(error.clone());
        return decision;
    }
    if feasible.is_empty() {
        decision.message = Some(fit_error(&decision.nodes));
        return decision;
    }
    match scores(q, &feasible) {
        Ok(scores) => choose(&mut decision, &feasible, scores),
        Err(error) => decision.error = Some(error),
    }
    let chosen = feasible.iter().find(|node| Some(&node.metadata.name) == decision.chosen.as_ref());
    let binds = profile.filter.contains(&Plugin::VolumeBinding);
    decision.volumes = chosen.filter(|_| binds).and_then(|node| volume_binding::decision(q, node));
    if let Some(node) = chosen.filter(|_| profile.filter.contains(&Plugin::DynamicResources)) {
        match devices::decision(q, node) {
            Ok(claims) => decision.devices = claims,
            Err(error) => {
                (decision.chosen, decision.volumes) = (None, None);
                decision.error = Some(error);
            }
        }
    }
    decision
}

/// The only nodes that are possible, if the pod names them; or the plugin that rejects the pod on every node, and why.
fn pre_filter(q: Question) -> Result<Option<BTreeSet<String>>, (&'static str, String)> {
    let mut named = None;
    for plugin in &q.profile.pre_filter {
        let rejection = match plugin {
            Plugin::NodeAffinity => node_affinity::named_nodes(q).map(|names| named = names),
            Plugin::VolumeRestrictions => volume_restrictions::pre_filter(q),
            Plugin::VolumeBinding => volume_binding::pre_filter(q).map(|_| ()),
            Plugin::VolumeZone => volume_zone::pre_filter(q).map(|_| ()),
            Plugin::DynamicResources => devices::pre_filter(q).map(|_| ()),
            _ => Ok(()),
        };
        rejection.map_err(|reason| (plugin.name(), reason))?;
    }
    Ok(named)
}

/// Whether the pod may run on a node at all, and the filters for it.
///
/// # Errors
/// The first rejection, or the error that keeps the filters from running, as text.
pub fn check_node(
    world: &World,
    pod: &Pod,
    profile: &Profile,
    options: &Options,
    node_name: &str,
) -> Result<(), String> {
    let node = world.nodes.iter().find(|node| node.metadata.name == node_name);
    let node = node.ok_or_else(|| format!("there is no node {node_name}"))?;
    let q = Question { world, cycle: world, pod, profile, options };
    pre_filter(q).map_err(|(plugin, reason)| format!("{plugin}: {reason}"))?;
    match rejection(q, node)? {
        None => Ok(()),
        Some(rejection) => Err(format!("{}: {}", rejection.plugin, rejection.reasons.join(", "))),
    }
}

fn rejected_beforehand(plugin: &str, reason: String, message: String) -> Decision {
    let rejection = Rejection {
        plugin: plugin.to_owned(),
        code: Code::UnschedulableAndUnresolvable,
        reasons: vec![reason],
    };
    Decision { pre_filter: Some(rejection), message: Some(message), ..Decision::default() }
}

/// With the pods of higher or equal priority that are nominated to the node there, and then without: the pod
/// must fit either way.
pub(super) fn rejection(q: Question, node: &Node) -> Result<Option<Rejection>, String> {
    let nominated = q.nominated_to(node);
    if !nominated.is_empty() {
        let mut world = q.world.clone();
        let is_deleted = |pod: &&Pod| pod.metadata.deletion_timestamp.is_some();
        world.added = nominated.iter().filter(is_deleted).cloned().collect();
        world.pods.extend(nominated);
        if let Some(rejection) = first_rejection(Question { world: &world, ..q }, node)? {
            return Ok(Some(rejection));
        }
    }
    first_rejection(q, node)
}

/// `Err` when a filter runs without its preparation, which breaks the whole decision.
pub(super) fn first_rejection(q: Question, node: &Node) -> Result<Option<Rejection>, String> {
    use Plugin::*;
    for &plugin in &q.profile.filter {
        let needs_preparation = matches!(
            plugin,
            NodePorts
                | NodeResourcesFit
                | VolumeRestrictions
                | VolumeBinding
                | PodTopologySpread
                | InterPodAffinity
        );
        if needs_preparation && !q.profile.pre_filter.contains(&plugin) {
            let name = plugin.name();
            return Err(format!(
                "running {name:?} filter plugin: reading \"PreFilter{name}\" from cycleState: not found"
            ));
        }
        if let Err((code, reasons)) = verdict(q, plugin, node)? {
            return Ok(Some(Rejection { plugin: plugin.name().to_owned(), code, reasons }));
        }
    }
    Ok(None)
}

fn verdict(q: Question, plugin: Plugin, node: &Node) -> Result<Verdict, String> {
    Ok(match plugin {
        Plugin::NodeUnschedulable => node_unschedulable::filter(q, node),
        Plugin::NodeName => node_name::filter(q, node),
        Plugin::TaintToleration => taint_toleration::filter(q, node),
        Plugin::NodeAffinity => node_affinity::filter(q, node),
        Plugin::NodePorts => node_ports::filter(q, node),
        Plugin::NodeResourcesFit => resources_fit::filter(q, node),
        Plugin::VolumeRestrictions if volume_restrictions::is_skipped(q) => Ok(()),
        Plugin::VolumeRestrictions => volume_restrictions::filter(q, node),
        Plugin::NodeVolumeLimits => node_volume_limits::filter(q, node)?,
        Plugin::VolumeBinding => volume_binding::filter(q, node)?,
        Plugin::VolumeZone => volume_zone::filter(q, node),
        Plugin::PodTopologySpread => topology_spread::filter(q, node),
        Plugin::InterPodAffinity if inter_pod_affinity::is_skipped(q) => Ok(()),
        Plugin::InterPodAffinity => inter_pod_affinity::filter(q, node),
        Plugin::NodeDeclaredFeatures => node_declared_features::filter(q, node),
        Plugin::DynamicResources => devices::filter(q, node),
        Plugin::SchedulingGates
        | Plugin::PrioritySort
        | Plugin::NodeResourcesBalancedAllocation
        | Plugin::ImageLocality => Ok(()),
    })
}

/// Weighted normalized scores, by plugin, in the order of the feasible nodes.
fn scores(q: Question, feasible: &[&Node]) -> Result<Vec<(Plugin, Vec<i64>)>, String> {
    if q.profile.pre_score.contains(&Plugin::NodeAffinity) {
        node_affinity::check_preferences(q)
            .map_err(|e| format!("running PreScore plugin \"NodeAffinity\": {e}"))?;
    }
    let mut all = Vec::new();
    for &(plugin, weight) in &q.profile.score {
        let prepared = q.profile.pre_score.contains(&plugin);
        let name = plugin.name();
        let unprepared =
            format!("plugin {name:?} failed with: reading \"PreScore{name}\" from cycleState: not found");
        let normalized = match plugin {
            Plugin::TaintToleration if prepared => Some(taint_toleration::score(q, feasible)),
            Plugin::PodTopologySpread if prepared => topology_spread::score(q, feasible),
            Plugin::InterPodAffinity if prepared => inter_pod_affinity::score(q, feasible),
            Plugin::TaintToleration | Plugin::PodTopologySpread | Plugin::InterPodAffinity => {
                return Err(unprepared);
            }
            Plugin::NodeAffinity => {
                node_affinity::check_preferences(q)
                    .map_err(|e| format!("plugin {name:?} failed with: {e}"))?;
                node_affinity::score(q, feasible)
            }
            Plugin::NodeResourcesFit => Some(resources_fit::score(q, feasible)),
            Plugin::NodeResourcesBalancedAllocation => balanced_allocation::score(q, feasible),
            Plugin::VolumeBinding => volume_binding::score(q, feasible),
            Plugin::DynamicResources => devices::score(q, feasible),
            Plugin::ImageLocality => Some(image_locality::score(q, feasible)),
            _ => None,
        };
        // Only the preparation can skip a plugin; without it, the score is 0.
        let normalized = match normalized {
            None if matches!(plugin, Plugin::NodeAffinity | Plugin::NodeResourcesBalancedAllocation)
                && !prepared =>
            {
                Some(vec![0; feasible.len()])
            }
            other => other,
        };
        if let Some(normalized) = normalized {
            all.push((plugin, normalized.into_iter().map(|score| score * weight).collect()));
        }
    }
    Ok(all)
}

fn choose(decision: &mut Decision, feasible: &[&Node], scores: Vec<(Plugin, Vec<i64>)>) {
    let mut totals: BTreeMap<String, i64> = BTreeMap::new();
    for (i, node) in feasible.iter().enumerate() {
        let scores: BTreeMap<String, i64> =
            scores.iter().map(|(plugin, scores)| (plugin.name().to_owned(), scores[i])).collect();
        let total = scores.values().sum();
        totals.insert(node.metadata.name.clone(), total);
        decision.nodes.insert(node.metadata.name.clone(), NodeResult::Feasible { scores, total });
    }
    let highest = totals.values().copied().max();
    decision.best = totals.into_iter().filter(|(_, t)| Some(*t) == highest).map(|(name, _)| name).collect();
    decision.chosen = decision.best.first().cloned();
}

/// kube-scheduler's summary: how many nodes for each reason, sorted as text.
fn fit_error(nodes: &BTreeMap<String, NodeResult>) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for result in nodes.values() {
        if let NodeResult::Rejected(rejection) = result {
            if rejection.plugin == "PreFilterResult" {
                *counts.entry("node(s) didn't satisfy plugin(s) [NodeAffinity]").or_default() += 1;
            }
            for reason in &rejection.reasons {
                *counts.entry(reason).or_default() += 1;
            }
        }
    }
    let mut parts: Vec<String> = counts.iter().map(|(reason, n)| format!("{n} {reason}")).collect();
    parts.sort();
    format!("0/{} nodes are available: {}.", nodes.len(), parts.join(", "))
}
