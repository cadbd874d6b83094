//! What is linted, and what it is linted against.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, HashSet};

use berth_api::object::{Pod, RuntimeClass};
use berth_api::read::{Kind, SourceLocation};
use berth_control::expand::DesiredReplicas;
use berth_engine::{Cluster, Settings};
use berth_input::inventory::{Entry, Inventory};
use berth_input::policy::RequiredLabels;
use berth_rules::admission::{known_runtime_classes, unknown_runtime_class};
use berth_rules::{KnownNamespaces, NamespaceScope, PodSet, PodTerm, Requirement, Selector, SetRelation};
use berth_simulate::{InvalidObject, Workloads};

use crate::api_server::is_standard;
use crate::checked::Checked;
use crate::finding::Finding;
use crate::nodes::Nodes;
use crate::population::{PodGroup, Population};
use crate::severity::Severity;
use crate::subject::{Object, PodAdmission, Subject};
use crate::work::Work;

/// The rules that state errors of the API server.
const STATING_ERRORS: [&str; 3] = ["dialects-differ", "label-not-an-integer", "proposal-field-dropped"];

/// What the admission policy says against a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Objection {
    /// Whether the pod is refused; otherwise it is a warning.
    pub refused: bool,
    /// The reason, with the path of a field at its begin.
    pub message: String,
}

/// Puts a pod to the admission policy.
pub type Review<'a> = dyn Fn(&Pod) -> Vec<Objection> + 'a;

/// Steps of a comparison of two sets, besides those of their sizes.
const RELATION_STEPS: usize = 60;

/// The objects to lint, parsed once, and the cluster around them.
pub struct LintInput<'a> {
    pub(crate) inventory: &'a Inventory,
    pub(crate) settings: &'a Settings,
    pub(crate) objects: Vec<Object<'a>>,
    pub(crate) subjects: Vec<Subject<'a>>,
    pub(crate) namespaces: KnownNamespaces,
    pub(crate) population: Population,
    pub(crate) nodes: Nodes<'a>,
    pub(crate) work: Work,
    /// How many of the subjects the current rule has begun.
    n_begun: Cell<usize>,
    /// The nodes alone, for simulated rollouts; made at the first one.
    pub(crate) empty_cluster: RefCell<Option<Cluster>>,
    /// The nodes with their resources and cordons, for simulated placements; made at the first one.
    pub(crate) given_cluster: RefCell<Option<Cluster>>,
    pub(crate) owners: Workloads,
    pub(crate) review: Option<&'a Review<'a>>,
    pub(crate) annotation_readers: &'a [String],
    /// Why the API server is known to be a standard one, which does not have the fields of the proposals; none if it has them,
    /// or if that is not known.
    pub(crate) standard_api_server: Option<&'static str>,
    /// Label keys that all pods must carry.
    pub(crate) required_labels: Vec<(RequiredLabels, Severity)>,
    rejected: Vec<InvalidObject>,
    refused: Vec<InvalidObject>,
    runtime_classes: Vec<RuntimeClass>,
}

impl<'a> LintInput<'a> {
    /// Parses the objects of an inventory that keeps whole objects. `is_linted` tells whether the objects of a source are
    /// linted; the others are the cluster around them. ReplicaSets of Deployments and Jobs of CronJobs are not linted: their owners
    /// are, or one of their pods.
    pub fn new(
        inventory: &'a Inventory,
        settings: &'a Settings,
        is_linted: impl Fn(&SourceLocation) -> bool,
        review: Option<&'a Review<'a>>,
    ) -> LintInput<'a> {
        let (mut subjects, mut rejected) = (Vec::new(), Vec::new());
        let runtime_classes: Vec<_> = inventory.runtime_classes.iter().map(|e| e.object.clone()).collect();
        let admission = PodAdmission { rules: settings.rule_options(), runtime_classes: &runtime_classes };
        let (owners, desired) = (Workloads::new(inventory), DesiredReplicas::new(inventory));
        let workloads = inventory.workloads.iter().filter(|entry| is_linted(&entry.source));
        for entry in workloads.filter(|entry| owners.is_top_level(&entry.object)) {
            match Subject::of_workload(entry, admission, &desired) {
                Ok(subject) => subjects.push(subject),
                Err(error) => rejected.push(InvalidObject {
                    object: entry.object.to_string(),
                    source: None,
                    errors: vec![error.to_string()],
                }),
            }
        }
        // Pods without their owner stand for it: one for each.
        let mut seen: HashSet<(&str, String)> =
            subjects.iter().map(|subject| (subject.object.namespace, subject.shown())).collect();
        for entry in inventory.pods.iter().filter(|entry| is_linted(&entry.source)) {
            let pod = &entry.object;
            let is_new = owners.owner(pod).is_none_or(|owner| seen.insert((&pod.metadata.namespace, owner)));
            if is_new && !pod.is_terminal() {
                subjects.push(Subject::of_pod(entry, admission));
            }
        }
        subjects.sort_by_key(|subject| subject.object.order);
        let namespaces = KnownNamespaces::new(inventory.namespaces.iter().map(|entry| &entry.object));
        let work = Work::new();
        let population = Population::new(&subjects, inventory, namespaces.clone(), work.clone());
        LintInput {
            objects: objects(inventory).into_iter().filter(|object| is_linted(object.source)).collect(),
            nodes: Nodes::new(inventory.nodes.iter().map(|entry| &entry.object).collect(), work.clone()),
            work,
            n_begun: Cell::default(),
            inventory,
            settings,
            subjects,
            namespaces,
            population,
            empty_cluster: RefCell::default(),
            given_cluster: RefCell::default(),
            owners,
            review,
            annotation_readers: &[],
            standard_api_server: match settings.extensions {
                false => Some("Berth's extensions are switched off"),
                true => is_standard(inventory, &is_linted)
                    .then_some("an API server without these fields stored the objects of the input"),
            },
            required_labels: Vec::new(),
            rejected,
            refused: Vec::new(),
            runtime_classes,
        }
    }

    /// How many workloads are linted, and how many pods.
    pub(crate) fn n_checked(&self) -> Checked {
        let is_pod = |subject: &&Subject<'_>| subject.kind == Kind::Pod;
        let n_pods = self.subjects.iter().filter(is_pod).count();
        let n_rejected = self.rejected.len();
        Checked { n_workloads: self.subjects.len() - n_pods + n_rejected, n_pods }
    }

    /// What the input lacks where it has no workloads.
    pub(crate) fn hint(&self) -> Option<String> {
        const ADD: &str = "`berth dump` saves those of a cluster";
        let Checked { n_workloads, n_pods } = self.n_checked();
        let is_owned = |subject: &Subject<'_>| subject.written.metadata.controller().is_some();
        match (n_workloads, n_pods) {
            (0, 0) => Some(format!(
                "nothing was checked: the input has no Pod and no workload that no other one owns; add the workloads: {ADD}"
            )),
            (0, _) if self.subjects.iter().all(is_owned) => Some(format!(
                "the input has only pods of workloads that are not in it: one pod of each workload was checked, and no replicas or \
                 rollouts; add the workloads: {ADD}"
            )),
            _ => None,
        }
    }

    pub(crate) fn admission(&self) -> PodAdmission<'_> {
        PodAdmission { rules: self.settings.rule_options(), runtime_classes: &self.runtime_classes }
    }

    pub fn warnings(&self) -> Vec<String> {
        let pods = self.subjects.iter().map(|subject| &subject.written);
        let pods = pods.filter(|pod| pod.metadata.creation_timestamp.is_none());
        let unknown = pods.filter(|pod| known_runtime_classes(pod, &self.runtime_classes).is_none());
        let unknown: BTreeSet<&str> = unknown.map(|pod| &*pod.spec.runtime_class_name).collect();
        unknown.into_iter().map(unknown_runtime_class).collect()
    }

    /// The linted objects with pods, as long as the rule has steps of work.
    pub(crate) fn subjects(&self) -> impl Iterator<Item = &Subject<'a>> {
        self.n_begun.set(0);
        let begin = |_: &&Subject<'a>| self.n_begun.set(self.n_begun.get() + 1);
        self.subjects.iter().take_while(|_| self.work.spend(1)).inspect(begin)
    }

    /// The object at which the steps of work of the current rule ended.
    pub(crate) fn last_subject(&self) -> Option<&Subject<'a>> {
        self.subjects.get(self.n_begun.get().checked_sub(1)?)
    }

    /// Names schedulers that read Berth's annotations, besides `berth` and those that have a profile.
    #[must_use]
    pub fn with_annotation_readers(self, annotation_readers: &'a [String]) -> Self {
        LintInput { annotation_readers, ..self }
    }

    /// States whether the API server has the fields of the proposals, where it was asked.
    #[must_use]
    pub fn with_api_server(self, has_proposal_fields: bool) -> Self {
        let standard_api_server = match (self.settings.extensions, has_proposal_fields) {
            (true, true) => None,
            (true, false) => Some("the API server of the cluster does not have the field"),
            (false, _) => self.standard_api_server,
        };
        LintInput { standard_api_server, ..self }
    }

    /// Adds label keys that all pods must carry, and the severity of findings about them.
    #[must_use]
    pub fn with_required_labels(mut self, labels: RequiredLabels, severity: Severity) -> Self {
        self.required_labels.push((labels, severity));
        self
    }

    /// Adds objects that an API server would refuse.
    #[must_use]
    pub fn with_refused(self, refused: Vec<InvalidObject>) -> Self {
        LintInput { refused, ..self }
    }

    pub(crate) fn n_running(&self, set: &PodSet) -> usize {
        let pods = self.inventory.pods.iter().map(|entry| &entry.object);
        let is_in = |pod: &&Pod| {
            let metadata = &pod.metadata;
            !pod.spec.node_name.is_empty()
                && !pod.is_terminal()
                && set.contains(&metadata.namespace, &metadata.labels, &self.namespaces)
        };
        if self.work.spend(self.inventory.pods.len()) { pods.filter(is_in).count() } else { 0 }
    }

    /// Whether the pods of the input are all pods of some namespaces: of a cluster they are, of manifests only those of
    /// namespaces that they have pods of.
    pub(crate) fn shows_all_pods(&self, scope: &NamespaceScope) -> bool {
        let population = &self.population;
        population.has_running()
            || scope.selector == Selector::Nothing
                && scope.names.iter().all(|name| population.has_namespace(name))
    }

    /// Whether a set without pods seems to be meant for pods that the manifests do not show: the input has other values of
    /// the same labels.
    pub(crate) fn selects_elsewhere(&self, set: &PodSet) -> bool {
        let labels = set.selector.requirements().iter().map(|requirement| requirement.key().to_owned());
        let exist = labels.map(Requirement::Exists).collect();
        let of_keys = PodSet { namespaces: set.namespaces.clone(), selector: Selector::new(exist) };
        !self.population.has_running()
            && self.population.in_set(set).next().is_none()
            && set.selector.is_satisfiable()
            && self.population.in_set(&of_keys).next().is_some()
    }

    /// The pods of the input that match all of these terms.
    pub(crate) fn partners(&self, terms: &[PodTerm]) -> Vec<&PodGroup> {
        let sets: Vec<_> = terms.iter().map(PodSet::of).collect();
        let Some((first, others)) = sets.split_first() else { return Vec::new() };
        let groups = self.population.in_set(first);
        let is_in_all = |group: &&PodGroup| others.iter().all(|set| self.population.is_in(group, set));
        groups.filter(is_in_all).collect()
    }

    /// How two sets relate; that they overlap, if the rule has no more steps of work.
    pub(crate) fn relation(&self, a: &PodSet, b: &PodSet) -> SetRelation {
        if self.work.spend(RELATION_STEPS + a.comparison_steps(b, &self.namespaces)) {
            a.relation(b, &self.namespaces)
        } else {
            SetRelation::Overlaps
        }
    }

    /// Whether the first pod of a subject may go anywhere as far as a requirement of its affinity is concerned, because it
    /// matches all of the terms itself.
    pub(crate) fn satisfies_itself(&self, subject: &Subject<'_>, terms: &[PodTerm]) -> bool {
        let sets: Vec<_> = terms.iter().map(PodSet::of).collect();
        sets.iter().all(|set| subject.is_in(set, &self.namespaces))
            || subject.has_first_pod_in(&sets, &self.namespaces)
    }

    /// The objects that the API server rejects for reasons that no finding states.
    pub(crate) fn invalid(&self, findings: &[Finding]) -> Vec<InvalidObject> {
        let is_stated = |place: &SourceLocation, field: &str| {
            let states_error = |f: &&Finding| STATING_ERRORS.contains(&f.rule) && f.place == *place;
            let mut of_object = findings.iter().filter(states_error);
            of_object.any(|f| field.starts_with(&f.path) || f.path.starts_with(field))
        };
        let mut invalid = self.rejected.clone();
        invalid.retain(|rejected| self.refused.iter().all(|refused| refused.object != rejected.object));
        invalid.extend(self.refused.iter().cloned());
        for subject in self.subjects.iter().filter(|s| !s.errors.is_empty() || s.denied.is_some()) {
            let Object { kind, namespace, name, source, .. } = subject.object;
            // Templates that another tool completes have no images yet.
            let errors = subject.errors.iter().filter(|e| !e.field.ends_with("].image"));
            let errors = errors.map(|error| subject.path(error)).chain(subject.denied.clone());
            let object = format!("{kind} {namespace}/{name}");
            let source = Some(source.clone());
            match invalid.iter_mut().find(|invalid| invalid.source == source) {
                Some(invalid) => {
                    let more: Vec<_> = errors.filter(|error| !invalid.errors.contains(error)).collect();
                    invalid.errors.extend(more);
                }
                None => invalid.push(InvalidObject { object, source, errors: errors.collect() }),
            }
        }
        for InvalidObject { source, errors, .. } in &mut invalid {
            let Some(source) = source else { continue };
            errors.retain(|error| !is_stated(source, error.split(": ").next().unwrap_or_default()));
        }
        invalid.retain(|object| !object.errors.is_empty());
        invalid
    }
}

fn objects(inventory: &Inventory) -> Vec<Object<'_>> {
    fn add<'a, T>(objects: &mut Vec<Object<'a>>, entries: &'a [Entry<T>]) {
        objects.extend(entries.iter().filter_map(Object::of_text));
    }
    let mut objects = Vec::new();
    add(&mut objects, &inventory.nodes);
    add(&mut objects, &inventory.namespaces);
    add(&mut objects, &inventory.pods);
    add(&mut objects, &inventory.workloads);
    add(&mut objects, &inventory.services);
    add(&mut objects, &inventory.network_policies);
    add(&mut objects, &inventory.monitors);
    add(&mut objects, &inventory.priority_classes);
    add(&mut objects, &inventory.runtime_classes);
    add(&mut objects, &inventory.pod_disruption_budgets);
    add(&mut objects, &inventory.horizontal_pod_autoscalers);
    add(&mut objects, &inventory.limit_ranges);
    add(&mut objects, &inventory.resource_quotas);
    add(&mut objects, &inventory.pod_groups);
    add(&mut objects, &inventory.placement_policies);
    add(&mut objects, &inventory.volume_objects);
    add(&mut objects, &inventory.device_objects);
    objects
}
