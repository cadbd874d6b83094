//! Reports as pages: one self-contained file with the style of the console, without scripts and references.

use berth_engine::Violation;
use berth_picture::bars::Bars;
use berth_simulate::what_if::DomainLosses;
use berth_simulate::{PodExplanation, Simulation};
use maud::{Markup, PreEscaped, html};

use crate::components::bars::bars;
use crate::components::icons::{self, icon};
use crate::components::map::map;
use crate::overview::Overview;
use crate::pages::STYLE;
use crate::pictures::{self, ColorBy, View};
use crate::report::Report;

/// The topology. `broken` are the violated rules of running pods.
pub fn topology(simulation: &Simulation, broken: &[Violation], color_by: ColorBy<'_>) -> String {
    let model = Overview::once(simulation, broken, |overview| pictures::map(overview, &View::new(color_by)));
    part(&model.title, &map(&model))
}

/// As [`pictures::spread`].
pub fn spread(simulation: &Simulation, topology_key: &str) -> String {
    sections(&pictures::spread_bars(simulation, topology_key))
}

/// As [`pictures::explanation`].
pub fn explanation(explained: &PodExplanation) -> String {
    sections(&pictures::explanation_bars(explained))
}

/// As [`pictures::losses`].
pub fn losses(losses: &DomainLosses) -> String {
    sections(&pictures::losses_bars(losses))
}

fn sections(Bars { title, sections, notes, .. }: &Bars) -> String {
    part(
        title,
        &html! {
            @for section in sections { h3 { (section.name) } (bars(section)) }
            @for note in notes { p.detail { (note) } }
        },
    )
}

fn part(title: &str, content: &Markup) -> String {
    html! { div { h2 { (title) } (content) } }.into_string()
}

fn figures(parts: &[String]) -> Markup {
    html! {
        @for part in parts {
            (PreEscaped("<figure>\n"))
            @let (before, after) = berth_picture::without_style(part);
            (PreEscaped(before)) (PreEscaped(after))
            (PreEscaped("</figure>"))
        }
    }
}

/// The page of a report: the verdict, parts, each a picture or HTML with an optional `<figcaption>` before it, and what else it says.
pub fn page(title: &str, parts: &[String], report: &Report) -> String {
    document(title, &html! { (report.verdict_card(false)) (figures(parts)) (report.cards(false)) })
}

/// A file with a title and what is below it.
fn document(title: &str, content: &Markup) -> String {
    let page = html! {
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) }
                style { (PreEscaped(STYLE)) (PreEscaped(berth_picture::STYLE)) }
            }
            body {
                main.report {
                    div.title { h1 { (title) } p.subtitle { (icon(icons::BERTH)) "Berth" } }
                    (content)
                }
            }
        }
    };
    format!("<!doctype html>\n{}\n", page.into_string())
}
