//! The digest of a pod's text: its identity and its node, and the other fields relevant to placement as bytes to hash.

use std::borrow::Cow;
use std::fmt;

use berth_api::object::{TOPOLOGY_LABELS, placement};
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::pod_delta::PodRef;

/// Reads the identity, the node and the added labels of the pod in a line of a watch. The other fields relevant to placement go to
/// `bytes`: equal bytes mean equal values.
///
/// # Errors
/// The line is not JSON, has no object, or the object is not a pod.
pub(crate) fn digest_line(line: &[u8], bytes: &mut Vec<u8>) -> Result<PodRef, serde_json::Error> {
    let mut digest = PlacementDigest { pod: PodRef::default(), has_object: false, bytes };
    let mut deserializer = serde_json::Deserializer::from_slice(line);
    Part { section: Section::Line, digest: &mut digest }.deserialize(&mut deserializer)?;
    deserializer.end()?;
    digest.pod.added_labels.sort_unstable();
    if digest.has_object { Ok(digest.pod) } else { Err(Error::custom("there is no object")) }
}

struct PlacementDigest<'b> {
    pod: PodRef,
    has_object: bool,
    bytes: &'b mut Vec<u8>,
}

#[derive(Clone, Copy, PartialEq)]
enum Section {
    Line,
    Pod,
    Metadata,
    Labels,
    Spec,
    Status,
}

/// A section that is to be read into a digest.
struct Part<'o, 'b> {
    section: Section,
    digest: &'o mut PlacementDigest<'b>,
}

#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

#[derive(Deserialize)]
struct Condition<'a> {
    #[serde(rename = "type", borrow)]
    condition_type: Cow<'a, str>,
    #[serde(borrow, default)]
    status: Cow<'a, str>,
    #[serde(borrow, default)]
    reason: Option<Cow<'a, str>>,
}

impl<'de> DeserializeSeed<'de> for Part<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Part<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Part { section, digest } = self;
        while let Some(Text(key)) = map.next_key()? {
            let inner = match (section, &*key) {
                (Section::Line, "object") => {
                    digest.has_object = true;
                    Some(Section::Pod)
                }
                (Section::Pod, "metadata") => Some(Section::Metadata),
                (Section::Metadata, "labels") => Some(Section::Labels),
                (Section::Pod, "spec") => Some(Section::Spec),
                (Section::Pod, "status") => Some(Section::Status),
                _ => None,
            };
            if let Some(section) = inner {
                map.next_value_seed(Part { section, digest })?;
                continue;
            }
            let pod = &mut digest.pod;
            let field = match (section, &*key) {
                (Section::Metadata, "namespace") => Some(&mut pod.namespace),
                (Section::Metadata, "name") => Some(&mut pod.name),
                (Section::Metadata, "uid") => Some(&mut pod.uid),
                (Section::Metadata, "resourceVersion") => Some(&mut pod.resource_version),
                (Section::Spec, "nodeName") => Some(&mut pod.node),
                _ => None,
            };
            if let Some(field) = field {
                *field = map.next_value::<Option<String>>()?.unwrap_or_default();
                continue;
            }
            if section == Section::Labels && TOPOLOGY_LABELS.contains(&&*key) {
                pod.added_labels.push((key.into_owned(), map.next_value()?));
                continue;
            }
            let bytes = &mut *digest.bytes;
            match (section, &*key) {
                (Section::Status, "conditions") => {
                    // Placement does not see the others, which change often.
                    let conditions = map.next_value::<Option<Vec<Condition<'de>>>>()?.unwrap_or_default();
                    for condition in
                        conditions.iter().filter(|c| placement::CONDITION_TYPES.contains(&&*c.condition_type))
                    {
                        put_text(bytes, &condition.condition_type);
                        put_text(bytes, &condition.status);
                        put_text(bytes, condition.reason.as_deref().unwrap_or_default());
                    }
                }
                (Section::Status, statuses) if placement::CONTAINER_STATUSES.contains(&statuses) => {
                    let begin = bytes.len();
                    put_text(bytes, statuses);
                    let without_statuses = bytes.len();
                    map.next_value_seed(ContainerStatuses(bytes))?;
                    if bytes.len() == without_statuses {
                        bytes.truncate(begin);
                    }
                }
                (section, field) if matters(section, field) => {
                    bytes.push(section as u8);
                    put_text(bytes, &key);
                    map.next_value_seed(Copied(bytes))?;
                }
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }
}

/// Whether placement may see a field.
fn matters(section: Section, field: &str) -> bool {
    match section {
        Section::Line | Section::Pod => false,
        Section::Labels => true,
        Section::Metadata => placement::METADATA_FIELDS.contains(&field),
        Section::Spec => placement::SPEC_FIELDS.contains(&field),
        Section::Status => placement::STATUS_FIELDS.contains(&field),
    }
}

/// Writes the length first, so that adjacent texts stay distinct.
fn put_text(bytes: &mut Vec<u8>, text: &str) {
    bytes.extend_from_slice(&(text.len() as u64).to_le_bytes());
    bytes.extend_from_slice(text.as_bytes());
}

/// A list of container statuses, as bytes; statuses without resources do not matter.
struct ContainerStatuses<'b>(&'b mut Vec<u8>);

impl<'de> DeserializeSeed<'de> for ContainerStatuses<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

/// For the list, and for each status in it.
impl<'de> Visitor<'de> for ContainerStatuses<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("container statuses")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        while seq.next_element_seed(ContainerStatuses(&mut *self.0))?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let ContainerStatuses(bytes) = self;
        let (begin, mut has_resources) = (bytes.len(), false);
        while let Some(Text(key)) = map.next_key()? {
            if placement::CONTAINER_STATUS_FIELDS.contains(&&*key) {
                has_resources |= key != "name";
                put_text(bytes, &key);
                map.next_value_seed(Copied(&mut *bytes))?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        if !has_resources {
            bytes.truncate(begin);
        }
        Ok(())
    }
}

/// Any value, as bytes.
struct Copied<'b>(&'b mut Vec<u8>);

impl Copied<'_> {
    fn put(self, tag: u8, value: [u8; 8]) {
        self.0.push(tag);
        self.0.extend_from_slice(&value);
    }
}

impl<'de> DeserializeSeed<'de> for Copied<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Copied<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        self.0.push(b'n');
        Ok(())
    }

    fn visit_bool<E>(self, value: bool) -> Result<(), E> {
        self.0.push(if value { b't' } else { b'f' });
        Ok(())
    }

    fn visit_i64<E>(self, value: i64) -> Result<(), E> {
        self.put(b'i', value.to_le_bytes());
        Ok(())
    }

    fn visit_u64<E>(self, value: u64) -> Result<(), E> {
        self.put(b'u', value.to_le_bytes());
        Ok(())
    }

    fn visit_f64<E>(self, value: f64) -> Result<(), E> {
        self.put(b'd', value.to_le_bytes());
        Ok(())
    }

    fn visit_str<E>(self, value: &str) -> Result<(), E> {
        self.0.push(b's');
        put_text(self.0, value);
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        self.0.push(b'[');
        while seq.next_element_seed(Copied(&mut *self.0))?.is_some() {}
        self.0.push(b']');
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        self.0.push(b'{');
        while let Some(Text(key)) = map.next_key()? {
            put_text(self.0, &key);
            map.next_value_seed(Copied(&mut *self.0))?;
        }
        self.0.push(b'}');
        Ok(())
    }
}
