//! A confirmed list of writes: what has become of each, what it waits for, and how to go on after it.

use std::collections::BTreeSet;

use berth_api::syntax::format::counted;
use maud::{Markup, html};

use super::answer::Page;
use super::apply::{CONFIRM, back, fields, not_applicable, with_query};
use super::rendered;
use crate::components::time::length;
use crate::components::{Tone, verdict};
use crate::writes::{Pause, Progress, WritePlan, WriteState, times};
use crate::{Request, Response, State};

/// The path of the page about a confirmed list, with its parameter `list`.
pub const APPLIED: &str = "/what-if/applied";
/// The path that stops a list, with the same parameter.
pub const STOP: &str = "/what-if/stop";

impl WritePlan {
    /// The page about a list that is being written, or has been. `asked` is the request that was confirmed.
    pub fn report(
        &self,
        state: &State,
        request: &Request<'_>,
        asked: &Request<'_>,
        progress: &Progress,
    ) -> Response {
        let n_done = n_done(progress);
        let outcome = html! { (n_done) " of " (counted(self.writes.len(), "change")) " written" };
        let (title, tone) = match progress {
            _ if progress.is_done() => ("Applied to the cluster", Tone::Good),
            Progress { is_ended: true, .. } => ("Not all applied to the cluster", Tone::Bad),
            _ => ("Being applied to the cluster", Tone::Info),
        };
        let content = html! {
            div role="status" { (verdict(tone, &outcome, &remaining(request, progress))) }
            section.card {
                h2 { "Changes, in their order" }
                ol.writes {
                    @for (write, state) in self.writes.iter().zip(&progress.states) {
                        li { (write.to_string()) (became(state, progress.pause)) }
                    }
                }
            }
            (not_applicable(self))
            @if progress.is_ended && !progress.is_done() { (ways_on(self, asked, progress)) }
            (back(asked))
        };
        rendered(state, request, Ok(Page::new(title, content)))
    }
}

fn n_done(progress: &Progress) -> usize {
    progress.states.iter().filter(|state| **state == WriteState::Done).count()
}

fn became(state: &WriteState, pause: Option<Pause>) -> Markup {
    html! {
        @match state {
            WriteState::Done => div.good { "Done" },
            WriteState::Failed(error) => div.bad { "Failed: " (error) },
            WriteState::NotTried => div.detail { "Not tried" },
            WriteState::Refused(reason, n_attempts) => div.warn {
                "Waiting: " (reason) ", tried again "
                @if let Some(pause) = pause { "in " (length(pause.length.as_secs() as i64)) } @else { "now" }
                " (tried " (times(*n_attempts)) ")"
            },
        }
    }
}

/// How long the list goes on, and how to stop it.
fn remaining(request: &Request<'_>, progress: &Progress) -> Markup {
    let n_refused = progress.states.iter().filter(|state| matches!(state, WriteState::Refused(..))).count();
    html! {
        @if !progress.is_ended {
            @if let Some(pause) = progress.pause {
                p {
                    (counted(n_refused, "eviction")) " refused for now. The list ends if none succeeds in the next "
                    (counted(pause.remaining.as_secs().div_ceil(60) as usize, "minute")) "."
                }
            }
            form.actions method="post" action=(with_query(STOP, request)) {
                button { "Stop" }
                span.hint { "What is written stays." }
                // The script follows the list.
                noscript { a href=(with_query(APPLIED, request)) { "Look again" } }
            }
        }
    }
}

/// After a list that stopped half way: the rest of it, or the way back. Both are confirmed first.
fn ways_on(plan: &WritePlan, request: &Request<'_>, progress: &Progress) -> Markup {
    let states = plan.writes.iter().zip(&progress.states);
    let done: Vec<_> =
        states.filter(|(_, state)| **state == WriteState::Done).map(|(write, _)| write).collect();
    let n_left = plan.writes.len() - done.len();
    // The last change is taken back first.
    let back: Vec<_> = done.iter().rev().filter_map(|write| Some((*write, write.way_back()?))).collect();
    let namespaces: BTreeSet<_> = back.iter().filter_map(|(write, _)| write.namespace()).collect();
    // A what-if has one namespace for all workloads.
    let back: Vec<_> = match namespaces.len() {
        0 | 1 => back,
        _ => back.into_iter().filter(|(write, _)| write.namespace().is_none()).collect(),
    };
    let query = || {
        let mut query = form_urlencoded::Serializer::new(String::new());
        back.iter().for_each(|(_, (name, value))| _ = query.append_pair(name, value));
        if let [namespace] = namespaces.iter().collect::<Vec<_>>()[..] {
            query.append_pair("namespace", namespace);
        }
        format!("{CONFIRM}?{}", query.finish())
    };
    let n_stays = done.len() - back.len();
    html! {
        section.card aria-labelledby="ways-on" {
            h2 id="ways-on" { "How to go on" }
            form.actions method="post" action=(with_query(CONFIRM, request)) {
                (fields(request))
                button.primary { "Write the rest: " (counted(n_left, "change")) }
                span.hint { "The list is made again from the cluster as it is then. You are asked to confirm." }
            }
            @if !back.is_empty() {
                form.actions method="post" action=(query()) {
                    button { "Take back what was written" }
                    span.hint { "You are asked to confirm." }
                }
                ul.chips aria-label="What is taken back" { @for (_, (name, value)) in &back { li { span.tag { (name) " " (value) } } } }
            }
            @if n_stays > 0 {
                p.detail { (counted(n_stays, "change")) " of those written cannot be taken back here: evicted pods run elsewhere, and what a taint or a manifest \
                     replaced is not kept." }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::tests::{cluster, state};
    use super::*;

    const DONE: WriteState = WriteState::Done;

    fn failed(why: &str) -> WriteState {
        WriteState::Failed(why.to_owned())
    }

    /// The page about the list of a query, whose first writes have these states.
    fn report(query: &str, states: &[WriteState], pause: Option<Pause>) -> String {
        let state = state(&cluster());
        let asked = Request { path: CONFIRM, query, form: None };
        let plan = WritePlan::of_request(&state, &asked).unwrap();
        let mut progress = Progress::begin(plan.writes.len());
        progress.states[..states.len()].clone_from_slice(states);
        (progress.pause, progress.is_ended) = (pause, pause.is_none());
        plan.report(&state, &Request { path: APPLIED, query: "list=x", form: None }, &asked, &progress).body
    }

    #[track_caller]
    fn has(page: &str, texts: &[&str]) {
        texts.iter().for_each(|text| assert!(page.contains(text), "{text}: {page}"));
    }

    #[test]
    fn the_report_says_what_became_of_each_write() {
        let query = "set-label=a-1+a%3Db&set-label=a-1+c%3Dd&set-label=a-1+e%3Df";
        let page = report(query, &[DONE, failed("<no>")], None);
        has(
            &page,
            &[
                "1 of 3 changes written",
                "(now not set)<div class=\"good\">Done</div>",
                "<div class=\"bad\">Failed: &lt;no&gt;</div>",
                "<div class=\"detail\">Not tried</div>",
            ],
        );
        assert!(!page.contains("/what-if/stop"), "{page}");
    }

    #[test]
    fn a_list_that_waits_for_a_budget_says_so_and_can_be_stopped() {
        let refused =
            |n| WriteState::Refused("blocked by PodDisruptionBudget pg: 0 disruptions allowed".to_owned(), n);
        let seconds = Duration::from_secs;
        let pause = Pause { length: seconds(5), remaining: seconds(295) };
        let query = "drain=a-1&evict=shop/web-2";
        has(
            &report(query, &[DONE, refused(1), refused(3)], Some(pause)),
            &[
                "Being applied to the cluster",
                "1 of 3 changes written",
                "Waiting: blocked by PodDisruptionBudget pg: 0 disruptions allowed, tried again in 5 s (tried once)",
                "tried again in 5 s (tried 3 times)",
                "2 evictions refused for now. The list ends if none succeeds in the next 5 minutes.",
                "method=\"post\" action=\"/what-if/stop?list=x\"",
                "href=\"/what-if/applied?list=x\"",
            ],
        );
        let mut progress = Progress::begin(1);
        progress.states[0] = refused(3);
        progress.end();
        let message = "blocked by PodDisruptionBudget pg: 0 disruptions allowed; tried 3 times";
        assert_eq!(progress.states, [failed(message)]);
    }

    #[test]
    fn a_list_that_stopped_half_way_has_a_way_on_and_a_way_back() {
        let query = "set-label=a-1+a%3Db&scale=deploy/web%3D5&drain=a-1&place=pending";
        has(
            &report(query, &[DONE, DONE, DONE, failed("429")], None),
            &[
                "3 of 4 changes written",
                "<form class=\"actions\" method=\"post\" action=\"/what-if/confirm?set-label=a-1+a%3Db&amp;scale=deploy/web%3D5&amp;drain=a-1&amp;place=pending\">",
                "<button class=\"primary\">Write the rest: 1 change</button>",
                "action=\"/what-if/confirm?uncordon=a-1&amp;scale=Deployment%2Fweb%3D3&amp;set-label=a-1+a-&amp;namespace=shop\"",
                "<button>Take back what was written</button>",
            ],
        );
        let back = "uncordon=a-1&scale=Deployment%2Fweb%3D2&set-label=a-1+a-&namespace=shop";
        let asked = Request { path: CONFIRM, query: back, form: None };
        let plan = WritePlan::of_request(&state(&cluster()), &asked).unwrap();
        assert_eq!(
            plan.writes.iter().map(ToString::to_string).collect::<Vec<_>>(),
            [
                "Uncordon node a-1: pods are placed on it again",
                "Scale Deployment shop/web to 2 replicas (now 3)",
                "Remove the label a of node a-1 (now not set)"
            ]
        );
        let page = report(query, &[DONE, DONE, DONE, DONE], None);
        assert!(!page.contains("Write the rest"), "{page}");
    }

    #[test]
    fn what_is_written_between_failures_counts_for_the_way_back() {
        let query = "drain=a-1&evict=shop/web-2";
        let page = report(query, &[DONE, failed("429"), DONE], None);
        has(
            &page,
            &[
                "2 of 3 changes written",
                "Write the rest: 1 change",
                "1 change of those written cannot be taken back here",
            ],
        );
    }
}
