//! The single writer of a store on disk. It commits all waiting writes as one batch.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use tokio::sync::{mpsc, oneshot};

use super::disk::{Decided, Disk};
use super::object::{EventType, Object};
use super::{Collections, Write, WriteError, check, key};

/// Capacity of the write queue. When it is full, callers wait.
const MAX_WAITING: usize = 4096;
/// Maximum number of writes in a batch.
const MAX_BATCH: usize = 1024;

struct Job {
    write: Write,
    done: oneshot::Sender<Result<Arc<Object>, WriteError>>,
}

/// Handle of the writer.
#[derive(Debug)]
pub struct Writer {
    jobs: Mutex<Option<mpsc::Sender<Job>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    broken: Arc<AtomicBool>,
}

impl Writer {
    /// Starts the writer.
    ///
    /// # Errors
    /// The system cannot start a thread.
    pub fn start(disk: Disk, collections: Arc<Collections>) -> std::io::Result<Writer> {
        let (sender, receiver) = mpsc::channel(MAX_WAITING);
        let broken = Arc::new(AtomicBool::new(false));
        let flag = broken.clone();
        let thread = std::thread::Builder::new()
            .name("berth-store".to_owned())
            .spawn(move || run(disk, &collections, receiver, &flag))?;
        Ok(Writer { jobs: Mutex::new(Some(sender)), thread: Mutex::new(Some(thread)), broken })
    }

    /// Whether the writer accepts writes.
    pub fn is_healthy(&self) -> bool {
        !self.broken.load(Ordering::Relaxed)
    }

    /// Makes one write, and returns once it is on disk.
    ///
    /// # Errors
    /// The precondition does not hold, or the write failed.
    pub async fn write(&self, write: Write) -> Result<Arc<Object>, WriteError> {
        let closed = || WriteError::Storage("the store is closed".to_owned());
        let jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner).clone().ok_or_else(closed)?;
        let (done, result) = oneshot::channel();
        jobs.send(Job { write, done }).await.map_err(|_| closed())?;
        drop(jobs);
        result.await.map_err(|_| closed())?
    }

    /// Finishes pending writes and closes the file.
    pub fn close(&self) {
        drop(self.jobs.lock().unwrap_or_else(PoisonError::into_inner).take());
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the writer of the store panicked");
        }
    }
}

fn run(mut disk: Disk, collections: &Collections, mut jobs: mpsc::Receiver<Job>, broken: &AtomicBool) {
    let mut next = collections.revision() + 1;
    while let Some(first) = jobs.blocking_recv() {
        let mut batch = vec![first];
        while batch.len() < MAX_BATCH
            && let Ok(job) = jobs.try_recv()
        {
            batch.push(job);
        }
        if broken.load(Ordering::Relaxed) {
            let why = "an earlier write failed; restart the server";
            for job in batch {
                let _ = job.done.send(Err(WriteError::Storage(why.to_owned())));
            }
            continue;
        }
        let (decided, waiting) = decide(collections, batch, &mut next);
        if decided.is_empty() {
            continue;
        }
        match disk.commit(&decided) {
            Ok(()) => {
                for (change, done) in decided.into_iter().zip(waiting) {
                    let object = change.object.clone();
                    collections.publish(change.resource, change.object, change.event_type);
                    let _ = done.send(Ok(object));
                }
            }
            Err(error) => {
                // After a failed commit the state on disk is unknown until the file is read again.
                broken.store(true, Ordering::Relaxed);
                tracing::error!(%error, "the store cannot be written");
                for done in waiting {
                    let _ = done.send(Err(WriteError::Storage(error.to_string())));
                }
            }
        }
    }
}

type Waiting = Vec<oneshot::Sender<Result<Arc<Object>, WriteError>>>;

/// Checks each write against the state after the previous ones. Failed checks are answered at once.
fn decide(collections: &Collections, batch: Vec<Job>, next: &mut u64) -> (Vec<Decided>, Waiting) {
    // Objects that earlier writes of the batch changed; `None` for those they deleted.
    let mut changed: HashMap<(usize, String, String), Option<Arc<Object>>> = HashMap::new();
    let (mut decided, mut waiting) = (Vec::new(), Vec::new());
    for Job { write, done } in batch {
        let Write { resource, change, value } = write;
        let (namespace, name) = key(&value);
        let place = (resource.index(), namespace.to_owned(), name.to_owned());
        let previous = match changed.get(&place) {
            Some(object) => object.clone(),
            None => collections.get(resource, namespace, name),
        };
        if let Err(error) = check(previous.as_ref().map(|object| object.revision), change) {
            let _ = done.send(Err(error));
            continue;
        }
        let event_type = change.event_type();
        let object = Arc::new(Object::encode(resource, value, *next, event_type));
        *next += 1;
        changed.insert(place, (event_type != EventType::Deleted).then(|| object.clone()));
        decided.push(Decided { resource, event_type, object, previous });
        waiting.push(done);
    }
    (decided, waiting)
}
