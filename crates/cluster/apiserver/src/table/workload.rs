//! Workloads and PodDisruptionBudgets.

use jiff::Timestamp;
use serde_json::Value;

use super::columns::{AGE, CONTAINERS, Column, IMAGES, NAME, Printer, SELECTOR};
use super::duration::human_duration;
use super::row::{NONE, Row};

const TEMPLATE: &str = "/spec/template/spec";

const READY: Column = Column::text("Ready", "Ready pods, of the desired.");
const DESIRED: Column = Column::integer("Desired", "How many pods there should be.");
const CURRENT: Column = Column::integer("Current", "How many pods there are.");
const N_READY: Column = Column::integer("Ready", "How many pods are ready.");
const UP_TO_DATE: Column = Column::integer("Up-to-date", "How many pods are of the current template.");
const AVAILABLE: Column = Column::integer("Available", "How many pods have been ready long enough.");

/// Appends the cells of containers, images and, optionally, a selector.
fn with_template(row: &Row<'_>, mut cells: Vec<Value>, selector: Option<Value>) -> Vec<Value> {
    cells.extend(row.containers(TEMPLATE));
    cells.extend(selector);
    cells
}

fn of_desired(row: &Row<'_>, ready: &str) -> Value {
    format!("{}/{}", row.integer(ready), row.integer("/spec/replicas")).into()
}

pub(super) static DEPLOYMENT: Printer =
    Printer::new(&[NAME, READY, UP_TO_DATE, AVAILABLE, AGE, CONTAINERS, IMAGES, SELECTOR], |row| {
        let cells = vec![
            row.name(),
            of_desired(row, "/status/readyReplicas"),
            row.integer("/status/updatedReplicas").into(),
            row.integer("/status/availableReplicas").into(),
            row.age(),
        ];
        with_template(row, cells, Some(row.selector("/spec/selector")))
    });

fn replicas(row: &Row<'_>, selector: Value) -> Vec<Value> {
    let cells = vec![
        row.name(),
        row.integer("/spec/replicas").into(),
        row.integer("/status/replicas").into(),
        row.integer("/status/readyReplicas").into(),
        row.age(),
    ];
    with_template(row, cells, Some(selector))
}

pub(super) static REPLICA_SET: Printer =
    Printer::new(&[NAME, DESIRED, CURRENT, N_READY, AGE, CONTAINERS, IMAGES, SELECTOR], |row| {
        replicas(row, row.selector("/spec/selector"))
    });

pub(super) static REPLICATION_CONTROLLER: Printer =
    Printer::new(&[NAME, DESIRED, CURRENT, N_READY, AGE, CONTAINERS, IMAGES, SELECTOR], |row| {
        replicas(row, row.labels("/spec/selector"))
    });

pub(super) static STATEFUL_SET: Printer = Printer::new(&[NAME, READY, AGE, CONTAINERS, IMAGES], |row| {
    let cells = vec![row.name(), of_desired(row, "/status/readyReplicas"), row.age()];
    with_template(row, cells, None)
});

pub(super) static DAEMON_SET: Printer = Printer::new(
    &[
        NAME,
        DESIRED,
        CURRENT,
        N_READY,
        UP_TO_DATE,
        AVAILABLE,
        Column::text("Node Selector", "Labels of the nodes that get a pod."),
        AGE,
        CONTAINERS,
        IMAGES,
        SELECTOR,
    ],
    |row| {
        let cells = vec![
            row.name(),
            row.integer("/status/desiredNumberScheduled").into(),
            row.integer("/status/currentNumberScheduled").into(),
            row.integer("/status/numberReady").into(),
            row.integer("/status/updatedNumberScheduled").into(),
            row.integer("/status/numberAvailable").into(),
            row.labels("/spec/template/spec/nodeSelector"),
            row.age(),
        ];
        with_template(row, cells, Some(row.selector("/spec/selector")))
    },
);

pub(super) static JOB: Printer = Printer::new(
    &[
        NAME,
        Column::text("Status", "How the job stands."),
        Column::text("Completions", "Pods that succeeded, of those that must."),
        Column::text("Duration", "How long the job ran or has been running."),
        AGE,
        CONTAINERS,
        IMAGES,
        SELECTOR,
    ],
    |row| {
        let cells = vec![
            row.name(),
            job_status(row).into(),
            completions(row).into(),
            duration(row).into(),
            row.age(),
        ];
        with_template(row, cells, Some(row.selector("/spec/selector")))
    },
);

fn job_status(row: &Row<'_>) -> &'static str {
    let has = |condition: &str| row.condition(condition) == Some("True");
    if has("Complete") {
        "Complete"
    } else if has("Failed") {
        "Failed"
    } else if row.is_deleted() {
        "Terminating"
    } else if has("Suspended") {
        "Suspended"
    } else if has("FailureTarget") {
        "FailureTarget"
    } else if has("SuccessCriteriaMet") {
        "SuccessCriteriaMet"
    } else {
        "Running"
    }
}

fn completions(row: &Row<'_>) -> String {
    let succeeded = row.integer("/status/succeeded");
    match row.at("/spec/completions").and_then(Value::as_i64) {
        Some(completions) => format!("{succeeded}/{completions}"),
        None => match row.integer("/spec/parallelism") {
            parallelism @ 2.. => format!("{succeeded}/1 of {parallelism}"),
            _ => format!("{succeeded}/1"),
        },
    }
}

fn duration(row: &Row<'_>) -> String {
    let time = |pointer: &str| row.text(pointer).and_then(|time| time.parse::<Timestamp>().ok());
    match (time("/status/startTime"), time("/status/completionTime")) {
        (None, _) => String::new(),
        (Some(start), end) => human_duration(end.unwrap_or(row.now).duration_since(start)),
    }
}

pub(super) static CONTROLLER_REVISION: Printer = Printer::new(
    &[
        NAME,
        Column::text("Controller", "The workload it is a revision of."),
        Column::integer("Revision", "Its number."),
        AGE,
    ],
    |row| {
        let owner = row.list("/metadata/ownerReferences").iter().find(|owner| owner["controller"] == true);
        let owner = owner.map_or(NONE.to_owned(), |owner| {
            let of = |field: &str| owner[field].as_str().unwrap_or_default();
            let group = of("apiVersion").split_once('/').map_or("", |(group, _)| group);
            let dot = if group.is_empty() { "" } else { "." };
            format!("{}{dot}{group}/{}", of("kind").to_lowercase(), of("name"))
        });
        vec![row.name(), owner.into(), row.integer("/revision").into(), row.age()]
    },
);

pub(super) static SCALE: Printer =
    Printer::new(&[NAME, DESIRED, Column::integer("Available", "How many pods there are."), AGE], |row| {
        vec![
            row.name(),
            row.integer("/spec/replicas").into(),
            row.integer("/status/replicas").into(),
            row.age(),
        ]
    });

pub(super) static POD_DISRUPTION_BUDGET: Printer = Printer::new(
    &[
        NAME,
        Column::text("Min Available", "How many pods must stay."),
        Column::text("Max Unavailable", "How many pods may be away."),
        Column::integer("Allowed Disruptions", "How many pods may be evicted now."),
        AGE,
    ],
    |row| {
        let amount = |pointer: &str| match row.at(pointer) {
            Some(Value::String(text)) => text.clone(),
            Some(number) => number.to_string(),
            None => "N/A".to_owned(),
        };
        vec![
            row.name(),
            amount("/spec/minAvailable").into(),
            amount("/spec/maxUnavailable").into(),
            row.integer("/status/disruptionsAllowed").into(),
            row.age(),
        ]
    },
);

pub(super) static POD_TEMPLATE: Printer = Printer::new(
    &[
        NAME,
        Column::text("Containers", "Names of the containers."),
        Column::text("Images", "Images of the containers."),
        Column::text("Pod Labels", "Labels of the pods."),
    ],
    |row| {
        let [names, images] = row.containers("/template/spec");
        vec![row.name(), names, images, row.labels("/template/metadata/labels")]
    },
);

pub(super) static CRON_JOB: Printer = Printer::new(
    &[
        NAME,
        Column::text("Schedule", "When jobs are created, in cron format."),
        Column::text("Timezone", "Time zone of the schedule."),
        Column::text("Suspend", "Whether no more jobs are created."),
        Column::integer("Active", "How many jobs are running."),
        Column::text("Last Schedule", "Time since the last job was created."),
        AGE,
        CONTAINERS,
        IMAGES,
        SELECTOR,
    ],
    |row| {
        let suspend = if row.at("/spec/suspend") == Some(&Value::Bool(true)) { "True" } else { "False" };
        let last = row.at("/status/lastScheduleTime").map(|_| row.since("/status/lastScheduleTime"));
        let mut cells = vec![
            row.name(),
            row.text_or("/spec/schedule", ""),
            row.text_or("/spec/timeZone", NONE),
            suspend.into(),
            row.count("/status/active").into(),
            last.map_or(NONE.into(), Value::from),
            row.age(),
        ];
        cells.extend(row.containers("/spec/jobTemplate/spec/template/spec"));
        cells.push(row.selector("/spec/jobTemplate/spec/selector"));
        cells
    },
);
