//! Times as Go's `time.Parse` reads them, with its messages: it is laxer than RFC 3339 in some places (`,5`, hours of one
//! digit) and stricter in others (no lower case, no second 60).

use std::fmt::Write;

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

/// The layout of `Time`.
const SECONDS: &str = "2006-01-02T15:04:05Z07:00";
/// The layout of `MicroTime`.
const MICROSECONDS: &str = "2006-01-02T15:04:05.000000Z07:00";

/// Why a part is not as the layout says.
enum Bad {
    Form,
    Range(&'static str),
}

/// Reads a time of whole seconds, whose fraction is optional, or one with six digits of fraction.
///
/// # Errors
/// It has another form; the message is Go's.
pub(crate) fn parse(text: &str, micro: bool) -> Result<Timestamp, String> {
    let layout = if micro { MICROSECONDS } else { SECONDS };
    let mut rest = text.as_bytes();
    let mut read = |what: &'static str, part: fn(&mut &[u8]) -> Result<i64, Bad>| {
        let hold = rest;
        part(&mut rest).map_err(|bad| match bad {
            Bad::Form => {
                let (hold, layout) = (quote(hold), quote(layout.as_bytes()));
                format!(
                    "parsing time {} as {layout}: cannot parse {hold} as \"{what}\"",
                    quote(text.as_bytes())
                )
            }
            Bad::Range(what) => format!("parsing time {}: {what} out of range", quote(text.as_bytes())),
        })
    };
    let year = read("2006", year)?;
    read("-", |rest| separator(rest, b'-'))?;
    let month = read("01", |rest| in_range(two_digits(rest)?, 1..=12, "month"))?;
    read("-", |rest| separator(rest, b'-'))?;
    let day = read("02", two_digits)?;
    read("T", |rest| separator(rest, b'T'))?;
    let hour = read("15", |rest| in_range(digits(rest)?, 0..=23, "hour"))?;
    read(":", |rest| separator(rest, b':'))?;
    let minute = read("04", |rest| in_range(two_digits(rest)?, 0..=59, "minute"))?;
    read(":", |rest| separator(rest, b':'))?;
    let second = read("05", |rest| in_range(two_digits(rest)?, 0..=59, "second"))?;
    let nanosecond =
        if micro { read(".000000", |rest| fraction(rest, 7))? } else { read("", optional_fraction)? };
    let offset = read("Z07:00", offset)?;
    if !rest.is_empty() {
        return Err(format!("parsing time {}: extra text: {}", quote(text.as_bytes()), quote(rest)));
    }
    let time = Date::new(year as i16, month as i8, day as i8)
        .and_then(|date| {
            let time = date.at(hour as i8, minute as i8, second as i8, nanosecond as i32);
            time.to_zoned(TimeZone::UTC)?.timestamp().checked_sub(SignedDuration::from_secs(offset))
        })
        .map_err(|_| format!("parsing time {}: day out of range", quote(text.as_bytes())))?;
    Ok(time)
}

fn separator(rest: &mut &[u8], separator: u8) -> Result<i64, Bad> {
    *rest = rest.strip_prefix(&[separator]).ok_or(Bad::Form)?;
    Ok(0)
}

fn in_range(n: i64, range: std::ops::RangeInclusive<i64>, what: &'static str) -> Result<i64, Bad> {
    if range.contains(&n) { Ok(n) } else { Err(Bad::Range(what)) }
}

/// Exactly `n` digits, as a number.
fn number(rest: &mut &[u8], n: usize) -> Result<i64, Bad> {
    let (digits, others) = rest.split_at_checked(n).ok_or(Bad::Form)?;
    if !digits.iter().all(u8::is_ascii_digit) {
        return Err(Bad::Form);
    }
    *rest = others;
    Ok(digits.iter().fold(0, |n, digit| n * 10 + i64::from(digit - b'0')))
}

fn year(rest: &mut &[u8]) -> Result<i64, Bad> {
    number(rest, 4)
}

fn two_digits(rest: &mut &[u8]) -> Result<i64, Bad> {
    number(rest, 2)
}

/// One or two digits.
fn digits(rest: &mut &[u8]) -> Result<i64, Bad> {
    number(rest, 2).or_else(|_| number(rest, 1))
}

/// A separator and digits, `n` bytes together, as nanoseconds.
fn fraction(rest: &mut &[u8], n: usize) -> Result<i64, Bad> {
    if !matches!(rest.first(), Some(b'.' | b',')) {
        return Err(Bad::Form);
    }
    let (fraction, others) = rest.split_at_checked(n).ok_or(Bad::Form)?;
    let digits = &fraction[1..];
    if !digits.iter().all(u8::is_ascii_digit) {
        return Err(Bad::Form);
    }
    *rest = others;
    let digits = digits.iter().copied().chain(std::iter::repeat(b'0')).take(9);
    Ok(digits.fold(0, |n, digit| n * 10 + i64::from(digit - b'0')))
}

fn optional_fraction(rest: &mut &[u8]) -> Result<i64, Bad> {
    let digits = rest.iter().skip(1).take_while(|byte| byte.is_ascii_digit()).count();
    match rest.first() {
        Some(b'.' | b',') if digits > 0 => fraction(rest, 1 + digits),
        _ => Ok(0),
    }
}

/// Seconds from UTC.
fn offset(rest: &mut &[u8]) -> Result<i64, Bad> {
    if let Some(others) = rest.strip_prefix(b"Z") {
        *rest = others;
        return Ok(0);
    }
    let (zone, others) = rest.split_at_checked(6).ok_or(Bad::Form)?;
    let sign = match zone[0] {
        b'+' => 1,
        b'-' => -1,
        _ => return Err(Bad::Form),
    };
    if zone[3] != b':' {
        return Err(Bad::Form);
    }
    let hours = in_range(two_digits(&mut &zone[1..3])?, 0..=24, "time zone offset hour")?;
    let minutes = in_range(two_digits(&mut &zone[4..6])?, 0..=60, "time zone offset minute")?;
    *rest = others;
    Ok(sign * (hours * 60 + minutes) * 60)
}

/// The text as Go's package `time` quotes it.
fn quote(text: &[u8]) -> String {
    let mut quoted = String::from("\"");
    for byte in text {
        match byte {
            b'"' | b'\\' => quoted.extend(['\\', char::from(*byte)]),
            b' '..=0x7f => quoted.push(char::from(*byte)),
            _ => _ = write!(quoted, "\\x{byte:02x}"),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_go_reads_them() {
        for (text, micro, expected) in [
            ("2026-01-01T00:00:00Z", false, "2026-01-01T00:00:00Z"),
            ("2026-01-01T1:00:00,5+01:00", false, "2026-01-01T00:00:00.5Z"),
            ("2026-01-01T00:00:00.5Z", true, "cannot parse \".5Z\" as \".000000\""),
            ("2026-01-01T00:00:00.500000Z", true, "2026-01-01T00:00:00.5Z"),
            ("2026-01-01T00:00:00.5000001Z", true, "cannot parse \"1Z\" as \"Z07:00\""),
            ("2026-01-01t00:00:00Z", false, "cannot parse \"t00:00:00Z\" as \"T\""),
            ("2026-1-01T00:00:00Z", false, "cannot parse \"1-01T00:00:00Z\" as \"01\""),
            ("2026-13-01T00:00:00Z", false, "month out of range"),
            ("2026-02-29T00:00:00Z", false, "day out of range"),
            ("2026-01-01T24:00:00Z", false, "hour out of range"),
            ("2026-01-01T00:00:00+25:00", false, "time zone offset hour out of range"),
            ("2026-01-01T00:00:00Z\u{e9}\"", false, "extra text: \"\\xc3\\xa9\\\"\""),
            ("", false, "parsing time \"\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"\" as \"2006\""),
        ] {
            let found = parse(text, micro).map_or_else(|error| error, |time| time.to_string());
            assert!(found.ends_with(expected), "{text}: {found}");
        }
    }
}
