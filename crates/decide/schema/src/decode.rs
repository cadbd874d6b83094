//! Reading a request's object as its type: wrong types are errors, unknown fields are reported and dropped,
//! `null` is absence, and quantities and times are put into the form they are stored in.

use std::fmt;

use base64::Engine;
use berth_api::object::time::{rfc3339, rfc3339_micros};
use berth_api::syntax::quantity::Quantity;
use serde_json::{Map, Value};

use super::definitions::PROPOSED_FIELD;
use super::go_time;
use super::protobuf::go_names;
use super::types::{Scalar, Struct, Type};

/// Further unknown fields of an object are not reported.
const MAX_UNKNOWN: usize = 100;
/// Nor are those after paths of this many bytes together.
const MAX_UNKNOWN_BYTES: usize = 64 << 10;

/// A value that cannot be read as its type. The message has the format of kube-apiserver's decoder.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    #[error("json: cannot unmarshal {found} into Go struct field {owner}{field} of type {expected}")]
    WrongType {
        /// The actual value, such as `string` or `number 1.5`.
        found: String,
        /// The Go struct that has the field, such as `Container`.
        owner: String,
        /// The path without indices, with the structs that Go embeds: `.spec.volumes.VolumeSource.emptyDir`.
        field: String,
        /// The Go type, such as `[]v1.ContainerPort`.
        expected: String,
        /// The kind of that type in Go; empty if it reads JSON itself.
        kind: &'static str,
    },
    /// The text does not have the format of its type.
    #[error("{0}")]
    Malformed(String),
}

impl DecodeError {
    /// The error of a value in a field of `of`.
    fn in_field(self, of: &Struct, name: &str, ty: &Type) -> DecodeError {
        let DecodeError::WrongType { found, mut owner, field, mut expected, kind } = self else {
            return self;
        };
        let (embedded, named) = go_names(&of.name, name);
        if owner.is_empty() {
            owner = of.short_name().rsplit('.').next().unwrap_or_default().to_owned();
            // The value may be an item of the field.
            let ty = go_type(ty);
            if let Some(inner) = ty.strip_suffix(&expected).and_then(|outer| named.strip_prefix(outer))
                && !inner.is_empty()
            {
                expected = inner.to_owned();
            }
        }
        DecodeError::WrongType { found, owner, field: format!(".{embedded}{name}{field}"), expected, kind }
    }

    /// Versions of a kind share types, which are those of an older one.
    fn in_version(mut self, api_version: &str) -> DecodeError {
        if let DecodeError::WrongType { expected, .. } = &mut self
            && let Some((shared, name)) = expected.split_once('.')
            && matches!(shared, "v1alpha2" | "v1beta2")
        {
            *expected = format!("{}.{name}", api_version.rsplit('/').next().unwrap_or_default());
        }
        self
    }

    /// In the words of Go's converter, by which kube-apiserver reads the results of strategic merge patches.
    pub fn of_converter(&self) -> String {
        let DecodeError::WrongType { found, expected, kind, .. } = self else {
            let why = self.to_string();
            let is_of_bytes = why.starts_with("illegal base64");
            return if is_of_bytes { format!("error decoding from json: {why}") } else { why };
        };
        let found_kind = match found.as_str() {
            "array" => "slice",
            "object" => "map",
            number if number.starts_with("number") => {
                if number.contains('.') {
                    "float64"
                } else {
                    "int64"
                }
            }
            other => other,
        };
        match *kind {
            "" => format!("json: cannot unmarshal {found} into Go value of type {expected}"),
            "struct" => format!("cannot restore struct from: {found_kind}"),
            "map" | "slice" => format!("cannot restore {kind} from {found_kind}"),
            "bool" => "unrecognized type: bool".to_owned(),
            _ if found.starts_with("number") => format!("cannot convert {found_kind} to {expected}"),
            _ => format!("unrecognized type: {kind}"),
        }
    }
}

/// Reads `object` as `ty`, in place. What the type does not know is dropped, and returned as paths
/// (`spec.foo`, `spec.containers[0].foo`), at most 100 of them.
///
/// # Errors
/// A value does not have the type that the API defines.
pub fn decode(ty: &Type, object: &mut Value) -> Result<Vec<String>, DecodeError> {
    let mut reader = Reader::default();
    match reader.value(ty, object, &Path::Root) {
        Ok(()) => Ok(reader.unknown),
        Err(error) => Err(error.in_version(object["apiVersion"].as_str().unwrap_or_default())),
    }
}

/// Drops what the type of a custom resource does not know, and returns it as paths. Values of other types than the
/// schema's are left for validation.
pub fn prune(ty: &Type, object: &mut Value) -> Vec<String> {
    let mut reader = Reader::default();
    reader.prune_value(ty, object, &Path::Root);
    reader.unknown
}

/// Adds the fields that Kubernetes writes even if they are empty, to an object that has been read as its type, and leaves out the
/// other empty ones.
pub fn complete(ty: &Type, object: &mut Value) {
    match (ty, object) {
        (Type::Struct(of), Value::Object(fields)) => {
            fields.retain(|name, value| !of.omits(name, value));
            for &(name, is_null) in of.encoded() {
                let is_empty =
                    |value: &Value| value.is_null() || is_null && value.as_array().is_some_and(Vec::is_empty);
                if fields.get(name).is_none_or(is_empty)
                    && let Some(field) = of.field(name)
                {
                    fields.insert(name.to_owned(), if is_null { Value::Null } else { field.ty().zero() });
                }
            }
            for (name, value) in fields.iter_mut().filter(|(_, value)| value.is_object() || value.is_array())
            {
                if let Some(field) = of.field(name) {
                    complete(field.ty(), value);
                }
            }
        }
        (Type::Map { values, .. }, Value::Object(entries)) => {
            entries.values_mut().for_each(|value| complete(values.get(), value));
        }
        (Type::List { items, .. }, Value::Array(list)) => {
            list.iter_mut().for_each(|item| complete(items.get(), item));
        }
        _ => {}
    }
}

/// Drops the null terms of a node selector of the proposals: they match no node, and empty ones match every node. Terms are
/// ORed, and without any the selector matches no node.
fn drop_null_terms(selector: &mut Value) {
    if let Some(terms) = selector.get_mut("nodeSelectorTerms").and_then(Value::as_array_mut) {
        terms.retain(|term| !term.is_null());
    }
}

/// The reader's position; formatted only for messages.
pub(crate) enum Path<'p> {
    Root,
    Field(&'p Path<'p>, &'p str),
    Index(&'p Path<'p>, usize),
    /// The key of a map.
    Key(&'p Path<'p>, &'p str),
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Path::Root => Ok(()),
            Path::Field(Path::Root, name) | Path::Key(Path::Root, name) => f.write_str(name),
            Path::Field(parent, name) | Path::Key(parent, name) => write!(f, "{parent}.{name}"),
            Path::Index(parent, index) => write!(f, "{parent}[{index}]"),
        }
    }
}

#[derive(Default)]
struct Reader {
    unknown: Vec<String>,
    unknown_bytes: usize,
}

impl Reader {
    fn value(&mut self, ty: &Type, value: &mut Value, path: &Path<'_>) -> Result<(), DecodeError> {
        match (ty, &mut *value) {
            (Type::Any, _) => Ok(()),
            (Type::Struct(of), Value::Object(fields)) => self.fields(of, fields, path),
            (Type::Map { values, .. }, Value::Object(entries)) => {
                for (key, value) in entries {
                    if value.is_null() {
                        *value = values.get().zero();
                    }
                    self.value(values.get(), value, &Path::Key(path, key))?;
                }
                Ok(())
            }
            (Type::List { items, .. }, Value::Array(list)) => {
                for (index, item) in list.iter_mut().enumerate() {
                    if item.is_null() {
                        *item = items.get().zero();
                    }
                    self.value(items.get(), item, &Path::Index(path, index))?;
                }
                Ok(())
            }
            (Type::Scalar(scalar), _) => read_scalar(*scalar, value).map_err(|wrong| match wrong {
                Wrong::Type => wrong_type(ty, value),
                Wrong::Form(reason) => DecodeError::Malformed(reason),
            }),
            _ => Err(wrong_type(ty, value)),
        }
    }

    fn fields(
        &mut self,
        of: &Struct,
        fields: &mut Map<String, Value>,
        path: &Path<'_>,
    ) -> Result<(), DecodeError> {
        let mut drop = false;
        for (name, value) in fields.iter_mut() {
            match of.field(name) {
                Some(_) if value.is_null() => drop = true,
                Some(field) => {
                    if name == PROPOSED_FIELD {
                        drop_null_terms(value);
                    }
                    let read = self.value(field.ty(), value, &Path::Field(path, name));
                    read.map_err(|error| error.in_field(of, name, field.ty()))?;
                }
                None if of.open => {}
                None => {
                    drop = true;
                    self.report(&Path::Field(path, name));
                }
            }
        }
        if drop {
            fields.retain(|name, value| of.open || (of.field(name).is_some() && !value.is_null()));
        }
        Ok(())
    }

    fn prune_value(&mut self, ty: &Type, value: &mut Value, path: &Path<'_>) {
        match (ty, value) {
            (Type::Struct(_), Value::Object(fields)) => fields.retain(|name, value| {
                let path = Path::Field(path, name);
                let Some(ty) = ty.child(name) else {
                    self.report(&path);
                    return false;
                };
                self.prune_value(ty, value, &path);
                true
            }),
            (Type::Map { values, .. }, Value::Object(entries)) => {
                for (key, value) in entries {
                    self.prune_value(values.get(), value, &Path::Field(path, key));
                }
            }
            (Type::List { items, .. }, Value::Array(list)) => {
                for (index, item) in list.iter_mut().enumerate() {
                    self.prune_value(items.get(), item, &Path::Index(path, index));
                }
            }
            _ => {}
        }
    }

    fn report(&mut self, path: &Path<'_>) {
        if self.unknown.len() < MAX_UNKNOWN && self.unknown_bytes < MAX_UNKNOWN_BYTES {
            let path = path.to_string();
            self.unknown_bytes += path.len();
            self.unknown.push(path);
        }
    }
}

enum Wrong {
    Type,
    Form(String),
}

fn read_scalar(scalar: Scalar, value: &mut Value) -> Result<(), Wrong> {
    match (scalar, &*value) {
        (Scalar::String | Scalar::IntOrString, Value::String(_)) | (Scalar::Boolean, Value::Bool(_)) => {
            Ok(())
        }
        (Scalar::Number, Value::Number(_)) => Ok(()),
        (Scalar::Int32 | Scalar::IntOrString, Value::Number(number)) => {
            number.as_i64().filter(|n| i32::try_from(*n).is_ok()).map(|_| ()).ok_or(Wrong::Type)
        }
        (Scalar::Int64, Value::Number(number)) => number.as_i64().map(|_| ()).ok_or(Wrong::Type),
        (Scalar::Bytes, Value::String(text)) => check_base64(text),
        (Scalar::Quantity, _) => canonical_quantity(value),
        (Scalar::Time | Scalar::MicroTime, Value::Null) => Ok(()),
        (Scalar::Time, Value::String(_)) => canonical_time(value, false),
        (Scalar::MicroTime, Value::String(_)) => canonical_time(value, true),
        _ => Err(Wrong::Type),
    }
}

fn check_base64(text: &str) -> Result<(), Wrong> {
    let Err(error) = base64::engine::general_purpose::STANDARD.decode(text.as_bytes()) else { return Ok(()) };
    let at = match error {
        // What follows the padding is wrong, not the padding.
        base64::DecodeError::InvalidByte(at, b'=') if at % 4 >= 2 => {
            at + text.as_bytes()[at..].iter().take_while(|byte| **byte == b'=').count().min(4 - at % 4)
        }
        base64::DecodeError::InvalidByte(at, _) => at,
        base64::DecodeError::InvalidLastSymbol { offset, .. } => offset,
        base64::DecodeError::InvalidLength(length) => length - length % 4,
        _ => text.len(),
    };
    Err(Wrong::Form(format!("illegal base64 data at input byte {at}")))
}

fn canonical_quantity(value: &mut Value) -> Result<(), Wrong> {
    let parsed = match &*value {
        Value::String(text) => Quantity::read(text),
        other => Quantity::parse(&other.to_string()),
    };
    let Ok(quantity) = parsed else {
        return Err(Wrong::Form(
            "quantities must match the regular expression \
             '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
                .to_owned(),
        ));
    };
    let canonical = quantity.to_string();
    if value.as_str() != Some(&canonical) {
        *value = Value::String(canonical);
    }
    Ok(())
}

/// Go writes it as null.
const ZERO_TIME: &str = "0001-01-01T00:00:00Z";

fn canonical_time(value: &mut Value, micro: bool) -> Result<(), Wrong> {
    let text = value.as_str().unwrap_or_default();
    let time = go_time::parse(text, micro).map_err(Wrong::Form)?;
    let canonical = if micro { rfc3339_micros(time) } else { rfc3339(time) };
    if canonical == ZERO_TIME {
        *value = Value::Null;
    } else if canonical != text {
        *value = Value::String(canonical);
    }
    Ok(())
}

fn wrong_type(ty: &Type, value: &Value) -> DecodeError {
    let found = match value {
        Value::Number(number)
            if matches!(ty, Type::Scalar(Scalar::Int32 | Scalar::Int64 | Scalar::IntOrString)) =>
        {
            format!("number {number}")
        }
        other => json_type(other).to_owned(),
    };
    let kind = match ty {
        Type::Any => "interface",
        Type::Struct(_) => "struct",
        Type::Map { .. } => "map",
        Type::List { .. } | Type::Scalar(Scalar::Bytes) => "slice",
        Type::Scalar(Scalar::String) => "string",
        Type::Scalar(Scalar::Int32) => "int32",
        Type::Scalar(Scalar::Int64) => "int64",
        Type::Scalar(Scalar::Number) => "float64",
        Type::Scalar(Scalar::Boolean) => "bool",
        Type::Scalar(Scalar::IntOrString | Scalar::Quantity | Scalar::Time | Scalar::MicroTime) => "",
    };
    DecodeError::WrongType { found, owner: String::new(), field: String::new(), expected: go_type(ty), kind }
}

/// The type in Go's notation.
fn go_type(ty: &Type) -> String {
    match ty {
        Type::Any => "interface {}".to_owned(),
        Type::Struct(of) => of.short_name().to_owned(),
        Type::Map { values, .. } => format!("map[string]{}", go_type(values.get())),
        Type::List { items, .. } => format!("[]{}", go_type(items.get())),
        Type::Scalar(scalar) => match scalar {
            Scalar::String | Scalar::Time | Scalar::MicroTime => "string",
            Scalar::Bytes => "[]uint8",
            Scalar::Int32 | Scalar::IntOrString => "int32",
            Scalar::Int64 => "int64",
            Scalar::Number => "float64",
            Scalar::Boolean => "bool",
            Scalar::Quantity => "resource.Quantity",
        }
        .to_owned(),
    }
}

/// What Go calls the JSON type of a value.
pub fn json_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::built_in::type_of;
    use serde_json::json;

    fn pod() -> &'static Type {
        type_of("", "v1", "Pod").expect("pods are known")
    }

    #[test]
    fn unknown_fields_are_named_and_dropped() {
        let mut object = json!({
            "apiVersion": "v1", "kind": "Pod", "extra": 1,
            "metadata": {"name": "a", "labels": {"any": "thing"}, "creationTimestamp": null},
            "spec": {"containers": [{"name": "a"}, {"name": "b", "imag": "x", "resources": {"limit": {}}}]},
        });
        let expected = ["extra", "spec.containers[1].imag", "spec.containers[1].resources.limit"];
        assert_eq!(decode(pod(), &mut object), Ok(expected.map(str::to_owned).to_vec()));
        assert_eq!(
            object,
            json!({
                "apiVersion": "v1", "kind": "Pod",
                "metadata": {"name": "a", "labels": {"any": "thing"}},
                "spec": {"containers": [{"name": "a"}, {"name": "b", "resources": {}}]},
            })
        );
    }

    #[test]
    fn null_node_selector_terms_of_the_proposals_were_stored_as_terms_that_match_every_node() {
        let nodes = |ignored, enforced| {
            json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": ignored},
            "requiredDuringSchedulingRequiredDuringExecution": {"nodeSelectorTerms": enforced}})
        };
        let pod_with = |affinity| json!({"spec": {"containers": [], "affinity": {"nodeAffinity": affinity}}});
        let mut object = pod_with(nodes(json!([null]), json!([null, {"matchFields": []}, null])));
        assert_eq!(decode(pod(), &mut object), Ok(Vec::new()));
        assert_eq!(object, pod_with(nodes(json!([{}]), json!([{"matchFields": []}]))));
    }

    #[test]
    fn quantities_and_times_get_their_stored_form() {
        let mut object = json!({
            "metadata": {"creationTimestamp": "2024-05-01T12:00:00.123+02:00"},
            "spec": {"containers": [{"resources": {"limits": {"cpu": 1, "memory": "1024Mi"},
                                                   "requests": {"cpu": "0.5", "memory": null}}}]},
        });
        assert_eq!(decode(pod(), &mut object), Ok(Vec::new()));
        assert_eq!(object["metadata"]["creationTimestamp"], "2024-05-01T10:00:00Z");
        assert_eq!(
            object["spec"]["containers"][0]["resources"],
            json!({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m", "memory": "0"}})
        );
        let lease = type_of("coordination.k8s.io", "v1", "Lease").expect("leases are known");
        let mut object = json!({"spec": {"renewTime": "2024-05-01T12:00:00.500000+02:00"}});
        assert_eq!(decode(lease, &mut object), Ok(Vec::new()));
        assert_eq!(object["spec"]["renewTime"], "2024-05-01T10:00:00.500000Z");
    }

    #[test]
    fn type_error_messages_match_the_go_decoder() {
        let cases = [
            (
                json!({"spec": {"containers": [{"ports": "80"}]}}),
                "json: cannot unmarshal string into Go struct field Container.spec.containers.ports of type \
                 []v1.ContainerPort",
            ),
            (
                json!({"metadata": {"labels": {"a": 1}}}),
                "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.labels of type string",
            ),
            (
                json!({"spec": {"priority": 5_000_000_000_i64}}),
                "json: cannot unmarshal number 5000000000 into Go struct field PodSpec.spec.priority of type int32",
            ),
            (
                json!({"metadata": []}),
                "json: cannot unmarshal array into Go struct field Pod.metadata of type v1.ObjectMeta",
            ),
            (
                json!({"spec": {"volumes": [{"emptyDir": {"medium": 1}}]}}),
                "json: cannot unmarshal number into Go struct field \
                 EmptyDirVolumeSource.spec.volumes.VolumeSource.emptyDir.medium of type v1.StorageMedium",
            ),
            (
                json!({"spec": {"volumes": [{"emptyDir": []}]}}),
                "json: cannot unmarshal array into Go struct field Volume.spec.volumes.VolumeSource.emptyDir of type \
                 v1.EmptyDirVolumeSource",
            ),
            (
                json!({"spec": {"containers": [{"securityContext": {"capabilities": {"add": [1]}}}]}}),
                "json: cannot unmarshal number into Go struct field \
                 Capabilities.spec.containers.securityContext.capabilities.add of type v1.Capability",
            ),
            (
                json!({"spec": {"containers": [{"securityContext": {"capabilities": {"add": 1}}}]}}),
                "json: cannot unmarshal number into Go struct field \
                 Capabilities.spec.containers.securityContext.capabilities.add of type []v1.Capability",
            ),
            (
                json!({"spec": {"containers": [{"livenessProbe": {"httpGet": {"port": 1.5}}}]}}),
                "json: cannot unmarshal number 1.5 into Go struct field \
                 HTTPGetAction.spec.containers.livenessProbe.ProbeHandler.httpGet.port of type int32",
            ),
            (
                json!({"spec": {"overhead": {"cpu": "much"}}}),
                "quantities must match the regular expression \
                 '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
            ),
        ];
        for (mut object, expected) in cases {
            let error = decode(pod(), &mut object).expect_err(expected);
            assert_eq!(error.to_string(), expected);
        }
    }

    #[test]
    fn secrets_are_base64() {
        let secret = type_of("", "v1", "Secret").expect("secrets are known");
        let mut object = json!({"data": {"a": "aGVsbG8="}});
        assert_eq!(decode(secret, &mut object), Ok(Vec::new()));
        let error = decode(secret, &mut json!({"data": {"a": "a!b"}})).expect_err("not base64");
        assert_eq!(error.to_string(), "illegal base64 data at input byte 1");
    }
}
