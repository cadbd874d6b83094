//! API versions that are deprecated or no longer served.

use crate::finding::Findings;
use crate::input::LintInput;
use crate::severity::Severity;

/// API version, kinds, the Kubernetes version that no longer serves it, if one does, and the replacement.
///
/// Source: Kubernetes' deprecated API migration guide.
const OLD: &[(&str, &[&str], Option<&str>, &str)] = &[
    ("extensions/v1beta1", &["Deployment", "DaemonSet", "ReplicaSet"], Some("1.16"), "apps/v1"),
    ("apps/v1beta1", &["Deployment", "StatefulSet"], Some("1.16"), "apps/v1"),
    ("apps/v1beta2", &["Deployment", "DaemonSet", "ReplicaSet", "StatefulSet"], Some("1.16"), "apps/v1"),
    ("extensions/v1beta1", &["NetworkPolicy"], Some("1.16"), "networking.k8s.io/v1"),
    ("batch/v1beta1", &["CronJob"], Some("1.25"), "batch/v1"),
    ("batch/v2alpha1", &["CronJob"], Some("1.21"), "batch/v1"),
    ("policy/v1beta1", &["PodDisruptionBudget"], Some("1.25"), "policy/v1"),
    ("scheduling.k8s.io/v1alpha1", &["PriorityClass"], Some("1.22"), "scheduling.k8s.io/v1"),
    ("scheduling.k8s.io/v1beta1", &["PriorityClass"], Some("1.22"), "scheduling.k8s.io/v1"),
    ("scheduling.k8s.io/v1alpha2", &["PodGroup", "Workload"], Some("1.37"), "scheduling.k8s.io/v1beta1"),
    (
        "storage.k8s.io/v1beta1",
        &["CSIDriver", "CSINode", "StorageClass", "VolumeAttachment"],
        Some("1.22"),
        "storage.k8s.io/v1",
    ),
    ("storage.k8s.io/v1beta1", &["CSIStorageCapacity"], Some("1.27"), "storage.k8s.io/v1"),
    ("v1", &["ReplicationController"], None, "apps/v1 Deployment"),
];

pub(crate) fn check(input: &LintInput<'_>, findings: &mut Findings) {
    for object in &input.objects {
        let version = object.raw.get("apiVersion").and_then(serde_json::Value::as_str).unwrap_or_default();
        let old = OLD.iter().find(|(old, kinds, ..)| *old == version && kinds.contains(&object.kind));
        if let Some((_, _, removed, replacement)) = old {
            let (message, severity) = match removed {
                Some(removed) => (
                    format!("Kubernetes {removed} and later do not serve {version} {}", object.kind),
                    Severity::Warning,
                ),
                None => (format!("{} is superseded by {replacement}", object.kind), Severity::Info),
            };
            findings
                .add(object, "apiVersion".to_owned(), message)
                .severity(severity)
                .fix(format!("use {replacement}"));
        }
    }
}
