//! The nodes in their zones and racks.

use maud::{PreEscaped, html};

use super::Page;
use crate::pictures::{self, ColorBy};
use crate::{Request, State};

const COLORS: [(&str, &str, ColorBy<'_>); 3] = [
    ("utilization", "utilization", ColorBy::Utilization),
    ("workload", "workload", ColorBy::Workload),
    ("rule", "broken rules", ColorBy::Rule),
];

pub(super) fn page(state: &mut State, request: &Request<'_>) -> Page {
    let wanted = request.parameter("color");
    let chosen = COLORS.iter().find(|(value, ..)| wanted.as_deref() == Some(*value)).unwrap_or(&COLORS[0]);
    let (simulation, broken) = state.audited();
    let picture = pictures::topology(simulation, broken, chosen.2);
    let content = html! {
        ul.choice aria-label="Color" {
            @for (value, name, _) in &COLORS {
                li { a href={ "/?color=" (value) } aria-current=[(*value == chosen.0).then_some("true")] { (name) } }
            }
        }
        figure { (PreEscaped(picture)) }
    };
    Page::new("Topology", content)
}
