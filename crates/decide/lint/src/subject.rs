//! The objects that rules are about: any object, and those with pods.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::HashMap;

use berth_api::object::{Affinity, Pod, RuntimeClass, Toleration};
use berth_api::read::{Kind, SourceLocation};
use berth_api::syntax::annotations::AFFINITY_ANNOTATION;
use berth_control::expand::{DesiredReplicas, ExpandError, daemon_tolerations, workload_pods};
use berth_input::inventory::{Entry, Workload, WorkloadSpec};
use berth_rules::admission::{
    AdmissionOptions, AdmissionResult, FieldError, admit, known_runtime_classes, validate_annotations,
};
use berth_rules::{AdmittedPod, PodSet, RuleOptions, annotation_affinity};
use serde_json::Value;

use crate::added_labels::{AddedLabels, UNKNOWN_VALUE};
use crate::rule::RuleInfo;

/// The annotation of an object, or of its pod template, with the rules that it is exempt from: names of rules or of their findings, separated
/// by commas, or `*` for all.
pub const IGNORE_ANNOTATION: &str = "lint.berth.dev/ignore";

#[derive(Clone, Debug)]
pub(crate) struct Object<'a> {
    pub(crate) kind: &'a str,
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
    pub(crate) source: &'a SourceLocation,
    /// Position in the input.
    pub(crate) order: usize,
    pub(crate) raw: &'a Value,
}

impl<'a> Object<'a> {
    /// An object of any kind, named by its text; none if the inventory does not keep it.
    pub(crate) fn of_text<T>(Entry { raw, source, order, .. }: &'a Entry<T>) -> Option<Object<'a>> {
        let raw = raw.as_ref()?;
        let text = |path| raw.pointer(path).and_then(Value::as_str).unwrap_or_default();
        let (kind, name) = (text("/kind"), text("/metadata/name"));
        let is_namespaced = Kind::of(text("/apiVersion"), kind).is_some_and(Kind::is_namespaced);
        let namespace = match text("/metadata/namespace") {
            _ if !is_namespaced => "",
            "" => "default",
            namespace => namespace,
        };
        Some(Object { kind, namespace, name, source, order: *order, raw })
    }

    /// An object whose names are known.
    pub(crate) fn of<T>(
        kind: Kind,
        Entry { raw, source, order, .. }: &'a Entry<T>,
        namespace: &'a str,
        name: &'a str,
    ) -> Object<'a> {
        static NOTHING: Value = Value::Null;
        let raw = raw.as_ref().unwrap_or(&NOTHING);
        Object { kind: kind.name(), namespace, name, source, order: *order, raw }
    }

    /// Whether an annotation exempts the object from a rule.
    pub(crate) fn is_exempt(&self, rule: &RuleInfo) -> bool {
        const PLACES: [&str; 3] = [
            "/metadata/annotations",
            "/spec/template/metadata/annotations",
            "/spec/jobTemplate/spec/template/metadata/annotations",
        ];
        let annotations = PLACES.iter().filter_map(|place| self.raw.pointer(place));
        let texts = annotations.filter_map(|a| a.get(IGNORE_ANNOTATION).and_then(Value::as_str));
        texts.flat_map(|text| text.split(',')).any(|name| rule.is_selected_by(name.trim()))
    }
}

#[derive(Clone, Copy)]
pub(crate) struct PodAdmission<'a> {
    pub(crate) rules: RuleOptions,
    pub(crate) runtime_classes: &'a [RuntimeClass],
}

impl PodAdmission<'_> {
    /// Changes a pod as its creation does.
    pub(crate) fn admit(&self, pod: &mut Pod) -> AdmissionResult {
        let runtime_classes = known_runtime_classes(pod, self.runtime_classes);
        admit(pod, &AdmissionOptions { rules: self.rules, runtime_classes, ..AdmissionOptions::default() })
    }
}

/// A workload, or a pod without one, with its pod as the API server would create it.
pub(crate) struct Subject<'a> {
    pub(crate) object: Object<'a>,
    pub(crate) kind: Kind,
    /// Path of the pod template, with a dot at its end; empty for a pod.
    pub(crate) template: &'static str,
    /// The pod as written, with the labels that controllers add.
    pub(crate) written: Pod,
    pub(crate) added: AddedLabels,
    /// The pod as created.
    pub(crate) pod: AdmittedPod,
    /// The number of pods; none for a DaemonSet.
    pub(crate) replicas: Option<i64>,
    /// Why the API server rejects the pod.
    pub(crate) errors: Vec<FieldError>,
    /// Why its admission refuses the pod.
    pub(crate) denied: Option<String>,
    /// See [`Subject::own_match_label_key`]: by the path of the term, once it is asked for.
    pub(crate) own_keys: OnceCell<HashMap<String, &'static str>>,
    /// See [`Subject::required_anti_affinity`].
    pub(crate) anti_affinity_sets: OnceCell<Vec<PodSet>>,
}

impl<'a> Subject<'a> {
    /// The pods of a workload.
    ///
    /// # Errors
    /// The API server would reject the workload.
    pub(crate) fn of_workload(
        entry: &'a Entry<Workload>,
        admission: PodAdmission<'_>,
        desired: &DesiredReplicas<'_>,
    ) -> Result<Subject<'a>, ExpandError> {
        let workload = &entry.object;
        let (kind, metadata) = (workload.kind(), workload.metadata());
        let mut written = workload_pods(entry)?.template;
        written.metadata.name.clone_from(&metadata.name);
        let added = AddedLabels::of(workload, desired);
        added.add_to(&mut written.metadata.labels, workload, entry.order);
        if kind == Kind::DaemonSet {
            for (key, effect) in daemon_tolerations(written.spec.host_network) {
                let (key, effect, operator) = (key.to_owned(), effect.to_owned(), "Exists".to_owned());
                written.spec.tolerations.push(Toleration { key, operator, effect, ..Toleration::default() });
            }
        }
        let replicas = match &workload.spec {
            WorkloadSpec::Job(job) => Some(job.spec.parallelism.unwrap_or(1)),
            WorkloadSpec::CronJob(_) => Some(1),
            _ => desired.of(workload),
        };
        let replicas = replicas.map(i64::from);
        let template = match kind {
            Kind::CronJob => "spec.jobTemplate.spec.template.",
            _ => "spec.template.",
        };
        let object = Object::of(kind, entry, &metadata.namespace, &metadata.name);
        Ok(Subject { added, ..Subject::new(object, kind, template, written, replicas, admission) })
    }

    pub(crate) fn of_pod(entry: &'a Entry<Pod>, admission: PodAdmission<'_>) -> Subject<'a> {
        let pod = &entry.object;
        let object = Object::of(Kind::Pod, entry, &pod.metadata.namespace, &pod.metadata.name);
        Subject::new(object, Kind::Pod, "", pod.clone(), Some(1), admission)
    }

    fn new(
        object: Object<'a>,
        kind: Kind,
        template: &'static str,
        written: Pod,
        replicas: Option<i64>,
        admission: PodAdmission<'_>,
    ) -> Subject<'a> {
        let mut pod = written.clone();
        // An API server has admitted a pod that it created; it may not know the annotations.
        let AdmissionResult { errors, denied, .. } = match pod.metadata.creation_timestamp {
            None => admission.admit(&mut pod),
            Some(_) if admission.rules.extensions => {
                AdmissionResult { errors: validate_annotations(&pod), ..AdmissionResult::default() }
            }
            Some(_) => AdmissionResult::default(),
        };
        let added = AddedLabels::default();
        Subject {
            object,
            kind,
            template,
            written,
            added,
            pod: AdmittedPod::new(pod, admission.rules),
            replicas,
            errors,
            denied,
            own_keys: OnceCell::new(),
            anti_affinity_sets: OnceCell::new(),
        }
    }

    /// The path of a field of the pod in the object.
    pub(crate) fn path(&self, in_pod: impl std::fmt::Display) -> String {
        format!("{}{in_pod}", self.template)
    }

    pub(crate) fn namespace(&self) -> &str {
        self.object.namespace
    }

    /// The labels of the pods with their values, without those that controllers add.
    pub(crate) fn own_labels(&self) -> impl Iterator<Item = (&String, &String)> {
        self.written.metadata.labels.iter().filter(|(_, value)| !value.starts_with(UNKNOWN_VALUE))
    }

    /// The keys of added labels whose values only the controller knows.
    pub(crate) fn unknown_labels(&self) -> Vec<&'static str> {
        let labels = &self.written.metadata.labels;
        let is_unknown = |key: &&str| labels.get(*key).is_some_and(|value| value.starts_with(UNKNOWN_VALUE));
        self.added.keys.iter().copied().filter(is_unknown).collect()
    }

    /// `Deployment web`.
    pub(crate) fn shown(&self) -> String {
        format!("{} {}", self.object.kind, self.object.name)
    }

    /// The number of pods at one time, as far as it is known.
    pub(crate) fn n_pods(&self) -> i64 {
        self.replicas.unwrap_or(1)
    }

    /// The affinity of the spec and of the annotation, as written, each with its path in the pod.
    pub(crate) fn affinities(&self) -> impl Iterator<Item = (String, Cow<'_, Affinity>)> {
        let of_spec = self.written.spec.affinity.as_deref();
        let of_spec = of_spec.map(|affinity| ("spec.affinity".to_owned(), Cow::Borrowed(affinity)));
        let annotated = annotation_affinity(&self.written).ok().flatten();
        let annotated = annotated
            .map(|affinity| (format!("metadata.annotations[{AFFINITY_ANNOTATION}]"), Cow::Owned(affinity)));
        of_spec.into_iter().chain(annotated)
    }
}
