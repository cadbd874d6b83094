//! The versions of `KubeSchedulerConfiguration`.

pub(super) const API_VERSION: &str = "kubescheduler.config.k8s.io/v1";

/// Equal to v1 in all fields and defaults that Berth reads; Kubernetes removed it in 1.29.
pub(super) const V1BETA3: &str = "kubescheduler.config.k8s.io/v1beta3";

/// Whether objects of this `apiVersion` can be read as v1.
pub(super) fn is_readable_version(version: &str) -> bool {
    version == API_VERSION || version == V1BETA3
}
