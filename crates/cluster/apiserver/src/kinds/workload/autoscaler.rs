//! HorizontalPodAutoscalers.

use berth_schema::resource::HORIZONTAL_POD_AUTOSCALERS;

use crate::kinds::prelude::*;

const CPU_METRIC: &str = r#"[{"type": "Resource",
    "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}}]"#;

pub static STRATEGY: Typed = Typed {
    defaults: &[
        ("HorizontalPodAutoscalerSpec", "minReplicas", "1"),
        ("HorizontalPodAutoscalerSpec", "metrics", CPU_METRIC),
    ],
    enums: &[
        ("HPAScalingPolicy", "type", &["Percent", "Pods"]),
        ("HPAScalingRules", "selectPolicy", &["Disabled", "Max", "Min"]),
        ("MetricSpec", "type", &["ContainerResource", "External", "Object", "Pods", "Resource"]),
        ("MetricTarget", "type", &["AverageValue", "Utilization", "Value"]),
    ],
    check: |value, causes| {
        let spec = &value["spec"];
        let (least, most) = (spec["minReplicas"].as_i64().unwrap_or(1), spec["maxReplicas"].as_i64());
        if most.is_some_and(|most| most < 1) {
            causes.invalid("spec.maxReplicas", &spec["maxReplicas"], "must be greater than 0");
        } else if most.is_some_and(|most| most < least) {
            let why = "must be greater than or equal to `minReplicas`";
            causes.invalid("spec.maxReplicas", &spec["maxReplicas"], why);
        }
    },
    ..Typed::new(&HORIZONTAL_POD_AUTOSCALERS)
};

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
