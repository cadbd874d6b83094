//! Which workloads require or avoid which others, and what does not hold.

use berth_api::syntax::format::{counted, grouped};
use maud::html;

use super::answer::{Answer, Page};
use super::parts;
use crate::pictures::rules::{Edge, MAX_WITH_SINGLE, edges, graph, topology};
use crate::workloads::WorkloadName;
use crate::{Request, State, links};

pub(super) fn page(state: &mut State, request: &Request<'_>) -> Answer {
    let overview = state.overview();
    let n_broken = overview.broken.violations.len();
    let mut edges = edges(overview);
    edges.sort_by_key(|edge| std::cmp::Reverse(edge.n_broken));
    let (shown, pages) = parts::paged(request, &edges)?;
    let name = |(namespace, workload): &WorkloadName| {
        html! { (namespace) "/" (parts::link(&links::workload(namespace, workload), workload)) }
    };
    let row = |edge: &Edge| {
        vec![
            name(&edge.from),
            html! { (edge.relation.verb()) },
            name(&edge.to),
            html! { (topology(&edge.term)) div.detail { code { (edge.term.path) } } },
            html! {
                @if edge.n_broken > 0 { strong.bad { "broken for " (counted(edge.n_broken, "pod")) } } @else { "holds" }
            },
        ]
    };
    let content = html! {
        p {
            (counted(n_broken, "required rule")) " of running pods "
            @if n_broken == 1 { "does" } @else { "do" } " not hold, those of nodes included: "
            (parts::link("/enforcer", "broken rules and planned evictions")) "."
        }
        @if overview.pods.table.n_pods() > MAX_WITH_SINGLE {
            p.hint { "Where there are more than " (grouped(MAX_WITH_SINGLE)) " workloads, pods without one are left out." }
        }
        @if edges.is_empty() { p { "No workload has a rule about another one." } }
        @else {
            (parts::figure(&graph(&edges)))
            (parts::table(
                &format!("{} between workloads, broken ones first", counted(edges.len(), "rule")),
                &["Workload", "Relation", "To", "Where", "Now"],
                shown.iter().map(row),
            ))
            (pages)
        }
    };
    Ok(Page::new("Rules", content))
}

#[cfg(test)]
mod tests {
    use super::super::tests::check;

    #[test]
    fn rules_have_a_graph_and_a_row_each() {
        check(
            "/rules",
            &[
                "0 required rules of running pods do not hold",
                "1 rule between workloads, broken ones first",
                "<td>avoids</td><td>shop/<a href=\"/workloads/Deployment/shop/web\">Deployment web</a></td>\
             <td>per topology.kubernetes.io/zone",
                "<td>holds</td>",
                ">1 rule between 1 workload</text>",
            ],
        );
    }
}
