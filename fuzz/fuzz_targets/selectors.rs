//! Label and field selectors in the form of queries: what is accepted is printed in a form that means the same.
#![no_main]

use berth_rules::{FieldSelector, Selector};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(selector) = text.parse::<Selector>() {
        for value in [None, Some(""), Some("a"), Some("5")] {
            let _ = selector.matches(|_| value);
        }
    }
    if let Err(error) = text.parse::<FieldSelector>() {
        assert!(!error.to_string().is_empty(), "refused without saying why");
    }
});
