//! Moves of pods: no replacement is evicted again before it has settled, and what is to be spread never gets worse by them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use berth_api::object::placement::MOVE_CONDITION;
use serde_json::Value;

use super::{Changes, name, text};
use crate::moves::SETTLE;

/// Times of objects are cut to seconds, and are seen some time later.
const SLACK: Duration = Duration::from_secs(3);

/// A pod that has not ended.
struct Pod<'a> {
    object: &'a Value,
    /// When it was first seen to have been accepted by its node.
    started: Option<Duration>,
}

impl Pod<'_> {
    fn node(&self) -> &str {
        text(&self.object["spec"]["nodeName"])
    }

    fn app(&self) -> &str {
        text(&self.object["metadata"]["labels"]["app"])
    }

    fn ends(&self) -> bool {
        !self.object["metadata"]["deletionTimestamp"].is_null()
    }

    fn has(&self, condition: &str) -> bool {
        let conditions = self.object["status"]["conditions"].as_array();
        conditions.is_some_and(|all| all.iter().any(|c| c["type"] == condition && c["status"] == "True"))
    }
}

/// The number of moves, and what is wrong with them. A clock that jumps changes what has settled.
pub fn check(changes: &Changes, clock_jumped: bool) -> (usize, Vec<String>) {
    let (mut pods, mut nodes) = (BTreeMap::<&str, Pod<'_>>::new(), BTreeMap::<&str, &Value>::new());
    let (mut moved, mut findings) = (BTreeSet::new(), Vec::new());
    // The pods of each app and the excess when all were last ready, and whether anything but moves has ended pods since.
    let mut last: Option<(BTreeMap<String, usize>, i64)> = None;
    let mut others_ended = false;
    for (version, change) in changes {
        let object = &change.object;
        match (change.kind.as_str(), change.deleted) {
            ("Node", false) => {
                _ = nodes.insert(text(&object["metadata"]["name"]), &object["metadata"]["labels"])
            }
            ("Node", true) => _ = nodes.remove(text(&object["metadata"]["name"])),
            ("Pod", deleted) => {
                let uid = text(&object["metadata"]["uid"]);
                let started = pods.get(uid).and_then(|pod| pod.started);
                let is_accepted = !object["status"]["startTime"].is_null();
                let pod = Pod { object, started: started.or(is_accepted.then_some(change.at)) };
                if deleted || pod.ends() {
                    let is_move = pod.has(MOVE_CONDITION);
                    others_ended |= !is_move;
                    if is_move && moved.insert(uid.to_owned()) {
                        let age = pod.started.map(|started| change.at.saturating_sub(started) + SLACK);
                        if !clock_jumped && age.is_none_or(|age| age < SETTLE) {
                            findings.push(format!(
                                "version {version}: {} moves again after {age:?}",
                                name(object)
                            ));
                        }
                    }
                }
                if deleted {
                    pods.remove(uid)
                } else {
                    pods.insert(uid, pod)
                };
            }
            _ => continue,
        }
        if !pods.values().all(|pod| pod.has("Ready") && !pod.ends()) {
            continue;
        }
        let mut counts = BTreeMap::new();
        pods.values().for_each(|pod| *counts.entry(pod.app().to_owned()).or_default() += 1);
        let now = excess(&pods, &nodes);
        if let Some((before, excess)) = &last
            && *before == counts
            && !others_ended
            && now > *excess
        {
            findings.push(format!("version {version}: the skew rose by moves from {excess} to {now}"));
        }
        (last, others_ended) = (Some((counts, now)), false);
    }
    (moved.len(), findings)
}

/// The sum of the skew above `maxSkew` over the constraints of all apps.
fn excess(pods: &BTreeMap<&str, Pod<'_>>, nodes: &BTreeMap<&str, &Value>) -> i64 {
    let mut constraints = BTreeMap::new();
    for pod in pods.values() {
        for constraint in pod.object["spec"]["topologySpreadConstraints"].as_array().into_iter().flatten() {
            constraints.insert((pod.app(), text(&constraint["topologyKey"])), constraint);
        }
    }
    let value = |((app, key), constraint): (&(&str, &str), &&Value)| {
        let domain = |node: &str| nodes.get(node).map(|labels| text(&labels[*key]));
        let mut domains: BTreeMap<_, i64> = nodes.keys().map(|node| (domain(node), 0)).collect();
        for pod in pods.values().filter(|pod| pod.app() == *app) {
            *domains.entry(domain(pod.node())).or_default() += 1;
        }
        let skew = domains.values().max().unwrap_or(&0) - domains.values().min().unwrap_or(&0);
        (skew - constraint["maxSkew"].as_i64().unwrap_or(1)).max(0)
    };
    constraints.iter().map(value).sum()
}
