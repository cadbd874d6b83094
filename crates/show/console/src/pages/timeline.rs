//! What has happened since the state follows the cluster.

use berth_api::syntax::format::{counted, grouped};
use berth_picture::Class;
use berth_simulate::replay::{Interval, Timeline};
use maud::{Markup, html};

use super::answer::{Answer, Page};
use crate::State;
use crate::components::time::exact;
use crate::components::{Tone, empty, verdict};

/// Height of the columns, and the number of times below them.
const HEIGHT: usize = 56;
const N_TIMES: usize = 5;
/// Columns that there is room for at least.
const MIN_COLUMNS: usize = 40;

/// A row: its name, look, the values, and where a click on one leads.
type Row = (&'static str, Class, fn(&Interval) -> usize, &'static str);

const ROWS: [Row; 4] = [
    ("Bindings", Class::Bar, |interval| interval.n_decisions, "/events?q=Scheduled"),
    ("Evictions", Class::Alert, |interval| interval.n_evictions, "/events?q=Evict"),
    ("Pending pods", Class::Kind(1), |interval| interval.n_pending, "/pending"),
    ("Broken rules", Class::Kind(3), |interval| interval.n_broken_rules, "/enforcer"),
];

pub(super) fn page(state: &mut State) -> Answer {
    let timeline = state.timeline();
    if timeline.intervals.is_empty() {
        let hint = html! { "A timeline is shown of a live cluster only; " code { "berth replay --timeline" } " shows that of a recording." };
        return Ok(Page::new("Timeline", empty("No timeline", &hint)));
    }
    let sum = |value: fn(&Interval) -> usize| timeline.intervals.iter().map(value).sum::<usize>();
    let line = html! { (counted(sum(|i| i.n_decisions), "binding")) ", " (counted(sum(|i| i.n_evictions), "eviction")) " since the console follows the cluster" };
    let detail = html! {
        p.detail {
            "Each column is " (counted(usize::try_from(timeline.seconds).unwrap_or(0), "second")) ". Evictions are pods with the condition "
            code { "DisruptionTarget" } ", preempted ones included; pending pods and broken rules are those at its end."
        }
    };
    let content = html! {
        (verdict(Tone::Info, &line, &detail))
        section.card {
            @for row in &ROWS { (columns(&timeline, row)) }
            div.time-row { span {} div.axis { @for time in times(&timeline) { span { (time) } } } }
        }
    };
    Ok(Page::new("Timeline", content))
}

fn columns(timeline: &Timeline, (name, class, value, to): &Row) -> Markup {
    let largest = timeline.intervals.iter().map(value).max().unwrap_or(0);
    let n_columns = n_columns(timeline);
    // The newest at the right.
    let first = n_columns - timeline.intervals.len();
    html! {
        div.time-row {
            div { h2 { (name) } p.detail { "most " (grouped(largest)) } }
            svg.columns-plot.berth-picture role="group" aria-label=(name) viewBox={ "0 0 " (n_columns * 10) " " (HEIGHT) } preserveAspectRatio="none" {
                @for (i, interval) in timeline.intervals.iter().enumerate() {
                    @let n = value(interval);
                    @if n > 0 {
                        @let height = (n * HEIGHT).div_ceil(largest.max(1));
                        a href=(to) tabindex="-1" {
                            title { (exact(interval.begin)) ": " (grouped(n)) " " (name.to_lowercase()) }
                            rect class=(class.name()) stroke="none" x=((first + i) * 10) y=(HEIGHT - height) width="9" height=(height) {}
                        }
                    }
                }
            }
        }
    }
}

fn n_columns(timeline: &Timeline) -> usize {
    timeline.intervals.len().max(MIN_COLUMNS)
}

/// A few times, evenly spaced.
fn times(timeline: &Timeline) -> Vec<String> {
    let Some(last) = timeline.intervals.last() else { return Vec::new() };
    let n_columns = i64::try_from(n_columns(timeline)).unwrap_or(0);
    let time = |i: usize| {
        let before = (n_columns - 1) * i64::try_from(N_TIMES - 1 - i).unwrap_or(0) / (N_TIMES as i64 - 1)
            * timeline.seconds;
        let time = last.begin.checked_sub(jiff::SignedDuration::from_secs(before)).ok()?;
        Some(time.strftime("%H:%M:%S").to_string())
    };
    (0..N_TIMES).filter_map(time).collect()
}

#[cfg(test)]
mod tests {
    use berth_api::object::Pod;
    use berth_simulate::SimulationOptions;
    use jiff::Timestamp;
    use serde_json::{Value, from_value, json};

    use super::super::tests::{check, get};
    use crate::{State, Update};

    #[test]
    fn bindings_and_evictions_are_counted_in_the_interval_in_which_they_are_seen() {
        check("/timeline", &["A timeline is shown of a live cluster only"]);
        let mut state = State::live("test", SimulationOptions::default()).unwrap();
        let pod = |name: &str, node: &str, status: Value| {
            let metadata =
                json!({"name": name, "namespace": "shop", "creationTimestamp": "2026-01-01T00:00:00Z"});
            let spec = json!({"nodeName": node, "containers": [{"name": "c", "image": "i"}]});
            let pod = json!({"metadata": metadata, "spec": spec, "status": status});
            Update::pod(from_value::<Pod>(pod).unwrap())
        };
        let evicted = || json!({"conditions": [{"type": "DisruptionTarget", "status": "True"}]});
        let mut at = |second: i64, updates: Vec<Update>| {
            state.set_time(Timestamp::from_second(1_767_225_600 + second).unwrap());
            state.apply(updates, |error| panic!("{error}"));
            let timeline = state.timeline();
            let counts = timeline.intervals.iter().map(|i| (i.n_decisions, i.n_evictions, i.n_pending));
            counts.collect::<Vec<_>>()
        };
        let notice = |text: Option<&str>| Update::Notice(text.map(str::to_owned));
        // Objects that are still missing are no events.
        assert_eq!(at(0, vec![notice(Some("reading")), pod("a", "", json!({}))]), []);
        assert_eq!(
            at(0, vec![pod("a", "n", json!({})), pod("b", "n", json!({})), notice(None)]),
            [(0, 0, 0)]
        );
        assert_eq!(at(0, vec![pod("c", "", json!({})), pod("d", "", json!({}))]), [(0, 0, 2)]);
        assert_eq!(at(8, vec![pod("c", "n", json!({}))]), [(0, 0, 2), (1, 0, 1)]);
        let twice = vec![pod("c", "n", evicted()), pod("c", "n", evicted())];
        assert_eq!(at(24, twice), [(0, 0, 2), (1, 0, 1), (0, 0, 1), (0, 1, 1)]);
        let (_, body) = get(&mut state, "/timeline");
        assert!(
            body.contains("1 binding, 1 eviction since") && body.contains(": 1 evictions</title>"),
            "{body}"
        );
    }
}
