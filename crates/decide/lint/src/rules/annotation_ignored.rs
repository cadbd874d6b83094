//! Annotations with placement rules that no scheduler, or not the pod's one, reads.

use berth_api::object::group::GROUP_ANNOTATION;
use berth_api::syntax::annotations::{AFFINITY_ANNOTATION, TOLERATION_ANNOTATION};
use berth_input::config::DEFAULT_SCHEDULER_NAME;
use serde_json::Value;

use crate::finding::Findings;
use crate::input::LintInput;
use crate::subject::Subject;

/// The scheduler that `berth install` installs.
pub(super) const BERTH: &str = "berth";
const OWN: [&str; 3] = [AFFINITY_ANNOTATION, TOLERATION_ANNOTATION, GROUP_ANNOTATION];
/// Annotations of old versions, each with the field that replaced it.
const OLD: [(&str, &str); 4] = [
    ("scheduler.alpha.kubernetes.io/affinity", "spec.affinity"),
    ("scheduler.alpha.kubernetes.io/tolerations", "spec.tolerations"),
    ("scheduler.alpha.kubernetes.io/critical-pod", "spec.priorityClassName"),
    ("scheduler.alpha.kubernetes.io/preferAvoidPods", "taints and tolerations"),
];

fn scheduler_of<'a>(subject: &'a Subject<'_>) -> &'a str {
    match subject.pod.object.spec.scheduler_name.as_str() {
        "" => DEFAULT_SCHEDULER_NAME,
        name => name,
    }
}

impl LintInput<'_> {
    /// Whether the scheduler of a subject reads Berth's annotations.
    pub(super) fn reads_annotations(&self, subject: &Subject<'_>) -> bool {
        let scheduler = scheduler_of(subject);
        let mut profiles =
            self.settings.config.profiles.iter().map(|profile| profile.scheduler_name.as_str());
        scheduler == BERTH
            || self.annotation_readers.iter().any(|name| name == scheduler)
            || scheduler != DEFAULT_SCHEDULER_NAME && profiles.any(|profile| profile == scheduler)
    }
}

pub(crate) fn check(input: &LintInput<'_>, findings: &mut Findings) {
    for subject in input.subjects() {
        let (scheduler, is_reader) = (scheduler_of(subject), input.reads_annotations(subject));
        let annotations = &subject.pod.object.metadata.annotations;
        let path = |key: &str| subject.path(format!("metadata.annotations[{key}]"));
        for key in OWN.into_iter().filter(|key| annotations.contains_key(*key) && !is_reader) {
            findings
                .add(
                    &subject.object,
                    path(key),
                    format!("the scheduler {scheduler} does not read the annotation"),
                )
                .fix(format!("set {} to {BERTH}", subject.path("spec.schedulerName")));
        }
        for (key, field) in OLD.into_iter().filter(|(key, _)| annotations.contains_key(*key)) {
            findings
                .add(&subject.object, path(key), "no scheduler reads the annotation any more")
                .fix(format!("use {field}"));
        }
        if !subject.template.is_empty() {
            let own = subject.object.raw.pointer("/metadata/annotations");
            let has = |key: &str| own.and_then(|own| own.get(key)).is_some_and(Value::is_string);
            for key in OWN.into_iter().chain(OLD.map(|(key, _)| key)).filter(|key| has(key)) {
                let message = "schedulers read annotations of pods, and this one is not in the pod template";
                findings
                    .add(&subject.object, format!("metadata.annotations[{key}]"), message)
                    .fix(format!("move it to {}", path(key)));
            }
        }
    }
}
