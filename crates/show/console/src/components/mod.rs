//! The parts that pages and reports are made of. `assets/console.css` has their style, and the page `/design` shows them.

pub(crate) mod bars;
pub(crate) mod devices;
pub(crate) mod icons;
pub(crate) mod listing;
pub(crate) mod map;
pub(crate) mod time;

use maud::{Markup, html};

berth_api::named! {
    /// How something is meant.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) enum Tone(class) {
        Neutral = "neutral",
        Good = "good",
        Info = "info",
        Warn = "warn",
        Bad = "bad",
    }
}

pub(crate) fn badge(tone: Tone, text: &str) -> Markup {
    html! { span class={ "badge " (tone.class()) } { (text) } }
}

pub(crate) fn card(heading: &str, content: &Markup) -> Markup {
    html! { section.card { h2 { (heading) } (content) } }
}

/// A card with a heading that leads to more.
pub(crate) fn linked_card(heading: &str, (to, text): (&str, &str), content: &Markup) -> Markup {
    html! { section.card { h2 { (heading) a href=(to) { (text) } } (content) } }
}

/// What a page shows instead of an empty list: what there would be, and what to do.
pub(crate) fn empty(what: &str, hint: &Markup) -> Markup {
    html! { div.card { div.empty { strong { (what) } p { (hint) } } } }
}

/// The text that says what is the case, first on a page.
pub(crate) fn verdict(tone: Tone, outcome: &Markup, detail: &Markup) -> Markup {
    html! { section class={ "card verdict " (tone.class()) } { p.outcome { (outcome) } (detail) } }
}

/// Choices of which one is current: address, text, and whether it is this one.
pub(crate) fn tabs(name: &str, choices: &[(String, &str, bool)]) -> Markup {
    html! {
        ul.tabs aria-label=(name) {
            @for (to, text, is_current) in choices {
                li { a href=(to) aria-current=[is_current.then_some("true")] { (text) } }
            }
        }
    }
}

/// A large number with what it counts.
pub(crate) fn stat(number: &str, to: &str, what: &str, tone: Tone) -> Markup {
    html! { p.stat { b class=(tone.class()) { a href=(to) { (number) } } span { (what) } } }
}

/// A part of 0 to 100 percent, or more of what is overcommitted; `name` says of what.
pub(crate) fn percent(name: &str, percent: usize) -> Markup {
    html! { span.gauge { meter aria-label=(name) min="0" max="100" high="90" optimum="0" value=(percent.min(100)) {} span { (percent) " %" } } }
}

/// Names as chips.
pub(crate) fn labels(texts: impl IntoIterator<Item = String>) -> Markup {
    html! { ul.chips { @for text in texts { li { span.tag { (text) } } } } }
}

/// The path of a field, which may be broken between its parts.
pub(crate) fn field(path: &str) -> Markup {
    let mut parts = Vec::new();
    let mut begin = 0;
    for (i, c) in path.char_indices() {
        let is_boundary = c.is_ascii_uppercase() || matches!(c, '.' | '[' | '/');
        if is_boundary && i > begin + 3 {
            parts.push(&path[begin..i]);
            begin = i;
        }
    }
    parts.push(&path[begin..]);
    html! { code { @for (i, part) in parts.iter().enumerate() { @if i > 0 { wbr; } (part) } } }
}

/// A text of the engine, which has what users write between backticks.
pub(crate) fn prose(text: &str) -> Markup {
    html! { @for (i, part) in text.split('`').enumerate() { @if i % 2 == 1 { code { (part) } } @else { (part) } } }
}

/// A table whose first column names the rows. Narrow windows show each row as a card. A column without anything in it is left out.
pub(crate) fn table(caption: &str, headers: &[&str], rows: impl IntoIterator<Item = Vec<Markup>>) -> Markup {
    let rows: Vec<Vec<Markup>> = rows.into_iter().collect();
    let is_used =
        |i: &usize| *i == 0 || rows.iter().any(|row| row.get(*i).is_some_and(|cell| !cell.0.is_empty()));
    let used: Vec<usize> = (0..headers.len()).filter(is_used).collect();
    html! {
        section.card {
            div.scroll tabindex="0" role="region" aria-label=(caption) {
                table {
                    caption { (caption) }
                    thead { tr { @for i in &used { th scope="col" { (headers[*i]) } } } }
                    tbody {
                        @for row in &rows {
                            tr {
                                @for i in &used {
                                    @if *i == 0 { th scope="row" data-label=(headers[*i]) { (row[*i]) } } @else { td data-label=(headers[*i]) { (row[*i]) } }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Facts about an object: names and values.
pub(crate) fn facts(facts: &[(&str, Markup)]) -> Markup {
    html! { dl.facts { @for (name, value) in facts { dt { (name) } dd { (value) } } } }
}

/// Suggestions of a field: what the browser completes.
pub(crate) fn datalist(id: &str, values: impl IntoIterator<Item = String>) -> Markup {
    html! { datalist id=(id) { @for value in values { option value=(value); } } }
}
