//! Annotations that set the behavior of a pod on simulated nodes.

use std::time::Duration;

use berth_api::object::StringMap;
use jiff::SignedDuration;

/// Time between the binding and running containers.
pub const START_AFTER: &str = "berth.dev/start-after";
/// Time between running and ready.
pub const READY_AFTER: &str = "berth.dev/ready-after";
/// How long each init container takes.
pub const INIT_RUN_FOR: &str = "berth.dev/init-run-for";
/// How long the containers run; `forever` for no end.
pub const RUN_FOR: &str = "berth.dev/run-for";
/// Exit codes of successive runs, separated by commas; the last one repeats.
pub const EXIT_CODE: &str = "berth.dev/exit-code";
/// How long the containers take to end after SIGTERM.
pub const STOP_AFTER: &str = "berth.dev/stop-after";

/// The longest time that an annotation can set: ten years.
const LONGEST: Duration = Duration::from_secs(10 * 366 * 24 * 3600);

/// How long the containers run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RunFor {
    Forever,
    For(Duration),
}

/// The behavior that the annotations of a pod set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PodBehavior {
    pub(crate) start_after: Option<Duration>,
    pub(crate) ready_after: Option<Duration>,
    pub(crate) init_run_for: Option<Duration>,
    pub(crate) run_for: Option<RunFor>,
    pub(crate) exit_codes: Vec<i32>,
    pub(crate) stop_after: Option<Duration>,
    /// Invalid annotations, with the expected form. They count as absent.
    pub(crate) problems: Vec<String>,
}

impl PodBehavior {
    pub(crate) fn read(annotations: &StringMap) -> PodBehavior {
        let mut behavior = PodBehavior::default();
        if !annotations
            .range("berth.dev/".to_owned()..)
            .next()
            .is_some_and(|(k, _)| k.starts_with("berth.dev/"))
        {
            return behavior;
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
        behavior.start_after = read_duration(START_AFTER);
        behavior.ready_after = read_duration(READY_AFTER);
        behavior.init_run_for = read_duration(INIT_RUN_FOR);
        behavior.stop_after = read_duration(STOP_AFTER);
        behavior.run_for = match annotations.get(RUN_FOR).map(|t| t.trim()) {
            Some("forever") => Some(RunFor::Forever),
            _ => read_duration(RUN_FOR).map(RunFor::For),
        };
        if let Some(text) = annotations.get(EXIT_CODE) {
            match exit_codes(text) {
                Some(codes) => behavior.exit_codes = codes,
                None => problems.push(format!(
                    "annotation {EXIT_CODE}: {text:?} is not a list of numbers from 0 to 255 such as 1,1,0"
                )),
            }
        }
        behavior.problems = problems;
        behavior
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

    fn read(annotations: &[(&str, &str)]) -> PodBehavior {
        PodBehavior::read(&annotations.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect())
    }

    #[test]
    fn durations_and_exit_codes_are_read() {
        let behavior = read(&[
            (START_AFTER, "0"),
            (READY_AFTER, "250ms"),
            (RUN_FOR, " 1m30s "),
            (EXIT_CODE, "1, 137,0"),
            ("example.com/other", "x"),
        ]);
        assert_eq!(behavior.start_after, Some(Duration::ZERO));
        assert_eq!(behavior.ready_after, Some(Duration::from_millis(250)));
        assert_eq!(behavior.run_for, Some(RunFor::For(Duration::from_secs(90))));
        assert_eq!(behavior.exit_codes, [1, 137, 0]);
        assert_eq!(behavior.stop_after, None);
        assert_eq!(behavior.problems, Vec::<String>::new());
        assert_eq!(read(&[(RUN_FOR, "forever")]).run_for, Some(RunFor::Forever));
    }

    #[test]
    fn invalid_annotations_are_reported_and_count_as_absent() {
        let behavior = read(&[(RUN_FOR, "soon"), (EXIT_CODE, "256"), (STOP_AFTER, "-5s"), (READY_AFTER, "")]);
        assert_eq!(PodBehavior { problems: Vec::new(), ..behavior.clone() }, PodBehavior::default());
        assert_eq!(behavior.problems.len(), 4, "{:?}", behavior.problems);
        assert!(behavior.problems.iter().any(|p| p.contains(RUN_FOR) && p.contains("soon")), "{behavior:?}");
    }

    #[test]
    fn durations_are_bounded() {
        assert_eq!(read(&[(RUN_FOR, "2000000h")]).run_for, Some(RunFor::For(LONGEST)));
    }
}
