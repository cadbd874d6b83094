//! Events.

use crate::kinds::prelude::*;
use crate::table::duration::since;

pub struct Event;

impl Strategy for Event {
    /// Kubernetes always writes these times, as null where they are not set, so that JSON paths find them.
    fn default(&self, value: &mut Value) {
        let Some(event) = value.as_object_mut() else { return };
        for time in ["eventTime", "firstTimestamp", "lastTimestamp"] {
            event.entry(time).or_insert(Value::Null);
        }
    }

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

fn first_of<'o>(row: &Row<'o>, fields: &[&str]) -> Option<&'o str> {
    fields.iter().find_map(|field| row.text(field))
}

fn first_seen<'o>(row: &Row<'o>) -> Option<&'o str> {
    first_of(row, &["/firstTimestamp", "/deprecatedFirstTimestamp", "/eventTime"])
}

fn source(row: &Row<'_>) -> String {
    let component =
        ["/source/component", "/deprecatedSource/component", "/reportingComponent", "/reportingController"];
    let component = first_of(row, &component).unwrap_or_default();
    match first_of(row, &["/source/host", "/deprecatedSource/host", "/reportingInstance"]) {
        Some(host) => format!("{component}, {host}"),
        None => component.to_owned(),
    }
}
