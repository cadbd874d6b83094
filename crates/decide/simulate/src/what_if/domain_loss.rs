//! The loss of every domain of a topology in turn.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use berth_api::object::Node;
use berth_control::taints::is_unreachable;
use berth_control::zones::Zones;
use berth_engine::{Violation, ViolationKey};
use serde::Serialize;

use super::change::domain_of;
use super::evicted::{EvictedPod, Evictor};
use super::outcome::{BrokenRule, UnplacedPod};
use crate::simulation::{Contact, Fate, Loss, LostContact, SimulatedPod, Simulation, unreachable};

/// What is lost with each domain of a topology.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DomainLosses {
    /// The node label key whose values are the domains.
    pub key: String,
    /// The domains, those with most pods that find no other node first.
    pub domains: Vec<DomainLoss>,
}

/// What is lost with a domain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DomainLoss {
    pub domain: String,
    /// Number of its nodes.
    pub nodes: usize,
    /// Whether each pod that is created again has a node, both while the nodes cannot be reached and when they are removed.
    pub survives: bool,
    /// Number of its pods that find other nodes.
    pub moved: usize,
    /// Pods that find no node when the nodes are removed.
    pub unplaced: Vec<UnplacedPod>,
    /// Pods that find no node as long as the nodes are there and cannot be reached, tainted by the node controller.
    pub unplaced_while_unreachable: Vec<UnplacedPod>,
    /// Pods that nothing replaces as long as the nodes are there: those of StatefulSets, those that tolerate the taint, single pods.
    pub stranded_while_unreachable: Vec<UnplacedPod>,
    /// Pods that are preempted.
    pub evicted: Vec<EvictedPod>,
    /// Pods with rules required during execution that break.
    pub broken_rules: Vec<BrokenRule>,
    /// The workloads with pods in the domain or among the unplaced ones, those with most unplaced pods first.
    pub workloads: Vec<WorkloadLoss>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WorkloadLoss {
    pub namespace: String,
    /// Kind and name; none for the pods without a workload.
    pub workload: Option<String>,
    /// Number of its running pods in the cluster before.
    pub pods: usize,
    /// Number of those in the domain.
    pub displaced: usize,
    /// Number of those without a node afterwards.
    pub unplaced: usize,
}

/// Domains are lost on this number of threads at most, each with a copy of the state.
const MAX_THREADS: usize = 4;

/// Namespace, kind and name.
type Workload<'a> = (&'a str, Option<&'a str>);

fn workload(pod: &SimulatedPod) -> Workload<'_> {
    (&pod.pod.metadata.namespace, pod.workload.as_deref())
}

impl Simulation {
    /// Removes the nodes of every domain of a topology in turn. The pods of DaemonSets go with their nodes and are not
    /// counted. `progress` gets the number of domains so far and of all.
    pub fn lose_each_domain(&mut self, key: &str, mut progress: impl FnMut(usize, usize)) -> DomainLosses {
        let all: Vec<Node> = self.nodes().cloned().collect();
        let mut domains: BTreeMap<&str, Vec<&Node>> = BTreeMap::new();
        for node in &all {
            if let Some(value) = domain_of(node, key) {
                domains.entry(value).or_default().push(node);
            }
        }
        let simulation = self;
        let mut pods_on: HashMap<String, Vec<usize>> = HashMap::new();
        let mut running: BTreeMap<(String, Option<String>), usize> = BTreeMap::new();
        for (i, pod) in simulation.pods().iter().enumerate() {
            let Some(node) = pod.node() else { continue };
            pods_on.entry(node.to_owned()).or_default().push(i);
            let (namespace, workload) = workload(pod);
            *running.entry((namespace.to_owned(), workload.map(str::to_owned))).or_default() += 1;
        }
        let broken_before: BTreeSet<ViolationKey> =
            simulation.cluster().violations().iter().map(Violation::key).collect();
        let domains: Vec<(&str, Vec<&Node>)> = domains.into_iter().collect();
        let zones = Zones::new(all.iter().map(|node| &node.metadata));
        let not_ready: Vec<&Node> = all.iter().filter(|node| is_unreachable(&node.spec)).collect();
        let gates = simulation.cluster.settings().config.feature_gates;
        let next = AtomicUsize::new(0);
        let lose = &|simulation: &mut Simulation, progress: &mut dyn FnMut(usize, usize)| {
            let mut losses = Vec::new();
            while let Some((domain, nodes)) = domains.get(next.fetch_add(1, Ordering::Relaxed)) {
                let on = |node: &&Node| pods_on.get(&node.metadata.name).map_or(&[][..], Vec::as_slice);
                let positions: Vec<usize> = nodes.iter().flat_map(on).copied().collect();
                let mut loss = simulation.without_nodes(nodes, Loss::Removed, &positions, |simulation| {
                    DomainLoss::of(simulation, &positions, &running, &broken_before)
                });
                let evicts =
                    zones.evicting(not_ready.iter().chain(nodes).map(|node| node.metadata.name.as_str()));
                let contact = |at: &usize| {
                    let pod = &simulation.pods[*at];
                    (*at, unreachable(&pod.pod, None, pod.node().is_some_and(&evicts), gates))
                };
                let contacts = positions.iter().map(contact).collect();
                let lost = LostContact { contacts, evicts: &evicts };
                let (unplaced, stranded) = match simulation.may_miss_nodes(&lost) {
                    false => (loss.unplaced.clone(), Vec::new()),
                    true => {
                        simulation.without_nodes(nodes, Loss::Unreachable(&lost), &positions, |simulation| {
                            simulation.while_unreachable(&lost)
                        })
                    }
                };
                loss.survives &= unplaced.is_empty();
                (loss.unplaced_while_unreachable, loss.stranded_while_unreachable) = (unplaced, stranded);
                (loss.domain, loss.nodes) = ((*domain).to_owned(), nodes.len());
                losses.push(loss);
                progress(next.load(Ordering::Relaxed).min(domains.len()), domains.len());
            }
            losses
        };
        // There are no threads on WebAssembly, which is an error here. What is left of the budget for devices must not depend on threads.
        let max_threads = if simulation.cluster().has_device_classes() { 1 } else { MAX_THREADS };
        let n_threads = thread::available_parallelism().map_or(1, |n| n.get().min(max_threads));
        let copies = (1..n_threads.min(domains.len())).map(|_| simulation.clone()).collect::<Vec<_>>();
        let mut losses = thread::scope(|scope| {
            let lose_in = |mut copy| scope.spawn(move || lose(&mut copy, &mut |_, _| ()));
            let others: Vec<_> = copies.into_iter().map(lose_in).collect();
            let mut losses = lose(simulation, &mut progress);
            for other in others {
                losses.extend(other.join().unwrap_or_else(|panic| resume_unwind(panic)));
            }
            losses
        });
        losses.sort_by(|a, b| {
            let rank = |loss: &DomainLoss| {
                (loss.unplaced.len(), loss.broken_rules.len(), loss.evicted.len(), loss.moved)
            };
            rank(b).cmp(&rank(a)).then_with(|| a.domain.cmp(&b.domain))
        });
        DomainLosses { key: key.to_owned(), domains: losses }
    }
}

impl Simulation {
    /// Whether it may matter to pods on lost nodes that the nodes are still there: their domain counts, nothing replaces a pod, or its
    /// template names a node.
    fn may_miss_nodes(&self, lost: &LostContact<'_>) -> bool {
        lost.contacts.iter().any(|(position, contact)| match contact {
            Contact::OfNode => false,
            Contact::Recreated => {
                let SimulatedPod { pod, workload, .. } = &self.pods[*position];
                let mut constraints = pod.spec.topology_spread_constraints.iter();
                constraints.any(|constraint| constraint.when_unsatisfiable == "DoNotSchedule")
                    || self.workloads.template_node(&pod.metadata.namespace, workload.as_deref()).is_some()
            }
            Contact::Stays(_) | Contact::Lost(_) => true,
        })
    }

    /// The pods that find no node while their nodes cannot be reached, and those that nothing replaces.
    fn while_unreachable(&self, of_nodes: &LostContact<'_>) -> (Vec<UnplacedPod>, Vec<UnplacedPod>) {
        let (mut unplaced, mut stranded) = (Vec::new(), Vec::new());
        let preempted = self.preempted().map(|at| (at, Contact::Recreated));
        let mut affected: BTreeMap<usize, Contact> = preempted.collect();
        affected.extend(&of_nodes.contacts);
        for (at, contact) in affected {
            let pod = &self.pods[at];
            match (contact, pod.node()) {
                _ if pod.pod.metadata.is_deleting() => {}
                (Contact::Recreated, None) => unplaced.push(lost(pod, pod.outcome.message().into_owned())),
                (Contact::Stays(why) | Contact::Lost(why), _) => stranded.push(lost(pod, why.to_owned())),
                _ => {}
            }
        }
        (unplaced, stranded)
    }
}

/// A pod that has lost its node.
fn lost(pod: &SimulatedPod, message: String) -> UnplacedPod {
    UnplacedPod {
        namespace: pod.pod.metadata.namespace.clone(),
        name: pod.pod.metadata.name.clone(),
        message,
        before: false,
        workload: pod.workload.clone(),
        was_running: true,
        repairs: Vec::new(),
    }
}

impl DomainLoss {
    /// While the nodes are lost. `positions` are the pods that were on them.
    fn of(
        simulation: &mut Simulation,
        positions: &[usize],
        running: &BTreeMap<(String, Option<String>), usize>,
        broken_before: &BTreeSet<ViolationKey>,
    ) -> DomainLoss {
        let violations = simulation.cluster().violations();
        let new = violations.into_iter().filter(|violation| !broken_before.contains(&violation.key()));
        let pods = simulation.pods();
        let displaced: BTreeSet<usize> =
            positions.iter().copied().filter(|i| Fate::of(&pods[*i].pod) != Fate::Gone).collect();
        let preempted = simulation.preempted().filter(|i| !pods[*i].pod.metadata.is_deleting());
        let preempted: BTreeSet<usize> = preempted.collect();
        let affected = || displaced.union(&preempted).map(|i| (i, &pods[*i]));
        let unplaced = affected().filter(|(_, pod)| pod.node().is_none());
        let unplaced = unplaced.map(|(_, pod)| lost(pod, pod.outcome.message().into_owned()));
        let unplaced: Vec<_> = unplaced.collect();
        // A displaced pod is evicted by the loss of its node.
        let evicted = preempted.difference(&displaced).map(|i| EvictedPod {
            namespace: pods[*i].pod.metadata.namespace.clone(),
            name: pods[*i].pod.metadata.name.clone(),
            by: Evictor::Preemption,
            without_target: false,
            preemptor: pods[*i].preempted_by.clone(),
            group: simulation.group_evicted_with(&pods[*i]),
        });
        let mut workloads: BTreeMap<Workload<'_>, (usize, usize)> = BTreeMap::new();
        for (i, pod) in affected() {
            let (n_displaced, n_unplaced) = workloads.entry(workload(pod)).or_default();
            *n_displaced += usize::from(displaced.contains(i));
            *n_unplaced += usize::from(pod.node().is_none());
        }
        let workloads = workloads.into_iter().map(|((namespace, workload), (displaced, unplaced))| {
            let (namespace, workload) = (namespace.to_owned(), workload.map(str::to_owned));
            let key = (namespace, workload);
            let pods = running.get(&key).copied().unwrap_or(0);
            let (namespace, workload) = key;
            WorkloadLoss { namespace, workload, pods, displaced, unplaced }
        });
        let mut workloads: Vec<_> = workloads.collect();
        workloads.sort_by_key(|w| std::cmp::Reverse(w.unplaced));
        DomainLoss {
            domain: String::new(),
            nodes: 0,
            survives: unplaced.is_empty(),
            moved: displaced.iter().filter(|i| pods[**i].node().is_some()).count(),
            evicted: evicted.collect(),
            unplaced,
            unplaced_while_unreachable: Vec::new(),
            stranded_while_unreachable: Vec::new(),
            broken_rules: BrokenRule::by_pod(new.map(|violation| (violation, false))),
            workloads,
        }
    }
}
