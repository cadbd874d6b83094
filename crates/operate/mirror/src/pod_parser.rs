//! Reads the text of pods. The many pods of a workload have one specification, which is read once.

use std::hash::{BuildHasher, RandomState};
use std::mem;
use std::ops::Range;

use berth_api::object::volume::Volume;
use berth_api::object::{ObjectMeta, Pod, PodSpec, Shared, SharedParts};
use berth_api::read::json_text::Index;
use rustc_hash::FxHashMap;
use serde::de::DeserializeOwned;

use crate::placement_digest::{DigestedPod, Section, digest};

/// When this many specifications are known, they are forgotten.
const MOST_SPECS: usize = 4096;

/// Reads the JSON of pods. Pods of a workload share their specification, and what else they have in common. Volumes without a source
/// that placement knows are left out.
#[derive(Default)]
pub struct PodParser {
    /// Of the digests, since users write what is hashed.
    key: RandomState,
    /// The specifications that were read last, without their nodes, by the digest of what is read of their text.
    specs: FxHashMap<u64, Shared<PodSpec>>,
    parts: SharedParts,
    index: Index,
    /// The fields relevant to placement of the text that was digested last.
    fields: Vec<u8>,
}

impl PodParser {
    /// Reads a pod.
    ///
    /// # Errors
    /// The text is not the JSON of a pod.
    pub fn read(&mut self, text: &[u8]) -> Result<Pod, serde_json::Error> {
        let mut digested = self.digest(text, Section::Pod, false)?;
        let node = mem::take(&mut digested.pod.node);
        self.read_digested(text, &digested, node)
    }

    /// Finds the parts of the pod in a line of a watch.
    pub(crate) fn digest_line(
        &mut self,
        line: &[u8],
        readiness: bool,
    ) -> Result<DigestedPod, serde_json::Error> {
        self.digest(line, Section::Line, readiness)
    }

    fn digest(
        &mut self,
        text: &[u8],
        section: Section,
        readiness: bool,
    ) -> Result<DigestedPod, serde_json::Error> {
        self.fields.clear();
        digest(text, section, readiness, &mut self.index, &mut self.fields)
    }

    /// The fields relevant to placement of the text that was digested last.
    pub(crate) fn digested_fields(&self) -> &[u8] {
        &self.fields
    }

    /// Reads the pod of the text that was digested last. The specification is read only if it is not known.
    pub(crate) fn read_digested(
        &mut self,
        text: &[u8],
        digested: &DigestedPod,
        node: String,
    ) -> Result<Pod, serde_json::Error> {
        let DigestedPod { metadata, managed_fields, spec, status, spec_fields, .. } = digested;
        let fields = self.key.hash_one(&self.fields[spec_fields.clone()]);
        let mut spec = match self.specs.get(&fields) {
            Some(known) => known.clone(),
            None => {
                let mut spec: Shared<PodSpec> = read_part(&text[spec.clone()])?;
                spec.node_name.clear();
                spec.volumes.retain(Volume::has_source);
                self.parts.share_spec(&mut spec);
                if self.specs.len() >= MOST_SPECS {
                    self.specs.clear();
                }
                self.specs.insert(fields, spec.clone());
                spec
            }
        };
        if !node.is_empty() {
            spec.node_name = node;
        }
        let metadata = read_metadata(text, metadata, managed_fields)?;
        let mut pod = Pod { metadata, spec, status: read_part(&text[status.clone()])? };
        self.parts.share_others(&mut pod);
        Ok(pod)
    }
}

/// The metadata at a place of a text, without the managed fields at a place in it: they are the longest part, and not read.
pub(crate) fn read_metadata(
    text: &[u8],
    metadata: &Range<usize>,
    managed_fields: &Range<usize>,
) -> Result<ObjectMeta, serde_json::Error> {
    if managed_fields.is_empty() {
        return read_part(&text[metadata.clone()]);
    }
    let (before, after) =
        (&text[metadata.start..managed_fields.start], &text[managed_fields.end..metadata.end]);
    read_part(&[before, b"null", after].concat())
}

/// A part of an object, empty if the object does not have it.
pub(crate) fn read_part<T: DeserializeOwned + Default>(text: &[u8]) -> Result<T, serde_json::Error> {
    match text.trim_ascii() {
        [] | b"null" => Ok(T::default()),
        text => serde_json::from_slice(text),
    }
}
