//! PodGroups, and Workloads with templates of them.

use berth_api::syntax;
use berth_schema::resource::{POD_GROUPS, WORKLOADS};

use crate::kinds::prelude::*;

/// Templates of a Workload at most.
const MAX_TEMPLATES: usize = 8;

pub static POD_GROUP: Typed = Typed {
    immutable: &["/spec"],
    check: |value, causes| validate_spec(&value["spec"], "spec", causes),
    ..Typed::new(&POD_GROUPS)
};

pub static WORKLOAD: Typed =
    Typed { immutable: &["/spec/podGroupTemplates"], check: validate_workload, ..Typed::new(&WORKLOADS) };

fn validate_workload(value: &Value, causes: &mut Causes) {
    let templates = items(&value["spec"], "podGroupTemplates");
    let path = "spec.podGroupTemplates";
    if templates.is_empty() {
        causes.required(path, "must have at least one item");
    } else if templates.len() > MAX_TEMPLATES {
        causes.invalid(path, &templates.len().into(), &format!("must have at most {MAX_TEMPLATES} items"));
    }
    for i in repeated(templates.iter().map(|template| text(template, "/name"))) {
        causes.duplicate(&format!("{path}[{i}].name"), &templates[i]["name"]);
    }
    for (i, template) in templates.iter().take(MAX_TEMPLATES).enumerate() {
        validate_spec(template, &format!("{path}[{i}]"), causes);
    }
}

fn validate_spec(spec: &Value, path: &str, causes: &mut Causes) {
    let (policy, field) = (&spec["schedulingPolicy"], format!("{path}.schedulingPolicy"));
    match (policy["basic"].is_null(), policy["gang"].is_null()) {
        (true, true) => causes.invalid(&field, &"".into(), "must specify one of: `basic`, `gang`"),
        (false, false) => {
            let why = "exactly one of `basic`, `gang` is required, but multiple fields are set";
            causes.invalid(&field, &"{`basic`, `gang`}".into(), why);
        }
        (false, true) => {}
        (true, false) => {
            let (min, field) = (&policy["gang"]["minCount"], format!("{field}.gang.minCount"));
            match min.as_i64() {
                Some(0) => causes.required(&field, ""),
                Some(..0) => causes.invalid(&field, min, "must be greater than zero"),
                _ => {}
            }
        }
    }
    let topology = items(&spec["schedulingConstraints"], "topology");
    let field = format!("{path}.schedulingConstraints.topology");
    if topology.len() > 1 {
        causes.invalid(&field, &topology.len().into(), "must have at most 1 item");
    }
    for (i, constraint) in topology.iter().take(1).enumerate() {
        let key = &constraint["key"];
        if !is_empty(key) {
            let problems = syntax::label_key(key.as_str().unwrap_or_default());
            problems.iter().for_each(|why| causes.invalid(&format!("{field}[{i}].key"), key, why));
        }
    }
}

pub const COLUMNS: &[Column] = &[
    NAME,
    Column::text("Policy", "How its pods are scheduled.", |row| {
        row.at("/spec/schedulingPolicy/gang").map_or("Basic", |_| "Gang").into()
    }),
    Column::field(
        "Workload",
        "The Workload with its template.",
        "/spec/podGroupTemplateRef/workload/workloadName",
    )
    .or(UNSET),
    Column::text("Status", "Whether its required pods are scheduled.", |row| {
        let is_scheduled = |condition: &&Value| condition["type"] == "PodGroupScheduled";
        let scheduled = row.list("/status/conditions").iter().find(is_scheduled);
        scheduled.map_or_else(|| "Pending".into(), |condition| condition["reason"].clone())
    }),
    AGE,
];
