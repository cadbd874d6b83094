//! Objects in the protobuf form: any bytes are refused or become an object that its type accepts or refuses.
#![no_main]

use berth_schema::{decode, protobuf, type_of};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(mut object) = protobuf::decode(data) else { return };
    let text = |field: &str| object[field].as_str().unwrap_or_default().to_owned();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
    if let Some(ty) = type_of(group, version, &kind) {
        let _ = decode(ty, &mut object);
    }
    assert!(serde_json::from_str::<serde_json::Value>(&object.to_string()).is_ok());
});
