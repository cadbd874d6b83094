//! Adding the pods of an input: each is admitted as by the API server, and runs, arrives at its node, or waits.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use berth_api::feature_gates::VersionChange;
use berth_api::object::volume::PersistentVolumeClaim;
use berth_api::object::{NamespacedName, Pod};
use berth_api::read::Kind;
use berth_control::pod_gc::QUARANTINE;
use berth_engine::Outcome;
use berth_input::inventory::{Entry, Workload};
use berth_input::policy::{PolicySet, changes};
use berth_rules::admission::{AdmissionResult, admit, unknown_runtime_class};
use berth_rules::unmerge_label_keys;
use serde_json::{Value, json};

use super::admission::{Classes, is_known, is_missing_image};
use super::created_claims::CreatedClaim;
use super::error::InvalidObject;
use super::node_admission::is_starting;
use super::pod::SimulatedPod;
use super::state::Simulation;
use super::unadmitted::Unadmitted;
use super::volumes::{Volumes, ephemeral_claims, volume_claims};

/// A warning and no error: templates that another tool completes have no images yet.
const NO_IMAGE: &str = "containers without an image: the API server rejects the pods until each has one";

/// A pod of the inventory, or one of an expanded workload.
pub(super) struct InputPod<'a> {
    pub(super) entry: Cow<'a, Entry<Pod>>,
    /// The same pod in the simulation before, on its node.
    pub(super) unchanged: Option<Arc<SimulatedPod>>,
    /// As in [`SimulatedPod::workload`]; of an expanded workload.
    pub(super) workload: Option<String>,
    pub(super) expanded_from: Option<&'a Workload>,
    /// As in [`SimulatedPod::replaces`].
    pub(super) replaces: Option<NamespacedName>,
    /// The claims that its controller creates with it, with their templates if the inventory keeps whole objects.
    pub(super) claims: Vec<(PersistentVolumeClaim, Option<Value>)>,
    /// The position of the rollout that creates it, in [`Simulation::rollouts`].
    pub(super) rollout: Option<usize>,
}

/// The path of the pod template in a workload.
fn template_path(workload: &Workload) -> &'static str {
    match workload.kind() {
        Kind::CronJob => "spec.jobTemplate.spec.template.",
        _ => "spec.template.",
    }
}

/// Writes what a RuntimeClass adds to a pod into its object.
fn write_runtime_class(pod: &Pod, raw: &mut Value) {
    let Pod { spec, .. } = pod;
    let (selector, tolerations) =
        (serde_json::to_value(&spec.node_selector), serde_json::to_value(&spec.tolerations));
    let fields = [
        ("nodeSelector", spec.node_selector.is_empty(), selector),
        ("tolerations", spec.tolerations.is_empty(), tolerations),
        ("overhead", spec.overhead.is_empty(), serde_json::to_value(&spec.overhead)),
    ];
    for (field, is_empty, value) in fields {
        if let Ok(value) = value
            && !is_empty
        {
            raw["spec"][field] = value;
        }
    }
}

/// Writes the requests and limits of the containers of a pod into its object.
fn write_resources(pod: &Pod, raw: &mut Value) {
    let lists = [("containers", &pod.spec.containers), ("initContainers", &pod.spec.init_containers)];
    for (list, containers) in lists {
        let raw = raw["spec"].get_mut(list).and_then(Value::as_array_mut).into_iter().flatten();
        for (raw, container) in raw.zip(containers.iter()) {
            let resources = &container.resources;
            for (part, amounts) in [("requests", &resources.requests), ("limits", &resources.limits)] {
                if !amounts.is_empty() {
                    raw["resources"][part] = json!(amounts);
                }
            }
        }
    }
}

impl Simulation {
    pub(super) fn add_pods<'i>(
        &mut self,
        n_pods: usize,
        pods: impl Iterator<Item = InputPod<'i>>,
        classes: &Classes,
        policies: &PolicySet,
        volumes: &mut Volumes,
        invalid: &mut Vec<InvalidObject>,
    ) {
        let (mut unknown_classes, mut unknown_runtime_classes) = (BTreeSet::new(), BTreeSet::new());
        let (mut arriving, mut new) = (Vec::new(), Vec::new());
        self.pods.reserve(n_pods);
        self.cluster.reserve_pods(n_pods);
        for InputPod { entry, unchanged, workload, expanded_from, replaces, claims, rollout } in pods {
            let workload = workload.or_else(|| self.workloads.owner(&entry.object));
            let is_same = |pod: &Arc<SimulatedPod>| {
                let joins = || self.groups.join_workload(&pod.pod).is_some();
                pod.workload == workload && pod.group == self.group_of(&pod.pod) && !joins()
            };
            if let Some(pod) = unchanged.filter(is_same) {
                self.pods.push(pod);
                continue;
            }
            let Entry { object: mut pod, mut raw, source, .. } = entry.into_owned();
            if pod.is_terminal() {
                if pod.lasting_rejection().is_some() {
                    let pod = self.simulated(pod, raw, workload);
                    self.pods.push(pod);
                } else {
                    self.ended.insert(pod.metadata.namespaced_name(), pod.status);
                }
                continue;
            }
            let mut is_new = false;
            // A pod with a creation timestamp comes from an API server, which has admitted it.
            if pod.metadata.creation_timestamp.is_none() {
                if !pod.spec.node_name.is_empty() {
                    unmerge_label_keys(&mut pod);
                }
                is_new = expanded_from.is_some() || pod.spec.node_name.is_empty();
                let has_defaults = is_new && self.creation.set_defaults(&mut pod);
                if let Some(raw) = raw.as_mut().filter(|_| has_defaults) {
                    write_resources(&pod, raw);
                }
                if !is_known(&pod, &classes.priority) {
                    unknown_classes.insert(pod.spec.priority_class_name.clone());
                }
                let options = self.admission_options(&pod, classes);
                let has_runtime_class =
                    options.runtime_classes.is_some() && !pod.spec.runtime_class_name.is_empty();
                if options.runtime_classes.is_none() {
                    unknown_runtime_classes.insert(pod.spec.runtime_class_name.clone());
                }
                let mut warnings = self.apply_policies(policies, &mut pod, raw.as_mut());
                let AdmissionResult { denied, mut errors, warnings: more } = admit(&mut pod, &options);
                warnings.extend(more);
                let n_errors = errors.len();
                errors.retain(|error| !is_missing_image(error));
                if errors.len() < n_errors {
                    warnings.push(NO_IMAGE.to_owned());
                }
                let name = || workload.clone().unwrap_or_else(|| format!("Pod {}", pod.key()));
                self.warnings.extend(warnings.iter().map(|w| format!("{}: {w}", name())));
                if has_defaults && !errors.is_empty() {
                    // The workload is valid: its controller tries in vain to create pods.
                    self.creation.note_invalid(&pod, &errors);
                } else if denied.is_some() || !errors.is_empty() {
                    let object =
                        expanded_from.map_or_else(|| format!("Pod {}", pod.key()), Workload::to_string);
                    let path = expanded_from.map_or("", template_path);
                    let errors = errors.iter().map(|error| format!("{path}{error}")).chain(denied).collect();
                    invalid.push(InvalidObject { object, source: Some(source), errors });
                    continue;
                }
                if let Some(raw) = raw.as_mut().filter(|_| has_runtime_class) {
                    write_runtime_class(&pod, raw);
                }
            }
            self.devices.make_claims(&mut self.cluster, &mut pod, raw.as_mut());
            pod = self.groups.join_workload(&pod).unwrap_or(pod);
            let ephemeral = ephemeral_claims(&pod, raw.as_ref());
            let n_own = claims.len();
            for (i, (claim, template)) in claims.into_iter().chain(ephemeral).enumerate() {
                let created = template.map(|template| CreatedClaim::new(&claim.metadata, &template));
                if i < n_own && !volumes.has_claim(&claim) {
                    self.creation.note_claim(&pod, &claim);
                }
                if volumes.add_claim(&mut self.cluster, claim) {
                    self.created_claims.extend(created);
                }
            }
            if let Some(rollout) = rollout {
                let pod = SimulatedPod { replaces, ..self.simulated(pod, raw, workload) };
                self.rollouts[rollout].add(pod);
                continue;
            }
            if is_new {
                new.push(self.pods.len());
            }
            if pod.awaits_node_admission() {
                arriving.push((self.pods.len(), self.cluster.prepare(&pod)));
            }
            self.add_pod(pod, raw, workload, replaces);
        }
        let is_named = |pod: &&Pod| pod.awaits_node_admission() || is_starting(pod);
        let pods = || self.pods.iter().map(|pod| &pod.pod);
        let lost = pods().filter(is_named).flat_map(volume_claims);
        self.lost_claims =
            lost.filter_map(|claim| Some((claim.clone(), volumes.why_lost(&claim)?))).collect();
        self.waiting_claims = volumes.take_waiting(pods().filter(|pod| !is_named(pod)));
        let (alone, new): (Vec<_>, Vec<_>) = new.into_iter().partition(|i| self.arrives_in_order(*i));
        let not_created: HashSet<usize> = new.into_iter().filter(|i| !self.create_at(*i)).collect();
        self.queue.retain(|i| !not_created.contains(i));
        arriving.retain(|(i, _)| !not_created.contains(i) && alone.binary_search(i).is_err());
        self.arrive(arriving);
        for position in alone {
            if self.create_at(position) {
                self.arrive_alone(position);
            }
        }
        self.refuse_unmounted();
        for SimulatedPod { pod, workload, .. } in &self.pods {
            if let Some(error) = self.cluster.rule_error(&pod.metadata.namespace, &pod.metadata.name) {
                let name = workload.clone().unwrap_or_else(|| format!("Pod {}", pod.key()));
                self.warnings.push(format!("{name}: {error}; rules that cannot be read have no effect"));
            }
        }
        self.warnings.extend(volumes.take_warnings());
        for class in unknown_classes {
            self.warnings
                .push(format!("PriorityClass {class} is not in the input: pods that use it get priority 0"));
        }
        self.warnings.extend(unknown_runtime_classes.iter().map(|class| unknown_runtime_class(class)));
        let mut seen = HashSet::new();
        self.warnings.retain(|warning| seen.insert(warning.clone()));
        // All pods of a workload are rejected for the same reasons.
        invalid.dedup_by(|a, b| a.object == b.object);
        self.sort_queue();
    }

    /// Adds the rules of placement policies to a new pod, and to its object. Returns warnings.
    fn apply_policies(
        &mut self,
        policies: &PolicySet,
        pod: &mut Pod,
        raw: Option<&mut Value>,
    ) -> Vec<String> {
        let before = pod.clone();
        let applied = match policies.apply(pod) {
            Ok(applied) => applied,
            Err(error) => {
                let name = pod.metadata.namespaced_name();
                return vec![format!(
                    "pod {name}: placement policies are not applied: comparing their rules takes {error}"
                )];
            }
        };
        for (policy, _) in applied.policies {
            *self.policy_uses.entry(policy).or_default() += 1;
        }
        if let Some(raw) = raw {
            for change in changes(&before, pod) {
                raw[change.section][change.field] = change.value;
            }
        }
        applied.warnings
    }

    fn add_pod(
        &mut self,
        pod: Pod,
        raw: Option<Value>,
        workload: Option<String>,
        replaces: Option<NamespacedName>,
    ) {
        let awaits_admission = pod.awaits_node_admission();
        if !awaits_admission && !pod.spec.node_name.is_empty() {
            self.cluster.set_pod(&pod);
        }
        let pod = SimulatedPod { replaces, ..self.simulated(pod, raw, workload) };
        match &pod.outcome {
            Outcome::Placed { node, .. } if !awaits_admission && !self.has_node(node) => {
                self.warnings.push(format!(
                    "Pod {}: spec.nodeName names node {node}, which is not in the input: the pod is ignored for placement. A cluster without \
                     this node deletes it after {} s",
                    pod.pod.key(),
                    QUARANTINE.as_secs()
                ));
            }
            Outcome::Unschedulable { .. } => {
                self.hold_room(&pod.pod);
                self.queue.push(self.pods.len());
            }
            _ => {}
        }
        self.pods.push(pod);
    }

    /// Keeps the room that a pod with scheduling gates is nominated for.
    fn hold_room(&mut self, pod: &Pod) {
        let (config, node) = (&self.cluster.settings().config, &pod.status.nominated_node_name);
        let profile = config.profile(&pod.spec.scheduler_name);
        let is_gated = !pod.spec.scheduling_gates.is_empty() && profile.is_some_and(|p| p.scheduling_gates);
        if is_gated && !node.is_empty() && config.feature_gates.has(VersionChange::GatedNomination) {
            let prepared = self.cluster.prepare(pod);
            self.cluster.nominate(&prepared, node);
        }
    }

    /// A pod as the API server has admitted it. If it names a node, it runs there, unless the node has rejected it.
    pub(crate) fn simulated(&self, pod: Pod, raw: Option<Value>, workload: Option<String>) -> SimulatedPod {
        let node = pod.spec.node_name.clone();
        let was_running = !node.is_empty();
        let outcome = if was_running {
            Outcome::on(node)
        } else if pod.metadata.deletion_timestamp.is_some() {
            Outcome::Failed { error: "the pod is being deleted and is not scheduled".to_owned() }
        } else {
            Outcome::Unschedulable { message: String::new(), plugins: Vec::new() }
        };
        let rejected = Unadmitted::written(&pod);
        let mut simulated = SimulatedPod {
            group: self.group_of(&pod),
            pod,
            workload,
            replaces: None,
            raw: raw.map(Box::new),
            was_running,
            outcome,
            unadmitted: None,
            relaxed: Vec::new().into(),
            victims: Vec::new().into(),
            preempted_by: None,
            queued: self.n_vacated,
        };
        if let Some(why) = rejected {
            simulated.refuse(why);
        }
        simulated
    }
}
