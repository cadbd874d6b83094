//! The kinds of patch, given `LIVE \0 PATCH`: each is refused or makes an object that is not much larger than both.
#![no_main]

use berth_schema::patch::managed::Actor;
use berth_schema::patch::{apply, json, merge, strategic};
use berth_schema::{decode, type_of};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

/// A patch adds what it contains, and copies at most this many bytes of the object.
const COPIED: usize = 3 << 20;

fuzz_target!(|data: &[u8]| {
    let Some(end) = data.iter().position(|byte| *byte == 0) else { return };
    let Ok(mut live) = serde_json::from_slice::<Value>(&data[..end]) else { return };
    let Ok(patch) = serde_json::from_slice::<Value>(&data[end + 1..]) else { return };
    let most = 4 * data.len() + COPIED;
    let check = |patched: &Value| assert!(patched.to_string().len() <= most, "{patched}");
    for patched in [json::apply(&live, &patch), merge::apply(&live, &patch)].iter().flatten() {
        check(patched);
    }
    for (group, kind) in [("", "Pod"), ("", "Service"), ("apps", "Deployment"), ("", "ConfigMap")] {
        let Some(ty) = type_of(group, "v1", kind) else { continue };
        if let Ok(patched) = strategic::apply(ty, &live, &patch) {
            check(&patched);
        }
        if decode(ty, &mut live).is_err() {
            continue;
        }
        let actor = Actor {
            manager: "fuzz",
            api_version: "v1",
            subresource: "",
            now: "2024-01-01T00:00:00Z",
            ignored: &[],
        };
        if let Ok(applied) = apply::apply(ty, Some(&live), patch.clone(), &actor, true) {
            let again = apply::apply(ty, Some(&applied), patch.clone(), &actor, true);
            assert_eq!(again.as_ref(), Ok(&applied), "applying twice changes nothing");
        }
    }
});
