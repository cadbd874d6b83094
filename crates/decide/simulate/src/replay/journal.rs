//! Replays of journals: the engine gets the recorded updates, repeats the decisions, and explains pods at any moment.

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_api::object::{NamespacedName, Pod, time};
use berth_api::work::WorkBudget;
use berth_engine::{
    Cluster, DisruptionBudget, Group, GroupDisruption, GroupLevel, GroupVictims, PreparedPod, Settings,
};
use berth_input::config::ConfigErrors;
use berth_input::journal::{
    AssumedVolumes, Entry, GroupResult, Header, JOURNAL_VERSION, JournaledGroup, JournaledOwnerSelector,
    OTHER_SCHEDULER, RecordedDecision, RecordedGroup,
};
use berth_rules::Selector;
use jiff::Timestamp;

use super::comparison::{Comparison, Difference};
use super::preemption::names;
use crate::explanation::EXPLAIN_STEPS;
use crate::{PendingFor, PodExplanation};

/// Why a journal cannot be replayed.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    #[error("version {version} of the format; this version of berth reads {JOURNAL_VERSION}")]
    Version { version: u32 },
    /// The recorded configuration is invalid.
    #[error("settings.config: {0}")]
    Config(#[from] ConfigErrors),
    #[error("pod {0} is not in the queue: an earlier line is missing")]
    UnknownPod(NamespacedName),
}

type Queue = BTreeMap<NamespacedName, (Arc<Pod>, PreparedPod)>;
type Placed = BTreeMap<NamespacedName, Arc<Pod>>;

/// The state of a recorded cluster, entry by entry.
pub struct JournalReplay {
    cluster: Cluster,
    now: Timestamp,
    is_complete: bool,
    /// Whether Berth decided.
    is_own: bool,
    queue: Queue,
    /// Pods with a node, assumed ones included.
    placed: Placed,
    budgets: BTreeMap<NamespacedName, DisruptionBudget>,
    /// The last decisions about these pods, with their times.
    decided: BTreeMap<NamespacedName, (Timestamp, RecordedDecision)>,
}

impl JournalReplay {
    /// An empty cluster with the recorded settings (`Settings::try_from(&header.settings)`), or with others.
    ///
    /// # Errors
    /// The format is another one.
    pub fn new(header: &Header, settings: Settings) -> Result<JournalReplay, JournalError> {
        if header.version != JOURNAL_VERSION {
            return Err(JournalError::Version { version: header.version });
        }
        Ok(JournalReplay {
            cluster: Cluster::new(settings),
            now: header.time,
            is_complete: false,
            is_own: header.scheduler != OTHER_SCHEDULER,
            queue: BTreeMap::new(),
            placed: BTreeMap::new(),
            budgets: BTreeMap::new(),
            decided: BTreeMap::new(),
        })
    }

    /// The time of the last entry.
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// Whether the state is complete: before, objects may be missing.
    pub fn is_complete(&self) -> bool {
        self.is_complete
    }

    pub fn cluster(&mut self) -> &mut Cluster {
        &mut self.cluster
    }

    /// Number of pods in the queue that are not assumed on a node.
    pub fn n_pending(&self) -> usize {
        pending(&self.queue, &self.placed).count()
    }

    /// The pods in the queue that are not assumed on a node, and then those with a node, by name.
    pub fn pods(&self) -> impl Iterator<Item = &Pod> {
        all_pods(&self.queue, &self.placed)
    }

    /// The last decision about a pod in the queue or with a node, and its time.
    pub fn last_decision(&self, pod: &NamespacedName) -> Option<&(Timestamp, RecordedDecision)> {
        self.decided.get(pod)
    }

    /// Explains the decision about a pod in the present state; with `node`, for that node alone. None if the pod does not
    /// exist.
    pub fn explain(&mut self, pod: &NamespacedName, node: Option<&str>) -> Option<PodExplanation> {
        let JournalReplay { cluster, queue, placed, budgets, now, .. } = self;
        let known = placed.get(pod).or_else(|| queue.get(pod).map(|(pod, _)| pod))?;
        let budgets: Vec<_> = budgets.values().cloned().collect();
        let pending = PendingFor::Until(*now).of(known);
        let (pods, budget) = (all_pods(queue, placed), WorkBudget::new(EXPLAIN_STEPS));
        Some(PodExplanation::of(cluster, Some(&budgets), known, pending, node, pods, &budget))
    }

    /// Applies an entry. A decision changes nothing: its consequences are recorded by separate entries.
    ///
    /// # Errors
    /// It is about a pod that is not in the queue.
    pub fn apply(&mut self, entry: Entry) -> Result<(), JournalError> {
        let cluster = &mut self.cluster;
        match entry {
            Entry::Time(time) => self.now = time,
            Entry::Complete {} => self.is_complete = true,
            Entry::Node(node) => cluster.set_node(&node),
            Entry::RemoveNode(name) => cluster.remove_node(&name),
            Entry::Namespace(namespace) => cluster.set_namespace(&namespace),
            Entry::RemoveNamespace(name) => cluster.remove_namespace(&name),
            Entry::Service(service) => cluster.set_service(&service),
            Entry::RemoveService(name) => cluster.remove_service(name.namespace(), name.name()),
            Entry::Owner(owner) => {
                let JournaledOwnerSelector { kind, namespace, name, selector, removed } = *owner;
                let selector = Selector::parse(selector.as_ref()).ok().filter(|_| !removed);
                cluster.set_owner_selector(&kind, &namespace, &name, selector);
            }
            Entry::VolumeObject(object) => cluster.set_volume_object(*object),
            Entry::RemoveVolumeObject(kind, name) => {
                cluster.remove_volume_object(kind, name.namespace(), name.name());
            }
            Entry::DeviceObject(object) => cluster.set_device_object(&object),
            Entry::RemoveDeviceObject(kind, name) => {
                cluster.remove_device_object(kind, name.namespace(), name.name());
            }
            Entry::Group(group) => {
                let JournaledGroup { key, as_a_whole, priority, levels } = *group;
                cluster.set_group(&key, GroupDisruption { as_a_whole, priority, levels });
            }
            Entry::GroupClaims(group, claims) => {
                cluster.set_group_claims(&group, claims.map(|claims| *claims))
            }
            Entry::Budget(budget) => {
                let name = budget.metadata.namespaced_name();
                self.budgets.insert(name, DisruptionBudget::from(&*budget));
            }
            Entry::RemoveBudget(name) => _ = self.budgets.remove(&name),
            Entry::Pod(pod) => {
                cluster.set_pod(&pod);
                self.placed.insert(pod.metadata.namespaced_name(), pod);
            }
            Entry::AddLabels(name, labels) => {
                let added: Vec<_> = labels.clone().into_iter().collect();
                cluster.add_pod_labels(name.namespace(), name.name(), &added);
                if let Some(pod) = self.placed.get_mut(&name) {
                    Arc::make_mut(pod).metadata.labels.extend(labels);
                }
            }
            Entry::RemovePod(name) => {
                cluster.remove_pod(name.namespace(), name.name());
                self.placed.remove(&name);
                self.forget_decision(&name);
            }
            Entry::Assume(name, node) => {
                let (pod, prepared) = queued(&self.queue, &name)?;
                cluster.assume(prepared, &node);
                let mut pod = Pod::clone(pod);
                pod.spec.node_name = node;
                self.placed.insert(name, Arc::new(pod));
            }
            Entry::AssumeVolumes(assumed) => {
                let AssumedVolumes { pod, node, volumes } = *assumed;
                let pod = any_pod(cluster, &pod);
                cluster.assume_volumes(&pod, &node, &volumes);
            }
            Entry::RestoreVolumes(assumed) => {
                let pod = any_pod(cluster, &assumed.pod);
                cluster.restore_volumes(&pod, &assumed.volumes);
            }
            Entry::AssumeDevices(assumed) => cluster.assume_devices(&assumed),
            Entry::RestoreDevices(assumed) => cluster.restore_devices(&assumed),
            Entry::Nominate(name, node) => cluster.nominate(&queued(&self.queue, &name)?.1, &node),
            Entry::Victims(name, victims) => {
                let pod = &queued(&self.queue, &name)?.1;
                if let Some(node) = cluster.nomination(name.namespace(), name.name()).map(str::to_owned) {
                    cluster.nominate_for_victims(pod, &node, &victims);
                }
            }
            Entry::ClearNomination(name) => _ = cluster.clear_nomination(name.namespace(), name.name()),
            Entry::Queue(pod) => {
                let prepared = cluster.prepare(&pod);
                self.queue.insert(pod.metadata.namespaced_name(), (pod, prepared));
            }
            Entry::Relax(name, paths) => {
                let pod = queued(&self.queue, &name)?.0.clone();
                let all = cluster.prepare(&pod);
                self.queue.insert(name, (pod, cluster.relax(&all, paths).pod));
            }
            Entry::Dequeue(name) => {
                self.queue.remove(&name);
                self.forget_decision(&name);
            }
            Entry::Decision(decision) => {
                self.decided.insert(decision.pod.clone(), (self.now, *decision));
            }
            Entry::Journal(_)
            | Entry::Preemption(_)
            | Entry::GroupDecision(..)
            | Entry::GroupPreemption(..) => {}
        }
        Ok(())
    }

    fn forget_decision(&mut self, pod: &NamespacedName) {
        if !self.queue.contains_key(pod) && !self.placed.contains_key(pod) {
            self.decided.remove(pod);
        }
    }

    /// Repeats the decision of an entry, and compares. None if the entry is not a decision.
    ///
    /// # Errors
    /// It is about a pod that is not in the queue.
    pub fn repeat(&mut self, entry: &Entry) -> Result<Option<Vec<Difference>>, JournalError> {
        let time = time::rfc3339_micros(self.now);
        let mut compared = Comparison { scenario: &time, pod: "", differences: Vec::new() };
        match entry {
            Entry::Decision(recorded) => {
                let pod = recorded.pod.to_string();
                compared.pod = &pod;
                let outcome = self.cluster.decide_nominated_first(&queued(&self.queue, &recorded.pod)?.1);
                let got = outcome.recorded(recorded.pod.clone());
                // kube-scheduler chooses at random among the best nodes.
                let is_tie = recorded.node != got.node
                    && !self.is_own
                    && recorded.node.as_ref().is_some_and(|node| {
                        self.cluster.evaluate(&self.queue[&recorded.pod].1).best.contains(node)
                    });
                if !is_tie {
                    compared.differ_in("chosen", name(recorded.node.as_deref()), name(got.node.as_deref()));
                }
                if recorded.score.is_some() {
                    compared.same("score", &recorded.score, &got.score);
                }
                compared.same("message", recorded.message.as_str(), &got.message);
                return Ok(Some(compared.differences));
            }
            Entry::Preemption(recorded) => {
                let pod = recorded.pod.to_string();
                compared.pod = &pod;
                let budgets: Vec<_> = self.budgets.values().cloned().collect();
                let preemption = self.cluster.preempt(&queued(&self.queue, &recorded.pod)?.1, &budgets);
                let got = preemption.recorded(recorded.pod.clone());
                let node = (name(recorded.node.as_deref()), name(got.node.as_deref()));
                compared.differ_in("preemption.node", node.0, node.1);
                compared.same("preemption.victims", &names(&recorded.victims), &names(&got.victims));
                compared.same("preemption.message", &recorded.message, &got.message);
                return Ok(Some(compared.differences));
            }
            Entry::GroupDecision(group, recorded) => {
                compared.pod = &group.group;
                let got =
                    self.with_group(group, |cluster, _, group| cluster.decide_group(group).recorded(group))?;
                compared.group("", recorded, &got);
            }
            Entry::GroupPreemption(group, recorded) => {
                compared.pod = &group.group;
                let got = self.with_group(group, |cluster, budgets, group| {
                    GroupVictims::recorded(cluster.preempt_group(group, budgets).as_ref())
                })?;
                compared.group("preemption.", recorded, &got);
            }
            _ => return Ok(None),
        }
        Ok(Some(compared.differences))
    }

    fn with_group<T>(
        &mut self,
        recorded: &RecordedGroup,
        decide: impl FnOnce(&mut Cluster, &[DisruptionBudget], &Group<'_>) -> T,
    ) -> Result<T, JournalError> {
        let members = recorded.pods.iter().map(|pod| Ok(queued(&self.queue, pod)?.1.clone()));
        let members = members.collect::<Result<Vec<_>, JournalError>>()?;
        let levels: Vec<_> = recorded.levels.iter().map(GroupLevel::from).collect();
        let budgets: Vec<_> = self.budgets.values().cloned().collect();
        let group = Group {
            members: &members,
            min: recorded.min,
            levels: &levels,
            composite: recorded.composite.as_ref(),
        };
        Ok(decide(&mut self.cluster, &budgets, &group))
    }
}

impl Comparison<'_> {
    fn differ_in(&mut self, field: &str, expected: &str, got: &str) {
        if expected != got {
            self.differ(None, field, expected.to_owned(), got.to_owned());
        }
    }

    fn group(&mut self, prefix: &str, expected: &GroupResult, got: &GroupResult) {
        self.same(&format!("{prefix}nodes"), &expected.nodes, &got.nodes);
        self.same(&format!("{prefix}victims"), &names(&expected.victims), &names(&got.victims));
        self.same(&format!("{prefix}message"), &expected.message, &got.message);
    }
}

fn all_pods<'a>(queue: &'a Queue, placed: &'a Placed) -> impl Iterator<Item = &'a Pod> {
    pending(queue, placed).chain(placed.values()).map(|pod| &**pod)
}

fn pending<'a>(queue: &'a Queue, placed: &'a Placed) -> impl Iterator<Item = &'a Arc<Pod>> {
    queue.iter().filter(|(name, _)| !placed.contains_key(name)).map(|(_, (pod, _))| pod)
}

fn queued<'a>(queue: &'a Queue, pod: &NamespacedName) -> Result<&'a (Arc<Pod>, PreparedPod), JournalError> {
    queue.get(pod).ok_or_else(|| JournalError::UnknownPod(pod.clone()))
}

/// Of a pod with assumed volumes only the namespace counts.
fn any_pod(cluster: &mut Cluster, name: &NamespacedName) -> PreparedPod {
    let mut pod = Pod::default();
    name.namespace().clone_into(&mut pod.metadata.namespace);
    cluster.prepare(&pod)
}

fn name(node: Option<&str>) -> &str {
    node.unwrap_or("no node")
}
