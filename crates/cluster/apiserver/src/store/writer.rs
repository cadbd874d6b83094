//! The single writer of a store on disk. It commits all waiting writes as one batch.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use berth_serve::parts::Part;
use tokio::sync::{mpsc, oneshot};

use super::claim::Claim;
use super::collections::Collections;
use super::disk::Disk;
use super::entry::Decided;
use super::object::{EventType, Object};
use super::write::{EncodedWrite, WriteError, check, conflicting_claim};

/// Capacity of the write queue. When it is full, callers wait.
const MAX_WAITING: usize = 4096;
const MAX_BATCH: usize = 1024;
/// A batch with objects of this size in bytes is committed.
const BATCH_BYTES: usize = 8 << 20;

pub static STORE: Part = Part::new("store");

type Done = oneshot::Sender<Result<Arc<Object>, WriteError>>;

struct Job {
    write: EncodedWrite,
    done: Done,
}

#[derive(Debug)]
pub struct Writer {
    jobs: Mutex<Option<mpsc::Sender<Job>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    healthy: Arc<AtomicBool>,
}

impl Writer {
    /// Starts the writer.
    ///
    /// # Errors
    /// The system cannot start a thread.
    pub fn start(disk: Disk, collections: Arc<Collections>) -> std::io::Result<Writer> {
        let (sender, receiver) = mpsc::channel(MAX_WAITING);
        let healthy = Arc::new(AtomicBool::new(true));
        let flag = healthy.clone();
        let thread = std::thread::Builder::new()
            .name("berth-store".to_owned())
            .spawn(move || run(disk, &collections, receiver, &flag))?;
        Ok(Writer { jobs: Mutex::new(Some(sender)), thread: Mutex::new(Some(thread)), healthy })
    }

    /// Whether writes succeed. A disk that was full or read-only is healthy again when one does.
    pub fn is_healthy(&self) -> bool {
        self.healthy.load(Ordering::Relaxed)
    }

    /// Makes one write, and returns once it is on disk.
    ///
    /// # Errors
    /// The precondition does not hold, or the write failed.
    pub async fn write(&self, write: EncodedWrite) -> Result<Arc<Object>, WriteError> {
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

/// The directory is free when the store is gone.
impl Drop for Writer {
    fn drop(&mut self) {
        self.close();
    }
}

fn run(mut disk: Disk, collections: &Collections, mut jobs: mpsc::Receiver<Job>, healthy: &AtomicBool) {
    while let Some(first) = jobs.blocking_recv() {
        STORE.run_long(|| write_batch(&mut disk, collections, first, &mut jobs, healthy));
    }
}

/// Writes a job and those that wait behind it.
fn write_batch(
    disk: &mut Disk,
    collections: &Collections,
    first: Job,
    jobs: &mut mpsc::Receiver<Job>,
    healthy: &AtomicBool,
) {
    let mut batch = Batch::default();
    batch.decide(collections, first);
    while batch.decided.len() < MAX_BATCH
        && batch.bytes < BATCH_BYTES
        && let Ok(job) = jobs.try_recv()
    {
        batch.decide(collections, job);
    }
    if batch.decided.is_empty() {
        return;
    }
    let committed = disk.commit(&batch.decided);
    healthy.store(committed.is_ok(), Ordering::Relaxed);
    let maintained = match committed {
        Ok(()) => {
            batch.publish(collections);
            disk.maintain(collections)
        }
        Err(error) => {
            batch.fail(&error.to_string());
            Err(error)
        }
    };
    if let Err(error) = maintained {
        healthy.store(false, Ordering::Relaxed);
        tracing::error!(%error, "the store cannot be written");
    }
}

#[derive(Default)]
struct Batch {
    decided: Vec<Decided>,
    waiting: Vec<Done>,
    /// Writes whose checks failed because of earlier writes of the batch. They are answered after these: until then, the
    /// changes can be lost, and no client may know of them.
    refused: Vec<(Done, WriteError)>,
    bytes: usize,
    /// By how many bytes the writes make the stored objects larger.
    growth: i64,
    /// Objects that the writes changed; `None` for those they deleted.
    changed: HashMap<(usize, String, String), Option<Arc<Object>>>,
    /// Whether the values that these objects had or have are taken after the writes.
    claims: HashMap<Claim, bool>,
}

impl Batch {
    /// Checks a write against the state after the previous ones.
    fn decide(&mut self, collections: &Collections, job: Job) {
        let Job { write: EncodedWrite { resource, change, draft, compiled }, done } = job;
        let (namespace, name) = (draft.facts.namespace(), draft.facts.name());
        let place = (resource.index(), namespace.to_owned(), name.to_owned());
        let pending = self.changed.get(&place).cloned();
        let is_pending = pending.is_some();
        let previous = pending.unwrap_or_else(|| collections.get(resource, namespace, name));
        let before = previous.as_deref();
        let is_taken = |claim: &Claim| match self.claims.get(claim) {
            Some(is_held) => *is_held,
            None => collections.read(resource).claims().is_held(claim),
        };
        let refused = match check(before.map(|object| object.revision), change) {
            Err(error) => Some((error, is_pending)),
            Ok(()) => conflicting_claim(change, &draft.facts.claims, before, is_taken)
                .map(|claim| (WriteError::Claimed(claim), self.claims.contains_key(&claim))),
        };
        let revision = collections.revision() + 1 + self.decided.len() as u64;
        let refused = refused.or_else(|| {
            match collections.growth(change, &draft, before, (revision, self.growth)) {
                Ok(growth) => self.growth += growth,
                Err(error) => return Some((error, self.growth > 0)),
            }
            None
        });
        match refused {
            None => {}
            Some((error, true)) => return self.refused.push((done, error)),
            Some((error, false)) => {
                let _ = done.send(Err(error));
                return;
            }
        }
        let event_type = change.event_type();
        let object = Arc::new(draft.at(revision).with_compiled(compiled));
        self.bytes += object.size();
        let released = previous.iter().flat_map(|previous| &previous.facts.claims);
        self.claims.extend(released.map(|claim| (*claim, false)));
        if event_type != EventType::Deleted {
            self.claims.extend(object.facts.claims.iter().map(|claim| (*claim, true)));
        }
        self.changed.insert(place, (event_type != EventType::Deleted).then(|| object.clone()));
        self.decided.push(Decided { resource, event_type, object, previous });
        self.waiting.push(done);
    }

    /// The changes are durable: readers, watches and the callers get to know them.
    fn publish(self, collections: &Collections) {
        for (change, done) in self.decided.into_iter().zip(self.waiting) {
            let object = change.object.clone();
            collections.publish(change.resource, change.object, change.event_type);
            let _ = done.send(Ok(object));
        }
        for (done, error) in self.refused {
            let _ = done.send(Err(error));
        }
    }

    /// Nothing was written.
    fn fail(self, why: &str) {
        let refused = self.refused.into_iter().map(|(done, _)| done);
        for done in self.waiting.into_iter().chain(refused) {
            let _ = done.send(Err(WriteError::Storage(why.to_owned())));
        }
    }
}
