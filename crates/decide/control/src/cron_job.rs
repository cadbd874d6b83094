//! CronJobs: the scheduled time that is due, and the names of Jobs.

use berth_api::syntax::cron::Schedule;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

/// The name of the Job for a scheduled time: one for each minute, so that no time gets two.
pub fn job_name(cron_job: &str, scheduled: Timestamp) -> String {
    format!("{cron_job}-{}", scheduled.as_second() / 60)
}

/// The CronJob whose Job may have this name.
pub fn of_job(name: &str) -> Option<&str> {
    let (cron_job, time) = name.rsplit_once('-')?;
    (!time.is_empty() && time.bytes().all(|b| b.is_ascii_digit())).then_some(cron_job)
}

/// The time that is due.
pub struct Due {
    /// The times after this one count.
    pub earliest: Timestamp,
    /// The last scheduled time that has come; none if none has since the last one.
    pub scheduled: Option<Timestamp>,
    /// About how many have come.
    pub n_missed: i64,
}

/// The time that is due, of those since the last scheduled one, or since the CronJob was created. With a deadline, times that are longer ago
/// than so many seconds are too late.
pub fn due(
    since: Timestamp,
    deadline_seconds: Option<i64>,
    schedule: &Schedule,
    zone: &TimeZone,
    now: Timestamp,
) -> Due {
    let mut earliest = since;
    if let Some(seconds) = deadline_seconds
        && let Ok(deadline) = now.saturating_sub(SignedDuration::from_secs(seconds))
    {
        earliest = earliest.max(deadline);
    }
    let Some(first) = schedule.next(earliest, zone).filter(|first| *first <= now) else {
        return Due { earliest, scheduled: None, n_missed: 0 };
    };
    let Some(second) = schedule.next(first, zone).filter(|second| *second <= now) else {
        return Due { earliest, scheduled: Some(first), n_missed: 1 };
    };
    // An estimate by the first interval: a schedule of every second may have millions of times since.
    let interval = second.duration_since(first).as_secs().max(1);
    let n_missed = now.duration_since(first).as_secs() / interval + 1;
    let skipped = SignedDuration::from_secs((n_missed - 2).max(0) * interval);
    let mut last = first;
    let mut next = first.saturating_add(skipped).ok().and_then(|from| schedule.next(from, zone));
    while let Some(time) = next.filter(|time| *time <= now) {
        last = time;
        next = schedule.next(time, zone);
    }
    Due { earliest, scheduled: Some(last), n_missed }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_are_named_by_their_minute() {
        let name = job_name("a-1", Timestamp::UNIX_EPOCH);
        assert_eq!((name.as_str(), of_job(&name)), ("a-1-0", Some("a-1")));
        assert_eq!(["a", "a-", "a-x"].map(of_job), [None; 3]);
    }
}
