//! Writes and their preconditions.

use berth_schema::resource::Resource;
use serde_json::Value;

use super::claim::Claim;
use super::json::Json;
use super::object::{AnyCompiled, Draft, EventType, Object};
use crate::request::{Reason, Status};

/// The operation of a write and its precondition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    Create,
    /// The object must not exist. Its addresses and ports are not checked: it comes from another cluster, or the server
    /// needs it.
    Import,
    /// The object must still be at this version.
    Update {
        expected: u64,
    },
    /// As [`Change::Update`]: of an object that is being deleted, or one that adds nothing but what the server keeps in metadata.
    /// It may use the reserve of a full store.
    Reserved {
        expected: u64,
    },
    /// As [`Change::Update`]: what the server itself writes for a deletion or an eviction, and the usage of a quota. It is
    /// small, and no full store refuses it.
    Release {
        expected: u64,
    },
    /// The object must still be at this version; watchers get the written value as its last state.
    Delete {
        expected: u64,
    },
}

impl Change {
    /// The version that the object must have; `None` if it must not exist.
    pub fn expected(self) -> Option<u64> {
        match self {
            Change::Create | Change::Import => None,
            Change::Update { expected }
            | Change::Reserved { expected }
            | Change::Release { expected }
            | Change::Delete { expected } => Some(expected),
        }
    }

    pub fn event_type(self) -> EventType {
        match self {
            Change::Create | Change::Import => EventType::Added,
            Change::Update { .. } | Change::Reserved { .. } | Change::Release { .. } => EventType::Modified,
            Change::Delete { .. } => EventType::Deleted,
        }
    }
}

#[derive(Debug)]
pub struct Write<'t> {
    /// A resource with its own collection.
    pub resource: &'static Resource,
    pub change: Change,
    /// The whole object; namespace and name are read from its metadata.
    pub object: Json<'t>,
}

#[derive(Debug)]
pub struct EncodedWrite {
    pub resource: &'static Resource,
    pub change: Change,
    pub draft: Draft,
    /// Its compiled form, if requests read one.
    pub compiled: Option<AnyCompiled>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    #[error("the object already exists")]
    AlreadyExists,
    #[error("the object does not exist")]
    NotFound,
    /// The object is no longer at the expected version.
    #[error("the object has been modified")]
    Modified,
    /// Another object has a value that at most one object may have.
    #[error("{0} is already allocated")]
    Claimed(Claim),
    /// The objects take as much as they may.
    #[error(
        "database space exceeded: the stored objects may take {max_bytes} bytes; delete objects, or raise --quota-backend-bytes"
    )]
    NoSpace { max_bytes: u64 },
    /// The storage failed or is closed; the write may or may not be on disk.
    #[error("storage: {0}")]
    Storage(String),
}

impl WriteError {
    pub fn into_status(self, resource: &Resource, name: &str) -> Box<Status> {
        match self {
            WriteError::AlreadyExists => Status::already_exists(resource, name),
            WriteError::NotFound => Status::not_found(resource, name),
            WriteError::Modified => Status::modified(resource, name),
            WriteError::Claimed(_) => Status::conflict(resource, name, &self.to_string()),
            // As kube-apiserver passes on the error of etcd: without a reason.
            WriteError::NoSpace { .. } => Status::new(Reason::Unnamed, self.to_string()),
            WriteError::Storage(why) => Status::internal(format!("the write may not have been kept: {why}")),
        }
    }
}

/// Namespace and name of an object; empty where there is none.
pub fn key(value: &Value) -> (&str, &str) {
    let metadata = &value["metadata"];
    (metadata["namespace"].as_str().unwrap_or_default(), metadata["name"].as_str().unwrap_or_default())
}

/// Checks the precondition of a write against the version of the stored object.
///
/// # Errors
/// It does not hold.
pub fn check(current: Option<u64>, change: Change) -> Result<(), WriteError> {
    match (change.expected(), current) {
        (None, Some(_)) => Err(WriteError::AlreadyExists),
        (Some(_), None) => Err(WriteError::NotFound),
        (expected, current) if expected == current => Ok(()),
        _ => Err(WriteError::Modified),
    }
}

/// The first of the values of an object that it adds, although another object has it.
pub fn conflicting_claim(
    change: Change,
    claims: &[Claim],
    previous: Option<&Object>,
    is_taken: impl Fn(&Claim) -> bool,
) -> Option<Claim> {
    if matches!(change, Change::Import | Change::Release { .. } | Change::Delete { .. }) {
        return None;
    }
    let has = |claim: &Claim| previous.is_some_and(|previous| previous.facts.claims.contains(claim));
    claims.iter().copied().find(|claim| !has(claim) && is_taken(claim))
}
