//! StatefulSets.

use super::shared::{READY, Workload, default_strategy, validate_int_or_percent};
use crate::kinds::pod::validate::validate_label_selector;
use crate::kinds::prelude::*;

/// The fields of the spec that an update may change; the selector has a message for itself.
const MUTABLE: [&str; 8] = [
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
    "selector",
];

pub static STRATEGY: Workload = Workload {
    default: |spec| {
        default(spec, "replicas", 1);
        default(spec, "revisionHistoryLimit", 10);
        default_text(spec, "podManagementPolicy", "OrderedReady");
        default_strategy(spec, "updateStrategy", json!({"partition": 0}));
        let retention = json!({"whenDeleted": "Retain", "whenScaled": "Retain"});
        default(spec, "persistentVolumeClaimRetentionPolicy", retention);
    },
    counts: &["replicas"],
    check: |spec, causes| {
        let policy = &spec["podManagementPolicy"];
        if !["OrderedReady", "Parallel"].contains(&policy.as_str().unwrap_or_default()) {
            causes.invalid("spec.podManagementPolicy", policy, "must be 'OrderedReady' or 'Parallel'");
        }
        for (i, claim) in items(spec, "volumeClaimTemplates").iter().enumerate() {
            let field = format!("spec.volumeClaimTemplates[{i}].spec.selector");
            validate_label_selector(&field, &claim["spec"]["selector"], causes);
        }
        let rolling = &spec["updateStrategy"]["rollingUpdate"];
        causes.not_negative("spec.updateStrategy.rollingUpdate.partition", &rolling["partition"]);
        let path = "spec.updateStrategy.rollingUpdate.maxUnavailable";
        validate_int_or_percent(path, &rolling["maxUnavailable"], true, causes);
    },
    check_update: |new, old, causes| {
        let mut allowed = new.clone();
        MUTABLE.iter().for_each(|field| take(&mut allowed, old, field));
        if allowed != *old {
            causes.forbidden(
                "spec",
                "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', \
                 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden",
            );
        }
    },
    ..Workload::NEW
};

pub const COLUMNS: &[Column] = &[NAME, READY, AGE, CONTAINERS, IMAGES];
