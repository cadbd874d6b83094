//! Objects with several forms. Events have two, `v1` and `events.k8s.io/v1`, and are stored as the first;
//! HorizontalPodAutoscalers two versions, stored as the second. PodGroups and Workloads have two versions, stored as the older.

use berth_schema::resource::{
    EVENTS, HORIZONTAL_POD_AUTOSCALERS, HORIZONTAL_POD_AUTOSCALERS_V1, NEW_EVENTS, POD_GROUPS,
    POD_GROUPS_V1BETA1, Resource, Storage, WORKLOADS, WORKLOADS_V1BETA1,
};
use bytes::Bytes;
use serde_json::{Map, Value};

use super::autoscaler::{to_v1, to_v2};
use super::pod_group::{to_v1alpha2, to_v1beta1};
use crate::store::Object;
use crate::table::{self, IncludeObject};
use crate::webhook::{Conversion, ServedForm};

/// `(v1, events.k8s.io/v1)`.
const NAMES: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
];

/// Whether objects are served in their stored form.
pub fn is_stored_form(resource: &Resource) -> bool {
    resource.storage == Storage::Own && resource.custom.is_none_or(|custom| !custom.several)
}

/// An object's JSON in the resource's served form.
pub fn shown(resource: &Resource, object: &Object) -> Bytes {
    if is_stored_form(resource) {
        object.bytes()
    } else {
        Bytes::from(shown_value(resource, object.value()).to_string())
    }
}

/// An object in the resource's served form.
pub fn shown_value(resource: &Resource, value: Value) -> Value {
    if resource.custom.is_some() {
        return in_version(resource, value);
    }
    match conversion(resource) {
        Some(conversion) => (conversion.shown)(value),
        None => value,
    }
}

/// An object in the resource's served form, as far as its row needs it.
pub fn row_value(resource: &Resource, object: &Object) -> Value {
    if resource.custom.is_some() {
        // Columns may show any field.
        return shown_value(resource, object.value());
    }
    match table::parse(object.json()) {
        Ok(value) => shown_value(resource, value),
        Err(_) => shown_value(resource, object.value()),
    }
}

/// The JSON of the part of an object that its row includes.
pub fn included(resource: &Resource, object: &Object, include: IncludeObject) -> Bytes {
    match include {
        IncludeObject::None => Bytes::from_static(b"null"),
        IncludeObject::Metadata => object.partial(),
        IncludeObject::Object => shown(resource, object),
    }
}

/// A custom resource in another version: the versions differ in their name only.
fn in_version(resource: &Resource, mut value: Value) -> Value {
    if let Some(api_version) = value.get_mut("apiVersion") {
        *api_version = resource.api_version().into();
    }
    value
}

/// An object in its stored form.
pub fn stored_value(resource: &'static Resource, value: Value) -> Value {
    if let (Some(_), Some(stored)) = (resource.custom, resource.stored()) {
        return in_version(stored, value);
    }
    match conversion(resource) {
        Some(conversion) => (conversion.stored)(value),
        None => value,
    }
}

/// Conversion of a resource's objects into the stored form; `None` if the forms are the same.
pub fn conversion(resource: &Resource) -> Option<Conversion> {
    if *resource == NEW_EVENTS {
        Some(CONVERSION)
    } else if *resource == HORIZONTAL_POD_AUTOSCALERS_V1 {
        Some(AUTOSCALER_CONVERSION)
    } else if [&POD_GROUPS_V1BETA1, &WORKLOADS_V1BETA1].contains(&resource) {
        Some(GROUP_CONVERSION)
    } else {
        None
    }
}

/// The other forms in which a resource's objects are served.
pub fn equivalents(resource: &Resource) -> &'static [ServedForm] {
    const OLD: ServedForm =
        ServedForm { resource: ("", "v1", "events"), kind: ("", "v1", "Event"), conversion: None };
    const NEW: ServedForm = ServedForm {
        resource: ("events.k8s.io", "v1", "events"),
        kind: ("events.k8s.io", "v1", "Event"),
        conversion: Some(CONVERSION),
    };
    const AUTOSCALER_V1: ServedForm = ServedForm {
        resource: ("autoscaling", "v1", "horizontalpodautoscalers"),
        kind: ("autoscaling", "v1", "HorizontalPodAutoscaler"),
        conversion: Some(AUTOSCALER_CONVERSION),
    };
    const AUTOSCALER_V2: ServedForm = ServedForm {
        resource: ("autoscaling", "v2", "horizontalpodautoscalers"),
        kind: ("autoscaling", "v2", "HorizontalPodAutoscaler"),
        conversion: None,
    };
    const POD_GROUP_OLD: ServedForm = group_form("v1alpha2", ("podgroups", "PodGroup"), None);
    const POD_GROUP_NEW: ServedForm =
        group_form("v1beta1", ("podgroups", "PodGroup"), Some(GROUP_CONVERSION));
    const WORKLOAD_OLD: ServedForm = group_form("v1alpha2", ("workloads", "Workload"), None);
    const WORKLOAD_NEW: ServedForm = group_form("v1beta1", ("workloads", "Workload"), Some(GROUP_CONVERSION));
    if *resource == EVENTS {
        &[NEW]
    } else if *resource == NEW_EVENTS {
        &[OLD]
    } else if *resource == HORIZONTAL_POD_AUTOSCALERS {
        &[AUTOSCALER_V1]
    } else if *resource == HORIZONTAL_POD_AUTOSCALERS_V1 {
        &[AUTOSCALER_V2]
    } else if *resource == POD_GROUPS {
        &[POD_GROUP_NEW]
    } else if *resource == POD_GROUPS_V1BETA1 {
        &[POD_GROUP_OLD]
    } else if *resource == WORKLOADS {
        &[WORKLOAD_NEW]
    } else if *resource == WORKLOADS_V1BETA1 {
        &[WORKLOAD_OLD]
    } else {
        &[]
    }
}

const CONVERSION: Conversion = Conversion {
    shown: |value| renamed(value, "events.k8s.io/v1".to_owned(), |(old, new)| (old, new)),
    stored: |value| renamed(value, "v1".to_owned(), |(old, new)| (new, old)),
};
const AUTOSCALER_CONVERSION: Conversion = Conversion { shown: to_v1, stored: to_v2 };
const GROUP_CONVERSION: Conversion = Conversion { shown: to_v1beta1, stored: to_v1alpha2 };

/// A version of PodGroups or Workloads.
const fn group_form(
    version: &'static str,
    (plural, kind): Names,
    conversion: Option<Conversion>,
) -> ServedForm {
    const GROUP: &str = "scheduling.k8s.io";
    ServedForm { resource: (GROUP, version, plural), kind: (GROUP, version, kind), conversion }
}

type Names = (&'static str, &'static str);

fn renamed(value: Value, api_version: String, order: impl Fn(Names) -> Names) -> Value {
    let Value::Object(fields) = value else { return value };
    let rename = |(name, field): (String, Value)| {
        if name == "apiVersion" {
            return (name, Value::from(api_version.as_str()));
        }
        let new = NAMES.into_iter().map(&order).find(|(from, _)| *from == name);
        (new.map_or(name, |(_, to)| to.to_owned()), field)
    };
    Value::Object(fields.into_iter().map(rename).collect::<Map<_, _>>())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn events_are_converted_both_ways() {
        let events = &NEW_EVENTS;
        let stored = json!({"apiVersion": "v1", "kind": "Event", "involvedObject": {"name": "p"}, "message": "m",
            "count": 2, "reason": "R"});
        let shown = shown_value(events, stored.clone());
        assert_eq!(
            shown,
            json!({"apiVersion": "events.k8s.io/v1", "kind": "Event", "regarding": {"name": "p"}, "note": "m",
                "deprecatedCount": 2, "reason": "R"})
        );
        assert_eq!(stored_value(events, shown), stored);
    }
}
