//! Times as the API writes them.

/// Seconds since 1970 of an RFC 3339 time such as `2026-01-31T12:00:00Z`; fractions of seconds are dropped. None
/// if the text is not one.
pub fn unix_seconds(text: &str) -> Option<i64> {
    let (date, time) = text.split_once(['T', 't'])?;
    let [year, month, day] = numbers(date, '-', [4, 2, 2])?;
    if !(1..=12).contains(&month) || !(1..=days_in(year, month)).contains(&day) {
        return None;
    }
    let zone = time.find(['Z', 'z', '+', '-'])?;
    let (clock, zone) = time.split_at(zone);
    let (clock, fraction) = clock.split_once('.').unwrap_or((clock, "0"));
    let [hour, minute, second] = numbers(clock, ':', [2, 2, 2])?;
    // A leap second is the last one.
    if hour > 23 || minute > 59 || second > 60 || !is_digits(fraction) {
        return None;
    }
    let seconds = days_since_1970(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second.min(59);
    Some(seconds - offset(zone)?)
}

/// Seconds east of Greenwich.
fn offset(zone: &str) -> Option<i64> {
    if zone == "Z" || zone == "z" {
        return Some(0);
    }
    let (sign, zone) = zone.split_at_checked(1).filter(|(sign, _)| *sign != "Z" && *sign != "z")?;
    let [hours, minutes] = numbers(zone, ':', [2, 2])?;
    let seconds = hours * 3600 + minutes * 60;
    (hours < 24 && minutes < 60).then_some(if sign == "-" { -seconds } else { seconds })
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

/// Numbers of so many digits each.
fn numbers<const N: usize>(text: &str, separator: char, digits: [usize; N]) -> Option<[i64; N]> {
    let parts: Vec<&str> = text.split(separator).collect();
    if parts.len() != N || parts.iter().zip(digits).any(|(p, n)| p.len() != n || !is_digits(p)) {
        return None;
    }
    let mut numbers = [0; N];
    for (number, part) in numbers.iter_mut().zip(parts) {
        *number = part.parse().ok()?;
    }
    Some(numbers)
}

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

fn days_in(year: i64, month: i64) -> i64 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// In the Gregorian calendar, also before it was introduced.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let leap_days_before = |year: i64| (year - 1) / 4 - (year - 1) / 100 + (year - 1) / 400;
    let years = (year - 1970) * 365 + leap_days_before(year) - leap_days_before(1970);
    // From year 0, a leap year, on; the division above rounds towards zero.
    let year_zero = if year == 0 { -1 } else { 0 };
    years + year_zero + (1..month).map(|m| days_in(year, m)).sum::<i64>() + day - 1
}

#[cfg(test)]
mod tests {
    use super::unix_seconds;

    #[test]
    fn times_are_seconds_since_1970() {
        for (text, seconds) in [
            ("1970-01-01T00:00:00Z", 0),
            ("1969-12-31T23:59:59Z", -1),
            ("2000-02-29T12:00:00Z", 951_825_600),
            ("2026-01-01T00:00:00Z", 1_767_225_600),
            ("2026-01-01T00:00:00.999999Z", 1_767_225_600),
            ("2026-01-01T02:30:00+02:30", 1_767_225_600),
            ("2025-12-31T19:00:00-05:00", 1_767_225_600),
            ("2016-12-31T23:59:60Z", 1_483_228_799),
            ("0000-01-01T00:00:00Z", -62_167_219_200),
            ("9999-12-31T23:59:59Z", 253_402_300_799),
        ] {
            assert_eq!(unix_seconds(text), Some(seconds), "{text}");
        }
    }

    #[test]
    fn what_is_no_time_has_no_seconds() {
        for text in [
            "",
            "T",
            "2026-01-01",
            "2026-01-01T00:00:00",
            "2026-13-01T00:00:00Z",
            "2026-02-29T00:00:00Z",
            "2026-01-00T00:00:00Z",
            "2026-01-01T24:00:00Z",
            "2026-01-01T00:60:00Z",
            "2026-01-01T00:00:00.Z",
            "2026-1-1T00:00:00Z",
            "+026-01-01T00:00:00Z",
            "2026-01-01T00:00:00Zx",
            "2026-01-01T00:00:00Z01:00",
            "2026-01-01T00:00:00+2",
            "2026-01-01T00:00:00é",
            "2026-01-01T00:00:00+é1:00",
        ] {
            assert_eq!(unix_seconds(text), None, "{text}");
        }
    }
}
