//! Times, relative to that of the state.

use jiff::Timestamp;
use maud::{Markup, html};

/// What times are relative to.
#[derive(Clone, Copy)]
pub(crate) struct Clock {
    pub(crate) now: Timestamp,
    /// Whether it goes on: the script of the page keeps times up to date.
    pub(crate) is_ticking: bool,
}

impl Clock {
    /// `5 m ago`, or `in 5 m`; the exact time is its title.
    pub(crate) fn relative(self, time: Timestamp) -> Markup {
        let exact = exact(time);
        html! { time datetime=(exact) title=(exact) data-ticks=[self.is_ticking.then_some("")] { (text(time, self.now)) } }
    }

    /// As [`Clock::relative`]; nothing without a time.
    pub(crate) fn optional(self, time: Option<Timestamp>) -> Markup {
        html! { @if let Some(time) = time { (self.relative(time)) } }
    }
}

/// To the second.
pub(crate) fn exact(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

fn text(time: Timestamp, now: Timestamp) -> String {
    let seconds = now.as_second() - time.as_second();
    match seconds {
        0 => "now".to_owned(),
        1.. => format!("{} ago", length(seconds)),
        _ => format!("in {}", length(-seconds)),
    }
}

/// `35 s`, `5 m`, `3 h`, `12 d`: as kubectl shows ages, in one unit. The script of pages does the same.
pub(crate) fn length(seconds: i64) -> String {
    match seconds {
        ..120 => format!("{seconds} s"),
        120..7200 => format!("{} m", seconds / 60),
        7200..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} d", seconds / 86400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_relative_in_one_unit() {
        let at = |second: i64| Timestamp::from_second(second).unwrap();
        let now = at(1_000_000);
        let texts = [1_000_000, 999_990, 999_000, 990_000, 800_000, 1_000_030].map(|t| text(at(t), now));
        assert_eq!(texts, ["now", "10 s ago", "16 m ago", "2 h ago", "2 d ago", "in 30 s"]);
    }
}
