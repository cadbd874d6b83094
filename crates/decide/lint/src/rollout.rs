//! Simulated rolling updates: does a new pod find a node while the old ones run?
//!
//! Only rules between pods and about nodes count: the nodes have no other pods, and pods request nothing.

use berth_api::fenceposts::fenceposts;
use berth_api::object::{Node, Pod, PodSpec, ResourceList};
use berth_api::read::Kind;
use berth_api::syntax::quantity::Quantity;
use berth_engine::{Cluster, Outcome, PreparedPod};
use serde_json::Value;

use crate::input::LintInput;
use crate::nodes::is_condition;
use crate::subject::{PodAdmission, Subject};

const REVISION: &str = "pod-template-hash";
/// Steps of work to place a pod, and to read a rule of it.
const PLACEMENT_STEPS: usize = 8;
const ENTRY_STEPS: usize = 100;

/// How a simulated update ends.
pub(crate) enum Trial {
    /// Not all old pods fit.
    OldDoNotFit,
    /// A new pod fits while all old pods run.
    NewFits,
    /// It does not, for the scheduler's decision; it fits once this many old pods are gone, if that helps.
    Blocked { outcome: Outcome, after: Option<usize> },
}

/// `maxSurge` and `maxUnavailable` of a Deployment that is updated by and by, in pods.
pub(crate) fn limits(subject: &Subject<'_>) -> Option<(i32, i32)> {
    let strategy = subject.object.raw.pointer("/spec/strategy");
    let update = strategy.and_then(|s| s.get("type")).and_then(Value::as_str).unwrap_or("RollingUpdate");
    if subject.kind != Kind::Deployment || update != "RollingUpdate" {
        return None;
    }
    let rolling = strategy.and_then(|s| s.get("rollingUpdate"));
    let limit = |name| rolling.and_then(|rolling| rolling.get(name));
    let replicas = i32::try_from(subject.n_pods()).unwrap_or(i32::MAX);
    Some(fenceposts(limit("maxSurge"), limit("maxUnavailable"), replicas))
}

pub(crate) fn pod_of_revision(subject: &Subject<'_>, revision: &str, admission: PodAdmission<'_>) -> Pod {
    let mut pod = subject.written.clone();
    pod.metadata.labels.insert(REVISION.to_owned(), revision.to_owned());
    admission.admit(&mut pod);
    pod
}

impl LintInput<'_> {
    /// Updates a subject: `n_old` pods of one revision run, and a pod of another one comes.
    pub(crate) fn try_rollout(&self, subject: &Subject<'_>, n_old: usize) -> Trial {
        if !self.spend_placements(subject, n_old, self.nodes.all().len()) {
            return Trial::NewFits;
        }
        let old = pod_of_revision(subject, "old", self.admission());
        let new = pod_of_revision(subject, "new", self.admission());
        self.try_replacement(&vec![old; n_old], &new)
    }

    /// Takes the steps of work to place pods of a subject, each of which looks at so many nodes; false if the rule has no more.
    pub(crate) fn spend_placements(&self, subject: &Subject<'_>, n_pods: usize, n_nodes: usize) -> bool {
        let n_entries = subject.terms().count() + subject.pod.rules.spread_constraints.len();
        self.work.spend(n_pods.saturating_mul(PLACEMENT_STEPS + n_nodes + ENTRY_STEPS * n_entries))
    }

    /// Whether a new pod fits while the old ones run; those without a node are placed first.
    pub(crate) fn try_replacement(&self, old: &[Pod], new: &Pod) -> Trial {
        let scheduler = &self.settings.config.profiles[0].scheduler_name;
        let mut guard = self.empty_cluster.borrow_mut();
        let cluster = guard.get_or_insert_with(|| self.nodes_alone(empty));
        let mut placed = Vec::new();
        let mut trial = None;
        for (i, pod) in old.iter().enumerate() {
            let prepared = cluster.prepare(&bare(pod, &format!("old-{i}"), scheduler));
            let fits = match pod.spec.node_name.as_str() {
                "" => cluster.place(&prepared).node().is_some(),
                node => cluster.assume(&prepared, node),
            };
            placed.push(prepared);
            if !fits {
                trial = Some(Trial::OldDoNotFit);
                break;
            }
        }
        let trial = trial.unwrap_or_else(|| try_new(cluster, &mut placed, &bare(new, "new", scheduler)));
        placed.iter().for_each(|pod| cluster.forget(pod));
        trial
    }

    /// The nodes without pods, each changed.
    pub(crate) fn nodes_alone(&self, changed: fn(&Node) -> Node) -> Cluster {
        let mut cluster = Cluster::new(self.settings.clone());
        for namespace in &self.inventory.namespaces {
            cluster.set_namespace(&namespace.object);
        }
        for node in self.nodes.all() {
            cluster.set_node(&changed(node));
        }
        cluster
    }
}

fn try_new(cluster: &mut Cluster, placed: &mut Vec<PreparedPod>, new: &Pod) -> Trial {
    let new = cluster.prepare(new);
    let outcome = cluster.decide(&new);
    if outcome.node().is_some() {
        return Trial::NewFits;
    }
    let n_old = placed.len();
    let mut after = None;
    while let Some(pod) = placed.pop() {
        cluster.forget(&pod);
        if cluster.fits_anywhere(&new) {
            after = Some(n_old - placed.len());
            break;
        }
    }
    Trial::Blocked { outcome, after }
}

/// The pod with its rules only.
fn bare(pod: &Pod, name: &str, scheduler: &str) -> Pod {
    let mut pod = with_requests(pod, name, scheduler);
    let PodSpec { containers, init_containers, .. } = &mut *pod.spec;
    for container in containers.iter_mut().chain(init_containers) {
        container.resources = Default::default();
    }
    pod.spec.overhead.clear();
    pod.spec.resources = None;
    pod
}

/// The pod with its rules and its requests only.
pub(crate) fn with_requests(pod: &Pod, name: &str, scheduler: &str) -> Pod {
    let mut pod = pod.clone();
    name.clone_into(&mut pod.metadata.name);
    let spec = &mut pod.spec;
    spec.node_name.clear();
    scheduler.clone_into(&mut spec.scheduler_name);
    spec.volumes.clear();
    spec.scheduling_gates.clear();
    spec.resource_claims.clear();
    spec.scheduling_group = None;
    pod
}

/// The node with room for any number of pods, and without the taints that end by themselves.
fn empty(node: &Node) -> Node {
    let mut node = node.clone();
    node.spec.unschedulable = false;
    node.spec.taints.retain(|taint| !is_condition(&taint.key));
    let many = |name: &str| (name.to_owned(), Quantity::from_units(1 << 20));
    node.status.allocatable =
        Some(ResourceList::from(["cpu", "memory", "ephemeral-storage", "pods"].map(many)));
    node
}
