//! Expressions of the Common Expression Language, `EXPRESSION \0 OBJECT`: each is refused or evaluated within the limits.
#![no_main]

use berth_cel::Expression;
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

fuzz_target!(|data: &[u8]| {
    let Some(end) = data.iter().position(|byte| *byte == 0) else { return };
    let Ok(text) = std::str::from_utf8(&data[..end]) else { return };
    let Ok(object) = serde_json::from_slice::<Value>(&data[end + 1..]) else { return };
    if let Ok(expression) = Expression::compile(text, &["object", "oldObject"]) {
        let _ = expression.holds(&[("object", &object), ("oldObject", &Value::Null)]);
    }
});
