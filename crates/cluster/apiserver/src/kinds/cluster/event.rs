//! Events.

use serde_json::Value;

use crate::strategy::fields::{Causes, text};
use crate::strategy::{Context, Strategy};
use crate::table::columns::{Column, NAME};
use crate::table::duration::since;
use crate::table::row::Row;

pub struct Event;

impl Strategy for Event {
    fn validate(&self, _context: &Context<'_>, value: &Value, causes: &mut Causes) {
        let namespace = text(value, "/involvedObject/namespace");
        if !namespace.is_empty() && namespace != text(value, "/metadata/namespace") {
            let involved = &value["involvedObject"]["namespace"];
            causes.invalid("involvedObject.namespace", involved, "does not match event.namespace");
        }
    }
}

pub const COLUMNS: &[Column] = &[
    Column::text("Last Seen", "How long ago it was seen last.", |row| {
        let last = match row.at("/series") {
            Some(_) => row.text("/series/lastObservedTime"),
            None => {
                first_of(row, &["/lastTimestamp", "/deprecatedLastTimestamp"]).or_else(|| first_seen(row))
            }
        };
        since(last, row.now).into()
    }),
    Column::field("Type", "Normal or Warning.", "/type"),
    Column::field("Reason", "What happened, in one word.", "/reason"),
    Column::text("Object", "What it happened to.", |row| {
        let kind = first_of(row, &["/involvedObject/kind", "/regarding/kind"]).unwrap_or_default();
        let kind = kind.to_lowercase();
        match first_of(row, &["/involvedObject/name", "/regarding/name"]) {
            Some(name) => format!("{kind}/{name}").into(),
            None => kind.into(),
        }
    }),
    Column::text("Subobject", "Which part of the object.", |row| {
        let path = first_of(row, &["/involvedObject/fieldPath", "/regarding/fieldPath"]);
        path.unwrap_or_default().into()
    })
    .wide(),
    Column::text("Source", "Component that reports the event.", |row| source(row).into()).wide(),
    Column::text("Message", "What happened.", |row| {
        first_of(row, &["/message", "/note"]).unwrap_or_default().trim().into()
    }),
    Column::text("First Seen", "How long ago it was seen first.", |row| {
        since(first_seen(row), row.now).into()
    })
    .wide(),
    Column::integer("Count", "How often it was seen.", |row| match row.at("/series") {
        Some(_) => row.integer("/series/count").into(),
        None => (row.integer("/count") + row.integer("/deprecatedCount")).max(1).into(),
    })
    .wide(),
    NAME.wide(),
];

/// The first of some fields that has a text.
fn first_of<'o>(row: &Row<'o>, fields: &[&str]) -> Option<&'o str> {
    fields.iter().find_map(|field| row.text(field))
}

fn first_seen<'o>(row: &Row<'o>) -> Option<&'o str> {
    first_of(row, &["/firstTimestamp", "/deprecatedFirstTimestamp", "/eventTime"])
}

fn cells(row: &Row<'_>) -> Vec<Value> {
    let either = |core: &str, new: &str| row.text(core).or_else(|| row.text(new));
    let ago = |time: Option<&str>| since(time, row.now);
    let event_time = row.text("/eventTime");
    let first = either("/firstTimestamp", "/deprecatedFirstTimestamp").or(event_time);
    let last = either("/lastTimestamp", "/deprecatedLastTimestamp").or(first);
    let (last, count) = match row.at("/series") {
        Some(_) => (row.text("/series/lastObservedTime"), row.integer("/series/count")),
        None => (last, (row.integer("/count") + row.integer("/deprecatedCount")).max(1)),
    };
    let kind = either("/involvedObject/kind", "/regarding/kind").unwrap_or_default().to_lowercase();
    let object = match either("/involvedObject/name", "/regarding/name") {
        Some(name) => format!("{kind}/{name}"),
        None => kind,
    };
    vec![
        ago(last).into(),
        row.text_or("/type", ""),
        row.text_or("/reason", ""),
        object.into(),
        either("/involvedObject/fieldPath", "/regarding/fieldPath").unwrap_or_default().into(),
        source(row).into(),
        either("/message", "/note").unwrap_or_default().trim().into(),
        ago(first).into(),
        count.into(),
        row.name(),
    ]
}

fn source(row: &Row<'_>) -> String {
    let either = |fields: &[&str]| fields.iter().find_map(|field| row.text(field)).unwrap_or_default();
    let component = either(&[
        "/source/component",
        "/deprecatedSource/component",
        "/reportingComponent",
        "/reportingController",
    ]);
    let host = either(&["/source/host", "/deprecatedSource/host", "/reportingInstance"]);
    if host.is_empty() { component.to_owned() } else { format!("{component}, {host}") }
}
