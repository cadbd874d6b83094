//! Moves of pods: no replacement is evicted again before it has settled, and what is to be spread never gets worse by them.

use std::collections::{BTreeMap, BTreeSet};

use berth_api::object::placement::MOVE_CONDITION;
use berth_testkit::check::history::{Changes, name, text};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::moves::SETTLE;
use crate::platform;

/// Times of objects are cut to seconds, and are seen some time later.
const SLACK: SignedDuration = SignedDuration::from_secs(3);

/// A pod that has not ended.
struct Pod<'a>(&'a Value);

impl<'a> Pod<'a> {
    fn node(&self) -> &'a str {
        text(&self.0["spec"]["nodeName"])
    }

    fn app(&self) -> &'a str {
        text(&self.0["metadata"]["labels"]["app"])
    }

    /// Whether it has a hard constraint: a plan may have to move a pod twice to get around it.
    fn is_hard(&self) -> bool {
        let mut constraints = self.0["spec"]["topologySpreadConstraints"].as_array().into_iter().flatten();
        constraints.any(|constraint| constraint["whenUnsatisfiable"] == "DoNotSchedule")
    }

    fn ends(&self) -> bool {
        !self.0["metadata"]["deletionTimestamp"].is_null()
    }

    /// The message of a condition that is true.
    fn condition(&self, condition: &str) -> Option<&'a str> {
        let mut conditions = self.0["status"]["conditions"].as_array().into_iter().flatten();
        let found = conditions.find(|c| c["type"] == condition && c["status"] == "True")?;
        Some(text(&found["message"]))
    }
}

/// What has happened since all pods were ready.
#[derive(Default)]
struct Interval<'a> {
    /// The pods then, and their excess.
    pods: BTreeMap<&'a str, &'a str>,
    excess: Option<i64>,
    /// App and target of each move since.
    targets: Vec<(&'a str, &'a str)>,
    /// Whether anything else has changed: pods that ended otherwise or have other labels, or nodes.
    is_other: bool,
}

impl Interval<'_> {
    /// Whether exactly the pods that have moved are on other nodes: those that their targets name. A scheduler that was cut off may put a
    /// replacement elsewhere; then the plan ends.
    fn only_moves(mut self, pods: &BTreeMap<&str, Pod<'_>>) -> bool {
        let mut new = pods.iter().filter(|(uid, _)| !self.pods.contains_key(*uid));
        let is_target = |(_, pod): (&&str, &Pod<'_>)| {
            let at = self.targets.iter().position(|target| *target == (pod.app(), pod.node()));
            at.map(|at| self.targets.swap_remove(at)).is_some()
        };
        !self.is_other && new.all(is_target) && self.targets.is_empty()
    }
}

/// The number of moves, and what is wrong with them. A clock that jumps changes what has settled.
pub fn check(changes: &Changes, clock_jumped: bool) -> (usize, Vec<String>) {
    let (mut pods, mut nodes) = (BTreeMap::<&str, Pod<'_>>::new(), BTreeMap::<&str, &Value>::new());
    let (mut moved, mut findings) = (BTreeSet::new(), Vec::new());
    let mut since = Interval::default();
    for (version, change) in changes {
        let object = &change.object;
        match (change.kind.as_str(), change.deleted) {
            ("Node", deleted) => {
                let (node, labels) = (text(&object["metadata"]["name"]), &object["metadata"]["labels"]);
                let before = if deleted { nodes.remove(node) } else { nodes.insert(node, labels) };
                since.is_other |= before != (!deleted).then_some(labels);
            }
            ("Pod", deleted) => {
                let uid = text(&object["metadata"]["uid"]);
                let pod = Pod(object);
                since.is_other |= pods.get(uid).is_some_and(|before| before.app() != pod.app());
                if deleted || pod.ends() {
                    let target = pod.condition(MOVE_CONDITION);
                    since.is_other |= target.is_none();
                    if let Some(target) = target
                        && moved.insert(uid)
                    {
                        since.targets.push((pod.app(), target));
                        let started = text(&object["status"]["startTime"]).parse::<Timestamp>();
                        let seen = Timestamp::from_second(platform::wall_clock(change.at));
                        let age = started.and_then(|start| Ok(seen?.duration_since(start)));
                        if !clock_jumped
                            && !pod.is_hard()
                            && !age.as_ref().is_ok_and(|age| *age + SLACK >= SETTLE)
                        {
                            findings.push(format!("version {version}: {} moves after {age:?}", name(object)));
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
        if !pods.values().all(|pod| pod.condition("Ready").is_some() && !pod.ends()) {
            continue;
        }
        let now = excess(&pods, &nodes);
        let next = Interval {
            pods: pods.iter().map(|(uid, pod)| (*uid, pod.app())).collect(),
            excess: Some(now),
            ..Interval::default()
        };
        let before = std::mem::replace(&mut since, next);
        if let Some(excess) = before.excess.filter(|before| now > *before)
            && before.pods.len() == pods.len()
            && before.only_moves(&pods)
        {
            findings.push(format!("version {version}: the skew rose by moves from {excess} to {now}"));
        }
    }
    (moved.len(), findings)
}

/// The sum of the skew above `maxSkew` over the constraints of all apps.
fn excess(pods: &BTreeMap<&str, Pod<'_>>, nodes: &BTreeMap<&str, &Value>) -> i64 {
    let mut constraints = BTreeMap::new();
    for pod in pods.values() {
        for constraint in pod.0["spec"]["topologySpreadConstraints"].as_array().into_iter().flatten() {
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
