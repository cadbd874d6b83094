//! The addresses of pages.

use berth_api::object::GroupKey;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// Characters that a segment of a path, or a value of a query, cannot have.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

pub(crate) fn path(segments: &[&str]) -> String {
    segments.iter().map(|segment| format!("/{}", utf8_percent_encode(segment, RESERVED))).collect()
}

pub(crate) fn node(name: &str) -> String {
    path(&["nodes", name])
}

pub(crate) fn pod(namespace: &str, name: &str) -> String {
    path(&["pods", namespace, name])
}

pub(crate) fn claim(namespace: &str, name: &str) -> String {
    path(&["claims", namespace, name])
}

pub(crate) fn group(key: &GroupKey) -> String {
    path(&["groups", key.kind.source(), key.name.namespace(), key.name.name()])
}

/// `workload` is such as `Deployment web`.
pub(crate) fn workload(namespace: &str, workload: &str) -> String {
    let (kind, name) = workload.split_once(' ').unwrap_or(("", workload));
    match kind {
        "Pod" => pod(namespace, name),
        kind => path(&["workloads", kind, namespace, name]),
    }
}

pub(crate) fn with(path: &str, parameter: &str, value: &str) -> String {
    let separator = if path.contains('?') { '&' } else { '?' };
    format!("{path}{separator}{parameter}={}", utf8_percent_encode(value, RESERVED))
}
