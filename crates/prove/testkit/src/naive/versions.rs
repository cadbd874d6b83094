//! The order of versions.

use std::cmp::Ordering;

/// How two versions compare; none if one of them does not begin with a digit, after `v` and anything up to `://`.
pub fn compare_versions(left: &str, right: &str) -> Option<Ordering> {
    Some(parts(left)?.cmp(&parts(right)?))
}

/// Rank, number and word of each part: pre-releases, the end, words, numbers.
fn parts(text: &str) -> Option<Vec<(u8, u128, String)>> {
    let text = text.split_once("://").map_or(text, |(_, version)| version).to_lowercase();
    let text = text.strip_prefix('v').unwrap_or(&text);
    if !text.chars().next()?.is_ascii_digit() {
        return None;
    }
    // A space at each end of a number or word.
    let mut spaced = String::new();
    for (i, c) in text.char_indices() {
        let before = text[..i].chars().last().unwrap_or(' ');
        if before.is_ascii_digit() != c.is_ascii_digit() {
            spaced.push(' ');
        }
        spaced.push(if c.is_ascii_alphanumeric() { c } else { ' ' });
    }
    let part = |word: &str| match word.parse() {
        Ok(number) => (3, number, String::new()),
        Err(_) if ["alpha", "beta", "dev", "pre", "rc"].contains(&word) => (0, 0, word.to_owned()),
        Err(_) => (2, 0, word.to_owned()),
    };
    Some(spaced.split_whitespace().map(part).chain([(1, 0, String::new())]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_orders_versions_as_the_engine_does() {
        let words = [
            "", "v", "V1", "1", "01", "2", "10", ".", "-", "+", "rc", "RC", "alpha", "gke", "x://", "ä", "3b",
        ];
        let mut texts: Vec<String> = vec![];
        for a in words {
            for b in words {
                texts.extend(words.iter().map(|c| format!("{a}{b}{c}")));
            }
        }
        for (i, left) in texts.iter().enumerate() {
            // Every text with some others.
            for right in texts.iter().skip(i % 7).step_by(7) {
                let expected = compare_versions(left, right);
                assert_eq!(berth_api::syntax::compare_versions(left, right), expected, "{left:?} {right:?}");
            }
        }
    }
}
