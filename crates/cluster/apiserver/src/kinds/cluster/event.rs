//! Events.

use berth_api::syntax;

use crate::kinds::prelude::*;
use crate::table::duration::since;

/// What an update by `events.k8s.io` may not change.
const FIXED: &[&str] = &[
    "/involvedObject",
    "/reason",
    "/message",
    "/source",
    "/firstTimestamp",
    "/lastTimestamp",
    "/count",
    "/type",
    "/eventTime",
    "/action",
    "/related",
    "/reportingComponent",
    "/reportingInstance",
];

pub struct Event;

impl Strategy for Event {
    /// Kubernetes always writes these times, as null where they are not set, so that JSON paths find them.
    fn default(&self, value: &mut Value) {
        let Some(event) = value.as_object_mut() else { return };
        for time in ["eventTime", "firstTimestamp", "lastTimestamp"] {
            event.entry(time).or_insert(Value::Null);
        }
    }

    fn name_problems(&self, name: &str) -> Vec<String> {
        syntax::path_segment(name)
    }

    /// An event with an `eventTime` is one of `events.k8s.io`, which has further rules for requests of its own.
    fn validate(&self, context: &Context<'_>, value: &Value, causes: &mut Causes) {
        let involved = &value["involvedObject"]["namespace"];
        let (of, namespace) = (involved.as_str().unwrap_or_default(), text(value, "/metadata/namespace"));
        let is_new = !value["eventTime"].is_null();
        let is_right = match (of, is_new) {
            ("", true) => ["default", "kube-system"].contains(&namespace),
            ("", false) => namespace == "default",
            _ => is_new || of == namespace,
        };
        if !is_right {
            causes.invalid("involvedObject.namespace", &of.into(), "does not match event.namespace");
        }
        let is_requested_as_new = !context.requested.group.is_empty();
        if is_new {
            let controller = &value["reportingComponent"];
            let path = if is_requested_as_new { "reportingController" } else { "reportingComponent" };
            causes.not_empty(path, controller);
            let text_of = |field: &str| value[field].as_str().unwrap_or_default();
            let name = text_of("reportingComponent");
            causes.problems(path, &name.into(), syntax::label_key(name));
            for (field, max) in
                [("reportingInstance", 128), ("action", 128), ("reason", 128), ("message", 1024)]
            {
                if field != "message" {
                    causes.not_empty(field, &value[field]);
                }
                if text_of(field).len() > max {
                    causes.invalid(field, &"".into(), &format!("can have at most {max} characters"));
                }
            }
        }
        if !is_requested_as_new {
            return;
        }
        let name = name(value);
        if !name.is_empty() {
            causes.problems("metadata.name", &name.into(), syntax::dns_subdomain(name));
        }
        let series = &value["series"];
        if !series.is_null() && series["count"].as_i64().unwrap_or(0) < 2 {
            causes.invalid("series.count", &"".into(), "should be at least 2");
        }
        if !series.is_null() && series["lastObservedTime"].is_null() {
            causes.required("series.lastObservedTime", "");
        }
        if !is_new {
            causes.required("eventTime", "");
        }
        let kind = text(value, "/type");
        if !["Normal", "Warning"].contains(&kind) {
            causes.invalid("type", &"".into(), &format!("has invalid value: {kind}"));
        }
        for field in ["firstTimestamp", "lastTimestamp", "count", "source"] {
            if !is_empty(&value[field]) && value[field] != 0 {
                causes.invalid(field, &"".into(), "needs to be unset");
            }
        }
    }

    fn validate_update(&self, context: &Context<'_>, new: &Value, old: &Value, causes: &mut Causes) {
        if !context.requested.group.is_empty() {
            causes.unchanged_at(FIXED, new, old);
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
