//! DaemonSets.

use super::shared::{
    AVAILABLE, CURRENT, DESIRED, N_READY, UP_TO_DATE, Workload, default_strategy, validate_rolling_update,
};
use crate::kinds::prelude::*;

pub static STRATEGY: Workload = Workload {
    default: |spec| {
        default(spec, "revisionHistoryLimit", 10);
        default_strategy(spec, "updateStrategy", json!({"maxUnavailable": 1, "maxSurge": 0}));
    },
    complete: count_templates,
    counts: &["currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady"],
    of_selector: "daemonset",
    check: |spec, causes| {
        validate_rolling_update(spec, "updateStrategy", &["RollingUpdate", "OnDelete"], causes);
    },
    ..Workload::NEW
};

/// Counts the templates in an annotation, as kube-apiserver shows what its internal type still has.
fn count_templates(value: &mut Value, old: &Value) {
    const ANNOTATION: &str = "deprecated.daemonset.template.generation";
    let count = |value: &Value| -> Option<i64> {
        value["metadata"]["annotations"][ANNOTATION].as_str()?.parse().ok()
    };
    let count = match old {
        Value::Null => count(value).unwrap_or(0).max(1),
        old => count(old).unwrap_or(1) + i64::from(value["spec"]["template"] != old["spec"]["template"]),
    };
    if let Some(annotations) = object(&mut value["metadata"], "annotations") {
        annotations.insert(ANNOTATION.to_owned(), count.to_string().into());
    }
}

pub const COLUMNS: &[Column] = &[
    NAME,
    DESIRED.with(|row| row.integer("/status/desiredNumberScheduled").into()),
    CURRENT.with(|row| row.integer("/status/currentNumberScheduled").into()),
    N_READY.with(|row| row.integer("/status/numberReady").into()),
    UP_TO_DATE.with(|row| row.integer("/status/updatedNumberScheduled").into()),
    AVAILABLE.with(|row| row.integer("/status/numberAvailable").into()),
    Column::text("Node Selector", "Labels of the nodes that get a pod.", |row| {
        row.labels("/spec/template/spec/nodeSelector")
    }),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];
