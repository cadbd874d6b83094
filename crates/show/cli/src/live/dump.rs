//! The objects of a live cluster as one file: a List in JSON, compressed with gzip.

use std::io::Write;

use berth_api::resource::{NODES, Resource};
use flate2::Compression;
use flate2::write::GzEncoder;
use indicatif::ProgressBar;
use serde_json::{Map, Value};
use tokio::sync::mpsc;

use super::{ListEvent, LiveCluster, LiveError, MAX_WAITING, RESOURCES, list_all};

#[derive(Default)]
pub struct Dump {
    /// The file: members of gzip, which readers join.
    pub bytes: Vec<u8>,
    pub n_objects: usize,
    /// What could not be read.
    pub warnings: Vec<String>,
}

impl LiveCluster {
    /// Reads all that commands read of files.
    ///
    /// # Errors
    /// The server cannot be reached, refuses to list nodes or pods, or sends objects that are no JSON.
    pub fn dump(&self, progress: &ProgressBar) -> Result<Dump, LiveError> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        runtime.map_err(LiveError::Runtime)?.block_on(async {
            let (client, server) = self.connect().await?;
            dump(client, server, progress).await
        })
    }
}

async fn dump(client: kube::Client, server: String, progress: &ProgressBar) -> Result<Dump, LiveError> {
    let (sender, mut events) = mpsc::channel(MAX_WAITING);
    let lists = tokio::spawn(list_all(client, server.clone(), RESOURCES.iter(), sender));
    let mut dump =
        Dump { bytes: member(br#"{"apiVersion":"v1","kind":"List","items":["#), ..Dump::default() };
    let mut list = DumpedList::new(NODES, false);
    while let Some(event) = events.recv().await {
        match event {
            ListEvent::Begun(resource, _) => {
                // What was read of a list that begins again, or of another version, does not count.
                if (resource.group, resource.plural) != (list.resource.group, list.resource.plural) {
                    dump.add(list);
                }
                list = DumpedList::new(resource, dump.n_objects > 0);
            }
            ListEvent::Page(_, texts) => {
                progress.inc(texts.len() as u64);
                for text in texts {
                    list.add(&text).map_err(|error| LiveError::Json { server: server.clone(), error })?;
                }
            }
        }
    }
    dump.warnings = lists.await.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))?;
    dump.add(list);
    dump.bytes.extend(member(b"\n]}\n"));
    Ok(dump)
}

impl Dump {
    fn add(&mut self, list: DumpedList) {
        self.n_objects += list.n_objects;
        self.bytes.extend(finished(list.encoder));
    }
}

/// The objects of a resource, as far as they are read.
struct DumpedList {
    resource: Resource,
    /// Whether objects of other resources come before.
    follows: bool,
    encoder: GzEncoder<Vec<u8>>,
    n_objects: usize,
}

impl DumpedList {
    fn new(resource: Resource, follows: bool) -> DumpedList {
        DumpedList { resource, follows, encoder: encoder(), n_objects: 0 }
    }

    /// Adds an object of a list, which may lack its kind, without its managed fields, which nothing reads.
    fn add(&mut self, text: &[u8]) -> Result<(), serde_json::Error> {
        let mut object: Map<String, Value> = serde_json::from_slice(text)?;
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("managedFields");
        }
        object.entry("apiVersion").or_insert_with(|| self.resource.api_version().into());
        object.entry("kind").or_insert_with(|| self.resource.kind.into());
        self.encoder
            .write_all(if self.follows || self.n_objects > 0 { b",\n" } else { b"\n" })
            .map_err(serde_json::Error::io)?;
        self.n_objects += 1;
        serde_json::to_writer(&mut self.encoder, &object)
    }
}

fn encoder() -> GzEncoder<Vec<u8>> {
    GzEncoder::new(Vec::new(), Compression::default())
}

fn member(text: &[u8]) -> Vec<u8> {
    let mut encoder = encoder();
    _ = encoder.write_all(text);
    finished(encoder)
}

fn finished(encoder: GzEncoder<Vec<u8>>) -> Vec<u8> {
    encoder.finish().expect("a vector takes all bytes")
}

#[cfg(test)]
mod tests {
    use berth_api::read::Kind;

    use super::*;

    #[test]
    fn a_dump_lacked_kinds_that_commands_read() {
        // In one of its versions.
        let is_dumped = |resource: &Resource| {
            let is_it = |(other, _): &(Resource, bool)| {
                (other.group, other.plural) == (resource.group, resource.plural)
            };
            RESOURCES.iter().any(is_it)
        };
        let read =
            berth_api::resource::RESOURCES.iter().filter(|r| Kind::of(&r.api_version(), r.kind).is_some());
        let lacking: Vec<_> = read.filter(|r| !is_dumped(r)).map(|r| r.plural).collect();
        assert_eq!(lacking, ["cronjobs"]);
    }
}
