//! Reports as HTML.

use berth_engine::Verdict;
use maud::{Markup, html};

use super::{Block, Part, Report, Span, Tone};
use crate::components::{self, prose, table};

impl Report {
    /// The verdict as the first card of a page; files have no links.
    pub(crate) fn verdict_card(&self, has_links: bool) -> Markup {
        let tone = if self.is_good { components::Tone::Good } else { components::Tone::Bad };
        let [first, details @ ..] = self.verdict.as_slice() else { return html! {} };
        let details = html! { @for detail in details { (paragraph(detail, true, has_links)) } };
        components::verdict(tone, &line(first, has_links), &details)
    }

    pub(crate) fn cards(&self, has_links: bool) -> Markup {
        html! { @for part in &self.parts { (card(part, has_links)) } }
    }
}

fn card(Part { heading, blocks, .. }: &Part, has_links: bool) -> Markup {
    let is_line = |block: &&Block| matches!(block, Block::Line { .. });
    html! {
        @if blocks.iter().any(|block| is_line(&block)) {
            section.card {
                @if !heading.is_empty() { h2 { (heading) } }
                @for block in blocks {
                    @if let Block::Line { depth, spans } = block { (paragraph(spans, *depth > 0, has_links)) }
                }
            }
        }
        @for block in blocks {
            @match block {
                Block::Table { headings, rows } => {
                    @let headings: Vec<&str> = headings.iter().map(|heading| heading.text.as_str()).collect();
                    (table(heading, &headings, rows.iter().map(|row| row.iter().map(|cell| span(cell, has_links)).collect())))
                }
                Block::More(n) => p { "and " (berth_api::syntax::format::grouped(*n)) " more" }
                Block::Line { .. } => {}
            }
        }
    }
}

fn paragraph(spans: &[Span], is_detail: bool, has_links: bool) -> Markup {
    match spans.first().and_then(|first| first.text.trim_start().strip_prefix("$ ")) {
        Some(command) => html! { pre tabindex="0" { code { (command) } } },
        None => html! { p class=[is_detail.then_some("detail")] { (line(spans, has_links)) } },
    }
}

/// Why a rule does not hold, with the numbers and pods behind it.
pub(crate) fn verdict(verdict: &Verdict) -> Markup {
    let [rule, why] = super::verdict(verdict);
    html! { (line(&rule, true)) div.detail { (line(&why, true)) } }
}

pub(crate) fn line(spans: &[Span], has_links: bool) -> Markup {
    html! { @for piece in spans { (span(piece, has_links)) } }
}

fn span(Span { text, tone, link }: &Span, has_links: bool) -> Markup {
    if let Some(link) = link.as_ref().filter(|_| has_links) {
        return html! { a href=(link) { (text) } };
    }
    match tone {
        Tone::Plain => prose(text),
        Tone::Strong => html! { strong { (text) } },
        Tone::Good => html! { strong.good { (text) } },
        Tone::Attention => html! { strong.warn { (text) } },
        Tone::Bad => html! { strong.bad { (text) } },
        Tone::Path => components::field(text),
        Tone::Dim => html! { span.detail { (text) } },
    }
}

#[cfg(test)]
mod tests {
    use super::super::{good, line};
    use super::*;

    #[test]
    fn pages_have_links_files_have_none_and_commands_are_code() {
        let mut report = Report { verdict: vec![line![good("1 < 2")]], is_good: true, ..Report::default() };
        let part = report.titled("Pods");
        part.table(&["Pod"], ["a"], 1, |name| vec![Span::pod("shop", name)]);
        part.line(1, line!["$ kubectl get pod `a`"]);
        report.part("Nothing");
        let (page, file) = (report.cards(true).into_string(), report.cards(false).into_string());
        assert!(page.contains("<a href=\"/pods/shop/a\">shop/a</a>") && !page.contains("Nothing"), "{page}");
        assert!(!file.contains("href") && file.contains(">shop/a<"), "{file}");
        assert!(file.contains("<code>kubectl get pod `a`</code>"), "{file}");
        let verdict = report.verdict_card(false).into_string();
        assert!(
            verdict.contains("verdict good") && verdict.contains("<strong class=\"good\">1 &lt; 2</strong>"),
            "{verdict}"
        );
    }
}
