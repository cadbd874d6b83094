//! CompositePodGroups: groups of groups.

use berth_api::syntax;
use berth_schema::resource::{COMPOSITE_POD_GROUPS, Resource};

use super::device::names::validate_name;
use super::pod_group::{
    check_gated, keep_priority, remove_gated, set_priority, validate_priority, validate_topology,
    validate_union,
};
use crate::kinds::prelude::*;

pub struct CompositePodGroup {
    typed: Typed,
}

pub static COMPOSITE_POD_GROUP: CompositePodGroup = CompositePodGroup {
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

impl Strategy for CompositePodGroup {
    fn default(&self, group: &mut Value) {
        self.typed.default(group);
    }

    fn prepare_create(&self, context: &Context<'_>, group: &mut Value) {
        remove_gated(context.feature_gates, group, &Value::Null);
    }

    fn prepare_update(&self, context: &Context<'_>, subresource: &str, new: &mut Value, old: &Value) {
        if subresource.is_empty() {
            self.default(new);
            keep_priority(new, old);
            remove_gated(context.feature_gates, new, old);
        }
    }

    fn admit_create(
        &self,
        context: &Context<'_>,
        resource: &Resource,
        group: &mut Value,
        warnings: &mut Vec<String>,
    ) -> Result<(), Box<Status>> {
        let name = name(group).to_owned();
        set_priority(context, &mut group["spec"], "composite pod group spec")
            .map_err(|why| Status::forbidden(resource, &name, &why))?;
        self.validate_new(context, resource, group, warnings)
    }

    fn validate(&self, context: &Context<'_>, group: &Value, causes: &mut Causes) {
        self.typed.validate(context, group, causes);
    }

    fn validate_update(&self, context: &Context<'_>, new: &Value, old: &Value, causes: &mut Causes) {
        self.typed.validate_update(context, new, old, causes);
    }
}

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
    let (policy, path) = (&spec["schedulingPolicy"], "spec.schedulingPolicy");
    if validate_union(policy, &["basic", "gang"], path, causes) && !policy["gang"].is_null() {
        let (min, path) = (&policy["gang"]["minGroupCount"], "spec.schedulingPolicy.gang.minGroupCount");
        match min.as_i64() {
            Some(0) => causes.required(path, ""),
            Some(..0) => causes.invalid(path, min, "must be greater than or equal to 1"),
            _ => {}
        }
    }
    if !spec["disruptionMode"].is_null() {
        validate_union(&spec["disruptionMode"], &["single", "all"], "spec.disruptionMode", causes);
    }
    validate_topology(spec, "spec", causes);
    validate_priority(spec, "spec", causes);
}

pub const COLUMNS: &[Column] = &[
    NAME,
    Column::text("Policy", "How its groups are scheduled.", |row| {
        row.at("/spec/schedulingPolicy/gang").map_or("Basic", |_| "Gang").into()
    }),
    Column::text("Parent", "The CompositePodGroup that it belongs to.", |row| {
        row.text("/spec/parentCompositePodGroupName").unwrap_or(UNSET).into()
    }),
    Column::text("Status", "Whether its required groups are scheduled.", |row| {
        let is_scheduled = |condition: &&Value| condition["type"] == "CompositePodGroupInitiallyScheduled";
        let scheduled = row.list("/status/conditions").iter().find(is_scheduled);
        scheduled.map_or_else(|| "Pending".into(), |condition| condition["reason"].clone())
    }),
    AGE,
];
