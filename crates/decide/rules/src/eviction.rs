//! The annotations of a pod that say when the enforcer evicts it.

use core::time::Duration;

use jiff::SignedDuration;

use berth_api::object::ObjectMeta;
use berth_api::syntax::annotations::{GRACE_ANNOTATION, WITHOUT_TARGET_ANNOTATION};

/// Reads [`GRACE_ANNOTATION`]: `90s`, `5m`, `1h30m` or a bare `0`; never negative.
///
/// # Errors
/// What the value must be.
pub fn parse_eviction_grace(text: &str) -> Result<Duration, &'static str> {
    let text = text.trim();
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let duration = text.parse::<SignedDuration>().ok().and_then(|duration| duration.try_into().ok());
    duration.ok_or("a duration such as 90s, 5m or 1h30m")
}

/// Reads [`WITHOUT_TARGET_ANNOTATION`]: how long the pod is held; none: until a node is feasible.
///
/// # Errors
/// What the value must be.
pub fn parse_without_target(text: &str) -> Result<Option<Duration>, &'static str> {
    match text.trim() {
        "evict" => Ok(Some(Duration::ZERO)),
        "hold" => Ok(None),
        text => parse_eviction_grace(text)
            .map(Some)
            .map_err(|_| "evict, hold, or a duration such as 90s, 5m or 1h30m"),
    }
}

/// Why the enforcer ignores this value of an annotation, if it does.
pub fn eviction_annotation_problem(annotation: &str, text: &str) -> Option<String> {
    let expected = match annotation {
        GRACE_ANNOTATION => parse_eviction_grace(text).err(),
        WITHOUT_TARGET_ANNOTATION => parse_without_target(text).err(),
        _ => None,
    }?;
    Some(format!("{text:?} is not {expected}; the default applies"))
}

/// The annotations about evictions whose values the enforcer ignores, each with the reason.
pub fn invalid_eviction_annotations(
    metadata: &ObjectMeta,
) -> impl Iterator<Item = (&'static str, String)> + '_ {
    [GRACE_ANNOTATION, WITHOUT_TARGET_ANNOTATION].into_iter().filter_map(|annotation| {
        Some((annotation, eviction_annotation_problem(annotation, metadata.annotation(annotation)?)?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_evict_hold_or_a_duration_and_others_are_named() {
        let minutes = |n: u64| Duration::from_secs(60 * n);
        for (text, expected) in [
            ("evict", Some(minutes(0))),
            (" 0 ", Some(minutes(0))),
            ("30m", Some(minutes(30))),
            ("hold", None),
        ] {
            assert_eq!(parse_without_target(text), Ok(expected), "{text}");
        }
        for text in ["soon", "never", "-5m", ""] {
            let annotations = [(WITHOUT_TARGET_ANNOTATION, text), (GRACE_ANNOTATION, text)];
            let annotations = annotations.map(|(key, text)| (key.to_owned(), text.to_owned()));
            let metadata = ObjectMeta { annotations: annotations.into(), ..ObjectMeta::default() };
            let expected = |words| {
                format!("{text:?} is not {words}a duration such as 90s, 5m or 1h30m; the default applies")
            };
            assert_eq!(
                invalid_eviction_annotations(&metadata).collect::<Vec<_>>(),
                [(GRACE_ANNOTATION, expected("")), (WITHOUT_TARGET_ANNOTATION, expected("evict, hold, or "))]
            );
        }
    }
}
