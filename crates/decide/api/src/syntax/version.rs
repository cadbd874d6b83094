//! The order of versions, for `VersionGt` and `VersionLt`.
//!
//! A version begins with a digit; a `v` before it and everything up to `://` (`containerd://1.7.2`) are ignored. Its parts
//! are its numbers and its words, in lower case; all other characters separate parts. Versions compare part by part:
//!
//! 1. the words `alpha`, `beta`, `dev`, `pre` and `rc`, alphabetically,
//! 2. the end of the version,
//! 3. other words, alphabetically,
//! 4. numbers, by value.
//!
//! So `1.36.0-rc.1 < 1.36.0 < 1.36.0-gke < 1.36.0-1 < 1.36.1`, and `5.15 < 5.15.0 < 5.15.0-91-generic < 5.15.0-100 < 5.16`.
//! The order is total over all versions; versions with the same parts are equal.

use std::cmp::Ordering;

/// Ordered as the module says.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Part<'a> {
    PreRelease(&'a str),
    End,
    Word(&'a str),
    /// The number of digits and the digits, without leading zeros.
    Number(usize, &'a str),
}

pub fn is_version(text: &str) -> bool {
    start(text).is_some()
}

/// How two texts compare as versions; none if one of them is no version.
pub fn compare_versions(left: &str, right: &str) -> Option<Ordering> {
    let (left, right) = (start(left)?.to_ascii_lowercase(), start(right)?.to_ascii_lowercase());
    let (mut left, mut right) = (left.as_str(), right.as_str());
    loop {
        let parts = (next_part(&mut left), next_part(&mut right));
        match parts.0.cmp(&parts.1) {
            Ordering::Equal if parts.0 == Part::End => return Some(Ordering::Equal),
            Ordering::Equal => {}
            unequal => return Some(unequal),
        }
    }
}

/// The text from its first number on.
fn start(text: &str) -> Option<&str> {
    let text = text.split_once("://").map_or(text, |(_, version)| version);
    let text = text.strip_prefix(['v', 'V']).unwrap_or(text);
    text.starts_with(|c: char| c.is_ascii_digit()).then_some(text)
}

fn next_part<'a>(rest: &mut &'a str) -> Part<'a> {
    *rest = rest.trim_start_matches(|c: char| !c.is_ascii_alphanumeric());
    let Some(first) = rest.chars().next() else { return Part::End };
    let is_number = first.is_ascii_digit();
    let ends = |c: char| !c.is_ascii_alphanumeric() || c.is_ascii_digit() != is_number;
    let (part, after) = rest.split_at(rest.find(ends).unwrap_or(rest.len()));
    *rest = after;
    match part {
        "alpha" | "beta" | "dev" | "pre" | "rc" => Part::PreRelease(part),
        word if !is_number => Part::Word(word),
        digits => {
            let digits = digits.trim_start_matches('0');
            Part::Number(digits.len(), digits)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_have_a_total_order() {
        let ascending = [
            "0",
            "1.28.5",
            "1.36.0-alpha.2",
            "v1.36.0-beta.0",
            "1.36.0rc1",
            "v1.36.0-rc.10",
            "v1.36.0",
            "1.36.0-eks-5e0fdde",
            "v1.36.0-gke",
            "v1.36.0+k3s1",
            "1.36.0-1",
            "1.36.1",
            "containerd://1.36.2",
            "5.15",
            "5.15.0",
            "5.15.0-91",
            "5.15.0-91-generic",
            "5.15.0-100-generic",
            "5.16",
            "6.1.58+",
            "6.1.58-1",
            "99999999999999999999999",
        ];
        for (i, left) in ascending.iter().enumerate() {
            for (j, right) in ascending.iter().enumerate() {
                // A separator at the end is no part: nothing in the list differs in nothing else.
                assert_eq!(compare_versions(left, right), Some(i.cmp(&j)), "{left} {right}");
            }
        }
        for (left, right) in [("1.02", "v1.2"), ("1.2+", "1-2"), ("1.2-RC1", "1.2rc1"), ("5.15.0é", "5.15.0")]
        {
            assert_eq!(compare_versions(left, right), Some(Ordering::Equal), "{left} {right}");
        }
        for text in ["", "v", "generic", "-1", "Ubuntu 22.04", "://"] {
            assert_eq!(compare_versions(text, "1"), None, "{text}");
        }
    }
}
