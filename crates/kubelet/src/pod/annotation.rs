//! Annotations by which a pod says how it behaves on simulated nodes.

use std::time::Duration;

use berth_api::object::StringMap;
use jiff::SignedDuration;

/// From the binding to running containers.
pub const START_AFTER: &str = "berth.dev/start-after";
/// From running to ready.
pub const READY_AFTER: &str = "berth.dev/ready-after";
/// How long each init container takes.
pub const INIT_RUN_FOR: &str = "berth.dev/init-run-for";
/// How long the containers run; `forever` for no end.
pub const RUN_FOR: &str = "berth.dev/run-for";
/// Exit codes of the runs in turn, separated by commas; the last one stays.
pub const EXIT_CODE: &str = "berth.dev/exit-code";
/// How long the containers take to end after being told to.
pub const STOP_AFTER: &str = "berth.dev/stop-after";

/// The longest time an annotation may give: ten years.
const LONGEST: Duration = Duration::from_secs(10 * 366 * 24 * 3600);

/// How long the containers run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RunFor {
    Forever,
    For(Duration),
}

/// What the annotations of one pod say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wishes {
    pub(crate) start_after: Option<Duration>,
    pub(crate) ready_after: Option<Duration>,
    pub(crate) init_run_for: Option<Duration>,
    pub(crate) run_for: Option<RunFor>,
    pub(crate) exit_codes: Vec<i32>,
    pub(crate) stop_after: Option<Duration>,
    /// Annotations that were not understood, and what was expected. They count as absent.
    pub(crate) problems: Vec<String>,
}

impl Wishes {
    pub(crate) fn read(annotations: &StringMap) -> Wishes {
        let mut wishes = Wishes::default();
        if !annotations
            .range("berth.dev/".to_owned()..)
            .next()
            .is_some_and(|(k, _)| k.starts_with("berth.dev/"))
        {
            return wishes;
        }
        let mut problems = Vec::new();
        let mut read_duration = |key: &str| {
            let text = annotations.get(key)?;
            let duration = duration(text);
            if duration.is_none() {
                problems
                    .push(format!("annotation {key}: {text:?} is not a duration such as 250ms, 5s or 1m30s"));
            }
            duration
        };
        wishes.start_after = read_duration(START_AFTER);
        wishes.ready_after = read_duration(READY_AFTER);
        wishes.init_run_for = read_duration(INIT_RUN_FOR);
        wishes.stop_after = read_duration(STOP_AFTER);
        wishes.run_for = match annotations.get(RUN_FOR).map(|t| t.trim()) {
            Some("forever") => Some(RunFor::Forever),
            _ => read_duration(RUN_FOR).map(RunFor::For),
        };
        if let Some(text) = annotations.get(EXIT_CODE) {
            match exit_codes(text) {
                Some(codes) => wishes.exit_codes = codes,
                None => problems.push(format!(
                    "annotation {EXIT_CODE}: {text:?} is not a list of numbers from 0 to 255 such as 1,1,0"
                )),
            }
        }
        wishes.problems = problems;
        wishes
    }
}

/// `5s`, `1m30s`, `250ms`, or a bare `0`; never negative.
fn duration(text: &str) -> Option<Duration> {
    let text = text.trim();
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let duration: Duration = text.parse::<SignedDuration>().ok()?.try_into().ok()?;
    Some(duration.min(LONGEST))
}

fn exit_codes(text: &str) -> Option<Vec<i32>> {
    text.split(',').map(|code| code.trim().parse::<u8>().ok().map(i32::from)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(annotations: &[(&str, &str)]) -> Wishes {
        Wishes::read(&annotations.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect())
    }

    #[test]
    fn durations_and_codes_are_read() {
        let wishes = read(&[
            (START_AFTER, "0"),
            (READY_AFTER, "250ms"),
            (RUN_FOR, " 1m30s "),
            (EXIT_CODE, "1, 137,0"),
            ("example.com/other", "x"),
        ]);
        assert_eq!(wishes.start_after, Some(Duration::ZERO));
        assert_eq!(wishes.ready_after, Some(Duration::from_millis(250)));
        assert_eq!(wishes.run_for, Some(RunFor::For(Duration::from_secs(90))));
        assert_eq!(wishes.exit_codes, [1, 137, 0]);
        assert_eq!(wishes.stop_after, None);
        assert_eq!(wishes.problems, Vec::<String>::new());
        assert_eq!(read(&[(RUN_FOR, "forever")]).run_for, Some(RunFor::Forever));
    }

    #[test]
    fn what_is_not_understood_is_told_and_counts_as_absent() {
        let wishes = read(&[(RUN_FOR, "soon"), (EXIT_CODE, "256"), (STOP_AFTER, "-5s"), (READY_AFTER, "")]);
        assert_eq!(Wishes { problems: Vec::new(), ..wishes.clone() }, Wishes::default());
        assert_eq!(wishes.problems.len(), 4, "{:?}", wishes.problems);
        assert!(wishes.problems.iter().any(|p| p.contains(RUN_FOR) && p.contains("soon")), "{wishes:?}");
    }

    #[test]
    fn a_duration_beyond_reason_is_bounded() {
        assert_eq!(read(&[(RUN_FOR, "2000000h")]).run_for, Some(RunFor::For(LONGEST)));
    }
}
