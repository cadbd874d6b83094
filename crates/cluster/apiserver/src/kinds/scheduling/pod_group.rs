//! PodGroups.

use berth_api::feature_gates::FeatureGates;
use berth_api::object::group::{COMPOSITE_CONDITION, GROUP_CONDITIONS};
use berth_api::syntax;
use berth_rules::admission::Priority;
use berth_schema::resource::{POD_GROUPS, Resource};

use super::device::names::{limited, limited_set, validate_name};
use crate::kinds::pod::priority_classes;
use crate::kinds::prelude::*;

const MAX_CLAIMS: usize = 4;
/// The priority of a group at most: that of a class that users define.
const MAX_PRIORITY: i64 = 1_000_000_000;
pub const DISRUPTION_MODES: &[&str] = &["Pod", "PodGroup"];

/// The rules of PodGroups, and of CompositePodGroups.
pub struct PodGroup {
    pub typed: Typed,
    /// Names the spec in messages about its priority.
    pub place: &'static str,
}

pub static POD_GROUP: PodGroup = PodGroup {
    place: "pod group spec",
    typed: Typed {
        defaults: &[("PodGroupSpec", "disruptionMode", r#""Pod""#)],
        enums: &[("PodGroupSpec", "disruptionMode", DISRUPTION_MODES)],
        immutable: &[
            "/spec/podGroupTemplateRef",
            "/spec/schedulingPolicy",
            "/spec/schedulingConstraints",
            "/spec/resourceClaims",
            "/spec/disruptionMode",
            "/spec/priorityClassName",
            "/spec/priority",
            "/spec/parentCompositePodGroupName",
            "/spec/preemptionPolicy",
        ],
        check: |group, causes| {
            let spec = &group["spec"];
            check_gated(spec, causes);
            if !spec[PARENT].is_null() && spec["podGroupTemplateRef"].is_null() {
                let why = format!("must be specified when `{PARENT}` is set");
                causes.required("spec.podGroupTemplateRef", &why);
            }
            validate_spec(spec, "spec", causes);
            validate_reference(&spec["podGroupTemplateRef"], "spec.podGroupTemplateRef", causes);
        },
        ..Typed::new(&POD_GROUPS)
    },
};

impl Strategy for PodGroup {
    fn default(&self, group: &mut Value) {
        self.typed.default(group);
    }

    fn prepare_create(&self, context: &Context<'_>, group: &mut Value) {
        remove_gated(context.feature_gates, group, &Value::Null);
    }

    /// A change that leaves out the priority keeps it, as the plugin `Priority` does.
    fn prepare_update(&self, context: &Context<'_>, subresource: &str, new: &mut Value, old: &Value) {
        if subresource.is_empty() {
            self.default(new);
            let (priority, spec) = (&old["spec"]["priority"], new["spec"].as_object_mut());
            if let Some(spec) = spec.filter(|_| !priority.is_null()) {
                default(spec, "priority", priority.clone());
            }
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
        set_priority(context, &mut group["spec"], self.place)
            .map_err(|why| Status::forbidden(resource, &name, &why))?;
        self.validate_new(context, resource, group, warnings)
    }

    fn validate(&self, context: &Context<'_>, group: &Value, causes: &mut Causes) {
        self.typed.validate(context, group, causes);
        in_words_of(context, &group["spec"], "spec", causes);
    }

    /// An object that was stored without a disruption mode has the default one. Kubernetes 1.37 lets the required number of members
    /// change.
    fn validate_update(&self, context: &Context<'_>, new: &Value, old: &Value, causes: &mut Causes) {
        let mut old = old.clone();
        self.default(&mut old);
        let min = |group: &Value| group["spec"]["schedulingPolicy"]["gang"]["minCount"].clone();
        if context.version == V1BETA1 && !min(&old).is_null() && !min(new).is_null() {
            old["spec"]["schedulingPolicy"]["gang"]["minCount"] = min(new);
        }
        self.typed.validate_update(context, new, &old, causes);
        in_words_of(context, &new["spec"], "spec", causes);
    }

    fn validate_status(&self, new: &Value, _old: &Value, causes: &mut Causes) {
        let (statuses, path) = (&new["status"]["resourceClaimStatuses"], "status.resourceClaimStatuses");
        let claims = items(&new["spec"], "resourceClaims");
        for (i, status) in limited_set(statuses, path, MAX_CLAIMS, |s| &s["name"], causes).iter().enumerate()
        {
            let field = format!("{path}[{i}]");
            if claims.iter().all(|claim| claim["name"] != status["name"]) {
                let why = "must match the name of an entry in `spec.resourceClaims`";
                causes.invalid(&format!("{field}.name"), &status["name"], why);
            }
            let (claim, field) = (&status["resourceClaimName"], format!("{field}.resourceClaimName"));
            validate_name(&field, claim, syntax::dns_subdomain, causes);
        }
    }
}

/// The group of groups that a group belongs to: a field behind the gate `CompositePodGroup`.
const PARENT: &str = "parentCompositePodGroupName";
/// A field behind the gate `PodGroupPreemptionPolicy`.
const PREEMPTION: &str = "preemptionPolicy";

/// Removes the fields whose gates are off, unless the stored object has them.
fn remove_gated(gates: FeatureGates, group: &mut Value, old: &Value) {
    let fields = [(PARENT, gates.composite_pod_group), (PREEMPTION, gates.pod_group_preemption_policy)];
    for (field, _) in fields.iter().filter(|(field, is_on)| !is_on && old["spec"][field].is_null()) {
        object(group, "spec").and_then(|spec| spec.remove(*field));
    }
}

/// The fields behind gates.
pub fn check_gated(spec: &Value, causes: &mut Causes) {
    validate_name(&format!("spec.{PARENT}"), &spec[PARENT], syntax::dns_subdomain, causes);
    if !spec[PREEMPTION].is_null() {
        let policies = ["Never", "PreemptLowerPriority"];
        causes.one_of(&format!("spec.{PREEMPTION}"), &spec[PREEMPTION], &policies);
    }
}

/// The version of Kubernetes 1.37.
const V1BETA1: &str = "v1beta1";

/// Names the fields of the version in which the user wrote a group or a template: objects are validated in the stored version.
pub fn in_words_of(context: &Context<'_>, spec: &Value, path: &str, causes: &mut Causes) {
    if context.version != V1BETA1 {
        return;
    }
    for cause in &mut causes.0 {
        let Some(rest) = cause.field.strip_prefix(&format!("{path}.podGroupTemplateRef")) else { continue };
        let rest = rest.strip_prefix(".workload").unwrap_or(rest);
        let rest = rest.replace("podGroupTemplateName", "templateName");
        cause.field = format!("{path}.workloadRef{rest}");
    }
    let (mode, field) = (&spec["disruptionMode"], format!("{path}.disruptionMode"));
    if mode.is_object() {
        causes.0.retain(|cause| !cause.field.starts_with(&field));
        validate_union(mode, &["single", "all"], &field, causes);
    }
}

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
    validate_scheduling(spec, path, ("minCount", "must be greater than zero"), causes);
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

/// What PodGroups and CompositePodGroups have in common: policy, with the name of the required number and what is said of a negative one,
/// topology and priority.
pub fn validate_scheduling(spec: &Value, path: &str, (min, negative): (&str, &str), causes: &mut Causes) {
    let (policy, field) = (&spec["schedulingPolicy"], format!("{path}.schedulingPolicy"));
    if validate_union(policy, &["basic", "gang"], &field, causes) && !policy["gang"].is_null() {
        let (min, field) = (&policy["gang"][min], format!("{field}.gang.{min}"));
        match min.as_i64() {
            Some(0) => causes.required(&field, ""),
            Some(..0) => causes.invalid(&field, min, negative),
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

pub const POLICY: Column = Column::text("Policy", "How its pods or groups are scheduled.", |row| {
    row.at("/spec/schedulingPolicy/gang").map_or("Basic", |_| "Gang").into()
});
pub const STATUS: Column = Column::text("Status", "Whether what it requires is scheduled.", |row| {
    let conditions = GROUP_CONDITIONS.iter().chain([&COMPOSITE_CONDITION]);
    let is_scheduled = |condition: &&Value| conditions.clone().any(|ty| condition["type"] == **ty);
    let scheduled = row.list("/status/conditions").iter().find(is_scheduled);
    scheduled.map_or_else(|| "Pending".into(), |condition| condition["reason"].clone())
});

pub const COLUMNS: &[Column] = &[
    NAME,
    POLICY,
    Column::text("Workload", "The Workload with its template.", |row| {
        let names = ["/spec/workloadRef/workloadName", "/spec/podGroupTemplateRef/workload/workloadName"];
        names.iter().find_map(|name| row.text(name)).unwrap_or(UNSET).into()
    }),
    STATUS,
    AGE,
];
