//! Integers in canonical form.

/// A decimal integer of 64 bits as it is usually written: without a plus sign and without leading zeros.
///
/// # Errors
/// What is wrong, in the words of the API server.
pub fn decimal_integer(text: &str) -> Result<i64, String> {
    if text.is_empty() {
        return Err("must be non-empty".to_owned());
    }
    let digits = text.strip_prefix('-').unwrap_or(text);
    let starts = if text == "0" { b'0' } else { b'1' }..=b'9';
    let is_canonical = digits.bytes().next().is_some_and(|digit| starts.contains(&digit))
        && digits.bytes().all(|byte| byte.is_ascii_digit());
    if !is_canonical {
        return Err("must be a valid decimal integer in canonical form".to_owned());
    }
    text.parse().map_err(|_| format!("strconv.ParseInt: parsing {text:?}: value out of range"))
}

#[cfg(test)]
mod tests {
    use super::decimal_integer;

    #[test]
    fn only_canonical_integers_of_64_bits_are_read() {
        for (text, value) in [("0", 0), ("950", 950), ("-5", -5), ("-9223372036854775808", i64::MIN)] {
            assert_eq!(decimal_integer(text), Ok(value));
        }
        for text in
            ["", "-", "-0", "00", "0950", "+5", "95.5", " 5", "5 ", "five", "0x5", "9223372036854775808"]
        {
            assert!(decimal_integer(text).is_err(), "{text:?}");
        }
    }
}
