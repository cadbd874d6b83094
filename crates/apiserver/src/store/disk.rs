//! Objects on disk: the current state, and a bounded log of recent changes so that watches can resume after a restart.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use berth_schema::resource::{RESOURCES, Resource, Storage};
use redb::{Database, DatabaseError, ReadableDatabase as _, ReadableTable as _, TableDefinition};
use serde::{Deserialize, Serialize};

use super::collection::Event;
use super::object::{EventType, Facts, Object};

/// `RESOURCE/NAMESPACE/NAME` to the version (8 bytes, big-endian) and the object's JSON.
const OBJECTS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("objects");
/// A change's version to its header (one line of JSON) and the object's JSON.
const EVENTS: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("events");
/// Numbers by name.
const NUMBERS: TableDefinition<'_, &str, u64> = TableDefinition::new("numbers");
const REVISION: &str = "revision";
/// All changes after this version are in the log.
const LOG_FLOOR: &str = "log-floor";
const FORMAT: &str = "format";
const FORMAT_VERSION: u64 = 1;

/// Maximum number of changes in the log.
const MAX_LOGGED: u64 = 20_000;

/// Why stored objects cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DiskError {
    /// Another process uses the data directory.
    #[error("{0} is in use by another process; stop it, or give another --data-dir")]
    InUse(String),
    /// A version with another file format wrote the file.
    #[error("{path} has format {found}, but this version of berth reads format {FORMAT_VERSION}")]
    Format {
        /// The file.
        path: String,
        /// Its format.
        found: u64,
    },
    /// The file is damaged.
    #[error("{path}: {what}")]
    Damaged {
        /// The file.
        path: String,
        /// The problem.
        what: String,
    },
    /// The file cannot be opened, read or written.
    #[error("{path}: {source}")]
    Database {
        /// The file.
        path: String,
        /// The cause.
        source: Box<redb::Error>,
    },
}

/// A checked change that is to be stored.
#[derive(Debug)]
pub struct Decided {
    /// The resource.
    pub resource: &'static Resource,
    /// What happened.
    pub event_type: EventType,
    /// The object after it.
    pub object: Arc<Object>,
    /// The object before it.
    pub previous: Option<Arc<Object>>,
}

/// The contents of the file at startup.
#[derive(Debug, Default)]
pub struct Restored {
    /// The version of the last write; `None` if there was none.
    pub revision: Option<u64>,
    /// All changes after this version are among the events.
    pub floor: u64,
    /// The objects.
    pub objects: Vec<(&'static Resource, Arc<Object>)>,
    /// The changes, oldest first.
    pub events: Vec<(&'static Resource, Event)>,
}

/// Header of a logged change, before its object.
#[derive(Serialize, Deserialize)]
struct Header {
    #[serde(rename = "r")]
    resource: String,
    #[serde(rename = "t")]
    event_type: char,
    /// The selector fields before the change; absent if there was no object, `null` fields if they are unchanged.
    #[serde(rename = "p", default, skip_serializing_if = "Option::is_none")]
    previous: Option<Seen>,
}

#[derive(Serialize, Deserialize)]
struct Seen {
    /// Labels and selectable fields before the change, if the change modified them.
    #[serde(rename = "d", default, skip_serializing_if = "Option::is_none")]
    different: Option<(Labels, Fields)>,
}

type Labels = Vec<(Box<str>, Box<str>)>;
type Fields = Vec<Box<str>>;

/// The file with the objects.
pub struct Disk {
    database: Database,
    path: String,
    n_logged: u64,
}

impl Disk {
    /// Opens or makes the file, and reads everything in it.
    ///
    /// # Errors
    /// Another process uses the file, or it cannot be read.
    pub fn open(path: &Path) -> Result<(Disk, Restored), DiskError> {
        let shown = path.display().to_string();
        let database = Database::create(path).map_err(|error| match error {
            DatabaseError::DatabaseAlreadyOpen => DiskError::InUse(shown.clone()),
            other => DiskError::Database { path: shown.clone(), source: Box::new(other.into()) },
        })?;
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            // The directory is private already; the file holds secrets and should be so on its own.
            let _ = std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600));
        }
        let mut disk = Disk { database, path: shown, n_logged: 0 };
        disk.prepare().map_err(|source| disk.broken(source))?;
        let restored = disk.restore()?;
        disk.n_logged = restored.events.len() as u64;
        Ok((disk, restored))
    }

    fn broken(&self, source: redb::Error) -> DiskError {
        DiskError::Database { path: self.path.clone(), source: Box::new(source) }
    }

    fn damaged(&self, what: impl Into<String>) -> DiskError {
        DiskError::Damaged { path: self.path.clone(), what: what.into() }
    }

    fn prepare(&self) -> Result<(), redb::Error> {
        let transaction = self.database.begin_write()?;
        {
            transaction.open_table(OBJECTS)?;
            transaction.open_table(EVENTS)?;
            let mut numbers = transaction.open_table(NUMBERS)?;
            if numbers.get(FORMAT)?.is_none() {
                numbers.insert(FORMAT, FORMAT_VERSION)?;
            }
        }
        transaction.commit()?;
        Ok(())
    }

    fn restore(&self) -> Result<Restored, DiskError> {
        let fail = |source: redb::Error| self.broken(source);
        let transaction = self.database.begin_read().map_err(|e| fail(e.into()))?;
        let numbers = transaction.open_table(NUMBERS).map_err(|e| fail(e.into()))?;
        let number = |name: &str| -> Result<Option<u64>, DiskError> {
            Ok(numbers.get(name).map_err(|e| fail(e.into()))?.map(|number| number.value()))
        };
        let found = number(FORMAT)?.unwrap_or(FORMAT_VERSION);
        if found != FORMAT_VERSION {
            return Err(DiskError::Format { path: self.path.clone(), found });
        }
        let mut restored = Restored {
            revision: number(REVISION)?,
            floor: number(LOG_FLOOR)?.unwrap_or_default(),
            ..Restored::default()
        };
        let mut at_version: HashMap<u64, Arc<Object>> = HashMap::new();
        let objects = transaction.open_table(OBJECTS).map_err(|e| fail(e.into()))?;
        for entry in objects.iter().map_err(|e| fail(e.into()))? {
            let (key, value) = entry.map_err(|e| fail(e.into()))?;
            let name = key.value().split('/').next().unwrap_or_default();
            let Some(resource) = resource_named(name) else {
                return Err(self.damaged(format!("objects of the unknown resource {name:?}")));
            };
            let Some((version, json)) = value.value().split_first_chunk::<8>() else {
                return Err(self.damaged(format!("object {:?} is cut off", key.value())));
            };
            let revision = u64::from_be_bytes(*version);
            let object = Object::decode(resource, json, revision, EventType::Modified)
                .map_err(|error| self.damaged(format!("object {:?}: {error}", key.value())))?;
            let object = Arc::new(object);
            at_version.insert(revision, object.clone());
            restored.objects.push((resource, object));
        }
        let events = transaction.open_table(EVENTS).map_err(|e| fail(e.into()))?;
        for entry in events.iter().map_err(|e| fail(e.into()))? {
            let (revision, value) = entry.map_err(|e| fail(e.into()))?;
            let revision = revision.value();
            let event = decode_event(revision, value.value(), at_version.get(&revision))
                .ok_or_else(|| self.damaged(format!("the logged change {revision} cannot be read")))?;
            restored.events.push(event);
        }
        Ok(restored)
    }

    /// Stores changes in one transaction. They are on disk when this returns.
    ///
    /// # Errors
    /// The changes could not be written.
    pub fn commit(&mut self, changes: &[Decided]) -> Result<(), redb::Error> {
        let transaction = self.database.begin_write()?;
        let mut n_logged = self.n_logged;
        {
            let mut objects = transaction.open_table(OBJECTS)?;
            let mut events = transaction.open_table(EVENTS)?;
            let mut numbers = transaction.open_table(NUMBERS)?;
            for change in changes {
                let Facts { namespace, name, .. } = &change.object.facts;
                let key = format!("{}/{namespace}/{name}", change.resource.group_resource());
                let revision = change.object.revision;
                if change.event_type == EventType::Deleted {
                    objects.remove(key.as_str())?;
                } else {
                    let json = change.object.json();
                    let mut value = objects.insert_reserve(key.as_str(), json.len() + 8)?;
                    value.as_mut()[..8].copy_from_slice(&revision.to_be_bytes());
                    value.as_mut()[8..].copy_from_slice(json);
                }
                events.insert(revision, encode_event(change).as_slice())?;
                numbers.insert(REVISION, revision)?;
                n_logged += 1;
            }
            let mut floor = None;
            while n_logged > MAX_LOGGED {
                let Some((oldest, _)) = events.pop_first()? else { break };
                floor = Some(oldest.value());
                n_logged -= 1;
            }
            if let Some(floor) = floor {
                numbers.insert(LOG_FLOOR, floor)?;
            }
        }
        transaction.commit()?;
        self.n_logged = n_logged;
        Ok(())
    }

    /// Stores the initial version in a file without objects.
    ///
    /// # Errors
    /// The version could not be written.
    pub fn begin_at(&mut self, revision: u64) -> Result<(), DiskError> {
        let write = || -> Result<(), redb::Error> {
            let transaction = self.database.begin_write()?;
            {
                let mut numbers = transaction.open_table(NUMBERS)?;
                numbers.insert(REVISION, revision)?;
                numbers.insert(LOG_FLOOR, revision)?;
            }
            transaction.commit()?;
            Ok(())
        };
        write().map_err(|source| self.broken(source))
    }
}

fn resource_named(qualified: &str) -> Option<&'static Resource> {
    RESOURCES.iter().copied().find(|r| r.storage == Storage::Own && r.group_resource() == qualified)
}

fn encode_event(change: &Decided) -> Vec<u8> {
    let facts = &change.object.facts;
    let previous = change.previous.as_ref().map(|previous| {
        let before = &previous.facts;
        let same = before.labels == facts.labels && before.fields == facts.fields;
        Seen { different: (!same).then(|| (before.labels.to_vec(), before.fields.to_vec())) }
    });
    let event_type = match change.event_type {
        EventType::Added => 'a',
        EventType::Modified => 'm',
        EventType::Deleted => 'd',
    };
    let header = Header { resource: change.resource.group_resource(), event_type, previous };
    // Strings serialize without failing.
    let mut bytes = serde_json::to_vec(&header).unwrap_or_default();
    bytes.push(b'\n');
    bytes.extend_from_slice(change.object.json());
    bytes
}

fn decode_event(
    revision: u64,
    bytes: &[u8],
    present: Option<&Arc<Object>>,
) -> Option<(&'static Resource, Event)> {
    let end = bytes.iter().position(|b| *b == b'\n')?;
    let header: Header = serde_json::from_slice(&bytes[..end]).ok()?;
    let json = &bytes[end + 1..];
    let resource = resource_named(&header.resource)?;
    let event_type = match header.event_type {
        'a' => EventType::Added,
        'm' => EventType::Modified,
        'd' => EventType::Deleted,
        _ => return None,
    };
    let object = match present {
        Some(object) => object.clone(),
        None => Arc::new(Object::decode(resource, json, revision, event_type).ok()?),
    };
    let previous = header.previous.map(|seen| match seen.different {
        None => object.clone(),
        // The log has the previous selector fields; the other fields are those after the change.
        Some((labels, fields)) => Arc::new(object.with_facts(Facts {
            labels: labels.into_boxed_slice(),
            fields: fields.into_boxed_slice(),
            ..object.facts.clone()
        })),
    });
    Some((resource, Event { event_type, object, previous }))
}
