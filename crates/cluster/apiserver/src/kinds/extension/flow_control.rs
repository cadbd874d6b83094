//! FlowSchemas and PriorityLevelConfigurations.

use berth_schema::resource::{FLOW_SCHEMAS, PRIORITY_LEVEL_CONFIGURATIONS};

use crate::kinds::prelude::*;

pub static FLOW_SCHEMA: Typed = Typed {
    defaults: &[("FlowSchemaSpec", "matchingPrecedence", "1000")],
    enums: &[
        ("FlowDistinguisherMethod", "type", &["ByNamespace", "ByUser"]),
        ("Subject", "kind", &["Group", "ServiceAccount", "User"]),
    ],
    ..Typed::new(&FLOW_SCHEMAS)
};

pub static PRIORITY_LEVEL: Typed = Typed {
    defaults: &[
        ("LimitedPriorityLevelConfiguration", "lendablePercent", "0"),
        ("LimitedPriorityLevelConfiguration", "nominalConcurrencyShares", "30"),
        ("QueuingConfiguration", "handSize", "8"),
        ("QueuingConfiguration", "queueLengthLimit", "50"),
        ("QueuingConfiguration", "queues", "64"),
    ],
    enums: &[
        ("LimitResponse", "type", &["Queue", "Reject"]),
        ("PriorityLevelConfigurationSpec", "type", &["Exempt", "Limited"]),
    ],
    ..Typed::new(&PRIORITY_LEVEL_CONFIGURATIONS)
};

pub const FLOW_SCHEMA_COLUMNS: &[Column] = &[
    NAME,
    Column::field(
        "PriorityLevel",
        "The priority level of matching requests.",
        "/spec/priorityLevelConfiguration/name",
    )
    .or(NONE),
    Column::number(
        "MatchingPrecedence",
        "The lowest number of matching schemas counts.",
        "/spec/matchingPrecedence",
    ),
    Column::field("DistinguisherMethod", "How flows are distinguished.", "/spec/distinguisherMethod/type")
        .or(NONE),
    AGE,
    Column::text("MissingPL", "Whether the priority level is missing.", |row| {
        row.condition("Dangling").unwrap_or("?").into()
    }),
];

pub const PRIORITY_LEVEL_COLUMNS: &[Column] = &[
    NAME,
    Column::field("Type", "Whether requests are limited.", "/spec/type").or(NONE),
    Column::text("NominalConcurrencyShares", "Its share of the concurrency.", |row| {
        let shares = |part: &str| row.at(&format!("/spec/{part}/nominalConcurrencyShares"));
        shares("limited").or_else(|| shares("exempt")).cloned().unwrap_or_else(|| NONE.into())
    }),
    Column::text("Queues", "How many queues there are.", |row| queuing(row, "queues")),
    Column::text("HandSize", "How many queues a flow may use.", |row| queuing(row, "handSize")),
    Column::text("QueueLengthLimit", "How many requests may wait in a queue.", |row| {
        queuing(row, "queueLengthLimit")
    }),
    AGE,
];

fn queuing(row: &Row<'_>, field: &str) -> Value {
    let value = row.at("/spec/limited/limitResponse/queuing").and_then(|queuing| queuing.get(field));
    value.filter(|value| !value.is_null()).cloned().unwrap_or_else(|| NONE.into())
}
