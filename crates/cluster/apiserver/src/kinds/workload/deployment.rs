//! Deployments.

use super::shared::{AVAILABLE, READY, UP_TO_DATE, Workload, default_strategy, validate_rolling_update};
use crate::kinds::prelude::*;

pub static STRATEGY: Workload = Workload {
    default: |spec| {
        default(spec, "replicas", 1);
        default(spec, "revisionHistoryLimit", 10);
        default(spec, "progressDeadlineSeconds", 600);
        default_strategy(spec, "strategy", json!({"maxUnavailable": "25%", "maxSurge": "25%"}));
    },
    check: |spec, causes| {
        validate_rolling_update(spec, "strategy", &["Recreate", "RollingUpdate"], causes);
        let (deadline, ready) = (&spec["progressDeadlineSeconds"], &spec["minReadySeconds"]);
        causes.not_negative("spec.progressDeadlineSeconds", deadline);
        if deadline.as_i64().is_some_and(|deadline| deadline <= ready.as_i64().unwrap_or(0)) {
            causes.invalid("spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds");
        }
    },
    ..Workload::NEW
};

pub const COLUMNS: &[Column] = &[NAME, READY, UP_TO_DATE, AVAILABLE, AGE, CONTAINERS, IMAGES, SELECTOR];
