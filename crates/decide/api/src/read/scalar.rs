//! The meaning of an unquoted YAML scalar in `kubectl`, which reads YAML 1.1.

use serde_json::{Number, Value};

/// Resolves an unquoted scalar without a tag.
pub(super) fn resolve_plain(text: &str) -> Value {
    match text.as_bytes().first() {
        None => Value::Null,
        Some(b'y' | b'Y' | b'n' | b'N' | b't' | b'T' | b'f' | b'F' | b'o' | b'O' | b'~') => {
            resolve_word(text).unwrap_or_else(|| text.into())
        }
        Some(b'0'..=b'9' | b'+' | b'-') => number(&text.replace('_', "")).unwrap_or_else(|| text.into()),
        Some(b'.') => decimal(text).unwrap_or_else(|| text.into()),
        Some(_) => text.into(),
    }
}

fn resolve_word(text: &str) -> Option<Value> {
    match text {
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            Some(Value::Bool(true))
        }
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            Some(Value::Bool(false))
        }
        "~" | "null" | "Null" | "NULL" => Some(Value::Null),
        _ => None,
    }
}

fn number(text: &str) -> Option<Value> {
    integer(text).or_else(|| decimal(text))
}

/// An integer in any base, leading zero meaning octal.
fn integer(text: &str) -> Option<Value> {
    let (negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let (digits, radix) = match digits.as_bytes() {
        [b'0', b'x' | b'X', ..] => (&digits[2..], 16),
        [b'0', b'b' | b'B', ..] => (&digits[2..], 2),
        [b'0', b'o' | b'O', ..] => (&digits[2..], 8),
        [b'0', _, ..] => (&digits[1..], 8),
        _ => (digits, 10),
    };
    // The standard library accepts a second sign, YAML does not.
    if !digits.starts_with(|c: char| c.is_ascii_hexdigit()) {
        return None;
    }
    let magnitude = u64::from_str_radix(digits, radix).ok()?;
    if !negative {
        return Some(magnitude.into());
    }
    i64::try_from(-i128::from(magnitude)).ok().map(Value::from)
}

/// A number with a fraction or an exponent. Whole numbers become integers, as in Go.
fn decimal(text: &str) -> Option<Value> {
    // Rust reads `inf` and `nan` as floats; they are strings in YAML.
    if !text.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'.' | b'e' | b'E' | b'+' | b'-')) {
        return None;
    }
    let value: f64 = text.parse().ok()?;
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if value.fract() == 0.0 && value.abs() <= EXACT {
        return Some((value as i64).into());
    }
    Number::from_f64(value).map(Value::Number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn plain_scalars_mean_what_they_mean_to_kubectl() {
        for (text, meaning) in [
            ("", json!(null)),
            ("~", json!(null)),
            ("null", json!(null)),
            ("nULL", json!("nULL")),
            ("yes", json!(true)),
            ("Off", json!(false)),
            ("y", json!(true)),
            ("yEs", json!("yEs")),
            ("12", json!(12)),
            ("-3", json!(-3)),
            ("+3", json!(3)),
            ("--3", json!("--3")),
            ("0644", json!(420)),
            ("0o17", json!(15)),
            ("0x1F", json!(31)),
            ("0b101", json!(5)),
            ("08", json!(8)),
            ("1_000", json!(1000)),
            ("0.5", json!(0.5)),
            (".5", json!(0.5)),
            ("1.0", json!(1)),
            ("1e3", json!(1000)),
            ("1e400", json!("1e400")),
            ("18446744073709551615", json!(u64::MAX)),
            ("-9223372036854775808", json!(i64::MIN)),
            ("1.2.3", json!("1.2.3")),
            ("100m", json!("100m")),
            ("1Ki", json!("1Ki")),
            ("2024-01-02", json!("2024-01-02")),
            ("-", json!("-")),
            ("...", json!("...")),
            (".inf", json!(".inf")),
            ("inf", json!("inf")),
            ("nan", json!("nan")),
            ("12:30", json!("12:30")),
        ] {
            assert_eq!(resolve_plain(text), meaning, "{text:?}");
        }
    }
}
