//! The streaming JSON reader: it must agree with serde_json on what a single object says.
#![no_main]

use berth_api::read::{ReadError, read_manifests};
use libfuzzer_sys::{Corpus, fuzz_target};
use serde_json::Value;

fuzz_target!(|data: &[u8]| -> Corpus {
    let first = data.iter().find(|byte| !byte.is_ascii_whitespace());
    if !matches!(first, Some(b'{' | b'[')) {
        return Corpus::Reject;
    }
    let mut manifests = Vec::new();
    let read = read_manifests::<ReadError>(data, "input", &mut |manifest| {
        manifests.push(manifest);
        Ok(())
    });
    if let (Ok(()), Ok(Value::Object(object))) = (read, serde_json::from_slice(data)) {
        let is_list = object.get("kind").and_then(Value::as_str).is_some_and(|kind| kind.ends_with("List"));
        assert!(is_list || manifests.len() == 1, "one object was read as {}", manifests.len());
    }
    Corpus::Keep
});
