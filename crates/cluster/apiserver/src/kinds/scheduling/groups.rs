//! PodGroups, CompositePodGroups and Workloads as Kubernetes 1.37 has them. Those that are written in the version of 1.36 have its rules.

use std::collections::BTreeSet;

use berth_api::feature_gates::FeatureGates;
use berth_api::syntax;
use berth_rules::admission::Priority;
use berth_schema::resource::Resource;

use super::group_forms::{V1ALPHA2, to_v1alpha2};
use super::pod_group::{MAX_PRIORITY, POD_GROUP};
use super::workload::WORKLOAD;
use crate::kinds::pod::priority_classes;
use crate::kinds::prelude::*;
use crate::strategy::conditions::validate_conditions;
use crate::strategy::field_rules::Rule::{Check, Fields as Object, Name, Number, OneOf};
use crate::strategy::field_rules::*;

const MAX_TEMPLATES: usize = 8;
const MAX_CLAIMS: usize = 4;
/// Templates above each other at most.
const MAX_DEPTH: usize = 4;
/// The gate of the API. Without it, kube-apiserver has no groups, and this server keeps all their fields.
const GATE: &str = "GenericWorkload";
/// Keeps a group while pods use it.
const PROTECTION: &str = "scheduling.k8s.io/podgroup-protection";
const PARENT: &str = "parentCompositePodGroupName";
const PREEMPTION: &str = "preemptionPolicy";
const TEMPLATES: &str = "podGroupTemplates";
const COMPOSITES: &str = "compositePodGroupTemplates";

pub const CONSTRAINTS: &[Rule] = &[Object(&[("", &[Check(topology)])])];
pub const DISRUPTION: &[Rule] =
    &[Check(|mode, path, causes| causes.one_member(path, mode, &["single", "all"]))];
const CLASS: &[Rule] = &[Name(syntax::dns_subdomain)];
const PRIORITY: &[Rule] = &[Number(i64::MIN, MAX_PRIORITY, "must be less than or equal to 1000000000")];
const PREEMPTION_POLICY: &[Rule] = &[OneOf(&["Never", "PreemptLowerPriority"])];
const TEMPLATE_NAME: &[Rule] = &[REQUIRED, Name(syntax::short_name)];
const REFERENCE: &[Rule] =
    &[Object(&[("workloadName", &[REQUIRED, Name(syntax::dns_subdomain)]), ("templateName", TEMPLATE_NAME)])];
const PARENT_NAME: &[Rule] =
    &[Check(|parent, path, causes| causes.problems(path, parent, syntax::dns_subdomain(text(parent, ""))))];
/// How the pods of a group are treated together.
const TREATMENT: &[Rule] = &[Object(&[
    ("disruptionMode", DISRUPTION),
    ("priorityClassName", CLASS),
    ("priority", PRIORITY),
    (PREEMPTION, PREEMPTION_POLICY),
])];
const GROUP: Fields = &[
    ("", &[Check(parent_needs_workload)]),
    (PARENT, PARENT_NAME),
    ("workloadRef", REFERENCE),
    ("", &[Check(|spec, path, causes| policy(spec, path, "minCount", causes))]),
    ("schedulingConstraints", CONSTRAINTS),
    ("resourceClaims", &[Check(claims)]),
    ("", TREATMENT),
];
const COMPOSITE: Fields = &[
    (PARENT, PARENT_NAME),
    ("", &[Check(needs_workload)]),
    ("workloadRef", REFERENCE),
    ("", &[Check(|spec, path, causes| policy(spec, path, "minGroupCount", causes))]),
    ("schedulingConstraints", CONSTRAINTS),
    ("", TREATMENT),
];
const TEMPLATE: Fields = &[
    ("name", TEMPLATE_NAME),
    ("", &[Check(|spec, path, causes| policy(spec, path, "minCount", causes))]),
    ("schedulingConstraints", CONSTRAINTS),
    ("resourceClaims", &[Check(claims)]),
    ("", TREATMENT),
];
const COMPOSITE_TEMPLATE: Fields = &[
    ("name", TEMPLATE_NAME),
    ("", &[Check(|spec, path, causes| policy(spec, path, "minGroupCount", causes))]),
    ("schedulingConstraints", CONSTRAINTS),
    ("", TREATMENT),
    (TEMPLATES, &[Check(|list, path, causes| templates(list, path, TEMPLATE, causes))]),
    (COMPOSITES, &[Check(|list, path, causes| templates(list, path, COMPOSITE_TEMPLATE, causes))]),
];
const SEGMENT: &[Rule] = &[REQUIRED, Name(syntax::path_segment)];
const WORKLOAD_SPEC: Fields = &[
    ("", &[Check(one_list)]),
    (
        "controllerRef",
        &[Object(&[("apiGroup", &[Name(syntax::declared_subdomain)]), ("kind", SEGMENT), ("name", SEGMENT)])],
    ),
    (TEMPLATES, &[Check(|list, path, causes| templates(list, path, TEMPLATE, causes))]),
    (COMPOSITES, &[Check(|list, path, causes| templates(list, path, COMPOSITE_TEMPLATE, causes))]),
];
/// The fields of a template that an update does not change.
const FIXED_OF_TEMPLATE: &[&str] = &[
    "schedulingConstraints",
    "resourceClaims",
    "disruptionMode",
    "priorityClassName",
    "priority",
    PREEMPTION,
];

fn one_list(spec: &Value, path: &str, causes: &mut Causes) {
    causes.one_member(path, spec, &[TEMPLATES, COMPOSITES]);
}

fn parent_needs_workload(spec: &Value, path: &str, causes: &mut Causes) {
    if !spec[PARENT].is_null() && spec["workloadRef"].is_null() {
        causes.required(&format!("{path}.workloadRef"), &format!("must be set when {PARENT} is set"));
    }
}

fn needs_workload(spec: &Value, path: &str, causes: &mut Causes) {
    if spec["workloadRef"].is_null() {
        causes.required(&format!("{path}.workloadRef"), "");
    }
}

fn policy(spec: &Value, path: &str, min: &str, causes: &mut Causes) {
    let (policy, path) = (&spec["schedulingPolicy"], format!("{path}.schedulingPolicy"));
    causes.one_member(&path, policy, &["basic", "gang"]);
    let gang = &policy["gang"];
    if gang.is_object() {
        let field = format!("{path}.gang.{min}");
        match gang[min].as_i64().unwrap_or(0) {
            0 => causes.required(&field, ""),
            ..0 => causes.invalid(&field, &gang[min], "must be greater than or equal to 1"),
            _ => {}
        }
    }
}

fn topology(constraints: &Value, path: &str, causes: &mut Causes) {
    let path = format!("{path}.topology");
    for (i, constraint) in limited(&constraints["topology"], &path, 1, causes).iter().enumerate() {
        apply(constraint, &format!("{path}[{i}]"), &[("key", &[REQUIRED, Name(syntax::label_key)])], causes);
    }
}

/// The items of a list of at most `max`, which have different names.
fn named<'v>(list: &'v Value, path: &str, max: usize, causes: &mut Causes) -> &'v [Value] {
    let items = limited(list, path, max, causes);
    for i in repeated(items.iter().map(|item| &item["name"])) {
        causes.duplicate(&format!("{path}[{i}]"), &items[i]);
    }
    items
}

pub fn claims(list: &Value, path: &str, causes: &mut Causes) {
    for (i, claim) in named(list, path, MAX_CLAIMS, causes).iter().enumerate() {
        let path = format!("{path}[{i}]");
        causes.one_member(&path, claim, &["resourceClaimName", "resourceClaimTemplateName"]);
        let rules: Fields =
            &[("name", TEMPLATE_NAME), ("resourceClaimName", CLASS), ("resourceClaimTemplateName", CLASS)];
        apply(claim, &path, rules, causes);
    }
}

fn templates(list: &Value, path: &str, rules: Fields, causes: &mut Causes) {
    for (i, template) in named(list, path, MAX_TEMPLATES, causes).iter().enumerate() {
        apply(template, &format!("{path}[{i}]"), rules, causes);
    }
}

/// Whether the rules of 1.36 hold.
fn is_old(context: &Context<'_>) -> bool {
    context.requested.version == V1ALPHA2
}

/// Removes the fields whose gates are off, unless the stored object has them.
fn remove_gated(gates: FeatureGates, spec: &mut Value, old: &Value) {
    for (gate, field) in [
        ("CompositePodGroup", PARENT),
        ("CompositePodGroup", COMPOSITES),
        ("PodGroupPreemptionPolicy", PREEMPTION),
        ("TopologyAwareWorkloadScheduling", "schedulingConstraints"),
        ("DRAWorkloadResourceClaims", "resourceClaims"),
    ] {
        let is_own = [PARENT, COMPOSITES, PREEMPTION].contains(&field);
        let is_off = !gates.is_on(gate) && (is_own || gates.is_on(GATE));
        if let Some(spec) = spec.as_object_mut().filter(|_| is_off && old[field].is_null()) {
            spec.shift_remove(field);
        }
    }
    for list in [TEMPLATES, COMPOSITES] {
        for template in items_mut(spec, list) {
            let before = items(old, list).iter().find(|before| before["name"] == template["name"]);
            remove_gated(gates, template, before.unwrap_or(&Value::Null));
        }
    }
}

/// What a change does to a policy of which only the required number changes.
fn policy_change(new: &Value, old: &Value, path: &str, causes: &mut Causes) {
    let path = format!("{path}.schedulingPolicy");
    let (new, old) = (&new["schedulingPolicy"], &old["schedulingPolicy"]);
    if new["basic"] != old["basic"] {
        causes.immutable(&format!("{path}.basic"), &Value::Null);
    }
    let why = match (new["gang"].is_null(), old["gang"].is_null()) {
        (true, false) => "field cannot be cleared once set",
        (false, true) => "field cannot be set once created",
        _ => return,
    };
    causes.invalid(&format!("{path}.gang"), &Value::Null, why);
}

fn unchanged(fields: &[&str], new: &Value, old: &Value, path: &str, causes: &mut Causes) {
    for field in fields {
        let is_absent = |value: &Value| value.is_null() || value.as_array().is_some_and(Vec::is_empty);
        let (new, old) = (&new[field], &old[field]);
        if new != old && !(is_absent(new) && is_absent(old)) {
            causes.immutable(&format!("{path}.{field}"), &Value::Null);
        }
    }
}

/// Templates are neither added nor removed.
fn templates_change(new: &Value, old: &Value, path: &str, causes: &mut Causes) {
    for list in [TEMPLATES, COMPOSITES] {
        let (new, old, path) = (items(new, list), items(old, list), format!("{path}.{list}"));
        for (i, template) in new.iter().enumerate() {
            let path = format!("{path}[{i}]");
            match old.iter().find(|before| before["name"] == template["name"]) {
                Some(before) => {
                    policy_change(template, before, &path, causes);
                    unchanged(FIXED_OF_TEMPLATE, template, before, &path, causes);
                    templates_change(template, before, &path, causes);
                }
                None => causes.forbidden(&path, "item may not be added"),
            }
        }
        if old.iter().any(|before| new.iter().all(|template| template["name"] != before["name"])) {
            causes.forbidden(&path, "item may not be removed");
        }
    }
}

/// A PodGroup, or a CompositePodGroup.
pub struct Group {
    pub rules: Fields,
    /// The kind in what the plugin `Priority` says.
    pub kind: &'static str,
    /// What an update does not change, in the order of the fields.
    pub fixed: &'static [&'static str],
    pub is_composite: bool,
}

pub static PODS: Group = Group {
    rules: GROUP,
    kind: "pod group",
    fixed: &[
        PARENT,
        "workloadRef",
        "schedulingConstraints",
        "resourceClaims",
        "disruptionMode",
        "priorityClassName",
        "priority",
        PREEMPTION,
    ],
    is_composite: false,
};
pub static GROUPS: Group = Group {
    rules: COMPOSITE,
    kind: "composite pod group",
    fixed: &[
        PARENT,
        "workloadRef",
        "schedulingPolicy",
        "schedulingConstraints",
        "disruptionMode",
        "priorityClassName",
        "priority",
        PREEMPTION,
    ],
    is_composite: true,
};

impl Group {
    fn complete(&self, context: &Context<'_>, group: &mut Value, old: &Value) {
        let gates = context.feature_gates;
        if object(group, "spec").is_some() {
            remove_gated(gates, &mut group["spec"], &old["spec"]);
        }
        if let Some(spec) =
            object(group, "spec").filter(|_| gates.pod_group_preemption_policy && !is_old(context))
        {
            default(spec, PREEMPTION, "PreemptLowerPriority");
        }
    }

    /// Sets class, priority and preemption policy, as the plugin `Priority` does.
    fn set_priority(&self, context: &Context<'_>, spec: &mut Value) -> Result<(), String> {
        let classes = priority_classes(context).map_err(|status| status.message.clone())?;
        let class = text(spec, "/priorityClassName").to_owned();
        let priority = Priority::of_class(&class, None, self.kind, &classes)?;
        if let Some(given) = spec["priority"].as_i64().filter(|given| *given != i64::from(priority.value)) {
            return Err(format!(
                "priority set in the {} ({given}) must match the priority computed ({}) based on the priority class set in the \
                 spec",
                self.kind, priority.value
            ));
        }
        if let Some(given) = spec[PREEMPTION].as_str().filter(|given| *given != priority.policy) {
            return Err(format!(
                "the string value of PreemptionPolicy ({given}) must not be provided in {} spec; priority admission controller \
                 computed {} from the given PriorityClass name",
                self.kind, priority.policy
            ));
        }
        if let Some(spec) = spec.as_object_mut() {
            spec.insert("priority".to_owned(), priority.value.into());
            if !priority.class.is_empty() {
                spec.insert("priorityClassName".to_owned(), priority.class.into());
            }
        }
        Ok(())
    }
}

impl Strategy for Group {
    fn default(&self, group: &mut Value) {
        if let Some(spec) = object(group, "spec") {
            default(spec, "disruptionMode", json!({"single": {}}));
        }
    }

    fn prepare_create(&self, context: &Context<'_>, group: &mut Value) {
        self.complete(context, group, &Value::Null);
        if !self.is_composite && !is_old(context) && context.feature_gates.is_on(GATE) {
            add_finalizer(group, "metadata", PROTECTION);
        }
    }

    /// In 1.36, a change that leaves out the priority keeps it, as the plugin `Priority` does.
    fn prepare_update(&self, context: &Context<'_>, new: &mut Value, old: &Value) {
        if context.subresource.is_empty() {
            self.default(new);
            let (priority, spec) = (&old["spec"]["priority"], new["spec"].as_object_mut());
            if let Some(spec) = spec.filter(|_| !priority.is_null() && is_old(context)) {
                default(spec, "priority", priority.clone());
            }
            self.complete(context, new, old);
        } else if context.feature_gates.is_on(GATE)
            && !context.feature_gates.is_on("DRAWorkloadResourceClaims")
        {
            let status = new["status"].as_object_mut().filter(|_| old["spec"]["resourceClaims"].is_null());
            status.map(|status| status.remove("resourceClaimStatuses"));
        }
    }

    fn admit_create(
        &self,
        context: &Context<'_>,
        resource: &Resource,
        group: &mut Value,
        warnings: &mut Vec<String>,
    ) -> ApiResult {
        let name = name(group).to_owned();
        let refused = if is_old(context) {
            super::pod_group::set_priority(context, &mut group["spec"], "pod group spec")
        } else {
            self.set_priority(context, &mut group["spec"])
        };
        refused.map_err(|why| Status::forbidden(resource, &name, &why))?;
        self.validate_new(context, resource, group, warnings)
    }

    fn validate(&self, context: &Context<'_>, group: &Value, causes: &mut Causes) {
        if is_old(context) {
            return POD_GROUP.validate(context, &to_v1alpha2(group.clone()), causes);
        }
        apply(&group["spec"], "spec", self.rules, causes);
    }

    fn validate_update(&self, context: &Context<'_>, new: &Value, old: &Value, causes: &mut Causes) {
        if is_old(context) {
            let [new, old] = [new, old].map(|group| to_v1alpha2(group.clone()));
            return POD_GROUP.validate_update(context, &new, &old, causes);
        }
        // An object may have been stored without a disruption mode.
        let mut old = old.clone();
        self.default(&mut old);
        let (new, old) = (&new["spec"], &old["spec"]);
        if !self.is_composite {
            policy_change(new, old, "spec", causes);
        }
        unchanged(self.fixed, new, old, "spec", causes);
    }

    fn validate_status(&self, new: &Value, _old: &Value, causes: &mut Causes) {
        validate_conditions("status.conditions", &new["status"]["conditions"], causes);
        let (statuses, path) = (&new["status"]["resourceClaimStatuses"], "status.resourceClaimStatuses");
        let claims = items(&new["spec"], "resourceClaims");
        for (i, status) in named(statuses, path, MAX_CLAIMS, causes).iter().enumerate() {
            let path = format!("{path}[{i}]");
            if claims.iter().all(|claim| claim["name"] != status["name"]) {
                let why = "must match the name of an entry in `spec.resourceClaims`";
                causes.invalid(&format!("{path}.name"), &status["name"], why);
            }
            apply(status, &path, &[("resourceClaimName", CLASS)], causes);
        }
    }
}

pub struct Workload;

impl Strategy for Workload {
    fn prepare_create(&self, context: &Context<'_>, workload: &mut Value) {
        if object(workload, "spec").is_some() {
            remove_gated(context.feature_gates, &mut workload["spec"], &Value::Null);
        }
    }

    fn prepare_update(&self, context: &Context<'_>, new: &mut Value, old: &Value) {
        remove_gated(context.feature_gates, &mut new["spec"], &old["spec"]);
        if is_old(context) {
            WORKLOAD.prepare_update(context, new, old);
        }
    }

    fn admit_create(
        &self,
        context: &Context<'_>,
        resource: &Resource,
        workload: &mut Value,
        warnings: &mut Vec<String>,
    ) -> ApiResult {
        if is_old(context) {
            WORKLOAD.set_priorities(context, resource, workload)?;
        }
        self.validate_new(context, resource, workload, warnings)
    }

    fn validate(&self, context: &Context<'_>, workload: &Value, causes: &mut Causes) {
        if is_old(context) {
            return WORKLOAD.validate(context, &to_v1alpha2(workload.clone()), causes);
        }
        let spec = &workload["spec"];
        let mut names = items(spec, TEMPLATES).iter().map(|template| text(template, "/name")).collect();
        unique_names(spec, "spec", &mut names, causes);
        for (i, template) in items(spec, COMPOSITES).iter().enumerate() {
            let path = format!("spec.{COMPOSITES}[{i}]");
            if depth(template) >= MAX_DEPTH {
                let why = format!("maximum template hierarchy depth is {MAX_DEPTH}");
                causes.invalid(&path, &template[COMPOSITES], &why);
            }
        }
        let of = |template: &Value| {
            (text(template, "/priorityClassName").to_owned(), template["priority"].clone())
        };
        let priorities: BTreeSet<String> =
            items(spec, TEMPLATES).iter().map(|template| format!("{:?}", of(template))).collect();
        let mut all = Vec::new();
        items(spec, COMPOSITES).iter().for_each(|template| collect(template, &mut all));
        let below: BTreeSet<String> = all.iter().map(|template| format!("{:?}", of(template))).collect();
        if priorities.len() > 1 {
            causes.invalid("spec", &Value::Null, "detected multiple priority configurations");
        } else if priorities.union(&below).count() > 1 {
            let why = "all priority and priorityClassName values must be identical, detected multiple values";
            causes.invalid("spec", &Value::Null, why);
        }
        has_children(spec, "spec", causes);
        apply(spec, "spec", WORKLOAD_SPEC, causes);
    }

    fn validate_update(&self, context: &Context<'_>, new: &Value, old: &Value, causes: &mut Causes) {
        if is_old(context) {
            let [new, old] = [new, old].map(|workload| to_v1alpha2(workload.clone()));
            return WORKLOAD.validate_update(context, &new, &old, causes);
        }
        let (new, old) = (&new["spec"], &old["spec"]);
        unchanged(&["controllerRef"], new, old, "spec", causes);
        templates_change(new, old, "spec", causes);
    }
}

/// A template and all below it.
fn collect<'v>(template: &'v Value, into: &mut Vec<&'v Value>) {
    into.push(template);
    into.extend(items(template, TEMPLATES));
    items(template, COMPOSITES).iter().for_each(|template| collect(template, into));
}

fn depth(template: &Value) -> usize {
    1 + items(template, COMPOSITES).iter().map(depth).max().unwrap_or(0)
}

/// Names differ in the whole tree; those of one list are compared elsewhere.
fn unique_names<'v>(spec: &'v Value, path: &str, names: &mut BTreeSet<&'v str>, causes: &mut Causes) {
    let (list, path) = (items(spec, COMPOSITES), format!("{path}.{COMPOSITES}"));
    let check = |list: &'v [Value], path: &str, names: &mut BTreeSet<&'v str>, causes: &mut Causes| {
        for (i, template) in list.iter().enumerate().filter(|(_, t)| names.contains(text(t, "/name"))) {
            causes.duplicate(&format!("{path}[{i}].name"), &template["name"]);
        }
        names.extend(list.iter().map(|template| text(template, "/name")));
    };
    check(list, &path, names, causes);
    for (i, template) in list.iter().enumerate() {
        let path = format!("{path}[{i}]");
        check(items(template, TEMPLATES), &format!("{path}.{TEMPLATES}"), names, causes);
        unique_names(template, &path, names, causes);
    }
}

fn has_children(spec: &Value, path: &str, causes: &mut Causes) {
    for (i, template) in items(spec, COMPOSITES).iter().enumerate() {
        let path = format!("{path}.{COMPOSITES}[{i}]");
        if is_empty(&template[TEMPLATES]) && is_empty(&template[COMPOSITES]) {
            let why = "must have at least one child PodGroupTemplate or CompositePodGroupTemplate";
            causes.invalid(&path, &template["name"], why);
        }
        has_children(template, &path, causes);
    }
}
