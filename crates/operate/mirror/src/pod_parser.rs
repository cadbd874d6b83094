//! Reads the text of pods. The many pods of a workload have one specification, which is read once.

use std::mem;

use berth_api::object::volume::Volume;
use berth_api::object::{Pod, PodSpec, Shared, SharedParts};
use berth_api::read::json_text::Index;

use crate::known::{Known, read_metadata, read_part};
use crate::placement_digest::{DigestedPod, Section, digest};

/// Reads the JSON of pods. Pods of a workload share their specification, and what else they have in common. Volumes without a source
/// that placement knows are left out.
#[derive(Default)]
pub struct PodParser {
    /// Without their nodes.
    specs: Known<PodSpec>,
    parts: SharedParts,
    index: Index,
    /// The fields relevant to placement of the text that was digested last.
    fields: Vec<u8>,
}

impl PodParser {
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
        let parts = &mut self.parts;
        let mut spec = self.specs.get(&self.fields[spec_fields.clone()], || {
            let mut spec: Shared<PodSpec> = read_part(&text[spec.clone()])?;
            spec.node_name.clear();
            spec.volumes.retain(Volume::has_source);
            parts.share_spec(&mut spec);
            Ok(spec)
        })?;
        if !node.is_empty() {
            spec.node_name = node;
        }
        let metadata = read_metadata(text, metadata, managed_fields)?;
        let mut pod = Pod { metadata, spec, status: read_part(&text[status.clone()])? };
        parts.share_others(&mut pod);
        Ok(pod)
    }
}
