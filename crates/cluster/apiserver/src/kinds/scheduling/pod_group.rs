//! PodGroups of Kubernetes 1.36, and the columns of all groups.

use berth_api::object::group::GROUP_CONDITIONS;
use berth_api::syntax;
use berth_rules::admission::Priority;
use berth_schema::resource::POD_GROUPS;

use super::device::names::{limited, limited_set, validate_name};
use crate::kinds::pod::priority_classes;
use crate::kinds::prelude::*;

const MAX_CLAIMS: usize = 4;
/// The priority of a group at most: that of a class that users define.
pub const MAX_PRIORITY: i64 = 1_000_000_000;
pub const DISRUPTION_MODES: &[&str] = &["Pod", "PodGroup"];

/// The rules of PodGroups of 1.36, on objects in their form.
pub static POD_GROUP: Typed = Typed {
    enums: &[("PodGroupSpec", "disruptionMode", DISRUPTION_MODES)],
    immutable: &[
        "/spec/podGroupTemplateRef",
        "/spec/schedulingPolicy",
        "/spec/schedulingConstraints",
        "/spec/resourceClaims",
        "/spec/disruptionMode",
        "/spec/priorityClassName",
        "/spec/priority",
    ],
    check: |group, causes| {
        let spec = &group["spec"];
        validate_spec(spec, "spec", causes);
        validate_reference(&spec["podGroupTemplateRef"], "spec.podGroupTemplateRef", causes);
    },
    ..Typed::new(&POD_GROUPS)
};

/// Sets class and priority of a group or of a template, as the plugin `Priority` does.
pub fn set_priority(context: &Context<'_>, spec: &mut Value, place: &str) -> Result<(), String> {
    let classes = priority_classes(context).map_err(|status| status.message.clone())?;
    let given = spec["priority"].as_i64().and_then(|given| i32::try_from(given).ok());
    let class = text(spec, "/priorityClassName").to_owned();
    let priority = Priority::of_class(&class, given, place, &classes)?;
    if let Some(spec) = spec.as_object_mut() {
        spec.insert("priority".to_owned(), priority.value.into());
        if !priority.class.is_empty() {
            spec.insert("priorityClassName".to_owned(), priority.class.into());
        }
    }
    Ok(())
}

/// What a group and a template of groups have in common.
pub fn validate_spec(spec: &Value, path: &str, causes: &mut Causes) {
    validate_scheduling(spec, path, causes);
    let (claims, field) = (&spec["resourceClaims"], format!("{path}.resourceClaims"));
    for (i, claim) in
        limited_set(claims, &field, MAX_CLAIMS, |claim| &claim["name"], causes).iter().enumerate()
    {
        let field = format!("{field}[{i}]");
        let sources = ["resourceClaimName", "resourceClaimTemplateName"];
        validate_union(claim, &sources, &field, causes);
        validate_name(&format!("{field}.name"), &claim["name"], syntax::dns_label, causes);
        for source in sources {
            validate_name(&format!("{field}.{source}"), &claim[source], syntax::dns_subdomain, causes);
        }
    }
}

fn validate_scheduling(spec: &Value, path: &str, causes: &mut Causes) {
    let (policy, field) = (&spec["schedulingPolicy"], format!("{path}.schedulingPolicy"));
    if validate_union(policy, &["basic", "gang"], &field, causes) && !policy["gang"].is_null() {
        let (min, field) = (&policy["gang"]["minCount"], format!("{field}.gang.minCount"));
        match min.as_i64() {
            Some(0) => causes.required(&field, ""),
            Some(..0) => causes.invalid(&field, min, "must be greater than zero"),
            _ => {}
        }
    }
    let (topology, field) =
        (&spec["schedulingConstraints"]["topology"], format!("{path}.schedulingConstraints.topology"));
    for (i, constraint) in limited(topology, &field, 1, causes).iter().enumerate() {
        validate_name(&format!("{field}[{i}].key"), &constraint["key"], syntax::label_key, causes);
    }
    let class = &spec["priorityClassName"];
    validate_name(&format!("{path}.priorityClassName"), class, syntax::dns_subdomain, causes);
    let priority = &spec["priority"];
    if priority.as_i64().is_some_and(|priority| priority > MAX_PRIORITY) {
        let why = format!("must be less than or equal to {MAX_PRIORITY}");
        causes.invalid(&format!("{path}.priority"), priority, &why);
    }
}

fn validate_reference(reference: &Value, path: &str, causes: &mut Causes) {
    if reference.is_null() {
        return;
    }
    validate_union(reference, &["workload"], path, causes);
    let (workload, path) = (&reference["workload"], format!("{path}.workload"));
    validate_name(&format!("{path}.workloadName"), &workload["workloadName"], syntax::dns_subdomain, causes);
    let template = &workload["podGroupTemplateName"];
    validate_name(&format!("{path}.podGroupTemplateName"), template, syntax::dns_label, causes);
}

/// Whether exactly one of some fields is set.
pub fn validate_union(value: &Value, fields: &[&str], path: &str, causes: &mut Causes) -> bool {
    let quoted =
        |fields: &[&str]| fields.iter().map(|field| format!("`{field}`")).collect::<Vec<_>>().join(", ");
    let set: Vec<&str> = fields.iter().copied().filter(|field| !value[field].is_null()).collect();
    match set.len() {
        0 => causes.invalid(path, &"".into(), &format!("must specify one of: {}", quoted(fields))),
        1 => return true,
        _ => {
            let why = format!("exactly one of {} is required, but multiple fields are set", quoted(fields));
            causes.invalid(path, &format!("{{{}}}", quoted(&set)).into(), &why);
        }
    }
    false
}

const POLICY: Column = Column::text("Policy", "How its pods or groups are scheduled.", |row| {
    row.at("/spec/schedulingPolicy/gang").map_or("Basic", |_| "Gang").into()
});
const WORKLOAD: Column = Column::text("Workload", "The Workload with its template.", |row| {
    let names = ["/spec/workloadRef/workloadName", "/spec/podGroupTemplateRef/workload/workloadName"];
    names.iter().find_map(|name| row.text(name)).unwrap_or(NONE).into()
});

pub const COLUMNS: &[Column] = &[
    NAME,
    POLICY,
    WORKLOAD,
    Column::text("Status", "Whether what it requires is scheduled.", |row| {
        let of = |types: &[&str]| {
            let conditions = row.list("/status/conditions").iter();
            conditions.clone().find(|condition| types.iter().any(|ty| condition["type"] == *ty))
        };
        if let Some(disrupted) = of(&["DisruptionTarget"]) {
            return disrupted["reason"].clone();
        }
        let scheduled = of(&GROUP_CONDITIONS).map(|condition| condition["status"] == "True");
        scheduled.map_or("Pending", |is| if is { "Scheduled" } else { "Unschedulable" }).into()
    }),
    AGE,
];
pub const COMPOSITE_COLUMNS: &[Column] = &[NAME, POLICY, WORKLOAD, AGE];
