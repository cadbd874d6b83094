//! Objects with several forms. Events have two, `v1` and `events.k8s.io/v1`, and are stored as the first;
//! HorizontalPodAutoscalers two versions, stored as the second. PodGroups and Workloads have three, stored as `v1beta1`.

use berth_schema::resource::{
    HORIZONTAL_POD_AUTOSCALERS_V1, NEW_EVENTS, POD_GROUPS, POD_GROUPS_V1ALPHA3, Resource, Storage, WORKLOADS,
    WORKLOADS_V1ALPHA3,
};
use bytes::Bytes;
use serde_json::{Map, Value};

use super::autoscaler::{to_v1, to_v2};
use crate::kinds::group_forms::{from_v1alpha3, to_v1alpha2, to_v1alpha3, to_v1beta1};
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

/// Writes the items of a list of a resource, in its served form. As by kube-apiserver, those of a built-in kind have no
/// `apiVersion` and `kind`: the list says them.
pub struct Items {
    resource: &'static Resource,
    /// How the texts of most objects begin.
    starts: [String; 2],
}

impl Items {
    pub fn new(resource: &'static Resource) -> Items {
        let (version, kind) = (resource.api_version(), resource.kind);
        let starts = [
            format!(r#"{{"apiVersion":"{version}","kind":"{kind}","#),
            format!(r#"{{"kind":"{kind}","apiVersion":"{version}","#),
        ];
        Items { resource, starts }
    }

    pub fn write(&self, object: &Object, out: &mut Vec<u8>) {
        let text = object.text();
        let is_stored = is_stored_form(self.resource);
        if self.resource.custom.is_some() {
            return match is_stored {
                true => text.write(out),
                false => out.extend_from_slice(&shown(self.resource, object)),
            };
        }
        let own = text.own_part();
        if is_stored && let Some(start) = self.starts.iter().find(|start| own.starts_with(start.as_bytes())) {
            out.push(b'{');
            return text.write_range(out, start.len(), text.len());
        }
        let mut value = shown_value(self.resource, object.value());
        if let Some(fields) = value.as_object_mut() {
            fields.retain(|name, _| !matches!(name.as_str(), "apiVersion" | "kind"));
        }
        // A JSON value serializes into memory without failing.
        drop(serde_json::to_writer(out, &value));
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
    match table::parse(&object.bytes()) {
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
    let form = FORMS.iter().find(|(shown, _)| *resource == **shown);
    form.map(|(_, conversion)| *conversion)
}

/// The other form in which a resource's objects are served.
pub fn equivalent(resource: &Resource) -> Option<ServedForm> {
    FORMS.iter().find_map(|(shown, conversion)| {
        let stored = shown.stored()?;
        if *resource == **shown {
            Some(served(stored, None))
        } else {
            (*resource == *stored).then(|| served(shown, Some(*conversion)))
        }
    })
}

fn served(resource: &Resource, conversion: Option<Conversion>) -> ServedForm {
    let (group, version) = (resource.group, resource.version);
    ServedForm {
        resource: (group, version, resource.plural),
        kind: (group, version, resource.kind),
        conversion,
    }
}

/// The resources in another form than the stored one.
static FORMS: [(&Resource, Conversion); 6] = [
    (&NEW_EVENTS, EVENTS_CONVERSION),
    (&HORIZONTAL_POD_AUTOSCALERS_V1, Conversion { shown: to_v1, stored: to_v2 }),
    (&POD_GROUPS, OLD_GROUPS),
    (&WORKLOADS, OLD_GROUPS),
    (&POD_GROUPS_V1ALPHA3, ALPHA_GROUPS),
    (&WORKLOADS_V1ALPHA3, ALPHA_GROUPS),
];

const EVENTS_CONVERSION: Conversion = Conversion {
    shown: |value| renamed(value, "events.k8s.io/v1".to_owned(), |(old, new)| (old, new)),
    stored: |value| renamed(value, "v1".to_owned(), |(old, new)| (new, old)),
};
const OLD_GROUPS: Conversion = Conversion { shown: to_v1alpha2, stored: to_v1beta1 };
const ALPHA_GROUPS: Conversion = Conversion { shown: to_v1alpha3, stored: from_v1alpha3 };

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
    fn each_form_leads_to_the_other() {
        for (shown, _) in &FORMS {
            let stored = shown.stored().expect("its objects are stored");
            let names = |resource: &Resource| (resource.group, resource.version, resource.plural);
            let forms = [equivalent(shown), equivalent(stored)].map(|form| form.map(|form| form.resource));
            assert_eq!(forms[0], Some(names(stored)));
            assert!(forms[1].is_some());
            assert!(conversion(stored).is_none());
        }
    }

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
