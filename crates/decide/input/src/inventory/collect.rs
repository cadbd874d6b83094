//! Collecting the objects of inputs.

use std::collections::{BTreeMap, HashMap};
use std::io::Read;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::entry::{Entry, InputError, NOT_AN_OBJECT};
use super::workload::{Workload, WorkloadSpec};
use crate::policy::PlacementPolicy;
use berth_api::feature_gates::ServerVersion;
use berth_api::object::device::ResourceClaimStatus;
use berth_api::object::group::{CompositePodGroup, GroupWorkload, PodGroup};
use berth_api::object::{
    CronJob, DeviceClass, DeviceObject, HorizontalPodAutoscaler, Job, LimitRange, Monitor, Namespace,
    NamespacedName, NetworkPolicy, Node, ObjectMeta, Pod, PodDisruptionBudget, PodDisruptionBudgetStatus,
    PriorityClass, ReplicationController, ResourceQuota, ResourceQuotaStatus, RuntimeClass, Service, Shared,
    VolumeObject, Workload as WorkloadObject,
};
use berth_api::read::document::Object;
use berth_api::read::manifest::{DEFAULT_NAMESPACE, display_name};
use berth_api::read::yaml::MAX_ALIASED_BYTES;
use berth_api::read::{DecodeError, Kind, Manifest, ReadError, SourceLocation, decode, read_objects};
use berth_api::resource::{Resource, group_of};

/// The objects of an input, by kind and in input order.
#[derive(Clone, Debug, Default)]
pub struct Inventory {
    /// Whether to keep the whole objects too, to write them back with all fields.
    pub keep_raw: bool,
    /// Whether that includes pods.
    pub keep_raw_pods: bool,
    /// Limit of the pods that the workloads expand to [default: `MAX_PODS` of `berth-control`].
    pub max_pods: Option<i64>,
    /// The version of the server that the objects were read from.
    pub server_version: Option<ServerVersion>,
    /// The objects that a later input replaced: kind, namespace and name, in input order.
    pub replaced: Vec<String>,
    pub nodes: Vec<Entry<Node>>,
    pub namespaces: Vec<Entry<Namespace>>,
    /// Pods, running or pending.
    pub pods: Vec<Entry<Pod>>,
    pub workloads: Vec<Entry<Workload>>,
    pub services: Vec<Entry<Service>>,
    pub network_policies: Vec<Entry<NetworkPolicy>>,
    pub monitors: Vec<Entry<Monitor>>,
    pub priority_classes: Vec<Entry<PriorityClass>>,
    pub runtime_classes: Vec<Entry<RuntimeClass>>,
    pub pod_disruption_budgets: Vec<Entry<PodDisruptionBudget>>,
    pub horizontal_pod_autoscalers: Vec<Entry<HorizontalPodAutoscaler>>,
    pub limit_ranges: Vec<Entry<LimitRange>>,
    pub resource_quotas: Vec<Entry<ResourceQuota>>,
    /// Pod groups of both API groups.
    pub pod_groups: Vec<Entry<PodGroup>>,
    pub composite_pod_groups: Vec<Entry<CompositePodGroup>>,
    /// Workloads of `scheduling.k8s.io`. Those that make a group themselves are also among the pod groups.
    pub group_workloads: Vec<Entry<GroupWorkload>>,
    /// Placement policies of both kinds.
    pub placement_policies: Vec<Entry<PlacementPolicy>>,
    /// Objects that decide where pods with volumes may run.
    pub volume_objects: Vec<Entry<VolumeObject>>,
    /// Objects of dynamic resource allocation.
    pub device_objects: Vec<Entry<DeviceObject>>,
    /// Scheduler configurations, as read.
    pub scheduler_configurations: Vec<Manifest>,
    /// Number of objects of other kinds, by kind and group (`Service.serving.knative.dev`); [`NOT_AN_OBJECT`] for
    /// documents without a kind.
    pub skipped: BTreeMap<String, usize>,
    n_read: usize,
    n_inputs: usize,
    /// Shared by copies, which simulations are made of.
    pub(super) seen: Arc<HashMap<(Kind, String, String), Seen>>,
}

/// An object that was read.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    source: SourceLocation,
    /// Number of its input.
    input: usize,
    pub order: usize,
}

impl Inventory {
    /// An empty inventory that also keeps the whole objects.
    pub fn keeping_raw() -> Self {
        Inventory { keep_raw: true, keep_raw_pods: true, ..Inventory::default() }
    }

    /// An empty inventory that keeps the whole objects of all kinds but pods, of which there are many.
    pub fn keeping_raw_but_pods() -> Self {
        Inventory { keep_raw: true, ..Inventory::default() }
    }

    /// The objects of a text; short for tests and small inputs.
    pub fn from_text(text: &str) -> Result<Self, InputError> {
        let mut inventory = Inventory::keeping_raw();
        inventory.read(text.as_bytes(), "input")?;
        Ok(inventory)
    }

    /// Adds every object of an input; `file` is its name in messages. Its objects replace those of earlier inputs with
    /// the same kind, namespace and name, and take their places in the order.
    ///
    /// # Errors
    /// The text is malformed, or an object cannot be added.
    pub fn read(&mut self, input: impl Read, file: &str) -> Result<(), InputError> {
        self.next_input();
        self.read_more(input, file, None)
    }

    /// Adds the objects of a further file of an input that has several, and passes them to `each`, which takes longer.
    ///
    /// # Errors
    /// As [`Inventory::read`].
    pub fn read_more(
        &mut self,
        input: impl Read,
        file: &str,
        mut each: Option<&mut dyn FnMut(&Manifest)>,
    ) -> Result<(), InputError> {
        let decodes_pods = each.is_none() && !self.keeps_raw(Kind::Pod);
        read_objects(input, file, MAX_ALIASED_BYTES, decodes_pods, &mut |object| match object {
            Object::Manifest(manifest) => {
                if let Some(each) = &mut each {
                    each(&manifest);
                }
                self.add(manifest)
            }
            Object::Pod(pod, source) => self.add_pod(*pod, source),
            Object::Deleted(manifest) => {
                let kind = Kind::of(&manifest.api_version, &manifest.kind);
                let name = NamespacedName::new(manifest.namespace(), manifest.name());
                _ = kind.is_some_and(|kind| self.remove(kind, &name));
                Ok(())
            }
        })
    }

    /// Whether it keeps whole objects of this kind.
    pub fn keeps_raw(&self, kind: Kind) -> bool {
        self.keep_raw && (kind != Kind::Pod || self.keep_raw_pods)
    }

    pub fn device_classes(&self) -> impl Iterator<Item = &DeviceClass> {
        self.device_objects.iter().filter_map(|entry| match &entry.object {
            DeviceObject::DeviceClass(class) => Some(&**class),
            _ => None,
        })
    }

    /// Number of the objects read so far, those of ignored kinds included.
    pub fn n_objects(&self) -> usize {
        self.n_read + self.skipped.values().sum::<usize>()
    }

    /// The objects that follow come from another input.
    pub fn next_input(&mut self) {
        self.n_inputs += 1;
    }

    /// Numbers the objects again and records their names, after the lists were changed directly: a later input then replaces
    /// objects by name.
    pub fn index(&mut self) {
        let mut index = Index { seen: HashMap::new(), n_read: 0, input: self.n_inputs };
        index.add(&mut self.nodes, |o| (Kind::Node, &o.metadata));
        index.add(&mut self.namespaces, |o| (Kind::Namespace, &o.metadata));
        index.add(&mut self.pods, |o| (Kind::Pod, &o.metadata));
        index.add(&mut self.workloads, |o| (o.kind(), o.metadata()));
        index.add(&mut self.services, |o| (Kind::Service, &o.metadata));
        index.add(&mut self.network_policies, |o| (Kind::NetworkPolicy, &o.metadata));
        index.add(&mut self.monitors, |o| match o.selects_services {
            true => (Kind::ServiceMonitor, &o.metadata),
            false => (Kind::PodMonitor, &o.metadata),
        });
        index.add(&mut self.priority_classes, |o| (Kind::PriorityClass, &o.metadata));
        index.add(&mut self.runtime_classes, |o| (Kind::RuntimeClass, &o.metadata));
        index.add(&mut self.pod_disruption_budgets, |o| (Kind::PodDisruptionBudget, &o.metadata));
        index.add(&mut self.horizontal_pod_autoscalers, |o| (Kind::HorizontalPodAutoscaler, &o.metadata));
        index.add(&mut self.limit_ranges, |o| (Kind::LimitRange, &o.metadata));
        index.add(&mut self.resource_quotas, |o| (Kind::ResourceQuota, &o.metadata));
        index.add(&mut self.pod_groups, |o| {
            let kind = if o.controller.is_some() { "Workload" } else { "PodGroup" };
            (Kind::of(&o.api_version, kind).unwrap_or(Kind::PodGroup), &o.metadata)
        });
        index.add(&mut self.composite_pod_groups, |o| (Kind::CompositePodGroup, &o.metadata));
        index.add(&mut self.placement_policies, |o| match o.is_cluster_scoped() {
            true => (Kind::ClusterPlacementPolicy, &o.metadata),
            false => (Kind::PlacementPolicy, &o.metadata),
        });
        index.add(&mut self.volume_objects, |o| (Kind::Volume(o.kind()), o.metadata()));
        index.add(&mut self.device_objects, |o| (Kind::Device(o.kind()), o.metadata()));
        (self.seen, self.n_read) = (Arc::new(index.seen), index.n_read);
    }

    /// Makes room for objects of a kind that are added next.
    pub fn reserve(&mut self, kind: Kind, n_objects: usize) {
        Arc::make_mut(&mut self.seen).reserve(n_objects);
        match kind {
            Kind::Node => self.nodes.reserve(n_objects),
            Kind::Pod => self.pods.reserve(n_objects),
            _ => {}
        }
    }

    /// Adds a pod that is not kept whole.
    ///
    /// # Errors
    /// The name is missing, or this input has the pod already.
    pub fn add_pod(&mut self, pod: Pod, source: SourceLocation) -> Result<(), InputError> {
        let entry = self.entry(Kind::Pod, pod, None, source, |o| &mut o.metadata)?;
        put(&mut self.pods, entry);
        Ok(())
    }

    /// Adds a node that is not kept whole.
    ///
    /// # Errors
    /// The name is missing, or this input has the node already.
    pub fn add_node(&mut self, node: Node, source: SourceLocation) -> Result<(), InputError> {
        let entry = self.entry(Kind::Node, node, None, source, |o| &mut o.metadata)?;
        self.put_node(entry);
        Ok(())
    }

    /// Adds an object of a resource, whose JSON may lack `apiVersion` and `kind`, as items of lists do.
    ///
    /// # Errors
    /// As [`Inventory::add`], or the text is no JSON object.
    pub fn add_item(
        &mut self,
        resource: &Resource,
        text: &[u8],
        source: SourceLocation,
    ) -> Result<(), InputError> {
        let (api_version, kind) = (resource.api_version(), resource.kind.to_owned());
        let mut value = Map::from_iter([
            ("apiVersion".to_owned(), Value::from(api_version.as_str())),
            ("kind".to_owned(), Value::from(kind.as_str())),
        ]);
        let members: Map<String, Value> =
            serde_json::from_slice(text).map_err(|error| ReadError::Syntax {
                file: source.file.to_string(),
                line: error.line(),
                column: error.column(),
                format: "JSON",
                message: error.to_string(),
            })?;
        value.extend(members.into_iter().filter(|(name, _)| name != "apiVersion" && name != "kind"));
        self.add(Manifest { kind, api_version, value: Value::Object(value), source })
    }

    /// As in a cluster: the kubelet writes the status, and applying a manifest leaves it.
    fn put_node(&mut self, entry: Entry<Node>) {
        if let Some((node, earlier)) = put(&mut self.nodes, entry)
            && node.status == Shared::default()
        {
            node.status = earlier.status;
        }
    }

    /// Adds an object.
    ///
    /// # Errors
    /// A field has a wrong type, the name is missing, or this input has the object already.
    pub fn add(&mut self, manifest: Manifest) -> Result<(), InputError> {
        let Some(kind) = Kind::of(&manifest.api_version, &manifest.kind) else {
            let name = match (manifest.kind.as_str(), group_of(&manifest.api_version)) {
                ("", _) => NOT_AN_OBJECT.to_owned(),
                (kind, "") => kind.to_owned(),
                (kind, group) => format!("{kind}.{group}"),
            };
            *self.skipped.entry(name).or_default() += 1;
            return Ok(());
        };
        let of_workload: fn(&mut WorkloadObject) -> &mut ObjectMeta = |o| &mut o.metadata;
        match kind {
            Kind::KubeSchedulerConfiguration => {
                self.n_read += 1;
                self.scheduler_configurations.push(manifest);
            }
            Kind::Node => {
                let entry = self.take(kind, manifest, |o: &mut Node| &mut o.metadata)?;
                self.put_node(entry);
            }
            Kind::Namespace => {
                let entry = self.take(kind, manifest, |o: &mut Namespace| &mut o.metadata)?;
                put(&mut self.namespaces, entry);
            }
            Kind::Pod => {
                let entry = self.take(kind, manifest, |o: &mut Pod| &mut o.metadata)?;
                put(&mut self.pods, entry);
            }
            Kind::Service => {
                let entry = self.take(kind, manifest, |o: &mut Service| &mut o.metadata)?;
                put(&mut self.services, entry);
            }
            Kind::NetworkPolicy => {
                let entry = self.take(kind, manifest, |o: &mut NetworkPolicy| &mut o.metadata)?;
                put(&mut self.network_policies, entry);
            }
            Kind::PodMonitor | Kind::ServiceMonitor => {
                let mut entry = self.take(kind, manifest, |o: &mut Monitor| &mut o.metadata)?;
                entry.object.selects_services = kind == Kind::ServiceMonitor;
                put(&mut self.monitors, entry);
            }
            Kind::PriorityClass => {
                let entry = self.take(kind, manifest, |o: &mut PriorityClass| &mut o.metadata)?;
                put(&mut self.priority_classes, entry);
            }
            Kind::RuntimeClass => {
                let entry = self.take(kind, manifest, |o: &mut RuntimeClass| &mut o.metadata)?;
                put(&mut self.runtime_classes, entry);
            }
            Kind::PodDisruptionBudget => {
                let entry = self.take(kind, manifest, |o: &mut PodDisruptionBudget| &mut o.metadata)?;
                if let Some((budget, earlier)) = put(&mut self.pod_disruption_budgets, entry)
                    && budget.status == PodDisruptionBudgetStatus::default()
                {
                    budget.status = earlier.status;
                }
            }
            Kind::HorizontalPodAutoscaler => {
                let entry = self.take(kind, manifest, |o: &mut HorizontalPodAutoscaler| &mut o.metadata)?;
                put(&mut self.horizontal_pod_autoscalers, entry);
            }
            Kind::LimitRange => {
                let entry = self.take(kind, manifest, |o: &mut LimitRange| &mut o.metadata)?;
                put(&mut self.limit_ranges, entry);
            }
            Kind::ResourceQuota => {
                let entry = self.take(kind, manifest, |o: &mut ResourceQuota| &mut o.metadata)?;
                if let Some((quota, earlier)) = put(&mut self.resource_quotas, entry)
                    && quota.status == ResourceQuotaStatus::default()
                {
                    quota.status = earlier.status;
                }
            }
            Kind::PodGroup | Kind::CoschedulingPodGroup => {
                let entry = self.take(kind, manifest, |o: &mut PodGroup| &mut o.metadata)?;
                put(&mut self.pod_groups, entry);
            }
            Kind::CompositePodGroup => {
                let entry = self.take(kind, manifest, |o: &mut CompositePodGroup| &mut o.metadata)?;
                put(&mut self.composite_pod_groups, entry);
            }
            Kind::GroupWorkload => {
                let entry = self.take(kind, manifest, |o: &mut GroupWorkload| &mut o.metadata)?;
                put(&mut self.group_workloads, entry.clone());
                let Entry { object, raw, source, order } = entry;
                match object.into_group() {
                    Some(object) => _ = put(&mut self.pod_groups, Entry { object, raw, source, order }),
                    None => self.pod_groups.retain(|entry| entry.order != order),
                }
            }
            Kind::PlacementPolicy | Kind::ClusterPlacementPolicy => {
                let policy = match PlacementPolicy::read(&manifest.value) {
                    Ok(policy) => policy,
                    Err(errors) => {
                        let object = manifest.to_string();
                        return Err(InputError::Policy { place: manifest.source, object, errors });
                    }
                };
                let entry = self.take_decoded(kind, manifest, Ok(policy), |o| &mut o.metadata)?;
                put(&mut self.placement_policies, entry);
            }
            Kind::Volume(volume_kind) => {
                let decoded = VolumeObject::decode(volume_kind, &manifest.value);
                let entry = self.take_decoded(kind, manifest, decoded, VolumeObject::metadata_mut)?;
                put(&mut self.volume_objects, entry);
            }
            Kind::Device(device_kind) => {
                let decoded = DeviceObject::decode(device_kind, &manifest.value);
                let entry = self.take_decoded(kind, manifest, decoded, DeviceObject::metadata_mut)?;
                let replaced = put(&mut self.device_objects, entry);
                if let Some((DeviceObject::ResourceClaim(claim), DeviceObject::ResourceClaim(earlier))) =
                    replaced
                    && claim.status == ResourceClaimStatus::default()
                {
                    claim.status = earlier.status;
                }
            }
            Kind::Deployment => {
                self.add_workload(kind, manifest, of_workload, WorkloadSpec::Deployment)?;
            }
            Kind::ReplicaSet => {
                self.add_workload(kind, manifest, of_workload, WorkloadSpec::ReplicaSet)?;
            }
            Kind::StatefulSet => {
                self.add_workload(kind, manifest, of_workload, WorkloadSpec::StatefulSet)?;
            }
            Kind::DaemonSet => {
                self.add_workload(kind, manifest, of_workload, WorkloadSpec::DaemonSet)?;
            }
            Kind::ReplicationController => {
                self.add_workload(
                    kind,
                    manifest,
                    |o: &mut ReplicationController| &mut o.metadata,
                    WorkloadSpec::ReplicationController,
                )?;
            }
            Kind::Job => {
                self.add_workload(kind, manifest, |o: &mut Job| &mut o.metadata, WorkloadSpec::Job)?;
            }
            Kind::CronJob => {
                self.add_workload(kind, manifest, |o: &mut CronJob| &mut o.metadata, WorkloadSpec::CronJob)?;
            }
        }
        Ok(())
    }

    fn add_workload<T: DeserializeOwned>(
        &mut self,
        kind: Kind,
        manifest: Manifest,
        metadata_of: impl Fn(&mut T) -> &mut ObjectMeta,
        spec_of: impl Fn(T) -> WorkloadSpec,
    ) -> Result<(), InputError> {
        let api_version = manifest.api_version.clone();
        let n_replaced = self.replaced.len();
        let Entry { object, raw, source, order } = self.take(kind, manifest, metadata_of)?;
        let object = Workload { api_version, spec: spec_of(object), replaced: None, replaced_before: None };
        if let Some((workload, earlier)) = put(&mut self.workloads, Entry { object, raw, source, order })
            && self.replaced.len() > n_replaced
        {
            workload.replaced = Some(Box::new(earlier.spec));
            workload.replaced_before = earlier.replaced;
        }
        Ok(())
    }

    /// Decodes an object, sets its namespace and records its name.
    fn take<T: DeserializeOwned>(
        &mut self,
        kind: Kind,
        manifest: Manifest,
        metadata_of: impl Fn(&mut T) -> &mut ObjectMeta,
    ) -> Result<Entry<T>, InputError> {
        let decoded = decode(&manifest);
        self.take_decoded(kind, manifest, decoded, metadata_of)
    }

    fn take_decoded<T>(
        &mut self,
        kind: Kind,
        manifest: Manifest,
        decoded: Result<T, DecodeError>,
        metadata_of: impl Fn(&mut T) -> &mut ObjectMeta,
    ) -> Result<Entry<T>, InputError> {
        let Manifest { value, source, .. } = manifest;
        let raw = self.keeps_raw(kind).then_some(value);
        match decoded {
            Ok(object) => self.entry(kind, object, raw, source, metadata_of),
            Err(error) => Err(InputError::Decode { place: source, error: error.into() }),
        }
    }

    /// Sets the namespace of an object and records its name.
    fn entry<T>(
        &mut self,
        kind: Kind,
        mut object: T,
        raw: Option<Value>,
        source: SourceLocation,
        metadata_of: impl Fn(&mut T) -> &mut ObjectMeta,
    ) -> Result<Entry<T>, InputError> {
        let mut order = self.n_read;
        let metadata = metadata_of(&mut object);
        if !kind.is_namespaced() {
            metadata.namespace.clear();
        } else if metadata.namespace.is_empty() {
            metadata.namespace = DEFAULT_NAMESPACE.to_owned();
        }
        if metadata.name.is_empty() {
            if metadata.generate_name.is_empty() {
                return Err(InputError::Unnamed { place: source, kind: kind.name() });
            }
            metadata.name = format!("{}{order}", metadata.generate_name);
        }
        let has_no_uid = metadata.uid.is_empty();
        let key = (kind, metadata.namespace.clone(), metadata.name.clone());
        if let Some(first) = self.seen.get(&key) {
            let object = display_name(kind.name(), &key.1, &key.2);
            match first.input == self.n_inputs {
                // Of a user, who cannot mean both.
                true if first.source.file == source.file && has_no_uid => {
                    let first = Box::new(first.source.clone());
                    return Err(InputError::Duplicate { object, first, second: source });
                }
                // A dump has it in several files, or a watch stream has its later versions.
                true => {}
                false => self.replaced.push(object),
            }
            order = first.order;
        }
        let seen = Seen { source: source.clone(), input: self.n_inputs, order };
        Arc::make_mut(&mut self.seen).insert(key, seen);
        self.n_read += 1;
        Ok(Entry { object, raw, source, order })
    }
}

/// The numbers and names of objects.
struct Index {
    seen: HashMap<(Kind, String, String), Seen>,
    n_read: usize,
    input: usize,
}

impl Index {
    fn add<T>(&mut self, entries: &mut [Entry<T>], identity: impl Fn(&T) -> (Kind, &ObjectMeta)) {
        for entry in entries {
            entry.order = self.n_read;
            self.n_read += 1;
            let (kind, metadata) = identity(&entry.object);
            let key = (kind, metadata.namespace.clone(), metadata.name.clone());
            let (source, order) = (entry.source.clone(), entry.order);
            self.seen.insert(key, Seen { source, input: self.input, order });
        }
    }
}

/// Adds an object, or replaces the one that it takes the place of; entries are sorted by their order.
/// Returns the object and the replaced one, if any.
fn put<T>(entries: &mut Vec<Entry<T>>, entry: Entry<T>) -> Option<(&mut T, T)> {
    let place = match entries.last() {
        Some(last) if last.order < entry.order => Err(entries.len()),
        _ => entries.binary_search_by_key(&entry.order, |e| e.order),
    };
    match place {
        Ok(place) => {
            let earlier = std::mem::replace(&mut entries[place], entry);
            Some((&mut entries[place].object, earlier.object))
        }
        Err(place) => {
            entries.insert(place, entry);
            None
        }
    }
}
