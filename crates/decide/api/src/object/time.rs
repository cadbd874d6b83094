//! Times as the API writes them: RFC 3339, in UTC. As a module for `#[serde(with = ...)]` it reads and writes optional
//! ones. No function here reads a clock.

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serializer};

/// A time in whole seconds, as the API's `Time` is written: `2026-01-31T12:00:00Z`.
pub fn rfc3339(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// A time in microseconds, as the API's `MicroTime` is written: `2026-01-31T12:00:00.000000Z`.
pub fn rfc3339_micros(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}

/// Reads a time. Null and a text that is not a time count as absent.
///
/// # Errors
/// The value is neither null nor a text.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Timestamp>, D::Error> {
    let text = Option::<std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
    Ok(text.and_then(|text| text.parse().ok()))
}

/// Writes a time in whole seconds; an absent one is null.
///
/// # Errors
/// Those of the serializer.
pub fn serialize<S: Serializer>(time: &Option<Timestamp>, serializer: S) -> Result<S::Ok, S::Error> {
    match time {
        Some(time) => serializer.serialize_str(&rfc3339(*time)),
        None => serializer.serialize_none(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_leniently_and_written_in_utc() {
        for (text, written) in [
            ("2026-01-01T00:00:00Z", Some("2026-01-01T00:00:00Z")),
            ("2026-01-01T02:30:00.999999+02:30", Some("2026-01-01T00:00:00Z")),
            ("2016-12-31T23:59:60Z", Some("2016-12-31T23:59:59Z")),
            ("1969-12-31T23:59:59Z", Some("1969-12-31T23:59:59Z")),
            ("", None),
            ("2026-01-01", None),
            ("2026-01-01T00:00:00", None),
            ("2026-02-29T00:00:00Z", None),
        ] {
            let time = deserialize(&serde_json::json!(text)).unwrap();
            assert_eq!(time.map(rfc3339).as_deref(), written, "{text}");
        }
        assert_eq!(deserialize(&serde_json::Value::Null).unwrap(), None);
        assert!(deserialize(&serde_json::json!(1)).is_err());
    }

    #[test]
    fn microseconds_are_always_written() {
        let time: Timestamp = "2026-01-01T00:00:00.5Z".parse().unwrap();
        assert_eq!(rfc3339_micros(time), "2026-01-01T00:00:00.500000Z");
    }
}
