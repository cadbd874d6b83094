//! The pods without a node, by workload and reason.

use berth_api::syntax::format::{counted, grouped};
use maud::html;

use super::answer::{Answer, Page, PageError};
use super::parts;
use crate::components::listing::{Column, Filter, listing, with_parameter};
use crate::components::{Tone, badge, empty};
use crate::pending_groups::{PendingGroup, causes, pending_groups};
use crate::{Request, State, links};

/// Pods of a group with a link each.
const MAX_NAMED: usize = 5;

pub(super) fn page(state: &mut State, request: &Request<'_>) -> Answer {
    let clock = state.clock();
    let mut groups = pending_groups(state);
    let all = state.pods();
    if groups.is_empty() {
        let hint = html! { "Pods appear here while they wait for a node, with the reason. " a href="/pods" { "All pods" } };
        return Ok(Page::new("Pending pods", empty("All pods have a node", &hint)));
    }
    let n_pending: usize = groups.iter().map(|group| group.pods.len()).sum();
    let chosen = request.parameter("cause").unwrap_or_default();
    let by_cause: Vec<(String, usize)> =
        causes(&groups).into_iter().map(|(cause, n, _)| (cause.to_owned(), n)).collect();
    let filter = Filter::of(request);
    let namespaces = parts::namespaces(all);
    let namespaces: Vec<&str> = namespaces.iter().map(String::as_str).collect();
    groups.retain(|group| {
        let (namespace, workload) = &group.workload;
        (chosen.is_empty() || group.cause == *chosen) && filter.matches(namespace, &[workload, &group.reason])
    });
    let n_groups = groups.len();
    let columns = [
        Column::new("workload", "Workload", |group: &PendingGroup| {
            let (namespace, workload) = &group.workload;
            html! { (namespace) "/" (parts::link(&links::workload(namespace, workload), workload)) }
        })
        .by(|a, b| a.workload.cmp(&b.workload)),
        Column::number("pods", "Pods", |group: &PendingGroup| group.pods.len()),
        Column::new("cause", "Cause", |group: &PendingGroup| badge(Tone::Warn, &group.cause))
            .by(|a, b| a.cause.cmp(&b.cause)),
        Column::new("age", "Oldest", |group: &PendingGroup| clock.optional(group.oldest))
            .by(|a, b| b.oldest.cmp(&a.oldest)),
        Column::new("pod", "Pod", |group: &PendingGroup| {
            let named = all
                .sorted(group.pods.iter().copied(), MAX_NAMED)
                .into_iter()
                .map(|(_, pod)| &pod.pod.metadata);
            html! {
                ul.plain { @for pod in named { li { (parts::link(&links::pod(&pod.namespace, &pod.name), &pod.name)) } } }
                @if group.pods.len() > MAX_NAMED { "and " (grouped(group.pods.len() - MAX_NAMED)) " more" }
            }
        }),
        Column::text("reason", "Reason", |group: &PendingGroup| html! { (group.reason) }),
    ];
    let caption = format!("{} by workload and reason", counted(n_groups, "group"));
    let table = listing(request, &caption, &mut groups, &columns).map_err(PageError::Parameter)?;
    let content = html! {
        ul.chips aria-label="Causes" {
            li { a.badge.info[chosen.is_empty()] href=(with_parameter(request, "cause", "")) { "All " (grouped(n_pending)) } }
            @for (cause, n) in &by_cause {
                li { a.badge.info[chosen == cause.as_str()] href=(with_parameter(request, "cause", cause)) { (cause) " " (grouped(*n)) } }
            }
        }
        (filter.form(request, "Workload or reason", &namespaces))
        (table)
        p.hint { "Each reason is that of the pod alone in the current state." }
    };
    let subtitle = html! { (counted(n_pending, "pod")) " without a node" };
    let actions = html! { a.button.small href="/what-if?place=pending" { "Place them all in a what-if" } };
    Ok(Page::new("Pending pods", content).subtitle(subtitle).actions(actions))
}

#[cfg(test)]
mod tests {
    use super::super::tests::{check, cluster, get, state};

    #[test]
    fn pending_pods_are_grouped_by_workload_and_reason() {
        check(
            "/pending",
            &[
                "1 pod without a node",
                "shop/<a href=\"/workloads/Deployment/shop/web\">Deployment web</a>",
                "data-label=\"Reason\">0/2 nodes are available: ",
                "<a href=\"/pods/shop/web-3\">web-3</a>",
            ],
        );
    }

    #[test]
    fn the_reason_is_that_of_the_explanation() {
        let mut state = state(&cluster());
        let explained = state.simulation().explain("shop", "web-3", None).unwrap();
        let message = explained.explanation.outcome.message().into_owned();
        let (_, page) = get(&mut state, "/pending");
        assert!(page.contains(&format!(">{message}</td>")), "{message}: {page}");
    }

    #[test]
    fn a_page_has_not_all_of_many_workloads() {
        let pods = (0..250).map(|i| {
            format!(
                "{{apiVersion: v1, kind: Pod, metadata: {{name: p{i:03}}}, \
             spec: {{containers: [{{name: c, image: i}}]}}}}\n---\n"
            )
        });
        let mut state = state(&pods.collect::<String>());
        let (_, page) = get(&mut state, "/pending?page=3");
        assert_eq!(page.matches("<tr>").count(), 51, "{page}");
        assert!(page.contains("Page 3 of 3, 250 in all") && page.contains("/pending?page=2"), "{page}");
    }
}
