//! HorizontalPodAutoscalers.

use berth_api::syntax;
use berth_schema::resource::HORIZONTAL_POD_AUTOSCALERS;

use crate::kinds::config::resource_name::validate_of_limit;
use crate::kinds::prelude::*;
use crate::strategy::field_rules::Rule::{
    Check, Each, Fields as Object, Name, NotNegative, Number, OneOf, Required,
};
use crate::strategy::field_rules::*;

const CPU_METRIC: &str = r#"[{"type": "Resource",
    "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}}]"#;

pub struct Autoscaler;

static DEFAULTS: Typed = Typed {
    defaults: &[
        ("HorizontalPodAutoscalerSpec", "minReplicas", "1"),
        ("HorizontalPodAutoscalerSpec", "metrics", CPU_METRIC),
    ],
    complete: default_behavior,
    ..Typed::new(&HORIZONTAL_POD_AUTOSCALERS)
};

/// Rules for both directions, if there are any; each field that is given counts.
fn default_behavior(autoscaler: &mut Value) {
    let spec = &mut autoscaler["spec"];
    if spec.get("behavior").is_none_or(Value::is_null) {
        return;
    }
    let policy = |ty: &str, value: i32| json!({"type": ty, "value": value, "periodSeconds": 15});
    let (pods, percent) = (policy("Pods", 4), policy("Percent", 100));
    let up = json!({"stabilizationWindowSeconds": 0, "selectPolicy": "Max", "policies": [pods, percent]});
    let down = json!({"selectPolicy": "Max", "policies": [percent]});
    for (direction, defaults) in [("scaleUp", up), ("scaleDown", down)] {
        if let (Some(rules), Value::Object(defaults)) = (object(&mut spec["behavior"], direction), defaults) {
            defaults.into_iter().for_each(|(field, value)| default(rules, &field, value));
        }
    }
}

impl Strategy for Autoscaler {
    fn default(&self, value: &mut Value) {
        object(value, "spec");
        object(&mut value["spec"], "scaleTargetRef");
        DEFAULTS.default(value);
    }

    fn validate(&self, _context: &Context<'_>, value: &Value, causes: &mut Causes) {
        apply(&value["spec"], "spec", SPEC, causes);
    }

    fn validate_status(&self, new: &Value, _old: &Value, causes: &mut Causes) {
        let counts: Fields = &[("currentReplicas", &[NOT_NEGATIVE]), ("desiredReplicas", &[NOT_NEGATIVE])];
        apply(&new["status"], "status", counts, causes);
    }
}

const REFERENCE: Fields =
    &[("kind", &[REQUIRED, Name(syntax::path_segment)]), ("name", &[REQUIRED, Name(syntax::path_segment)])];
const SPEC: Fields = &[
    ("minReplicas", &[NOT_NEGATIVE]),
    ("", &[Check(replicas)]),
    ("scaleTargetRef", &[Object(REFERENCE), Check(api_group)]),
    ("metrics", &[Each(&[Check(metric)])]),
    ("", &[Check(scales_to_zero)]),
    ("behavior", &[Object(&[("scaleUp", RULES), ("scaleDown", RULES)])]),
    ("maxReplicas", &[Check(at_least_one)]),
];
const RULES: &[Rule] = &[Object(&[
    (
        "stabilizationWindowSeconds",
        &[
            Number(0, i64::MAX, "must be greater than or equal to zero"),
            Number(i64::MIN, 3600, "must be less than or equal to 3600"),
        ],
    ),
    ("selectPolicy", &[OneOf(&["Disabled", "Max", "Min"])]),
    ("policies", &[Required("must specify at least one Policy"), Each(&[Object(POLICY)])]),
    ("tolerance", &[NotNegative]),
])];
const POLICY: Fields = &[
    ("type", &[OneOf(&["Percent", "Pods"])]),
    ("value", &[Number(1, i64::MAX, "must be greater than zero")]),
    (
        "periodSeconds",
        &[
            Number(1, i64::MAX, "must be greater than zero"),
            Number(i64::MIN, 1800, "must be less than or equal to 1800"),
        ],
    ),
];
const TARGET: Fields = &[
    ("type", &[Required("must specify a metric target type"), Check(target_type)]),
    ("value", &[Check(positive)]),
    ("averageValue", &[Check(positive)]),
    ("averageUtilization", &[Number(1, i64::MAX, "must be greater than 0")]),
];
const IDENTIFIER: Fields = &[("name", &[Required("must specify a metric name"), Name(syntax::path_segment)])];
/// The sources of a metric in kube-apiserver's order: type, field, the fields of a target of which one is set, and what is said if none is.
const SOURCES: &[(&str, Member, [&str; 2], &str)] = &[
    (
        "Object",
        (
            "object",
            "object",
            &[
                ("describedObject", &[Object(REFERENCE), Check(group_version)]),
                ("metric", &[Object(IDENTIFIER)]),
                ("target", &[Object(TARGET)]),
            ],
        ),
        ["averageValue", "value"],
        "must set either a target value or averageValue",
    ),
    (
        "External",
        ("external", "external", &[("metric", &[Object(IDENTIFIER)]), ("target", &[Object(TARGET)])]),
        ["averageValue", "value"],
        "must set either a target value for metric or a per-pod target",
    ),
    (
        "Pods",
        ("pods", "pods", &[("metric", &[Object(IDENTIFIER)]), ("target", &[Object(TARGET)])]),
        ["averageValue", "averageValue"],
        "must specify a positive target averageValue",
    ),
    (
        "Resource",
        (
            "resource",
            "resource",
            &[("name", &[Required("must specify a resource name")]), ("target", &[Object(TARGET)])],
        ),
        ["averageUtilization", "averageValue"],
        "must set either a target raw value or a target utilization",
    ),
    (
        "ContainerResource",
        (
            "containerResource",
            "containerResource",
            &[
                ("name", &[Required("must specify a resource name"), Check(resource_of_container)]),
                ("container", &[Required("must specify a container"), Name(syntax::dns_label)]),
                ("target", &[Object(TARGET)]),
            ],
        ),
        ["averageUtilization", "averageValue"],
        "must set either a target raw value or a target utilization",
    ),
];

fn replicas(spec: &Value, path: &str, causes: &mut Causes) {
    let (least, most) = (&spec["minReplicas"], &spec["maxReplicas"]);
    if most.as_i64().unwrap_or(0) < least.as_i64().unwrap_or(1) {
        let most = if most.is_null() { &Value::from(0) } else { most };
        causes.invalid(
            &format!("{path}.maxReplicas"),
            most,
            "must be greater than or equal to `minReplicas`",
        );
    }
}

fn at_least_one(most: &Value, path: &str, causes: &mut Causes) {
    match most.as_i64().unwrap_or(0) {
        0 => causes.required(path, ""),
        ..0 => causes.invalid(path, most, "must be greater than or equal to 1"),
        _ => {}
    }
}

fn group_version(reference: &Value, path: &str, causes: &mut Causes) {
    let version = text(reference, "/apiVersion");
    if version.matches('/').count() > 1 {
        let why = format!("unexpected GroupVersion string: {version}");
        causes.invalid(&format!("{path}.apiVersion"), &version.into(), &why);
    }
}

fn api_group(reference: &Value, path: &str, causes: &mut Causes) {
    let version = text(reference, "/apiVersion");
    group_version(reference, path, causes);
    if !version.contains('/') {
        causes.invalid(&format!("{path}.apiVersion"), &version.into(), "apiVersion must specify API group");
    }
}

fn scales_to_zero(spec: &Value, path: &str, causes: &mut Causes) {
    let allows = |metric: &Value| matches!(text(metric, "/type"), "External" | "Object");
    if spec["minReplicas"] == 0 && !items(spec, "metrics").iter().any(allows) {
        let why = "must specify at least one Object or External metric to support scaling to zero replicas";
        causes.forbidden(&format!("{path}.metrics"), why);
    }
}

fn target_type(ty: &Value, path: &str, causes: &mut Causes) {
    if !["Utilization", "Value", "AverageValue"].contains(&text(ty, "")) {
        causes.invalid(path, ty, "must be either Utilization, Value, or AverageValue");
    }
}

fn positive(amount: &Value, path: &str, causes: &mut Causes) {
    if quantity(amount).is_some_and(|amount| amount.is_negative() || amount.is_zero()) {
        causes.invalid(path, amount, "must be positive");
    }
}

fn metric(metric: &Value, path: &str, causes: &mut Causes) {
    let ty = format!("{path}.type");
    if is_empty(&metric["type"]) {
        causes.required(&ty, "must specify a metric source type");
    }
    let is_set = |field: &str| !metric[field].is_null();
    let mut set = SOURCES.iter().filter(|(_, (field, ..), ..)| is_set(field));
    let n_set = set.clone().count();
    if let Some((kind, (field, _, rules), alternatives, why)) = set.next() {
        let (source, path) = (&metric[field], format!("{path}.{field}"));
        apply(source, &path, rules, causes);
        let [first, second] = alternatives.map(|field| !source["target"][field].is_null());
        if !first && !second {
            causes.required(&format!("{path}.target.{}", alternatives[0]), why);
        } else if first && second && *kind != "Object" && *kind != "Pods" {
            let (field, why) = match *kind {
                "External" => ("value", "may not set both a target value for metric and a per-pod target"),
                _ => ("averageValue", "may not set both a target raw value and a target utilization"),
            };
            causes.forbidden(&format!("{path}.target.{field}"), why);
        }
    }
    let mut expected = "";
    match SOURCES.iter().find(|(kind, ..)| metric["type"] == *kind) {
        Some((_, (field, ..), ..)) => {
            expected = field;
            if !is_set(field) {
                let why = "must populate information for the given metric source";
                causes.required(&format!("{path}.{field}"), why);
            }
        }
        None => {
            let types = ["ContainerResource", "External", "Object", "Pods", "Resource"];
            causes.one_of(&ty, &text(metric, "/type").into(), &types);
        }
    }
    let others = SOURCES.iter().map(|(_, (field, ..), ..)| *field);
    for field in others.filter(|field| n_set > 1 && is_set(field) && *field != expected) {
        causes.forbidden(&format!("{path}.{field}"), "must populate the given metric source only");
    }
}

pub const COLUMNS: &[Column] = &[
    NAME,
    Column::text("Reference", "What it scales.", |row| {
        let target = |field: &str| row.text(&format!("/spec/scaleTargetRef/{field}")).unwrap_or_default();
        format!("{}/{}", target("kind"), target("name")).into()
    }),
    Column::text("Targets", "Current and wanted values of the metrics.", targets),
    Column::text("MinPods", "Lower limit of replicas.", |row| {
        let least = row.at("/spec/minReplicas").and_then(Value::as_i64);
        least.map_or(UNSET.to_owned(), |least| least.to_string()).into()
    }),
    Column::text("MaxPods", "Upper limit of replicas.", |row| {
        row.integer("/spec/maxReplicas").to_string().into()
    }),
    Column::number("Replicas", "How many replicas there are.", "/status/currentReplicas"),
    AGE,
];

/// The metrics of either version; of `v1`, its percentage of CPU.
fn targets(row: &Row<'_>) -> Value {
    if let Some(wanted) = row.at("/spec/targetCPUUtilizationPercentage") {
        let current = row.at("/status/currentCPUUtilizationPercentage");
        let current = current.map_or(UNKNOWN.to_owned(), |percent| format!("{percent}%"));
        return format!("cpu: {current}/{wanted}%").into();
    }
    let current = row.list("/status/currentMetrics");
    let metrics = row.list("/spec/metrics").iter().enumerate();
    let metrics = metrics.map(|(at, metric)| target(metric, current.get(at).unwrap_or(&Value::Null)));
    some_of(metrics.collect(), NONE)
}

fn resource_of_container(name: &Value, path: &str, causes: &mut Causes) {
    if !is_empty(name) {
        validate_of_limit(path, "Container", text(name, ""), causes);
    }
}

fn target(metric: &Value, status: &Value) -> String {
    let member = match metric["type"].as_str().unwrap_or_default() {
        "ContainerResource" => "containerResource",
        "External" => "external",
        "Object" => "object",
        "Pods" => "pods",
        _ => "resource",
    };
    let (source, current) = (&metric[member], &status[member]["current"]);
    let wanted = &source["target"];
    let name = source["name"].as_str().map_or(String::new(), |name| format!("{name}: "));
    let amount =
        |values: &Value| match (&values["averageUtilization"], &values["averageValue"], &values["value"]) {
            (Value::Number(percent), ..) => Some(format!("{percent}%")),
            (_, Value::String(amount), _) | (_, _, Value::String(amount)) => Some(amount.clone()),
            _ => None,
        };
    let average = if wanted["averageValue"].is_string() && member != "resource" { " (avg)" } else { "" };
    let unknown = || UNKNOWN.to_owned();
    format!(
        "{name}{}/{}{average}",
        amount(current).unwrap_or_else(unknown),
        amount(wanted).unwrap_or_else(unknown)
    )
}
