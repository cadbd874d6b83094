//! The workload being expanded.

use super::ExpandError;
use super::names::synthetic_uid;
use berth_api::object::{ObjectMeta, OwnerReference};
use berth_api::read::{DecodeError, Kind};
use berth_input::inventory::{Entry, Workload};

#[derive(Clone, Copy)]
pub(super) struct Context<'a> {
    pub index: usize,
    pub entry: &'a Entry<Workload>,
}

impl<'a> Context<'a> {
    pub fn kind(&self) -> Kind {
        self.entry.object.kind()
    }

    pub fn metadata(&self) -> &'a ObjectMeta {
        self.entry.object.metadata()
    }

    pub fn invalid(&self, path: &str, message: impl Into<String>) -> ExpandError {
        self.field_error(DecodeError {
            object: self.entry.object.to_string(),
            path: path.to_owned(),
            message: message.into(),
        })
    }

    pub fn field_error(&self, error: DecodeError) -> ExpandError {
        ExpandError::Field { place: self.entry.source.clone(), error: error.into() }
    }

    pub fn owner(&self) -> OwnerReference {
        owner_reference(&self.entry.object.api_version, self.kind(), self.metadata())
    }

    /// A number of pods, 1 by default.
    pub fn count(&self, path: &str, count: Option<i32>) -> Result<i64, ExpandError> {
        match count.unwrap_or(1) {
            count @ 0.. => Ok(i64::from(count)),
            count => {
                Err(self.invalid(path, format!("Invalid value: {count}: must be greater than or equal to 0")))
            }
        }
    }
}

pub(super) fn owner_reference(api_version: &str, kind: Kind, metadata: &ObjectMeta) -> OwnerReference {
    let uid = match metadata.uid.as_str() {
        "" => synthetic_uid(kind.name(), &metadata.namespace, &metadata.name),
        uid => uid.to_owned(),
    };
    OwnerReference {
        api_version: api_version.to_owned(),
        kind: kind.name().to_owned(),
        name: metadata.name.clone(),
        uid,
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}
