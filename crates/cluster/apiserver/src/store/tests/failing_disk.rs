//! A disk that is full or read-only for a time, or whose operations fail now and then.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::sync::{Mutex, MutexGuard};

use super::*;
use crate::store::disk_io::FileSystem;

const SECTOR: usize = 512;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    /// Of records, or of the head with the marks.
    Write {
        is_head: bool,
    },
    Sync,
    Truncate,
    Rename,
    SyncDirectory,
}

const OPERATIONS: [Operation; 6] = [
    Operation::Write { is_head: true },
    Operation::Write { is_head: false },
    Operation::Sync,
    Operation::Truncate,
    Operation::Rename,
    Operation::SyncDirectory,
];

/// A disk on which operations fail, and which forgets what was not synced when the system stops. A sync that fails may have written
/// any part, and the next one does not write the rest, as on Linux.
#[derive(Debug)]
struct FailingDisk(Mutex<State>);

#[derive(Debug)]
struct State {
    failing: Vec<Operation>,
    /// Of 100 of these operations.
    n_failing: u32,
    random: fastrand::Rng,
    /// By inode.
    images: HashMap<u64, Image>,
    /// The file that has the name after a crash.
    named: Option<u64>,
}

/// What of a file survives a crash.
#[derive(Debug)]
struct Image {
    file: File,
    bytes: Vec<u8>,
    /// Sectors that were written since the last sync.
    dirty: BTreeSet<usize>,
    has_new_length: bool,
}

impl Image {
    fn of(file: &File) -> io::Result<Image> {
        let file = file.try_clone()?;
        let bytes = content(&file)?;
        Ok(Image { file, bytes, dirty: BTreeSet::new(), has_new_length: false })
    }

    fn change(&mut self, from: u64, to: u64) {
        self.dirty.extend(from as usize / SECTOR..(to as usize).div_ceil(SECTOR));
        self.has_new_length = true;
    }

    /// Takes over what `is_written` says of each part.
    fn take(&mut self, mut is_written: impl FnMut() -> bool) -> io::Result<()> {
        let now = content(&self.file)?;
        for sector in std::mem::take(&mut self.dirty) {
            let from = sector * SECTOR;
            let to = (from + SECTOR).min(now.len());
            if from < to && is_written() {
                self.bytes.resize(self.bytes.len().max(to), 0);
                self.bytes[from..to].copy_from_slice(&now[from..to]);
            }
        }
        if std::mem::take(&mut self.has_new_length) && is_written() {
            self.bytes.resize(now.len(), 0);
        }
        Ok(())
    }
}

fn content(file: &File) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; file.metadata()?.len() as usize];
    file.read_exact_at(&mut bytes, 0)?;
    Ok(bytes)
}

impl FailingDisk {
    fn new(seed: u64) -> Arc<FailingDisk> {
        let random = fastrand::Rng::with_seed(seed);
        let (failing, images) = (Vec::new(), HashMap::new());
        Arc::new(FailingDisk(Mutex::new(State { failing, n_failing: 100, random, images, named: None })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    fn fail(&self, operations: &[Operation], n_of_100: u32) {
        let mut state = self.state();
        (state.failing, state.n_failing) = (operations.to_vec(), n_of_100);
    }

    /// The system stops: the directory has what survives.
    fn crash(&self, dir: &Dir) {
        let state = &mut *self.state();
        let linked = fs::metadata(dir.file()).unwrap().ino();
        let named = state.named.filter(|_| state.random.bool()).unwrap_or(linked);
        if let Some(mut image) = state.images.remove(&named) {
            image.take(|| state.random.bool()).unwrap();
            fs::remove_file(dir.file()).unwrap();
            fs::write(dir.file(), image.bytes).unwrap();
        }
    }
}

impl State {
    fn fails(&mut self, operation: Operation) -> bool {
        self.failing.contains(&operation) && self.random.u32(0..100) < self.n_failing
    }

    fn image(&mut self, file: &File) -> io::Result<&mut Image> {
        let image = Image::of(file)?;
        Ok(self.images.entry(file.metadata()?.ino()).or_insert(image))
    }
}

fn full() -> io::Error {
    io::Error::from(io::ErrorKind::StorageFull)
}

impl DiskIo for FailingDisk {
    fn write(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
        let state = &mut *self.state();
        state.image(file)?;
        let fails = state.fails(Operation::Write { is_head: offset < 4096 });
        let written = if fails { state.random.usize(0..=bytes.len()) } else { bytes.len() };
        FileSystem.write(file, &bytes[..written], offset)?;
        state.image(file)?.change(offset, offset + written as u64);
        if fails { Err(full()) } else { Ok(()) }
    }

    fn sync(&self, file: &File) -> io::Result<()> {
        let state = &mut *self.state();
        let fails = state.fails(Operation::Sync);
        let mut random = state.random.fork();
        state.image(file)?.take(|| !fails || random.bool())?;
        if fails { Err(full()) } else { Ok(()) }
    }

    fn truncate(&self, file: &File, length: u64) -> io::Result<()> {
        let state = &mut *self.state();
        if state.fails(Operation::Truncate) {
            return Err(full());
        }
        FileSystem.truncate(file, length)?;
        state.image(file)?.change(length, length);
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let state = &mut *self.state();
        let fails = state.fails(Operation::Rename);
        if !fails || state.random.bool() {
            let before = fs::metadata(to)?.ino();
            state.named.get_or_insert(before);
            FileSystem.rename(from, to)?;
        }
        if fails { Err(full()) } else { Ok(()) }
    }

    fn sync_directory(&self, _: &Path) -> io::Result<()> {
        let state = &mut *self.state();
        if state.fails(Operation::SyncDirectory) {
            return Err(full());
        }
        state.named = None;
        Ok(())
    }
}

/// Names and versions of all pods.
type Pods = Vec<(String, u64)>;

fn state(store: &Store) -> Pods {
    let pods = store.list(pods(), &Filter::default()).1;
    pods.iter().map(|pod| (pod.facts.name().to_owned(), pod.revision)).collect()
}

/// A store with the pods that it has acknowledged.
struct Checked {
    dir: Dir,
    disk: Arc<FailingDisk>,
    options: StorageOptions,
    store: Store,
    acknowledged: Pods,
    /// What may be there instead after a crash.
    possible: Vec<Pods>,
    n_writes: usize,
}

impl Checked {
    fn new(seed: u64, log_bytes: u64) -> Checked {
        let dir = Dir::new();
        dir.open().close();
        let disk = FailingDisk::new(seed);
        let options = StorageOptions { io: disk.clone(), log_bytes, ..StorageOptions::default() };
        let store = Store::open(dir.path(), 100, options.clone()).unwrap();
        Checked { dir, disk, options, store, acknowledged: Vec::new(), possible: Vec::new(), n_writes: 0 }
    }

    /// Creates, changes or deletes one of four pods.
    async fn write(&mut self) -> Result<(), WriteError> {
        let i = self.n_writes;
        self.n_writes += 1;
        let name = format!("pod-{}", i % 4);
        let revision = self.store.revision() + 1;
        let mut after = self.acknowledged.clone();
        let change = match after.iter().position(|(known, _)| *known == name) {
            None => {
                after.push((name.clone(), revision));
                Change::Create
            }
            Some(at) if i.is_multiple_of(3) => Change::Delete { expected: after.remove(at).1 },
            Some(at) => Change::Update { expected: std::mem::replace(&mut after[at].1, revision) },
        };
        after.sort();
        let node = "n".repeat(i % 7 * 100);
        let written = write(&self.store, change, pod(&name, &node)).await;
        match &written {
            Ok(object) => {
                assert_eq!(object.revision, revision);
                (self.acknowledged, self.possible) = (after, Vec::new());
            }
            Err(error) => {
                assert!(
                    matches!(error, WriteError::Storage(why) if why.contains("no storage space")),
                    "{error}"
                );
                assert!(!self.store.is_healthy());
                self.possible.push(after);
            }
        }
        assert_eq!(state(&self.store), self.acknowledged);
        written.map(drop)
    }

    fn reopen(&mut self) {
        // They have clones of the locked files.
        self.disk.state().images.clear();
        self.store = Store::open(self.dir.path(), 100, self.options.clone()).unwrap();
    }
}

#[tokio::test]
async fn a_disk_that_was_full_or_read_only_for_a_time_refused_all_writes_until_a_restart() {
    let sets = OPERATIONS.iter().map(|operation| vec![*operation]).chain([OPERATIONS.to_vec()]);
    for (failing, log_bytes) in sets.flat_map(|set| [(set.clone(), 1 << 20), (set, 400)]) {
        let mut checked = Checked::new(1, log_bytes);
        checked.write().await.unwrap();
        checked.disk.fail(&failing, 100);
        let mut n_refused = 0;
        for _ in 0..60 {
            n_refused += usize::from(checked.write().await.is_err());
        }
        // A file that cannot be compacted grows, and a file is cut only after a write that failed.
        let is_used = !matches!(failing[..], [Operation::Truncate | Operation::Rename]);
        let is_used = is_used && (log_bytes < 1000 || failing != [Operation::SyncDirectory]);
        assert_eq!(n_refused > 0, is_used, "{failing:?}, {log_bytes}");
        checked.disk.fail(&[], 0);
        for _ in 0..3 {
            checked.write().await.unwrap_or_else(|error| panic!("{failing:?}, {log_bytes}: {error}"));
            assert!(checked.store.is_healthy());
        }
        checked.store.close();
        checked.reopen();
        assert_eq!(state(&checked.store), checked.acknowledged, "{failing:?}, {log_bytes}");
    }
}

/// The second of two that were written together, with a version that is the next one again.
#[tokio::test]
async fn a_refused_write_does_not_come_back_behind_a_later_one() {
    for seed in 0..100 {
        let mut checked = Checked::new(seed, 1 << 20);
        let create = |name| write(&checked.store, Change::Create, pod(name, ""));
        checked.disk.fail(&[Operation::Sync], 100);
        let (a, b) = futures::join!(create("a"), create("b"));
        assert!(a.is_err() && b.is_err());
        checked.disk.fail(&[], 0);
        create("c").await.unwrap();
        checked.store.close();
        checked.reopen();
        assert_eq!(state(&checked.store), [("c".to_owned(), 101)], "seed {seed}");
    }
}

#[tokio::test]
async fn a_system_that_stops_after_failures_of_its_disk_loses_no_acknowledged_write() {
    let mut n_refused = 0;
    for seed in 0u64..400 {
        let log_bytes = if seed.is_multiple_of(2) { 400 } else { 1 << 20 };
        let mut checked = Checked::new(seed, log_bytes);
        checked.disk.fail(&OPERATIONS, 15);
        for _ in 0..20 + seed % 23 {
            n_refused += usize::from(checked.write().await.is_err());
        }
        // What the store does when it closes is lost as well, or not.
        checked.disk.fail(&OPERATIONS, if seed.is_multiple_of(3) { 0 } else { 100 });
        checked.store.close();
        checked.disk.crash(&checked.dir);
        checked.disk.fail(&[], 0);
        checked.reopen();
        let found = state(&checked.store);
        let Checked { acknowledged, possible, .. } = &checked;
        assert!(
            found == *acknowledged || possible.contains(&found),
            "seed {seed}: {found:?}, {acknowledged:?}"
        );
        checked.acknowledged = found;
        checked.write().await.unwrap();
    }
    assert!(n_refused > 1000, "{n_refused}");
}
