//! Loading of a dump into an engine, object by object.

use std::io::{self, Read};
use std::time::Instant;

use berth_api::object::{Namespace, Node, Pod, Service};
use berth_api::read::{DecodeError, Manifest, ReadError, decode, read_manifests};
use berth_engine::{Cluster, Settings};
use berth_rules::admission::default_pod;
use berth_rules::merge_label_keys;
use serde::Serialize;

use crate::measure::peak_rss_bytes;

/// Why a dump cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The text is not Kubernetes objects.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A field has the wrong type.
    #[error(transparent)]
    Decode(#[from] DecodeError),
}

/// What was loaded, and how fast.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LoadReport {
    /// Bytes of text.
    pub bytes: u64,
    /// Objects of all kinds.
    pub objects: usize,
    pub nodes: usize,
    /// Pods with a node.
    pub pods: usize,
    /// From the first byte to the last object.
    pub seconds: f64,
    pub megabytes_per_second: f64,
    pub objects_per_second: f64,
    pub peak_rss_bytes: Option<u64>,
}

/// A cluster that is loaded from dumps.
pub struct Loader {
    cluster: Cluster,
    bytes: u64,
    objects: usize,
    start: Instant,
}

impl Default for Loader {
    fn default() -> Self {
        Loader { cluster: Cluster::new(Settings::default()), bytes: 0, objects: 0, start: Instant::now() }
    }
}

impl Loader {
    /// Reads a dump; `file` is its name in messages.
    ///
    /// # Errors
    /// It cannot be read, is not Kubernetes objects, or a field has the wrong type.
    pub fn read(&mut self, input: impl Read, file: &str) -> Result<(), LoadError> {
        let Loader { cluster, bytes, objects, .. } = self;
        read_manifests(CountingReader { input, bytes }, file, &mut |manifest| {
            *objects += 1;
            take(cluster, manifest)
        })
    }

    pub fn report(self) -> LoadReport {
        let seconds = self.start.elapsed().as_secs_f64();
        LoadReport {
            bytes: self.bytes,
            objects: self.objects,
            nodes: self.cluster.n_nodes(),
            pods: self.cluster.n_pods(),
            seconds,
            megabytes_per_second: self.bytes as f64 / 1e6 / seconds,
            objects_per_second: self.objects as f64 / seconds,
            peak_rss_bytes: peak_rss_bytes(),
        }
    }
}

fn take(cluster: &mut Cluster, manifest: Manifest) -> Result<(), LoadError> {
    match manifest.kind.as_str() {
        "Node" => cluster.set_node(&decode::<Node>(&manifest)?),
        "Namespace" => cluster.set_namespace(&decode::<Namespace>(&manifest)?),
        "Service" => cluster.set_service(&decode::<Service>(&manifest)?),
        "Pod" => {
            let mut pod = decode::<Pod>(&manifest)?;
            default_pod(&mut pod);
            merge_label_keys(&mut pod);
            cluster.set_pod(&pod);
        }
        _ => {}
    }
    Ok(())
}

/// Counts the bytes that pass.
struct CountingReader<'a, R> {
    input: R,
    bytes: &'a mut u64,
}

impl<R: Read> Read for CountingReader<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.input.read(buffer)?;
        *self.bytes += n as u64;
        Ok(n)
    }
}
