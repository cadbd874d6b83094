//! What has happened since the state follows the cluster.

use maud::html;

use super::answer::{Answer, Page};
use super::parts;
use crate::{State, pictures};

pub(super) fn page(state: &mut State) -> Answer {
    let timeline = state.timeline();
    let content = html! {
        @if timeline.intervals.is_empty() {
            p {
                "A timeline is shown of a live cluster only; " code { "berth replay --timeline" } " shows that of a recording."
            }
        } @else {
            p {
                "Since the console follows the cluster. Decisions are the bindings of pods; evictions are pods with the condition "
                code { "DisruptionTarget" } ", preempted ones included."
            }
            (parts::figure(&pictures::timeline(&timeline)))
        }
    };
    Ok(Page::new("Timeline", content))
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
        assert!(body.contains("1 decision, 1 eviction"), "{body}");
    }
}
