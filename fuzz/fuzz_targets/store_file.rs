//! The file of the API server's store: any bytes are refused, or what can be read is saved, and nothing is lost twice.
#![no_main]

use std::path::PathBuf;

use libfuzzer_sys::fuzz_target;

/// In memory where the system has such a directory.
fn directory() -> PathBuf {
    let shared = PathBuf::from("/dev/shm");
    let parent = if shared.is_dir() { shared } else { std::env::temp_dir() };
    parent.join(format!("berth-fuzz-{}", std::process::id()))
}

fuzz_target!(|data: &[u8]| {
    let directory = directory();
    let _ = std::fs::remove_dir_all(&directory);
    std::fs::create_dir_all(&directory).expect("a directory");
    std::fs::write(directory.join("store.log"), data).expect("a file");
    if let Ok(first) = berth_apiserver::recover(&directory) {
        let second = berth_apiserver::recover(&directory).expect("a recovered store is whole");
        assert!(second.lost.is_empty(), "{:?}", second.lost);
        assert_eq!(first.saved, second.saved);
    }
    let _ = std::fs::remove_dir_all(&directory);
});
