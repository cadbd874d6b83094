//! Bars as HTML: they are as wide as the page, and texts wrap.

use berth_picture::Key;
use berth_picture::bars::{Row, Section};
use maud::{Markup, html};

/// The bars of a section, which have one scale.
pub(crate) fn bars(section: &Section) -> Markup {
    let total = |row: &Row| row.parts.iter().map(|(_, size)| size).sum::<usize>();
    let largest =
        section.rows.iter().map(|row| total(row).max(row.limit.unwrap_or(0))).max().unwrap_or(0).max(1);
    // In thousandths of the largest.
    let scaled = |size: usize| (size * 1000).div_ceil(largest);
    let bar = |row: &Row| {
        // Each part with the sum of those before it.
        let parts = row.parts.iter().scan(0, |before, (class, size)| {
            let start = scaled(*before);
            *before += size;
            Some((class.name(), start, scaled(*before) - start))
        });
        html! {
            svg.bar-track.berth-picture aria-hidden="true" viewBox="0 0 1000 14" preserveAspectRatio="none" {
                @for (class, x, width) in parts { rect class=(class) x=(x) y="0" width=(width) height="14" {} }
                @if let Some(limit) = row.limit { rect.alert x=(scaled(limit).saturating_sub(3)) y="0" width="6" height="14" {} }
            }
        }
    };
    html! {
        (legend(&section.legend))
        dl.bars {
            @for row in &section.rows {
                dt.name title=(row.title) { (row.name) }
                dd { (bar(row)) span.note { (row.note) } }
            }
        }
    }
}

/// What the colors mean.
pub(crate) fn legend(keys: &[Key]) -> Markup {
    html! {
        @if !keys.is_empty() {
            ul.legend.berth-picture {
                @for Key { class, mark, text } in keys {
                    li {
                        span class={ "swatch " (class.name()) } aria-hidden="true" { @if let Some(mark) = mark { (mark) } }
                        (text)
                    }
                }
            }
        }
    }
}
