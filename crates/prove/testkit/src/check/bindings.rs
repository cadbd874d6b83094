//! No binding against a required rule.
//!
//! The naive evaluator judges each binding by the state just before it. A scheduler may know less: its watches may lag, each
//! by itself. And it may know more: it counts on bindings that it has decided and that have not been made yet. A binding is
//! therefore right if the rules allowed it in some combination of a state of nodes and a state of pods of the last while, and
//! decided bindings. Bindings that were sent before its own count in all of them: schedulers made them and must know them. The pod
//! itself may have been relabelled since the decision.

use std::collections::BTreeSet;
use std::time::Duration;

use berth_api::object::Pod;
use berth_input::config::Profile;

use super::history::{Object, State, Step};
use crate::naive::{Options, World, check_node};

/// How long a decided pod waits for its volumes (`bindTimeoutSeconds`). It is not decided again afterwards.
const VOLUME_WAIT: Duration = Duration::from_secs(600);
/// States that are tried for nodes, and for pods.
const MOST_STATES: usize = 120;
/// The same for a pod that waits between its decision and its binding.
const MOST_STATES_WAITING: usize = 1000;
/// All subsets of this many decided bindings are tried.
const MOST_SUBSETS: usize = 7;

/// A binding that a scheduler sent.
#[derive(Clone, Debug)]
pub struct Attempt {
    pub at: Duration,
    /// `NAMESPACE/NAME`.
    pub pod: String,
    pub node: String,
}

/// What is known of the schedulers.
pub struct Schedulers<'a> {
    pub profile: Profile,
    pub attempts: &'a [Attempt],
    /// How far their watches may lag.
    pub lag: Duration,
    /// An extended resource that only devices provide: it is judged apart from the other rules.
    pub device_resource: Option<&'static str>,
}

/// The number of bindings, and those that no known state allowed.
pub fn check(steps: &[Step], schedulers: &Schedulers<'_>) -> (usize, Vec<String>) {
    let (mut n_bindings, mut findings) = (0, Vec::new());
    let mut state = State::default();
    for (i, step) in steps.iter().enumerate() {
        if let Some(Object::Pod(pod)) = &step.object
            && let Some(before) = state.pod(&step.key.1)
            && before.spec.node_name.is_empty()
            && before.metadata.uid == pod.metadata.uid
            && !pod.spec.node_name.is_empty()
        {
            n_bindings += 1;
            if let Err(reason) =
                schedulers.judge(&state, &state.world(&step.key.1), before, &pod.spec.node_name)
                && !versions(&steps[..i], &step.key)
                    .any(|before| schedulers.may_have_bound(steps, i, before, &pod.spec.node_name))
            {
                findings.push(format!(
                    "version {}, {:?}: {} was bound to {}, which its rules do not allow: {reason}",
                    step.version, step.at, step.key.1, pod.spec.node_name
                ));
            }
        }
        state.apply(step);
    }
    (n_bindings, findings)
}

impl Schedulers<'_> {
    /// Whether a pod waits between its decision and its binding.
    fn waits(&self, pod: &Pod) -> bool {
        let uses_devices = !pod.spec.resource_claims.is_empty()
            || self.device_resource.is_some_and(|name| requests(pod, name));
        !pod.spec.volumes.is_empty() || uses_devices
    }

    fn judge(&self, state: &State, world: &World, pod: &Pod, node: &str) -> Result<(), String> {
        let mut world = world.clone();
        // Nominated pods keep their place from pods of lower priority only; decisions are made before nominations are written.
        world.nominated.clear();
        let mut pod = state.bound_for(node, pod);
        if let Some(name) = self.device_resource {
            pod.spec.containers.iter_mut().for_each(|c| _ = c.resources.requests.remove(name));
        }
        check_node(&world, &pod, &self.profile, &Options::default(), node)
    }

    /// Whether the rules allowed a binding in a state that a scheduler may have had.
    fn may_have_bound(&self, steps: &[Step], bound_at: usize, pod: &Pod, node: &str) -> bool {
        let attempts = self.attempts;
        let name = &steps[bound_at].key.1;
        let state = State::after(&steps[..bound_at]);
        let mut now = state.world(name);
        let at = steps[bound_at].at;
        let (lag, most_states) = if self.waits(pod) {
            (self.lag + VOLUME_WAIT, MOST_STATES_WAITING)
        } else {
            (self.lag, MOST_STATES)
        };
        let since = |kinds: fn(&str) -> bool| {
            let is_known = |i: &usize| {
                steps[*i].at + lag >= at && kinds(&steps[*i].key.0) && !is_heartbeat(&steps[..*i], &steps[*i])
            };
            (0..bound_at).rev().filter(is_known).take(most_states).collect::<Vec<usize>>()
        };
        let of_nodes = since(|kind| matches!(kind, "Node" | "Namespace"));
        let mut node_worlds: Vec<World> =
            of_nodes.iter().map(|i| State::after(&steps[..*i]).world(name)).collect();
        node_worlds.push(now.clone());
        let mut decided = self.decided(&state, name, at);
        // Pods whose bindings were sent later were perhaps decided later, although they were made before.
        let own = attempts.iter().find(|attempt| attempt.pod == *name).map_or(at, |attempt| attempt.at);
        let decided_from = if self.waits(pod) { at.saturating_sub(lag) } else { own };
        let is_sent_later = |pod: &Pod| {
            let mut sent =
                attempts.iter().filter(|sent| sent.pod == pod.key() && sent.node == pod.spec.node_name);
            sent.any(|sent| sent.at >= decided_from)
        };
        decided.extend(now.pods.extract_if(.., |pod| is_sent_later(pod)));
        let fits = |pods: &World, decided: &[Pod]| {
            let mut world = pods.clone();
            world.pods.extend_from_slice(decided);
            world.devices.clone_from(&now.devices);
            node_worlds.iter().any(|nodes| {
                world.nodes.clone_from(&nodes.nodes);
                world.namespaces.clone_from(&nodes.namespaces);
                self.judge(&state, &world, pod, node).is_ok()
            })
        };
        let subsets = subsets(&decided);
        if subsets.iter().any(|pods| fits(&now, pods)) {
            return true;
        }
        // A decision about a pod with claims may fail before anything of it is sent: such a pod may have counted anywhere.
        let since_lag = (0..bound_at).find(|i| steps[*i].at + lag >= at).unwrap_or(bound_at);
        let unsent = self.unsent(&steps[..bound_at], since_lag, &state, name);
        let pairs = |i: usize| (0..i).map(move |j| (i, j));
        if (0..unsent.len()).flat_map(pairs).chain((0..unsent.len()).map(|i| (i, i))).any(|(i, j)| {
            let mut pods: Vec<Pod> = [&unsent[i], &unsent[j]].into_iter().cloned().collect();
            pods.truncate(if i == j { 1 } else { 2 });
            [&[][..], &decided].iter().any(|decided| {
                let others =
                    decided.iter().filter(|pod| pods.iter().all(|own| own.metadata.uid != pod.metadata.uid));
                fits(&now, &others.cloned().chain(pods.iter().cloned()).collect::<Vec<Pod>>())
            })
        }) {
            return true;
        }
        since(|kind| !matches!(kind, "Node" | "Namespace")).into_iter().any(|i| {
            let before = State::after(&steps[..i]);
            let mut world = before.world(name);
            for pod in &now.pods {
                if world.pods.iter().any(|known| known.metadata.uid == pod.metadata.uid) {
                    continue;
                }
                // Bound meanwhile, perhaps with the labels it had then.
                let known = before.pods().find(|known| known.metadata.uid == pod.metadata.uid);
                let mut bound = known.map_or_else(|| pod.clone(), |known| (**known).clone());
                bound.spec.node_name.clone_from(&pod.spec.node_name);
                world.pods.push(bound);
            }
            // Decided with the labels it had then.
            let mut older = self.decided(&before, name, at);
            older.retain(|pod| world.pods.iter().all(|known| known.metadata.uid != pod.metadata.uid));
            fits(&world, &[]) || fits(&world, &decided) || fits(&world, &older)
        })
    }

    /// Pods that have no node yet, on the nodes that a scheduler has chosen for them: the binding was sent, or will be sent once
    /// the pod's volumes are bound. In the order of sending.
    fn decided(&self, state: &State, but: &str, at: Duration) -> Vec<Pod> {
        let mut chosen: Vec<(Duration, Pod)> = Vec::new();
        for pod in state.pods().filter(|pod| pod.spec.node_name.is_empty() && pod.key() != but) {
            let mut own = self.attempts.iter().filter(|attempt| attempt.pod == pod.key());
            let last = own.clone().rfind(|attempt| attempt.at <= at);
            let attempt = last.or_else(|| own.find(|attempt| attempt.at <= at + self.lag));
            if let Some(attempt) = attempt {
                let mut pod = (**pod).clone();
                pod.spec.node_name.clone_from(&attempt.node);
                chosen.push((attempt.at, pod));
            }
        }
        chosen.sort_by_key(|(at, _)| *at);
        chosen.into_iter().map(|(_, pod)| pod).collect()
    }

    /// Pods with claims that have no node yet, or had none when they were deleted after `since`, on each node, with the labels of
    /// each of their versions.
    fn unsent(&self, steps: &[Step], since: usize, state: &State, but: &str) -> Vec<Pod> {
        let recent = steps[since..].iter().map(|step| &step.key).filter(|(kind, _)| kind == "Pod").cloned();
        let keys = state.pods().map(|pod| ("Pod".to_owned(), pod.key())).chain(recent);
        let mut placed = Vec::new();
        for key in keys.filter(|(_, name)| name != but).collect::<BTreeSet<_>>() {
            let last = steps.iter().rposition(|step| step.key == key && step.object.is_some());
            let known = &steps[..last.map_or(0, |last| last + 1)];
            let Some(pod) = versions(known, &key).next() else { continue };
            if !pod.spec.node_name.is_empty() || !self.waits(pod) {
                continue;
            }
            let mut labels: Vec<_> = versions(known, &key).map(|pod| &pod.metadata.labels).collect();
            labels.dedup();
            for (labels, node) in
                labels.into_iter().flat_map(|labels| state.nodes().map(move |node| (labels, node)))
            {
                let mut pod = pod.clone();
                pod.metadata.labels.clone_from(labels);
                pod.spec.node_name.clone_from(&node.metadata.name);
                placed.push(pod);
            }
        }
        placed
    }
}

/// Whether a pod requests an extended resource.
pub fn requests(pod: &Pod, resource: &str) -> bool {
    pod.spec.containers.iter().any(|container| container.resources.requests.contains_key(resource))
}

/// The bindings that a history shows, for clusters whose requests nobody has seen.
pub fn attempts(steps: &[Step]) -> Vec<Attempt> {
    let binding = |step: &Step| match &step.object {
        Some(Object::Pod(pod)) if !pod.spec.node_name.is_empty() => {
            Some(Attempt { at: step.at, pod: step.key.1.clone(), node: pod.spec.node_name.clone() })
        }
        _ => None,
    };
    steps.iter().filter_map(binding).collect()
}

/// The versions of a pod: its labels may have changed since a decision.
fn versions<'a>(steps: &'a [Step], key: &'a (String, String)) -> impl Iterator<Item = &'a Pod> {
    steps.iter().rev().filter(move |step| step.key == *key).map_while(|step| match &step.object {
        Some(Object::Pod(pod)) => Some(&**pod),
        _ => None,
    })
}

/// Whether a step changes nothing of a node that rules read: nodes report their state every few seconds.
fn is_heartbeat(before: &[Step], step: &Step) -> bool {
    let Some(Object::Node(node)) = &step.object else { return false };
    let last =
        before.iter().rev().find(|before| before.key == step.key).and_then(|last| last.object.as_ref());
    let Some(Object::Node(last)) = last else { return false };
    (&node.metadata.labels, &node.metadata.annotations, &node.spec, &node.status)
        == (&last.metadata.labels, &last.metadata.annotations, &last.spec, &last.status)
}

/// All subsets of a few pods; of many, those that follow each other.
fn subsets(pods: &[Pod]) -> Vec<Vec<Pod>> {
    let n = pods.len();
    if n <= MOST_SUBSETS {
        let chosen =
            |mask: usize| (0..n).filter(move |i| mask >> i & 1 == 1).map(|i| pods[i].clone()).collect();
        return (0..1 << n).map(chosen).collect();
    }
    (0..=n).flat_map(|from| (from..=n).map(move |to| pods[from..to].to_vec())).collect()
}
