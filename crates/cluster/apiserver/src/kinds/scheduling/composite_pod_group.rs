//! CompositePodGroups: groups of groups.

use berth_api::syntax;
use berth_schema::resource::COMPOSITE_POD_GROUPS;

use super::device::names::validate_name;
use super::pod_group::{POLICY, PodGroup, STATUS, check_gated, validate_scheduling, validate_union};
use crate::kinds::prelude::*;

pub static COMPOSITE_POD_GROUP: PodGroup = PodGroup {
    place: "composite pod group spec",
    typed: Typed {
        defaults: &[("CompositePodGroupSpec", "disruptionMode", r#"{"single": {}}"#)],
        immutable: &[
            "/spec/parentCompositePodGroupName",
            "/spec/workloadRef",
            "/spec/schedulingPolicy",
            "/spec/schedulingConstraints",
            "/spec/disruptionMode",
            "/spec/priorityClassName",
            "/spec/priority",
            "/spec/preemptionPolicy",
        ],
        check: |group, causes| check(&group["spec"], causes),
        ..Typed::new(&COMPOSITE_POD_GROUPS)
    },
};

fn check(spec: &Value, causes: &mut Causes) {
    check_gated(spec, causes);
    if spec["workloadRef"].is_null() {
        causes.required("spec.workloadRef", "");
    } else {
        let reference = |field: &str| (format!("spec.workloadRef.{field}"), &spec["workloadRef"][field]);
        let (path, workload) = reference("workloadName");
        validate_name(&path, workload, syntax::dns_subdomain, causes);
        let (path, template) = reference("templateName");
        validate_name(&path, template, syntax::dns_label, causes);
    }
    if !spec["disruptionMode"].is_null() {
        validate_union(&spec["disruptionMode"], &["single", "all"], "spec.disruptionMode", causes);
    }
    validate_scheduling(spec, "spec", ("minGroupCount", "must be greater than or equal to 1"), causes);
}

pub const COLUMNS: &[Column] = &[
    NAME,
    POLICY,
    Column::text("Parent", "The CompositePodGroup that it belongs to.", |row| {
        row.text("/spec/parentCompositePodGroupName").unwrap_or(UNSET).into()
    }),
    STATUS,
    AGE,
];
