//! The store as a whole, in memory and on disk.

mod crash;
mod damage;
mod failing_disk;

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use berth_schema::resource::{PODS, Resource};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::*;

fn pods() -> &'static Resource {
    &PODS
}

fn pod(name: &str, node: &str) -> Value {
    json!({"metadata": {"name": name, "namespace": "n"}, "spec": {"nodeName": node}})
}

async fn write(store: &Store, change: Change, value: Value) -> Result<Arc<Object>, WriteError> {
    store.write(Write { resource: pods(), change, object: value.into() }).await
}

/// A file system that does not wait for the disk.
#[derive(Debug)]
struct Unsynced;

impl DiskIo for Unsynced {
    fn sync(&self, _: &File) -> io::Result<()> {
        Ok(())
    }

    fn sync_directory(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }
}

fn options() -> StorageOptions {
    StorageOptions { io: Arc::new(Unsynced), ..StorageOptions::default() }
}

/// A directory that the test removes.
struct Dir(TempDir);

impl Dir {
    fn new() -> Dir {
        Dir(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn file(&self) -> PathBuf {
        self.path().join("store.log")
    }

    fn try_open(&self) -> Result<Store, DiskError> {
        Store::open(self.path(), 100, options())
    }

    fn open(&self) -> Store {
        self.try_open().unwrap()
    }
}

async fn writes_hold_what_they_expect(store: &Store) {
    let created = write(store, Change::Create, pod("a", "")).await.unwrap();
    assert_eq!(created.revision, 101);
    assert_eq!(write(store, Change::Create, pod("a", "")).await.unwrap_err(), WriteError::AlreadyExists);
    let update = Change::Update { expected: 101 };
    assert_eq!(write(store, update, pod("a", "m")).await.unwrap().revision, 102);
    assert_eq!(write(store, update, pod("a", "x")).await.unwrap_err(), WriteError::Modified);
    assert_eq!(write(store, update, pod("b", "x")).await.unwrap_err(), WriteError::NotFound);
    assert_eq!(
        write(store, Change::Delete { expected: 101 }, pod("a", "")).await.unwrap_err(),
        WriteError::Modified
    );
    assert_eq!(write(store, Change::Delete { expected: 102 }, pod("a", "m")).await.unwrap().revision, 103);
    assert!(store.get(pods(), "n", "a").is_none());
    assert_eq!(store.revision(), 103);
}

#[tokio::test]
async fn writes_are_checked_in_memory_and_on_disk() {
    writes_hold_what_they_expect(&Store::in_memory(100, &StorageOptions::default())).await;
    let dir = Dir::new();
    writes_hold_what_they_expect(&dir.open()).await;
}

/// In a store that has room for some pods.
async fn a_full_store_refuses_what_makes_it_larger(store: &Store) {
    let full = |result: Result<Arc<Object>, WriteError>| matches!(result, Err(WriteError::NoSpace { .. }));
    let mut made = Vec::new();
    while let Ok(object) = write(store, Change::Create, pod(&format!("pod-{:03}", made.len()), "")).await {
        made.push(object.revision);
        assert!(made.len() < 100, "no write is refused");
    }
    assert!(full(write(store, Change::Create, pod("one-more", "")).await) && made.len() > 3);
    let update = |i: usize| Change::Update { expected: made[i] };
    assert!(full(write(store, update(0), pod("pod-000", &"n".repeat(200))).await));
    assert!(write(store, update(1), pod("pod-001", "")).await.is_ok(), "a lease is renewed");
    let mut ending = pod("pod-002", "");
    ending["metadata"]["deletionTimestamp"] = "2030-01-01T00:00:00Z".into();
    assert!(write(store, update(2), ending).await.is_ok(), "a finalizer ends by updates");
    for i in [0, 3] {
        assert!(
            write(store, Change::Delete { expected: made[i] }, pod(&format!("pod-{i:03}"), "")).await.is_ok()
        );
    }
    assert!(write(store, Change::Create, pod("pod-000", "")).await.is_ok(), "deletions make room");
}

#[tokio::test]
async fn objects_of_a_user_without_a_quota_filled_the_memory() {
    let options = StorageOptions { max_bytes: 1000, ..options() };
    a_full_store_refuses_what_makes_it_larger(&Store::in_memory(100, &options)).await;
    let dir = Dir::new();
    a_full_store_refuses_what_makes_it_larger(&Store::open(dir.path(), 100, options.clone()).unwrap()).await;
    // Objects count that were there before.
    let store = Store::open(dir.path(), 100, StorageOptions { max_bytes: 500, ..options.clone() }).unwrap();
    let refused = write(&store, Change::Create, pod("more", "")).await;
    assert_eq!(refused.unwrap_err(), WriteError::NoSpace { max_bytes: 500 });
    // Writes of one batch count together.
    let dir = Dir::new();
    let store = Store::open(dir.path(), 100, StorageOptions { max_bytes: 1000, ..options }).unwrap();
    let names: Vec<String> = (0..100).map(|i| format!("pod-{i}")).collect();
    let writes = names.iter().map(|name| write(&store, Change::Create, pod(name, "")));
    let written = futures::future::join_all(writes).await.into_iter().filter(Result::is_ok).count();
    let bytes: usize = store.list(pods(), &Filter::default()).1.iter().map(|pod| pod.bytes().len()).sum();
    assert!(written > 3 && bytes <= 1000, "{written} pods with {bytes} bytes");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_many_concurrent_writes_succeeds() {
    let dir = Dir::new();
    let store = Arc::new(dir.open());
    write(&store, Change::Create, pod("a", "")).await.unwrap();
    let tasks: Vec<_> = (0..50)
        .map(|i| {
            let store = store.clone();
            tokio::spawn(async move {
                write(&store, Change::Update { expected: 101 }, pod("a", &format!("node-{i}"))).await.is_ok()
            })
        })
        .collect();
    let mut won = 0;
    for task in tasks {
        won += usize::from(task.await.unwrap());
    }
    assert_eq!(won, 1);
}

#[tokio::test]
async fn objects_and_history_survive_a_restart() {
    let dir = Dir::new();
    let store = dir.open();
    for name in ["a", "b", "c"] {
        write(&store, Change::Create, pod(name, "")).await.unwrap();
    }
    let read_at = store.revision();
    write(&store, Change::Update { expected: 101 }, pod("a", "m")).await.unwrap();
    write(&store, Change::Delete { expected: 102 }, pod("b", "")).await.unwrap();
    let before: Vec<_> = store.list(pods(), &Filter::default()).1.iter().map(|o| o.bytes()).collect();
    store.close();
    let closed = write(&store, Change::Create, pod("d", "")).await.unwrap_err();
    assert!(matches!(closed, WriteError::Storage(_)));
    drop(store);

    let store = dir.open();
    assert_eq!(store.revision(), 105);
    let after: Vec<_> = store.list(pods(), &Filter::default()).1.iter().map(|o| o.bytes()).collect();
    assert_eq!(before, after);
    let seen = |fields: &str| -> Vec<(EventType, u64)> {
        let filter = Filter::parse(pods(), None, "", fields).unwrap();
        let (_, events) = store.events_for(pods(), &Filter::default(), read_at, usize::MAX).unwrap();
        events.iter().filter_map(|e| Some((e.seen_through(&filter)?, e.object.revision))).collect()
    };
    assert_eq!(seen(""), [(EventType::Modified, 104), (EventType::Deleted, 105)]);
    assert_eq!(seen("spec.nodeName="), [(EventType::Deleted, 104), (EventType::Deleted, 105)]);
    assert_eq!(seen("spec.nodeName=m"), [(EventType::Added, 104)]);
    assert!(store.events_for(pods(), &Filter::default(), 99, 1).is_err());
    assert_eq!(write(&store, Change::Create, pod("d", "")).await.unwrap().revision, 106);
}

#[tokio::test]
async fn a_second_process_cannot_open_the_directory() {
    let dir = Dir::new();
    let store = dir.open();
    let error = dir.try_open().unwrap_err();
    assert!(matches!(error, DiskError::InUse(_)), "{error}");
    assert!(error.to_string().contains("in use by another process"));
    store.close();
    assert!(dir.try_open().is_ok());
}

#[tokio::test]
async fn an_object_that_left_a_selection_before_a_restart_is_reported_with_the_fields_it_had() {
    let dir = Dir::new();
    let store = dir.open();
    write(&store, Change::Create, pod("a", "m")).await.unwrap();
    write(&store, Change::Update { expected: 101 }, pod("a", "n")).await.unwrap();
    store.close();
    let store = dir.open();
    let (_, events) = store.events_for(pods(), &Filter::default(), 101, 9).unwrap();
    let previous = events[0].previous.as_ref().unwrap();
    assert_eq!((previous.revision, previous.value()["spec"]["nodeName"].as_str()), (101, Some("m")));
}

#[tokio::test]
async fn a_watch_of_one_node_resumes_before_a_restart() {
    let dir = Dir::new();
    let store = dir.open();
    write(&store, Change::Create, pod("a", "m")).await.unwrap();
    write(&store, Change::Create, pod("b", "m")).await.unwrap();
    drop(store);
    let store = dir.open();
    let filter = Filter::parse(pods(), None, "", "spec.nodeName=m").unwrap();
    let _changes = store.changes_for(pods(), &filter);
    write(&store, Change::Create, pod("c", "m")).await.unwrap();
    let (_, events) = store.events_for(pods(), &filter, 101, 9).unwrap();
    assert_eq!(events.iter().map(|e| e.object.revision).collect::<Vec<_>>(), [102, 103]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_file_is_bounded_by_the_bytes_of_objects_and_recent_changes() {
    let dir = Dir::new();
    let options = StorageOptions { log_bytes: 100_000, ..options() };
    let store = Store::open(dir.path(), 100, options.clone()).unwrap();
    let large = |i: usize| {
        let mut pod = pod("large", "");
        pod["metadata"]["annotations"] = json!({"text": i.to_string().repeat(20_000 / i.to_string().len())});
        pod
    };
    write(&store, Change::Create, pod("small", "")).await.unwrap();
    let mut last = write(&store, Change::Create, large(0)).await.unwrap();
    for i in 1..100 {
        last = write(&store, Change::Update { expected: last.revision }, large(i)).await.unwrap();
    }
    let before = store.list(pods(), &Filter::default()).1;
    store.close();
    let length = std::fs::metadata(dir.file()).unwrap().len();
    assert!(length < 600_000, "2 MB were written, the file has {length} bytes");

    let store = Store::open(dir.path(), 1, options).unwrap();
    let after = store.list(pods(), &Filter::default()).1;
    assert_eq!(
        after.iter().map(|o| o.bytes()).collect::<Vec<_>>(),
        before.iter().map(|o| o.bytes()).collect::<Vec<_>>()
    );
    let (_, events) = store.events_for(pods(), &Filter::default(), last.revision - 3, 9).unwrap();
    assert_eq!(events.iter().map(|e| e.object.revision).collect::<Vec<_>>(), [199, 200, 201]);
    assert!(store.events_for(pods(), &Filter::default(), 101, 9).is_err());
    // The oldest change in the file also has its former object: lists of that version are complete.
    let oldest =
        store.events_for(pods(), &Filter::default(), last.revision - 3, 9).unwrap().1[0].object.revision;
    let page = store.page(pods(), &Filter::default(), Some(oldest - 1), None, 9).unwrap();
    assert_eq!(page.objects.iter().map(|o| o.revision).collect::<Vec<_>>(), [oldest - 1, 101]);
}

#[tokio::test]
async fn a_parsed_object_is_kept_until_it_is_replaced() {
    let store = Store::in_memory(0, &StorageOptions::default());
    let first = write(&store, Change::Create, pod("a", "")).await.unwrap();
    let parsed = Arc::downgrade(&first.parsed());
    assert!(std::ptr::eq(parsed.as_ptr(), Arc::as_ptr(&store.get(pods(), "n", "a").unwrap().parsed())));
    write(&store, Change::Update { expected: first.revision }, pod("a", "m")).await.unwrap();
    assert!(parsed.upgrade().is_none(), "the history keeps the bytes only");
    assert_eq!(first.parsed()["spec"]["nodeName"], "");
}

#[tokio::test]
async fn a_second_store_is_refused_even_if_the_lock_file_was_deleted() {
    let dir = Dir::new();
    let options = StorageOptions { log_bytes: 1 << 10, ..options() };
    let store = Store::open(dir.path(), 1, options.clone()).unwrap();
    let refused = || {
        std::fs::remove_file(dir.path().join("store.lock")).unwrap();
        let error = Store::open(dir.path(), 1, options.clone()).unwrap_err();
        assert!(matches!(error, DiskError::InUse(_)), "{error}");
    };
    refused();
    let first = std::fs::metadata(dir.file()).unwrap();
    let mut last = write(&store, Change::Create, pod("a", "")).await.unwrap();
    // Compaction replaces the file that is locked.
    while std::os::unix::fs::MetadataExt::ino(&std::fs::metadata(dir.file()).unwrap())
        == std::os::unix::fs::MetadataExt::ino(&first)
    {
        last = write(&store, Change::Update { expected: last.revision }, pod("a", "m")).await.unwrap();
    }
    refused();
    store.close();
    let again = Store::open(dir.path(), 1, options.clone()).unwrap();
    assert_eq!(again.get(pods(), "n", "a").unwrap().revision, last.revision);
}
