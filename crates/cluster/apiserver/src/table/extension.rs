//! Kinds that extend or configure the API server: policies, definitions, services, certificates, flow control.

use jiff::SignedDuration;
use serde_json::Value;

use super::columns::{AGE, Column, NAME, Printer};
use super::row::{NONE, Row, UNSET};

pub(super) static CUSTOM_RESOURCE_DEFINITION: Printer =
    Printer::new(&[NAME, Column::text("Created At", "When the object was created.")], |row| {
        vec![row.name(), row.text_or("/metadata/creationTimestamp", "")]
    });

pub(super) static API_SERVICE: Printer = Printer::new(
    &[
        NAME,
        Column::text("Service", "The service that serves the group and version."),
        Column::text("Available", "Whether it is served."),
        AGE,
    ],
    |row| {
        let service = match (row.text("/spec/service/namespace"), row.text("/spec/service/name")) {
            (Some(namespace), Some(name)) => format!("{namespace}/{name}"),
            _ => "Local".to_owned(),
        };
        vec![row.name(), service.into(), row.condition("Available").unwrap_or("Unknown").into(), row.age()]
    },
);

fn param_kind(row: &Row<'_>) -> Value {
    match (row.text("/spec/paramKind/apiVersion"), row.text("/spec/paramKind/kind")) {
        (Some(api_version), Some(kind)) => format!("{api_version}/{kind}").into(),
        _ => UNSET.into(),
    }
}

const PARAM_KIND: Column = Column::text("ParamKind", "Kind of the parameters.");

pub(super) static VALIDATING_ADMISSION_POLICY: Printer = Printer::new(
    &[NAME, Column::integer("Validations", "How many validations it has."), PARAM_KIND, AGE],
    |row| vec![row.name(), row.count("/spec/validations").into(), param_kind(row), row.age()],
);

pub(super) static MUTATING_ADMISSION_POLICY: Printer = Printer::new(
    &[NAME, Column::integer("Mutations", "How many mutations it has."), PARAM_KIND, AGE],
    |row| vec![row.name(), row.count("/spec/mutations").into(), param_kind(row), row.age()],
);

pub(super) static ADMISSION_POLICY_BINDING: Printer = Printer::new(
    &[
        NAME,
        Column::text("PolicyName", "The policy it binds."),
        Column::text("ParamRef", "The object with the parameters."),
        AGE,
    ],
    |row| {
        let name = row.text("/spec/paramRef/name");
        let reference = match (row.text("/spec/paramRef/namespace"), name) {
            (Some(namespace), Some(name)) => format!("{namespace}/{name}"),
            (None, Some(name)) => name.to_owned(),
            _ if row.at("/spec/paramRef/selector").is_some() => "*".to_owned(),
            _ => UNSET.to_owned(),
        };
        vec![row.name(), row.text_or("/spec/policyName", ""), reference.into(), row.age()]
    },
);

pub(super) static CERTIFICATE_SIGNING_REQUEST: Printer = Printer::new(
    &[
        NAME,
        AGE,
        Column::text("SignerName", "Who is asked to sign."),
        Column::text("Requestor", "Who made the request."),
        Column::text("RequestedDuration", "How long the certificate is to be valid."),
        Column::text("Condition", "Whether it is approved and issued."),
    ],
    |row| {
        let has = |condition: &str| row.condition(condition).is_some();
        let mut state = match (has("Approved"), has("Denied")) {
            (_, true) => "Denied",
            (true, false) => "Approved",
            (false, false) => "Pending",
        }
        .to_owned();
        for (there, name) in
            [(has("Failed"), ",Failed"), (row.text("/status/certificate").is_some(), ",Issued")]
        {
            state.push_str(if there { name } else { "" });
        }
        let seconds = row.at("/spec/expirationSeconds").and_then(Value::as_i64);
        let duration = seconds
            .map_or(NONE.to_owned(), |seconds| super::human_duration(SignedDuration::from_secs(seconds)));
        vec![
            row.name(),
            row.age(),
            row.text_or("/spec/signerName", NONE),
            row.text_or("/spec/username", ""),
            duration.into(),
            state.into(),
        ]
    },
);

pub(super) static FLOW_SCHEMA: Printer = Printer::new(
    &[
        NAME,
        Column::text("PriorityLevel", "The priority level of matching requests."),
        Column::integer("MatchingPrecedence", "The lowest number of matching schemas counts."),
        Column::text("DistinguisherMethod", "How flows are distinguished."),
        AGE,
        Column::text("MissingPL", "Whether the priority level is missing."),
    ],
    |row| {
        vec![
            row.name(),
            row.text_or("/spec/priorityLevelConfiguration/name", NONE),
            row.integer("/spec/matchingPrecedence").into(),
            row.text_or("/spec/distinguisherMethod/type", NONE),
            row.age(),
            row.condition("Dangling").unwrap_or("?").into(),
        ]
    },
);

pub(super) static PRIORITY_LEVEL_CONFIGURATION: Printer = Printer::new(
    &[
        NAME,
        Column::text("Type", "Whether requests are limited."),
        Column::text("NominalConcurrencyShares", "Its share of the concurrency."),
        Column::text("Queues", "How many queues there are."),
        Column::text("HandSize", "How many queues a flow may use."),
        Column::text("QueueLengthLimit", "How many requests may wait in a queue."),
        AGE,
    ],
    |row| {
        let shares = ["limited", "exempt"]
            .iter()
            .find_map(|part| row.at(&format!("/spec/{part}/nominalConcurrencyShares")));
        let queuing = |field: &str| row.at(&format!("/spec/limited/limitResponse/queuing/{field}"));
        let shown = |value: Option<&Value>| value.cloned().unwrap_or_else(|| NONE.into());
        vec![
            row.name(),
            row.text_or("/spec/type", NONE),
            shown(shares),
            shown(queuing("queues")),
            shown(queuing("handSize")),
            shown(queuing("queueLengthLimit")),
            row.age(),
        ]
    },
);

pub(super) static RUNTIME_CLASS: Printer =
    Printer::new(&[NAME, Column::text("Handler", "The runtime's configuration."), AGE], |row| {
        vec![row.name(), row.text_or("/handler", ""), row.age()]
    });

pub(super) static VOLUME_ATTRIBUTES_CLASS: Printer =
    Printer::new(&[NAME, Column::text("DriverName", "The CSI driver."), AGE], |row| {
        vec![row.name(), row.text_or("/driverName", ""), row.age()]
    });

pub(super) static NAME_AND_AGE: Printer = Printer::new(&[NAME, AGE], |row| vec![row.name(), row.age()]);

pub(super) static RESOURCE_CLAIM: Printer =
    Printer::new(&[NAME, Column::text("State", "Whether it is allocated and reserved."), AGE], |row| {
        let mut states = Vec::new();
        if row.is_deleted() {
            states.push("deleted");
        }
        match row.at("/status/allocation") {
            Some(_) => states.push("allocated"),
            None if !row.is_deleted() => states.push("pending"),
            None => {}
        }
        if !row.list("/status/reservedFor").is_empty() {
            states.push("reserved");
        }
        vec![row.name(), states.join(",").into(), row.age()]
    });

pub(super) static RESOURCE_SLICE: Printer = Printer::new(
    &[
        NAME,
        Column::text("Node", "The node of the devices."),
        Column::text("Driver", "The driver of the devices."),
        Column::text("Pool", "The pool of the devices."),
        AGE,
    ],
    |row| {
        vec![
            row.name(),
            row.text_or("/spec/nodeName", UNSET),
            row.text_or("/spec/driver", ""),
            row.text_or("/spec/pool/name", ""),
            row.age(),
        ]
    },
);
