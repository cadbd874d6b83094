//! The process or the system stops at any byte that the store writes. After a restart, every acknowledged write is there.

use std::collections::HashMap;
use std::os::unix::fs::MetadataExt as _;
use std::sync::{Condvar, Mutex};

use super::*;
use crate::store::disk_io::FileSystem;

/// A disk that stops after a number of bytes.
#[derive(Debug)]
struct StoppingDisk {
    state: Mutex<Stopping>,
    /// Whether the system stops, and not only the process: what has not been synced may be lost.
    loses_unsynced: bool,
}

#[derive(Debug)]
struct Stopping {
    bytes_left: usize,
    stopped: bool,
    /// How many files took the place of another.
    n_replaced: usize,
    /// By inode, the writes that have not been synced.
    unsynced: HashMap<u64, Vec<Unsure>>,
    random: fastrand::Rng,
}

/// What was there before a write.
#[derive(Debug)]
struct Unsure {
    file: File,
    offset: u64,
    before: Vec<u8>,
    length: u64,
}

impl StoppingDisk {
    fn new(bytes_left: usize, loses_unsynced: bool, seed: u64) -> StoppingDisk {
        let random = fastrand::Rng::with_seed(seed);
        let state = Stopping { bytes_left, stopped: false, n_replaced: 0, unsynced: HashMap::new(), random };
        StoppingDisk { state: Mutex::new(state), loses_unsynced }
    }

    fn check(&self) -> io::Result<std::sync::MutexGuard<'_, Stopping>> {
        let state = self.state.lock().unwrap();
        if state.stopped { Err(io::Error::other("stopped")) } else { Ok(state) }
    }

    /// Every sector of 512 bytes that was not synced has its old or its new contents.
    fn lose_unsynced(&self) {
        let state = &mut *self.state.lock().unwrap();
        for (_, writes) in state.unsynced.drain() {
            for Unsure { file, offset, before, length } in writes.into_iter().rev() {
                for (i, sector) in before.chunks(512).enumerate() {
                    if state.random.bool() {
                        FileSystem.write(&file, sector, offset + 512 * i as u64).unwrap();
                    }
                }
                if state.random.bool() {
                    file.set_len(length).unwrap();
                }
            }
        }
    }
}

impl DiskIo for StoppingDisk {
    fn write(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut state = self.check()?;
        let n = bytes.len().min(state.bytes_left);
        if self.loses_unsynced {
            use std::os::unix::fs::FileExt as _;
            let metadata = file.metadata()?;
            let mut before = vec![0; n];
            let _ = file.read_at(&mut before, offset)?;
            let write = Unsure { file: file.try_clone()?, offset, before, length: metadata.len() };
            state.unsynced.entry(metadata.ino()).or_default().push(write);
        }
        FileSystem.write(file, &bytes[..n], offset)?;
        state.bytes_left -= n;
        state.stopped = n < bytes.len();
        if state.stopped { Err(io::Error::other("stopped")) } else { Ok(()) }
    }

    fn sync(&self, file: &File) -> io::Result<()> {
        self.check()?.unsynced.remove(&file.metadata()?.ino());
        Ok(())
    }

    fn truncate(&self, file: &File, length: u64) -> io::Result<()> {
        let _running = self.check()?;
        FileSystem.truncate(file, length)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.check()?.n_replaced += 1;
        FileSystem.rename(from, to)
    }

    fn sync_directory(&self, _: &Path) -> io::Result<()> {
        self.check().map(drop)
    }
}

/// Names, versions and nodes of all pods.
fn state(store: &Store) -> Vec<(String, u64, String)> {
    let pods = store.list(pods(), &Filter::default()).1;
    let text = |o: &Object| o.value()["spec"]["nodeName"].as_str().unwrap_or_default().to_owned();
    pods.iter().map(|o| (o.facts.name().to_owned(), o.revision, text(o))).collect()
}

/// Creates, updates and deletes pods on a disk that stops after some bytes, restarts, and compares. Returns the number of
/// compactions if the disk did not stop.
async fn run(bytes: usize, n_writes: usize, log_bytes: u64, loses_unsynced: bool) -> Option<usize> {
    let dir = Dir::new();
    dir.open().close();
    let disk = Arc::new(StoppingDisk::new(bytes, loses_unsynced, bytes as u64));
    let options = StorageOptions { io: disk.clone(), log_bytes, ..StorageOptions::default() };
    let mut states = vec![Vec::new()];
    let mut n_acknowledged = 0;
    if let Ok(store) = Store::open(dir.path(), 100, options.clone()) {
        let mut expected: Vec<(String, u64, String)> = Vec::new();
        for i in 0..n_writes {
            let name = format!("pod-{}", i % 4);
            let at = expected.iter().position(|(known, _, _)| *known == name);
            let node = format!("node-{i}");
            let revision = 101 + i as u64;
            let change = match at.map(|at| (at, expected[at].1)) {
                None => {
                    expected.push((name.clone(), revision, node.clone()));
                    Change::Create
                }
                Some((at, version)) if i % 3 == 0 => {
                    expected.remove(at);
                    Change::Delete { expected: version }
                }
                Some((at, version)) => {
                    expected[at] = (name.clone(), revision, node.clone());
                    Change::Update { expected: version }
                }
            };
            expected.sort();
            states.push(expected.clone());
            match write(&store, change, pod(&name, &node)).await {
                Ok(object) => assert_eq!(object.revision, revision),
                Err(WriteError::Storage(_)) => break,
                Err(error) => panic!("{error}"),
            }
            n_acknowledged += 1;
        }
        store.close();
    }
    disk.lose_unsynced();
    // Another crash during the restart.
    let again = Arc::new(StoppingDisk::new(bytes % 67, loses_unsynced, bytes as u64));
    drop(Store::open(dir.path(), 100, StorageOptions { io: again.clone(), log_bytes, ..options }));
    again.lose_unsynced();
    let store = dir.try_open().unwrap_or_else(|error| panic!("after {bytes} bytes: {error}"));
    let n_found = (store.revision() - 100) as usize;
    assert!(n_found >= n_acknowledged, "after {bytes} bytes: {n_acknowledged} acknowledged, {n_found} found");
    assert_eq!(state(&store), states[n_found], "after {bytes} bytes");
    // It goes on, and a second restart finds the same.
    write(&store, Change::Create, pod("z", "")).await.unwrap();
    let before = state(&store);
    store.close();
    assert_eq!(state(&dir.open()), before);
    let disk = disk.state.lock().unwrap();
    (!disk.stopped).then_some(disk.n_replaced)
}

/// Runs with more and more bytes until all are written; the number of compactions of the last run.
async fn run_all(step: usize, n_writes: usize, log_bytes: u64, loses_unsynced: bool) -> usize {
    let mut bytes = 0;
    loop {
        match run(bytes, n_writes, log_bytes, loses_unsynced).await {
            Some(n_compactions) => return n_compactions,
            None => bytes += step,
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_stops_at_any_byte_loses_no_acknowledged_write() {
    run_all(1, 4, 1 << 20, false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_stops_during_a_compaction_loses_no_acknowledged_write() {
    assert!(run_all(61, 60, 400, false).await > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_system_that_stops_loses_no_acknowledged_write() {
    assert!(run_all(61, 60, 400, true).await > 0);
}

/// A disk whose syncs wait for permission.
#[derive(Debug, Default)]
struct SlowDisk {
    /// Whether syncs wait, how many wait, and how many may go on.
    state: Mutex<(bool, usize, usize)>,
    changed: Condvar,
}

impl SlowDisk {
    fn change(&self, change: impl FnOnce(&mut (bool, usize, usize))) {
        change(&mut self.state.lock().unwrap());
        self.changed.notify_all();
    }

    fn until_waiting(&self, n_syncs: usize) {
        let state = self.state.lock().unwrap();
        drop(self.changed.wait_while(state, |(_, waiting, _)| *waiting < n_syncs).unwrap());
    }
}

impl DiskIo for SlowDisk {
    fn sync(&self, _: &File) -> io::Result<()> {
        let mut state = self.state.lock().unwrap();
        if state.0 {
            state.1 += 1;
            self.changed.notify_all();
            state = self.changed.wait_while(state, |(waits, _, permits)| *waits && *permits == 0).unwrap();
            state.2 = state.2.saturating_sub(1);
        }
        Ok(())
    }
}

#[tokio::test]
async fn a_write_that_is_not_durable_is_not_seen_in_the_refusal_of_another() {
    let dir = Dir::new();
    let disk = Arc::new(SlowDisk::default());
    let store = Store::open(dir.path(), 100, StorageOptions { io: disk.clone(), ..options() }).unwrap();
    disk.change(|state| state.0 = true);
    let create = |name| Box::pin(write(&store, Change::Create, pod(name, "")));
    let mut first = create("first");
    assert!(futures::poll!(&mut first).is_pending());
    disk.until_waiting(1);
    // Both wait for the next batch.
    let (mut granted, mut refused) = (create("a"), create("a"));
    assert!(futures::poll!(&mut granted).is_pending() && futures::poll!(&mut refused).is_pending());
    disk.change(|state| state.2 = 1);
    disk.until_waiting(2);
    assert!(futures::poll!(&mut refused).is_pending(), "the object is neither durable nor visible");
    disk.change(|state| state.0 = false);
    assert!(granted.await.is_ok());
    assert_eq!(refused.await.unwrap_err(), WriteError::AlreadyExists);
}
