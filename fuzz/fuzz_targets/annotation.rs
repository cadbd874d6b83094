//! The affinity annotation: what can be read is the same after it was written as JSON and read again.
#![no_main]

use berth_rules::parse_affinity_annotation;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let Ok(affinity) = parse_affinity_annotation(text) else { return };
    let written = serde_json::to_string(&affinity).expect("an affinity has only string keys");
    assert_eq!(parse_affinity_annotation(&written), Ok(affinity), "{written}");
});
