//! The thread that writes, and the entries that wait for it.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use berth_engine::Journal;
use berth_input::journal::{Entry, Header};
use jiff::Timestamp;

use super::options::{RecordError, RecordOptions};
use super::segments::Segments;

/// How often the thread takes the list.
const PERIOD: Duration = Duration::from_millis(100);
/// How much a killed process loses at most, besides what waits.
const FLUSH_PERIOD: Duration = Duration::from_secs(1);
/// Entries that may wait for the thread: those of a list of all pods of a large cluster.
const MAX_WAITING: usize = 500_000;
/// The smallest limit of a recording.
const MIN_BYTES: u64 = 1 << 20;

/// The entries that wait for the thread.
#[derive(Default)]
struct Waiting {
    entries: Vec<(Timestamp, Entry)>,
    /// The recording has ended.
    is_closed: bool,
}

#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Waiting>>);

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, entry: Entry) {
        let now = Timestamp::now();
        let mut waiting = self.lock();
        if !waiting.is_closed {
            waiting.entries.push((now, entry));
            if waiting.entries.len() > MAX_WAITING {
                *waiting = Waiting { entries: Vec::new(), is_closed: true };
                tracing::error!("the recording ends: {}", RecordError::Behind);
            }
        }
    }
}

/// A recording, or none (the default). When it is dropped, what waits is written.
#[derive(Default)]
pub struct Recorder {
    shared: Option<Shared>,
    /// The thread ends when the sender is dropped.
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Recorder {
    /// Starts a recording. `header` needs no version and no time.
    ///
    /// # Errors
    /// The directory cannot be written, or the limit is too low.
    pub fn start(options: &RecordOptions, header: Header) -> Result<Recorder, RecordError> {
        if options.max_bytes < MIN_BYTES {
            return Err(RecordError::Limit { needed: 0 });
        }
        let segments = Segments::create(options, header, Timestamp::now())?;
        let (shared, (stop, stopped)) = (Shared::default(), channel::<()>());
        let waiting = shared.clone();
        let write = move || {
            let mut segments = segments;
            let is_open = || stopped.recv_timeout(PERIOD) == Err(RecvTimeoutError::Timeout);
            if let Err(error) = write_all(&waiting, &mut segments, is_open) {
                waiting.lock().is_closed = true;
                waiting.lock().entries = Vec::new();
                tracing::error!("the recording ends: {error}");
            }
        };
        let thread = thread::Builder::new().name("recorder".to_owned()).spawn(write);
        let thread = thread.map_err(|error| RecordError::Io { path: options.directory.clone(), error })?;
        Ok(Recorder { shared: Some(shared), stop: Some(stop), thread: Some(thread) })
    }

    /// Appends an entry, if there is a recording.
    pub fn record(&self, entry: impl FnOnce() -> Entry) {
        if let Some(shared) = &self.shared {
            shared.push(entry());
        }
    }

    /// Records the updates of a cluster.
    pub fn journal(&self) -> Journal {
        let shared = self.shared.clone().unwrap_or_default();
        Box::new(move |entry| shared.push(entry))
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // It has logged what went wrong.
            let _ = thread.join();
        }
    }
}

fn write_all(
    shared: &Shared,
    segments: &mut Segments,
    is_open: impl Fn() -> bool,
) -> Result<(), RecordError> {
    let (mut flushed, mut is_dirty) = (Instant::now(), false);
    loop {
        let goes_on = is_open();
        let entries = std::mem::take(&mut shared.lock().entries);
        is_dirty |= !entries.is_empty();
        for (time, entry) in entries {
            segments.write(time, entry)?;
        }
        if !goes_on {
            return segments.finish();
        }
        if is_dirty && flushed.elapsed() >= FLUSH_PERIOD {
            segments.flush()?;
            (flushed, is_dirty) = (Instant::now(), false);
        }
    }
}
