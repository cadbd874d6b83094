//! Kinds whose rows have few columns: names, counts and ages.

use serde_json::Value;

use super::columns::{AGE, Column, NAME, Printer};
use super::row::{Row, UNSET};

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

pub(super) static POD_GROUP: Printer = Printer::new(
    &[
        NAME,
        Column::text("Policy", "How its pods are scheduled."),
        Column::text("Workload", "The Workload with its template."),
        Column::text("Status", "Whether its required pods are scheduled."),
        AGE,
    ],
    |row| {
        let policy = row.at("/spec/schedulingPolicy/gang").map_or("Basic", |_| "Gang");
        let workload = row.text_or("/spec/podGroupTemplateRef/workload/workloadName", UNSET);
        let is_scheduled = |condition: &&Value| condition["type"] == "PodGroupScheduled";
        let scheduled = row.list("/status/conditions").iter().find(is_scheduled);
        let reason = scheduled.map_or_else(|| "Pending".into(), |condition| condition["reason"].clone());
        vec![row.name(), policy.into(), workload, reason, row.age()]
    },
);

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

pub(super) static COMPONENT_STATUS: Printer = Printer::new(
    &[
        NAME,
        Column::text("Status", "Whether the component is healthy."),
        Column::text("Message", "What the check returned."),
        Column::text("Error", "Why the check failed."),
    ],
    |row| {
        let healthy = row.list("/conditions").iter().find(|condition| condition["type"] == "Healthy");
        let text = |field: &str| healthy.and_then(|healthy| healthy[field].as_str()).unwrap_or_default();
        let status = if text("status") == "True" { "Healthy" } else { "Unhealthy" };
        vec![row.name(), status.into(), text("message").into(), text("error").into()]
    },
);

pub(super) static RESOURCE_QUOTA: Printer = Printer::new(
    &[
        NAME,
        Column::text("Request", "Used and allowed requests and counts."),
        Column::text("Limit", "Used and allowed limits."),
        AGE,
    ],
    |row| {
        let hard = row.at("/status/hard").and_then(Value::as_object).into_iter().flatten();
        let mut amounts: Vec<(&String, String)> = hard
            .map(|(name, hard)| {
                let used = row.at("/status/used").and_then(|used| used[name].as_str()).unwrap_or("0");
                (name, format!("{name}: {used}/{}", hard.as_str().unwrap_or_default()))
            })
            .collect();
        amounts.sort_unstable();
        let of = |limits: bool| -> Value {
            let chosen = amounts.iter().filter(|(name, _)| name.starts_with("limits") == limits);
            chosen.map(|(_, text)| text.as_str()).collect::<Vec<_>>().join(", ").into()
        };
        vec![row.name(), of(false), of(true), row.age()]
    },
);
