//! What has happened since the state follows the cluster.

use maud::html;

use super::{Answer, Page, parts};
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
