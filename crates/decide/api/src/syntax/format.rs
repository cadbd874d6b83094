//! Names, counts and durations in texts for people.

use core::time::Duration;
use std::fmt::Display;

use super::similar;

/// Similar names suggested when an object does not exist.
pub const MAX_SUGGESTIONS: usize = 5;

/// `a, b, c`, or for more than `most` names `a, b and 4,998 more`.
pub fn abbreviated<T: Display>(names: &[T], most: usize) -> String {
    let shown = if names.len() > most { most } else { names.len() };
    let text = names[..shown].iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    match names.len() - shown {
        0 => text,
        more => format!("{text} and {} more", grouped(more)),
    }
}

/// A number with thousands separators: `4,998`.
pub fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `1 node`, `2,000 nodes`.
pub fn counted(number: usize, noun: &str) -> String {
    format!("{} {noun}{}", grouped(number), if number == 1 { "" } else { "s" })
}

/// `23 ms`, `1.4 s`.
pub fn elapsed(duration: Duration) -> String {
    if duration < Duration::from_secs(1) {
        format!("{} ms", duration.as_millis())
    } else {
        format!("{:.1} s", duration.as_secs_f64())
    }
}

/// The text about an object that does not exist, with similar names. `all`: the names of this kind, and how they are
/// shown.
pub fn not_in_input(kind: &str, namespace: Option<&str>, name: &str, all: &[(String, String)]) -> String {
    let requested = namespace.map_or_else(|| name.to_owned(), |namespace| format!("{namespace}/{name}"));
    let near = similar::positions(name, all.iter().map(|(other, _)| other.as_str())).into_iter();
    let near: Vec<_> = near.take(MAX_SUGGESTIONS).map(|i| all[i].1.as_str()).collect();
    let hint = match near.as_slice() {
        [] if all.is_empty() => format!("which has no {kind}s"),
        [] => {
            let keys: Vec<_> = all.iter().map(|(_, key)| key).collect();
            format!("it has {}", abbreviated(&keys, MAX_SUGGESTIONS))
        }
        near => format!("did you mean {}?", near.join(", ")),
    };
    let separator = if hint.starts_with("which") { ", " } else { ": " };
    format!("{kind} {requested} is not in the input{separator}{hint}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_abbreviated_only_when_there_are_too_many() {
        assert_eq!(abbreviated(&["a", "b", "c"], 3), "a, b, c");
        assert_eq!(abbreviated(&["a", "b", "c", "d"], 2), "a, b and 2 more");
        assert_eq!(abbreviated::<&str>(&[], 2), "");
    }

    #[test]
    fn thousands_are_separated() {
        assert_eq!(
            [0, 999, 1_000, 4_998, 1_234_567].map(grouped),
            ["0", "999", "1,000", "4,998", "1,234,567"]
        );
        assert_eq!([0, 1, 2_000].map(|n| counted(n, "node")), ["0 nodes", "1 node", "2,000 nodes"]);
    }
    #[test]
    fn long_durations_are_in_seconds() {
        assert_eq!([23, 1_449].map(|ms| elapsed(Duration::from_millis(ms))), ["23 ms", "1.4 s"]);
    }
}
