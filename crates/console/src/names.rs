//! Short forms of names and counts.

use std::fmt::Display;

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
}
