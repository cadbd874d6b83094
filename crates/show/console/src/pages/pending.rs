//! The pods without a node, by workload and reason.

use std::collections::BTreeMap;

use berth_api::syntax::format::{counted, grouped};
use berth_simulate::PendingDecision;
use maud::{Markup, html};

use super::answer::{Answer, Page};
use super::parts;
use crate::workloads::{WorkloadName, name_of};
use crate::{Request, State, links};

/// Pods of a group with a link each.
const MAX_NAMED: usize = 5;

pub(super) fn page(state: &mut State, request: &Request<'_>) -> Answer {
    let decisions = state.decide_pending();
    let all = state.pods();
    let mut groups: BTreeMap<(WorkloadName, String), Vec<usize>> = BTreeMap::new();
    for i in all.table.pending() {
        let pod = all.at(i);
        let reason = decisions.get(&i).map_or_else(|| pod.outcome.message().into_owned(), reason);
        groups.entry((name_of(pod), reason)).or_default().push(i);
    }
    let n_pending: usize = groups.values().map(Vec::len).sum();
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|(_, pods)| std::cmp::Reverse(pods.len()));
    let (shown, pages) = parts::paged(request, &groups)?;
    let row = |((name, reason), members): &((WorkloadName, String), Vec<usize>)| -> Vec<Markup> {
        let (namespace, workload) = name;
        let named =
            all.sorted(members.iter().copied(), MAX_NAMED).into_iter().map(|(_, pod)| &pod.pod.metadata);
        vec![
            html! { (namespace) "/" (parts::link(&links::workload(namespace, workload), workload)) },
            parts::number(members.len()),
            html! { (reason) },
            html! {
                ul.plain { @for pod in named { li { (parts::link(&links::pod(&pod.namespace, &pod.name), &pod.name)) } } }
                @if members.len() > MAX_NAMED { "and " (grouped(members.len() - MAX_NAMED)) " more" }
            },
        ]
    };
    let content = html! {
        @if groups.is_empty() { p { "All pods have a node." } }
        @else {
            p {
                (counted(n_pending, "pod")) " without a node. Each reason is that of the pod alone in the current state; "
                a href="/what-if?place=pending" { "place them all" } " to see which of them would stay."
            }
            (parts::table("Pending pods by workload and reason", &["Workload", "Pods", "Reason", "Pod"], shown.iter().map(row)))
            (pages)
        }
    };
    Ok(Page::new("Pending pods", content))
}

fn reason(PendingDecision { outcome, preemption }: &PendingDecision) -> String {
    match (outcome.node(), preemption) {
        (Some(node), _) => format!("fits, for example on {node}"),
        (None, Some(preemption)) => format!(
            "{} It fits on {} if {} evicted there.",
            outcome.message(),
            preemption.node,
            match preemption.victims.len() {
                1 => "1 pod is".to_owned(),
                n => format!("{n} pods are"),
            }
        ),
        (None, None) => outcome.message().into_owned(),
    }
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
                "<td>0/2 nodes are available: ",
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
        assert!(page.contains(&format!("<td>{message}</td>")), "{message}: {page}");
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
