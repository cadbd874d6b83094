//! Damaged files: the store has the acknowledged state or names the damage, and recovery saves the rest.
//! `BERTH_DAMAGES=10000` sets the number of damaged files.

use std::collections::BTreeMap;
use std::fs;

use super::*;
use crate::store::{Lost, Recovery};

/// Every state that a pod had, and its last one.
#[derive(Default)]
struct Written {
    ever: BTreeMap<(String, u64), Value>,
    last: Vec<Value>,
}

fn values(store: &Store) -> Vec<Value> {
    store.list(pods(), &Filter::default()).1.iter().map(|o| o.value()).collect()
}

/// Fills a store: objects of many sizes, compacted once, with changes after that.
async fn fill(dir: &Dir, random: &mut fastrand::Rng) -> Written {
    let options = StorageOptions { log_bytes: 20_000, ..options() };
    let mut written = Written::default();
    let store = Store::open(dir.path(), 100, options.clone()).unwrap();
    for i in 0..150 {
        let name = format!("pod-{}", random.usize(0..40));
        let mut value = pod(&name, &format!("node-{i}"));
        value["metadata"]["annotations"] = json!({"text": "x".repeat(random.usize(0..3000))});
        let change = match store.get(pods(), "n", &name).map(|o| o.revision) {
            None => Change::Create,
            Some(expected) if random.u8(0..5) == 0 => Change::Delete { expected },
            Some(expected) => Change::Update { expected },
        };
        let object = write(&store, change, value).await.unwrap();
        written.ever.insert((name, object.revision), object.value());
    }
    store.close();
    written.last = values(&store);
    written
}

/// Damages a file in one of several ways; says how.
fn damage(bytes: &mut Vec<u8>, random: &mut fastrand::Rng) -> String {
    let page = |random: &mut fastrand::Rng, bytes: &[u8]| 4096 * random.usize(0..bytes.len() / 4096);
    match random.u8(0..6) {
        0 => {
            let at = page(random, bytes);
            bytes[at..at + 4096].fill(0);
            format!("zero page at {at}")
        }
        1 => {
            let (at, bit) = (random.usize(0..bytes.len()), random.u8(0..8));
            bytes[at] ^= 1 << bit;
            format!("flipped bit {bit} at {at}")
        }
        2 => {
            let at = random.usize(0..bytes.len());
            bytes.truncate(at);
            format!("cut at {at}")
        }
        3 => {
            let (a, b) = (page(random, bytes), page(random, bytes));
            for i in 0..4096 {
                bytes.swap(a + i, b + i);
            }
            format!("swapped pages at {a} and {b}")
        }
        4 => {
            let (a, b) = (page(random, bytes), page(random, bytes));
            bytes.copy_within(a..a + 4096, b);
            format!("page at {a} copied to {b}")
        }
        _ => {
            let at = random.usize(0..bytes.len());
            let end = (at + random.usize(1..2000)).min(bytes.len());
            bytes[at..end].fill_with(|| random.u8(..));
            format!("random bytes from {at} to {end}")
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn damage_is_named_or_has_no_effect_and_recovery_saves_the_rest() {
    let n_damages =
        std::env::var("BERTH_DAMAGES").ok().and_then(|text| text.parse::<u64>().ok()).unwrap_or(300);
    let mut n_named = 0;
    for base in 0..3 {
        let mut random = fastrand::Rng::with_seed(base);
        let dir = Dir::new();
        let written = fill(&dir, &mut random).await;
        let intact = fs::read(dir.file()).unwrap();
        for seed in 0..n_damages / 3 {
            let case = || format!("base {base}, seed {seed}");
            let mut random = fastrand::Rng::with_seed((base << 32) + seed);
            let mut bytes = intact.clone();
            let how = damage(&mut bytes, &mut random);
            fs::write(dir.file(), &bytes).unwrap();
            match dir.try_open() {
                Ok(store) => {
                    assert_eq!(values(&store), written.last, "{}: {how}", case());
                    store.close();
                    continue;
                }
                Err(error) => {
                    let text = error.to_string();
                    assert!(text.contains("store.log is damaged at byte "), "{}: {how}: {text}", case());
                    assert!(text.contains("--recover"), "{}: {how}: {text}", case());
                }
            }
            n_named += 1;
            let recovery = recover(dir.path()).unwrap();
            assert_eq!(
                fs::read(recovery.damaged_file.as_ref().unwrap()).unwrap(),
                bytes,
                "{}: {how}",
                case()
            );
            assert!(!recovery.lost.is_empty(), "{}: {how}", case());
            let store = dir.open();
            let saved = values(&store);
            assert_eq!(recovery.saved.values().sum::<usize>(), saved.len());
            for value in &saved {
                let name = value["metadata"]["name"].as_str().unwrap().to_owned();
                let version = value["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
                assert_eq!(written.ever.get(&(name, version)), Some(value), "{}: {how}", case());
            }
            assert!(store.revision() > 250);
            store.close();
            fs::remove_file(recovery.damaged_file.unwrap()).unwrap();
        }
    }
    println!("{n_damages} damaged files, {n_named} errors");
    assert!(n_named > n_damages / 2, "{n_named} of {n_damages}");
}

#[tokio::test]
async fn recovery_says_what_is_lost() {
    let dir = Dir::new();
    assert!(matches!(recover(dir.path()), Err(DiskError::NothingToRecover(_))));
    assert!(matches!(recover(&dir.path().join("missing")), Err(DiskError::NothingToRecover(_))));
    let store = dir.open();
    let mut offsets = Vec::new();
    for name in ["a", "b", "c"] {
        offsets.push(fs::metadata(dir.file()).unwrap().len());
        write(&store, Change::Create, pod(name, "")).await.unwrap();
    }
    store.close();
    let untouched = Recovery { saved: [("pods".to_owned(), 3)].into(), ..Recovery::default() };
    assert_eq!(recover(dir.path()).unwrap(), untouched);

    let mut bytes = fs::read(dir.file()).unwrap();
    bytes[offsets[1] as usize + 50] ^= 1;
    fs::write(dir.file(), &bytes).unwrap();
    let error = dir.try_open().unwrap_err().to_string();
    assert!(error.contains(&format!("damaged at byte {}: the checksum", offsets[1])), "{error}");
    let recovery = recover(dir.path()).unwrap();
    assert_eq!(recovery.saved, [("pods".to_owned(), 2)].into());
    let why = "the checksum of the record is wrong".to_owned();
    let bytes = Lost::Bytes { from: offsets[1], to: offsets[2], why };
    assert_eq!(recovery.lost, [bytes, Lost::Changes { first: 102, last: 102 }]);
    assert_eq!(recovery.damaged_file, Some(dir.path().join("store.log.damaged-1")));
    let names: Vec<_> = values(&dir.open()).iter().map(|v| v["metadata"]["name"].clone()).collect();
    assert_eq!(names, ["a", "c"]);
}

#[tokio::test]
async fn a_directory_without_its_store_starts_no_empty_cluster() {
    let dir = Dir::new();
    fs::write(dir.path().join("secret"), "x").unwrap();
    let error = dir.try_open().unwrap_err();
    assert!(matches!(error, DiskError::Missing { .. }), "{error}");
    fs::write(dir.file(), "").unwrap();
    let error = dir.try_open().unwrap_err();
    assert!(matches!(error, DiskError::Damaged { offset: 0, .. }), "{error}");
    fs::remove_file(dir.file()).unwrap();
    fs::write(dir.path().join("store.redb"), "").unwrap();
    let error = dir.try_open().unwrap_err();
    assert!(matches!(error, DiskError::PreviousFormat(_)), "{error}");
}

#[tokio::test]
async fn a_file_of_another_format_is_an_error() {
    let dir = Dir::new();
    dir.open().close();
    let mut bytes = fs::read(dir.file()).unwrap();
    bytes[8] = 9;
    let checksum = crc32fast::hash(&bytes[..12]).to_le_bytes();
    bytes[12..16].copy_from_slice(&checksum);
    fs::write(dir.file(), &bytes).unwrap();
    let error = dir.try_open().unwrap_err();
    assert!(error.to_string().contains("has format 9"), "{error}");
}
