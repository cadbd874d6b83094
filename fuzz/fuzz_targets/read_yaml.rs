//! The reader of manifests, given anything: YAML, JSON, or neither.
#![no_main]

use berth_input::inventory::Inventory;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Err(error) = Inventory::keeping_raw().read(data, "input") {
        assert!(!error.to_string().is_empty(), "refused without saying why");
    }
});
