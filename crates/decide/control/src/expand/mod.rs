//! Expansion of workloads to the pods that their controllers create.
//!
//! Pods have all fields of their template, and those fields that controllers add and placement reads. Pods that the
//! input already has are not created again; owner references identify them, including the chains Deployment -
//! ReplicaSet - Pod and CronJob - Job - Pod. Names and hashes depend only on the input.
//!
//! Where a later input replaces a Deployment, StatefulSet or DaemonSet and changes its template, the expansion is that
//! after the rollout: its pods are deleted and created again. StatefulSets and DaemonSets with the strategy `OnDelete`, pods
//! below the partition of a StatefulSet, and pods of the other kinds stay as they are.
//!
//! | workload | pods |
//! |---|---|
//! | Deployment | `<name>-<hash>-<suffix>`, owned by the newest ReplicaSet of the input or by one named `<name>-<hash>` |
//! | ReplicaSet, ReplicationController | `<name>-<suffix>` |
//! | StatefulSet | `<name>-<ordinal>` |
//! | DaemonSet | `<name>-<suffix>`, one for each eligible node, pinned to it |
//! | Job | `<name>-<suffix>`, or `<name>-<index>-<suffix>` when indexed |
//! | CronJob | those of one Job named `<name>-0`, unless the input has a Job of it |

mod context;
mod daemon;
mod draft;
mod earlier;
mod error;
mod job;
mod names;
mod ownership;
mod replicas;
mod rollout;
mod selector;
mod template;

pub use berth_api::object::group::POD_TEMPLATE_HASH;
pub use daemon::{Belongs, Eligibility, belongs, daemon_tolerations, pin, target_node};
pub use earlier::{find_earlier_templates, workload_names};
pub use error::ExpandError;
pub use job::COMPLETION_INDEX;
pub use names::{suffix, synthetic_uid};
pub use replicas::{DesiredReplicas, target as autoscaler_target};
pub use rollout::{changes_template, has_template_of, keeps_old_pods};
pub use template::{WorkloadPods, workload_pods};

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use berth_api::feature_gates::FeatureGates;
use berth_api::object::volume::PersistentVolumeClaim;
use berth_api::object::{
    LabelSelector, NamespacedName, Node, ObjectMeta, OwnerReference, Pod, ReplicationController,
    Workload as WorkloadObject,
};
use berth_api::read::Kind;
use berth_input::inventory::{Entry, Inventory, Workload, WorkloadSpec};
use context::{Context, owner_reference};
use draft::{Origin, PodDraft};
use ownership::{Ownership, is_active};

/// Default limit of the pods that one input expands to. Each needs some 4 KiB.
pub const MAX_PODS: i64 = 250_000;
/// A pod counts once for each piece of its template of this many bytes.
const TEMPLATE_BYTES: usize = 8 << 10;

/// The label with the revision of the template of StatefulSets and DaemonSets.
const REVISION_HASH: &str = "controller-revision-hash";

#[derive(Clone, Debug, PartialEq)]
pub struct ExpandedPod {
    /// The typed view.
    pub pod: Pod,
    /// The whole object, if the inventory keeps raw objects.
    pub raw: Option<Value>,
    /// Index of the workload in [`Inventory::workloads`].
    pub workload: usize,
    /// The claims of a StatefulSet's pod. The input may have them already.
    pub claims: Vec<PersistentVolumeClaim>,
    /// The deleted pod in whose place it is created.
    pub replaces: Option<NamespacedName>,
}

/// The pods that a ReplicaSet, StatefulSet or ReplicationController selects: kube-scheduler's default spread
/// constraints use them for the pods it owns.
#[derive(Clone, Debug, PartialEq)]
pub struct OwnerSelector {
    pub kind: Kind,
    pub namespace: String,
    pub name: String,
    pub selector: LabelSelector,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Expansion {
    /// The missing pods, in input order of their workloads.
    pub pods: Vec<ExpandedPod>,
    /// The selectors of all owners: those of the input, and ReplicaSets created for Deployments.
    pub owner_selectors: Vec<OwnerSelector>,
    /// Pods of the input that their controllers delete, because their workload was replaced, or because they have ended and
    /// have the name of a pod to create.
    pub deleted: HashSet<NamespacedName>,
    /// Pods as controllers create them in the place of others, without names, where these may have another template or other defaults of
    /// LimitRanges.
    pub templates: Vec<ExpandedPod>,
    /// The workloads whose pods are replaced or removed.
    pub rolled_out: Vec<RolledOut>,
}

/// A workload with a new template, of which pods of the earlier one exist, or a StatefulSet with too many pods.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RolledOut {
    /// Index of the workload in [`Inventory::workloads`].
    pub workload: usize,
    /// Its pods of the earlier template, which are among the deleted.
    pub old: Vec<NamespacedName>,
    /// Those of a StatefulSet whose ordinals are not wanted. They are not among the deleted.
    pub surplus: Vec<NamespacedName>,
    pub new: Vec<NamespacedName>,
}

/// Creates the missing pods of the workloads of an input.
///
/// # Errors
/// A workload that the API server would reject, or more pods than [`Inventory::max_pods`].
pub fn expand(inventory: &Inventory) -> Result<Expansion, ExpandError> {
    if inventory.workloads.is_empty() {
        return Ok(Expansion::default());
    }
    let mut expander = Expander {
        inventory,
        ownership: Ownership::new(inventory),
        desired: DesiredReplicas::new(inventory),
        next_suffixes: HashMap::new(),
        n_pods: 0,
        to_replace: Vec::new(),
        expansion: Expansion::default(),
    };
    for (index, entry) in inventory.workloads.iter().enumerate() {
        expander.workload(index, entry)?;
    }
    Ok(expander.expansion)
}

struct Expander<'a> {
    inventory: &'a Inventory,
    ownership: Ownership<'a>,
    desired: DesiredReplicas<'a>,
    /// Numbers for suffixes, by namespace and prefix.
    next_suffixes: HashMap<(String, String), u64>,
    /// Pods so far, those with large templates several times.
    n_pods: i64,
    /// Deleted pods of the workload, in whose place none is created so far.
    to_replace: Vec<&'a Pod>,
    expansion: Expansion,
}

impl<'a> Expander<'a> {
    fn workload(&mut self, index: usize, entry: &'a Entry<Workload>) -> Result<(), ExpandError> {
        let context = Context { index, entry };
        self.to_replace.clear();
        match &entry.object.spec {
            WorkloadSpec::Deployment(deployment) => self.deployment(context, deployment),
            WorkloadSpec::ReplicaSet(set) => self.replica_set(context, set),
            WorkloadSpec::StatefulSet(set) => self.stateful_set(context, set),
            WorkloadSpec::DaemonSet(set) => self.daemon_set(context, set),
            WorkloadSpec::ReplicationController(rc) => self.replication_controller(context, rc),
            WorkloadSpec::Job(job) => self.job(context, job),
            WorkloadSpec::CronJob(cron_job) => self.cron_job(context, cron_job),
        }
    }

    fn deployment(
        &mut self,
        context: Context<'a>,
        deployment: &'a WorkloadObject,
    ) -> Result<(), ExpandError> {
        let metadata = &deployment.metadata;
        let wanted = self.replicas(context)?;
        let mut selector = selector::of_workload(context, deployment)?;

        // Also where its pods have the template of a ReplicaSet of the input.
        self.draft(context, &deployment.spec.template, "spec.template", &context.owner())?;
        let sets = self.ownership.workloads_of(Kind::Deployment, metadata);
        let mut pods = self.ownership.pods_of_absent_replica_sets(metadata).to_vec();
        for set in &sets {
            pods.extend(self.ownership.pods_of(Kind::ReplicaSet, set.object.metadata()));
        }
        let of_deployment = sets.iter().map(|set| &set.object);
        let (name, uid, hash) = rollout::present_set(&context.entry.object, of_deployment);
        let has_new_template =
            rollout::has_new_template(&context.entry.object) || rollout::goes_on(&context.entry.object, &uid);
        if has_new_template {
            let (new, old) = split_by(pods, POD_TEMPLATE_HASH, &hash);
            self.roll_out(context, old, &[], &new);
            pods = new;
        }
        let newest = sets.iter().max_by_key(|set| (revision(set.object.metadata()), set.order));
        if !has_new_template
            && let Some(set) = newest
            && let WorkloadSpec::ReplicaSet(set_spec) = &set.object.spec
        {
            let owner = owner_reference(&set.object.api_version, Kind::ReplicaSet, &set_spec.metadata);
            let draft = self.draft(context, &set_spec.spec.template, "spec.template", &owner)?;
            return self.replicate(context, &draft, &owner.name, wanted, &pods);
        }

        let set = ObjectMeta { name, uid, namespace: metadata.namespace.clone(), ..ObjectMeta::default() };
        let owner = owner_reference("apps/v1", Kind::ReplicaSet, &set);
        let mut draft = self.draft(context, &deployment.spec.template, "spec.template", &owner)?;
        draft.label(POD_TEMPLATE_HASH, &hash);
        selector.match_labels.insert(POD_TEMPLATE_HASH.to_owned(), hash);
        self.add_selector(Kind::ReplicaSet, &set, selector);
        self.replicate(context, &draft, &set.name, wanted, &pods)
    }

    fn replica_set(&mut self, context: Context<'a>, set: &'a WorkloadObject) -> Result<(), ExpandError> {
        let metadata = &set.metadata;
        let selector = selector::of_workload(context, set)?;
        self.add_selector(Kind::ReplicaSet, metadata, selector);
        let wanted = self.replicas(context)?;
        if self.ownership.has_owner_of(metadata) {
            return Ok(());
        }
        let owner = context.owner();
        let draft = self.draft(context, &set.spec.template, "spec.template", &owner)?;
        let pods = self.ownership.pods_of(Kind::ReplicaSet, metadata);
        self.replicate(context, &draft, &metadata.name, wanted, &pods)
    }

    fn replication_controller(
        &mut self,
        context: Context<'a>,
        controller: &'a ReplicationController,
    ) -> Result<(), ExpandError> {
        let metadata = &controller.metadata;
        let wanted = self.replicas(context)?;
        let owner = context.owner();
        let draft = self.draft(context, &controller.spec.template, "spec.template", &owner)?;
        let selector = selector::of_replication_controller(context, controller, &draft.pod.metadata.labels)?;
        self.add_selector(Kind::ReplicationController, metadata, selector);
        let pods = self.ownership.pods_of(Kind::ReplicationController, metadata);
        self.replicate(context, &draft, &metadata.name, wanted, &pods)
    }

    fn stateful_set(&mut self, context: Context<'a>, set: &'a WorkloadObject) -> Result<(), ExpandError> {
        let metadata = &set.metadata;
        let wanted = self.replicas(context)?;
        let start = set.spec.ordinals.as_ref().map_or(0, |ordinals| ordinals.start);
        let start = context.count("spec.ordinals.start", Some(start))?;
        let selector = selector::of_workload(context, set)?;
        self.add_selector(Kind::StatefulSet, metadata, selector);
        let mut draft = self.draft(context, &set.spec.template, "spec.template", &context.owner())?;
        let revision = format!("{}-{}", metadata.name, names::template_hash(&set.spec.template));
        draft.label(REVISION_HASH, &revision);
        if !set.spec.service_name.is_empty() {
            draft.spec_text("subdomain", &set.spec.service_name);
        }
        let present = self.ownership.pods_of(Kind::StatefulSet, metadata);
        let (ended, present): (Vec<_>, Vec<_>) = present.into_iter().partition(|pod| pod.is_terminal());
        let ended: HashSet<&str> = ended.iter().map(|pod| &*pod.metadata.name).collect();
        let ordinals = start..start.saturating_add(wanted);
        let is_wanted = |pod: &&Pod| {
            let ordinal = names::ordinal(&pod.metadata.name);
            ordinal.is_none_or(|ordinal| ordinals.contains(&ordinal)) || pod.metadata.is_deleting()
        };
        let (mut present, surplus): (Vec<_>, Vec<_>) = present.into_iter().partition(is_wanted);
        let (mut old, mut new) = (Vec::new(), Vec::new());
        if rollout::has_new_template(&context.entry.object) {
            let partition = start + i64::from(set.spec.update_strategy.rolling_update.partition.max(0));
            let is_updated = |pod: &&Pod| {
                pod.metadata.label(REVISION_HASH) != Some(&revision)
                    && names::ordinal(&pod.metadata.name).is_some_and(|n| n >= partition)
            };
            (old, present) = present.into_iter().partition(is_updated);
            let is_new = |pod: &&&Pod| pod.metadata.label(REVISION_HASH) == Some(&revision);
            new = present.iter().filter(is_new).copied().collect();
        }
        self.roll_out(context, old, &surplus, &new);
        if !rollout::has_new_template(&context.entry.object) {
            self.keep_template(context, &draft);
        }
        // Pods have unique names, so the pods of the input are within the limit.
        let n_present = present.len() as i64;
        self.check_limit(context, "spec.replicas", &draft, wanted.saturating_sub(n_present))?;
        for ordinal in ordinals {
            let name = format!("{}-{ordinal}", metadata.name);
            let key = NamespacedName::new(&metadata.namespace, &name);
            if ended.contains(&*name) {
                self.expansion.deleted.insert(key);
            } else if self.ownership.is_taken(&metadata.namespace, &name)
                && !self.expansion.deleted.contains(&key)
            {
                continue;
            }
            self.reserve(context, "spec.replicas", &draft, 1)?;
            let mut pod = draft.named(name.clone());
            pod.label("apps.kubernetes.io/pod-index", &ordinal.to_string());
            pod.label("statefulset.kubernetes.io/pod-name", &name);
            pod.spec_text("hostname", &name);
            for template in &set.spec.volume_claim_templates {
                pod.claim_volume(template);
            }
            self.hand_over(context, pod);
        }
        Ok(())
    }

    fn daemon_set(&mut self, context: Context<'a>, set: &'a WorkloadObject) -> Result<(), ExpandError> {
        let metadata = &set.metadata;
        selector::of_workload(context, set)?;
        let mut draft = self.draft(context, &set.spec.template, "spec.template", &context.owner())?;
        daemon::add_standard_tolerations(&mut draft);
        let generation = metadata.annotations.get("deprecated.daemonset.template.generation");
        draft.label("pod-template-generation", generation.map_or("1", String::as_str));
        let hash = names::template_hash(&set.spec.template);
        draft.label(REVISION_HASH, &hash);
        let eligibility = Eligibility::of(&draft.pod, FeatureGates::default());
        let inventory = self.inventory;
        let nodes = inventory.nodes.iter().map(|entry| &entry.object);
        let nodes: Vec<(&Node, Belongs)> =
            nodes.map(|node| (node, eligibility.check(&node.metadata, node.spec.taints.iter()))).collect();
        let left = nodes.iter().filter(|(_, belongs)| !belongs.should_continue);
        let left: HashSet<&str> = left.map(|(node, _)| node.metadata.name.as_str()).collect();
        let present = self.ownership.pods_of(Kind::DaemonSet, metadata);
        let is_left =
            |pod: &&Pod| is_active(pod) && daemon::target_node(pod).is_some_and(|node| left.contains(node));
        let (condemned, mut present): (Vec<_>, Vec<_>) = present.into_iter().partition(is_left);
        self.expansion.deleted.extend(condemned.iter().map(|pod| pod.metadata.namespaced_name()));
        if rollout::has_new_template(&context.entry.object) {
            let (new, old) = split_by(present, REVISION_HASH, &hash);
            self.roll_out(context, old, &[], &new);
            present = new;
        }
        let has_pod: HashSet<&str> =
            present.into_iter().filter(|pod| !pod.is_terminal()).filter_map(daemon::target_node).collect();
        for (node, _) in nodes.iter().filter(|(_, belongs)| belongs.should_run) {
            if has_pod.contains(node.metadata.name.as_str()) {
                continue;
            }
            self.reserve(context, "spec.template.spec.nodeSelector", &draft, 1)?;
            let mut pod = draft.named(self.generated_name(&metadata.namespace, &metadata.name));
            pod.pin_to_node(&node.metadata.name);
            self.hand_over(context, pod);
        }
        Ok(())
    }

    /// Creates the difference between the desired number and the active pods.
    fn replicate(
        &mut self,
        context: Context<'a>,
        draft: &PodDraft,
        owner: &str,
        wanted: i64,
        pods: &[&Pod],
    ) -> Result<(), ExpandError> {
        let n_active = pods.iter().filter(|pod| is_active(pod)).count();
        let n_missing = (wanted - n_active as i64).max(0);
        self.reserve(context, "spec.replicas", draft, n_missing)?;
        if context.kind() != Kind::Deployment || !rollout::changes_template(&context.entry.object) {
            self.keep_template(context, draft);
        }
        for _ in 0..n_missing {
            let pod = draft.named(self.generated_name(&draft.pod.metadata.namespace, owner));
            self.hand_over(context, pod);
        }
        Ok(())
    }

    /// A pod from the template at `path`, without a name.
    fn draft(
        &self,
        context: Context<'a>,
        template: &Value,
        path: &str,
        owner: &OwnerReference,
    ) -> Result<PodDraft, ExpandError> {
        let origin = Origin {
            object: &context.entry.object,
            path,
            namespace: &context.metadata().namespace,
            owner,
            keep_raw: self.inventory.keep_raw && self.inventory.keep_raw_pods,
        };
        PodDraft::new(template, &origin).map_err(|error| context.field_error(error))
    }

    /// The next free name of a pod of this owner.
    fn generated_name(&mut self, namespace: &str, owner: &str) -> String {
        let prefix = names::generate_name(owner);
        let next = self.next_suffixes.entry((namespace.to_owned(), prefix.clone())).or_default();
        loop {
            let name = format!("{prefix}{}", names::suffix(&prefix, *next));
            *next += 1;
            if !self.ownership.is_taken(namespace, &name) {
                return name;
            }
        }
    }

    fn replicas(&self, context: Context<'a>) -> Result<i64, ExpandError> {
        context.count("spec.replicas", self.desired.of(&context.entry.object))
    }

    fn check_limit(
        &self,
        context: Context<'a>,
        path: &'static str,
        draft: &PodDraft,
        n_pods: i64,
    ) -> Result<i64, ExpandError> {
        let max_pods = self.inventory.max_pods.unwrap_or(MAX_PODS);
        let n_counted = n_pods.saturating_mul(1 + (draft.template_bytes / TEMPLATE_BYTES) as i64);
        if self.n_pods.saturating_add(n_counted) <= max_pods {
            return Ok(n_counted);
        }
        let (place, object) = (context.entry.source.clone(), context.entry.object.to_string());
        let template_kib = draft.template_bytes >> 10;
        Err(ExpandError::TooManyPods { place, object, path, n_pods, template_kib, max_pods })
    }

    fn reserve(
        &mut self,
        context: Context<'a>,
        path: &'static str,
        draft: &PodDraft,
        n_pods: i64,
    ) -> Result<(), ExpandError> {
        self.n_pods += self.check_limit(context, path, draft, n_pods)?;
        Ok(())
    }

    /// Keeps the pod of a template for those that are created again.
    fn keep_template(&mut self, context: Context<'a>, draft: &PodDraft) {
        let namespace = &context.metadata().namespace;
        let mut ranges = self.inventory.limit_ranges.iter().map(|entry| &entry.object.metadata.namespace);
        if ranges.any(|of| of == namespace) || rollout::keeps_old_pods(&context.entry.object) {
            let (pod, workload) = (draft.pod.clone(), context.index);
            let claims = Vec::new();
            self.expansion.templates.push(ExpandedPod { pod, raw: None, workload, claims, replaces: None });
        }
    }

    fn hand_over(&mut self, context: Context<'a>, draft: PodDraft) {
        let PodDraft { pod, raw, claims, .. } = draft;
        let old = &self.to_replace;
        let same_name = old.iter().position(|old| old.metadata.name == pod.metadata.name);
        let node = daemon::target_node(&pod);
        let on_same_node = || old.iter().position(|old| node.is_some() && daemon::target_node(old) == node);
        let old = same_name.or_else(on_same_node).or((!old.is_empty()).then_some(0));
        let replaces = old.map(|at| self.to_replace.remove(at).metadata.namespaced_name());
        self.expansion.pods.push(ExpandedPod { pod, raw, workload: context.index, claims, replaces });
    }

    /// Deletes pods that get a new template, and those that are too many.
    fn roll_out(&mut self, context: Context<'a>, old: Vec<&'a Pod>, surplus: &[&'a Pod], new: &[&'a Pod]) {
        let names = |pods: &[&Pod]| pods.iter().map(|pod| pod.metadata.namespaced_name()).collect::<Vec<_>>();
        let rolled_out =
            RolledOut { workload: context.index, old: names(&old), surplus: names(surplus), new: names(new) };
        self.expansion.deleted.extend(rolled_out.old.iter().cloned());
        if !old.is_empty() || !surplus.is_empty() {
            self.expansion.rolled_out.push(rolled_out);
        }
        self.to_replace = old;
    }

    fn add_selector(&mut self, kind: Kind, metadata: &ObjectMeta, selector: LabelSelector) {
        let ObjectMeta { namespace, name, .. } = metadata.clone();
        self.expansion.owner_selectors.push(OwnerSelector { kind, namespace, name, selector });
    }
}

/// The pods with a label, and the others: a rollout may have begun.
fn split_by<'a>(pods: Vec<&'a Pod>, key: &str, value: &str) -> (Vec<&'a Pod>, Vec<&'a Pod>) {
    pods.into_iter().partition(|pod| pod.metadata.label(key) == Some(value))
}

/// The template of the kinds whose controllers replace pods.
fn template_mut(spec: &mut WorkloadSpec) -> Option<&mut Value> {
    match spec {
        WorkloadSpec::Deployment(workload)
        | WorkloadSpec::StatefulSet(workload)
        | WorkloadSpec::DaemonSet(workload) => Some(&mut workload.spec.template),
        _ => None,
    }
}

/// The revision of a ReplicaSet in its Deployment.
fn revision(metadata: &ObjectMeta) -> Option<u64> {
    metadata.annotations.get("deployment.kubernetes.io/revision")?.parse().ok()
}

#[cfg(test)]
mod tests;
