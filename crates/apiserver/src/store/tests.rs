//! The store as a whole, in memory and on disk.

use std::path::PathBuf;

use berth_schema::resource::PODS;
use serde_json::json;

use super::*;

fn pods() -> &'static Resource {
    &PODS
}

fn pod(name: &str, node: &str) -> Value {
    json!({"metadata": {"name": name, "namespace": "n"}, "spec": {"nodeName": node}})
}

async fn write(store: &Store, change: Change, value: Value) -> Result<Arc<Object>, WriteError> {
    store.write(Write { resource: pods(), change, value }).await
}

/// A directory that the test removes.
struct Dir(PathBuf);

impl Dir {
    fn new() -> Dir {
        let path = std::env::temp_dir().join(format!("berth-test-{}", uuid::Uuid::new_v4().simple()));
        std::fs::create_dir_all(&path).unwrap();
        Dir(path)
    }

    fn open(&self) -> Store {
        Store::open(&self.0.join("store.redb"), 100, HistoryBounds::default()).unwrap()
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
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
    writes_hold_what_they_expect(&Store::in_memory(100, HistoryBounds::default())).await;
    let dir = Dir::new();
    writes_hold_what_they_expect(&dir.open()).await;
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
    let asked_at = store.revision();
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
        let (_, events) = store.events_for(pods(), &Filter::default(), asked_at, usize::MAX).unwrap();
        events.iter().filter_map(|e| Some((e.seen_through(&filter)?, e.object.revision))).collect()
    };
    assert_eq!(seen(""), [(EventType::Modified, 104), (EventType::Deleted, 105)]);
    assert_eq!(seen("spec.nodeName="), [(EventType::Deleted, 104), (EventType::Deleted, 105)]);
    assert_eq!(seen("spec.nodeName=m"), [(EventType::Added, 104)]);
    assert!(store.events_for(pods(), &Filter::default(), 99, 1).is_err());
    assert_eq!(write(&store, Change::Create, pod("d", "")).await.unwrap().revision, 106);
}

#[tokio::test]
async fn a_second_process_cannot_open_the_file() {
    let dir = Dir::new();
    let store = dir.open();
    let error = Store::open(&dir.0.join("store.redb"), 1, HistoryBounds::default()).unwrap_err();
    assert!(matches!(error, DiskError::InUse(_)), "{error}");
    assert!(error.to_string().contains("in use by another process"));
    store.close();
    assert!(Store::open(&dir.0.join("store.redb"), 1, HistoryBounds::default()).is_ok());
}

#[tokio::test]
async fn a_damaged_file_is_an_error() {
    let dir = Dir::new();
    std::fs::write(dir.0.join("store.redb"), "not a database").unwrap();
    let error = Store::open(&dir.0.join("store.redb"), 1, HistoryBounds::default()).unwrap_err();
    assert!(error.to_string().contains("store.redb"), "{error}");
}
