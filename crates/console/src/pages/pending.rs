//! The pods without a node, and why.

use maud::html;

use super::Page;
use crate::State;

pub(super) fn page(state: &mut State) -> Page {
    let pending = state.simulation().pods().iter().filter(|pod| pod.node().is_none());
    let rows: Vec<_> = pending.map(|pod| &pod.pod.metadata).collect();
    let content = html! {
        @if rows.is_empty() { p { "All pods have a node." } }
        @else {
            table {
                thead { tr { th scope="col" { "Namespace" } th scope="col" { "Pod" } } }
                tbody {
                    @for metadata in rows {
                        tr { td { (metadata.namespace) } td { (metadata.name) } }
                    }
                }
            }
        }
    };
    Page::new("Pending pods", content)
}
