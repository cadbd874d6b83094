//! Kinds whose rows have few columns: names, counts and ages.

use serde_json::Value;

use super::columns::{AGE, Column, NAME, Printer};
use super::row::Row;

pub(super) static CONFIG_MAP: Printer =
    Printer::new(&[NAME, Column::integer("Data", "How many entries it has."), AGE], |row| {
        vec![row.name(), (row.count("/data") + row.count("/binaryData")).into(), row.age()]
    });

pub(super) static SECRET: Printer = Printer::new(
    &[
        NAME,
        Column::text("Type", "What the secret is for."),
        Column::integer("Data", "How many entries it has."),
        AGE,
    ],
    |row| vec![row.name(), row.text_or("/type", ""), row.count("/data").into(), row.age()],
);

pub(super) static SERVICE_ACCOUNT: Printer =
    Printer::new(&[NAME, Column::integer("Secrets", "How many secrets its pods may use."), AGE], |row| {
        vec![row.name(), row.count("/secrets").into(), row.age()]
    });

pub(super) static NAMESPACE: Printer =
    Printer::new(&[NAME, Column::text("Status", "Whether it is in use or going away."), AGE], |row| {
        vec![row.name(), row.text_or("/status/phase", ""), row.age()]
    });

pub(super) static LEASE: Printer =
    Printer::new(&[NAME, Column::text("Holder", "Who holds the lease."), AGE], |row| {
        vec![row.name(), row.text_or("/spec/holderIdentity", ""), row.age()]
    });

pub(super) static PRIORITY_CLASS: Printer = Printer::new(
    &[
        NAME,
        Column::integer("Value", "Priority of its pods."),
        Column::text("Global-Default", "Whether pods without a class have this one."),
        AGE,
        Column::text("PreemptionPolicy", "Whether its pods may take the room of others."),
    ],
    |row| {
        vec![
            row.name(),
            row.integer("/value").into(),
            row.at("/globalDefault").cloned().unwrap_or(Value::Bool(false)),
            row.age(),
            row.text_or("/preemptionPolicy", ""),
        ]
    },
);

pub(super) static WEBHOOK_CONFIGURATION: Printer = Printer::new(
    &[NAME, Column::integer("Webhooks", "How many webhooks it configures."), AGE],
    |row: &Row<'_>| vec![row.name(), row.count("/webhooks").into(), row.age()],
);
