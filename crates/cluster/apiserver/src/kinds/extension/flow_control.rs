//! FlowSchemas and PriorityLevelConfigurations.

use crate::strategy::typed::Typed;
use berth_schema::resource::{FLOW_SCHEMAS, PRIORITY_LEVEL_CONFIGURATIONS};
use serde_json::Value;

use crate::table::columns::{AGE, Column, NAME, Printer};
use crate::table::row::NONE;

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

pub static FLOW_SCHEMA_COLUMNS: Printer = Printer::new(
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

pub static PRIORITY_LEVEL_COLUMNS: Printer = Printer::new(
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
