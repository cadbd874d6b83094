//! The nodes in their zones and racks.

use maud::html;

use super::answer::{Answer, Page, PageError};
use super::parts;
use crate::pictures::{self, ColorBy, Frame};
use crate::{Request, State};

const COLORS: [(&str, &str, ColorBy<'_>); 3] = [
    ("utilization", "utilization", ColorBy::Utilization),
    ("workload", "workload", ColorBy::Workload),
    ("rule", "broken rules", ColorBy::Rule),
];

pub(super) fn page(state: &mut State, request: &Request<'_>) -> Answer {
    let wanted = request.parameter("color");
    let wanted = wanted.as_deref().unwrap_or(COLORS[0].0);
    let chosen = COLORS.iter().find(|(value, ..)| *value == wanted);
    let unknown = || PageError::Parameter(format!("color={wanted}: give utilization, workload or rule"));
    let (_, _, color_by) = chosen.ok_or_else(unknown)?;
    let frame = Frame { has_links: true, ..Frame::default() };
    let picture = pictures::draw_overview(state.overview(), *color_by, frame);
    let content = html! {
        p { "Color: " }
        ul.choice aria-label="Color" {
            @for (value, name, _) in &COLORS {
                li { a href={ "/?color=" (value) } aria-current=[(*value == wanted).then_some("true")] { (name) } }
            }
        }
        p { (parts::link("/nodes", "The nodes as a list")) }
        (parts::figure(&picture))
    };
    Ok(Page::new("Topology", content))
}
