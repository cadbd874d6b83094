//! The digest of a pod's text: its identity and its node, and the other fields relevant to placement as bytes to hash.
//!
//! Every pod event of the cluster is read this way, and most are read no further. So values are compared as they are
//! written: a server that writes an equal value in another way only causes the pod to be decoded.

use std::ops::Range;

use berth_api::object::{TOPOLOGY_LABELS, placement};
use berth_api::read::json_text::{Index, JsonText, Malformed};
use serde::de::Error;

use crate::pod_ref::PodRef;

/// The pod in a text, as far as it is read.
#[derive(Default)]
pub(crate) struct DigestedPod {
    pub(crate) pod: PodRef,
    /// Where in the text its parts are; empty if the pod does not have them.
    pub(crate) metadata: Range<usize>,
    /// The longest part of the metadata, which is not read.
    pub(crate) managed_fields: Range<usize>,
    pub(crate) spec: Range<usize>,
    pub(crate) status: Range<usize>,
    /// Where in the bytes the fields of the specification are: all that are read but the node.
    pub(crate) spec_fields: Range<usize>,
}

/// Reads the identity, the node and the added labels of the pod in a text: a line of a watch, or a pod. The other fields relevant to
/// placement go to `bytes`: equal bytes mean equal values. With `readiness`, the condition `Ready` is one of them.
///
/// # Errors
/// The text is not JSON, a line has no object, or the object is not a pod.
pub(crate) fn digest(
    text: &[u8],
    section: Section,
    readiness: bool,
    index: &mut Index,
    bytes: &mut Vec<u8>,
) -> Result<DigestedPod, serde_json::Error> {
    let mut digest = PlacementDigest {
        text: JsonText::new(text, index),
        digested: DigestedPod::default(),
        has_object: matches!(section, Section::Pod),
        readiness,
        bytes,
    };
    digest.read(section)?;
    digest.digested.pod.added_labels.sort_unstable();
    if !digest.text.is_at_end() || !digest.has_object {
        return Err(Error::custom("it is not the text of one object"));
    }
    Ok(digest.digested)
}

struct PlacementDigest<'a, 'b> {
    text: JsonText<'a, 'b>,
    digested: DigestedPod,
    has_object: bool,
    readiness: bool,
    bytes: &'b mut Vec<u8>,
}

/// What is being read.
#[derive(Clone, Copy)]
pub(crate) enum Section {
    /// A line of a watch.
    Line,
    /// A pod; the others are parts of it.
    Pod,
    Metadata,
    Labels,
    Spec,
    Status,
}

impl PlacementDigest<'_, '_> {
    fn read(&mut self, section: Section) -> Result<(), serde_json::Error> {
        let mut fields = self.text.object()?;
        while let Some(key) = self.text.next_key(&mut fields)? {
            match (section, key) {
                (Section::Line, b"object") => {
                    self.has_object = true;
                    self.read(Section::Pod)?;
                }
                (Section::Pod, b"metadata") => {
                    self.digested.managed_fields = 0..0;
                    self.digested.metadata = self.part(Section::Metadata)?;
                }
                (Section::Pod, b"spec") => {
                    let begin = self.bytes.len();
                    self.digested.spec = self.part(Section::Spec)?;
                    self.digested.spec_fields = begin..self.bytes.len();
                }
                (Section::Pod, b"status") => self.digested.status = self.part(Section::Status)?,
                (Section::Metadata, b"labels") => self.read(Section::Labels)?,
                (Section::Metadata, b"namespace") => self.digested.pod.namespace = self.string()?,
                (Section::Metadata, b"name") => self.digested.pod.name = self.string()?,
                (Section::Metadata, b"uid") => self.digested.pod.uid = self.string()?,
                (Section::Metadata, b"resourceVersion") => {
                    self.digested.pod.resource_version = self.string()?;
                }
                (Section::Metadata, b"managedFields") => {
                    let length = self.text.value()?.len();
                    self.digested.managed_fields = self.text.at() - length..self.text.at();
                }
                (Section::Spec, b"nodeName") => self.digested.pod.node = self.string()?,
                (Section::Spec, list) if is_one_of(list, &placement::CONTAINERS) => {
                    self.elements(Section::Spec, list, placement::CONTAINER_FIELDS, true)?;
                }
                (Section::Spec, b"volumes") => {
                    self.elements(Section::Spec, b"volumes", placement::VOLUME_FIELDS, false)?;
                }
                (Section::Status, b"conditions") => self.conditions()?,
                (Section::Status, list) if is_one_of(list, &placement::CONTAINER_STATUSES) => {
                    self.elements(Section::Status, list, placement::CONTAINER_STATUS_FIELDS, false)?;
                }
                (Section::Labels, label) if is_one_of(label, &TOPOLOGY_LABELS) => {
                    let label = String::from_utf8_lossy(label).into_owned();
                    let value = self.string()?;
                    self.digested.pod.added_labels.push((label, value));
                }
                (section, key) => {
                    let value = self.text.value()?;
                    if matters(section, key) {
                        self.put(section, [key, value]);
                    }
                }
            }
        }
        Ok(())
    }

    /// Reads a part of the pod, and returns where it is.
    fn part(&mut self, section: Section) -> Result<Range<usize>, serde_json::Error> {
        let begin = self.text.at();
        self.read(section)?;
        Ok(begin..self.text.at())
    }

    /// A string, empty for `null`.
    fn string(&mut self) -> Result<String, serde_json::Error> {
        match self.text.value()? {
            [b'"', plain @ .., b'"'] if !plain.contains(&b'\\') => {
                String::from_utf8(plain.to_vec()).map_err(Error::custom)
            }
            text => Ok(serde_json::from_slice::<Option<String>>(text)?.unwrap_or_default()),
        }
    }

    /// Placement and the enforcer do not see the other conditions, which change often.
    fn conditions(&mut self) -> Result<(), Malformed> {
        let mut conditions = self.text.array()?;
        while self.text.has_next(&mut conditions)? {
            let [quoted, status, reason, message] =
                self.text.members(["type", "status", "reason", "message"])?;
            let [b'"', condition_type @ .., b'"'] = quoted else { continue };
            if is_one_of(condition_type, &placement::CONDITION_TYPES) {
                self.put(Section::Status, [quoted, status, reason]);
            } else if is_one_of(condition_type, &[placement::HELD_CONDITION, placement::MOVE_CONDITION]) {
                self.put(Section::Status, [quoted, status, message]);
            } else if self.readiness && condition_type == b"Ready" {
                self.put(Section::Status, [quoted, status]);
            }
        }
        Ok(())
    }

    /// The elements of a list: all, or those that have one of these fields besides their name.
    fn elements<const N: usize>(
        &mut self,
        section: Section,
        list: &[u8],
        names: [&str; N],
        all: bool,
    ) -> Result<(), Malformed> {
        let mut elements = self.text.array()?;
        while self.text.has_next(&mut elements)? {
            let values = self.text.members(names)?;
            if all || names.iter().zip(values).any(|(name, value)| *name != "name" && !value.is_empty()) {
                self.put(section, [list]);
                self.put(section, values);
            }
        }
        Ok(())
    }

    /// Writes the length of each text first, so that adjacent texts stay distinct.
    fn put<const N: usize>(&mut self, section: Section, texts: [&[u8]; N]) {
        self.bytes.push(section as u8);
        for text in texts {
            self.bytes.extend_from_slice(&(text.len() as u64).to_le_bytes());
            self.bytes.extend_from_slice(text);
        }
    }
}

/// Whether a field is read.
fn matters(section: Section, field: &[u8]) -> bool {
    match section {
        Section::Line | Section::Pod => false,
        Section::Labels => true,
        Section::Metadata => is_one_of(field, &placement::METADATA_FIELDS),
        Section::Spec => {
            is_one_of(field, &placement::SPEC_FIELDS) || is_one_of(field, &placement::OTHER_SPEC_FIELDS)
        }
        Section::Status => is_one_of(field, &placement::STATUS_FIELDS),
    }
}

fn is_one_of(field: &[u8], names: &[&str]) -> bool {
    names.iter().any(|name| name.as_bytes() == field)
}
