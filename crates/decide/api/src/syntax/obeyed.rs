//! Characters that a terminal or the reader of a log obeys instead of showing them.

use std::borrow::Cow;

/// Whether a character is a control character (C0 and C1, so also line ends and tabs), ends a line (U+2028, U+2029), or changes the
/// direction of writing.
pub fn is_obeyed(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{206f}')
}

/// The text with such characters as escapes: a newline as `\n`, and others as `\u{9b}`.
pub fn shown(text: &str) -> Cow<'_, str> {
    if !text.contains(is_obeyed) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '\n' | '\r' | '\t' => shown.extend(c.escape_default()),
            c if is_obeyed(c) => shown.extend(c.escape_unicode()),
            c => shown.push(c),
        }
    }
    Cow::Owned(shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_obeyed_is_escaped() {
        for (text, expected) in [
            ("pod a/\u{e4} \u{1f600}", "pod a/\u{e4} \u{1f600}"),
            ("a\x1b]0;x\x07\u{9b}2J\u{202e}", "a\\u{1b}]0;x\\u{7}\\u{9b}2J\\u{202e}"),
            ("a\r\n::error::b\tc", "a\\r\\n::error::b\\tc"),
            ("\u{85}\u{2028}\u{2029}\u{200f}\u{2066}", "\\u{85}\\u{2028}\\u{2029}\\u{200f}\\u{2066}"),
        ] {
            assert_eq!(shown(text), expected);
        }
    }
}
