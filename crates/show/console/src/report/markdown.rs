//! Reports as Markdown, as forges show it in pull requests.

use std::fmt::Write as _;

use berth_api::syntax::format::grouped;
use berth_api::syntax::obeyed::shown;

use super::{Block, Part, Report, Span, Tone};

impl Report {
    /// The report under a title.
    pub fn markdown(&self, title: &str) -> String {
        let mut text = format!("## {}\n", escaped(title));
        for (i, spans) in self.verdict.iter().enumerate() {
            let line = line(spans);
            text +=
                &if i == 0 { format!("\n**{}**\n", line.replace("**", "")) } else { format!("\n{line}\n") };
        }
        for part in self.parts.iter().filter(|part| !part.blocks.is_empty()) {
            add_part(&mut text, part);
        }
        text
    }
}

fn add_part(text: &mut String, Part { heading, blocks, .. }: &Part) {
    if !heading.is_empty() {
        *text += &format!("\n### {}\n", escaped(heading));
    }
    let mut is_list = false;
    for block in blocks {
        let was_list = std::mem::replace(&mut is_list, matches!(block, Block::Line { .. }));
        if !was_list {
            text.push('\n');
        }
        match block {
            Block::Table { headings, rows } => {
                let row = |cells: &[Span]| {
                    cells.iter().fold("|".to_owned(), |row, cell| row + " " + &span(cell) + " |") + "\n"
                };
                let plain: Vec<Span> = headings.iter().map(|heading| Span::from(&heading.text)).collect();
                *text += &row(&plain);
                *text += &format!("|{}\n", " --- |".repeat(headings.len()));
                rows.iter().for_each(|cells| *text += &row(cells));
            }
            Block::Line { depth, spans } => {
                let line = line(spans);
                let line = line.trim_start_matches("- ");
                _ = writeln!(text, "{}- {line}", "  ".repeat(*depth));
            }
            Block::More(n) => _ = writeln!(text, "and {} more", grouped(*n)),
        }
    }
}

fn line(spans: &[Span]) -> String {
    spans.iter().map(span).collect()
}

/// What stands out is bold, without the spaces around it.
fn span(Span { text, tone, .. }: &Span) -> String {
    let inner = text.trim();
    let is_bold =
        matches!(tone, Tone::Strong | Tone::Good | Tone::Attention | Tone::Bad) && !inner.is_empty();
    match is_bold {
        true => {
            let begin = &text[..text.len() - text.trim_start().len()];
            let end = &text[text.trim_end().len()..];
            format!("{begin}**{}**{end}", escaped(inner))
        }
        false => escaped(text),
    }
}

/// Text without markup and without mentions of users.
fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for c in shown(text).chars() {
        match c {
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '#' | '~' => escaped.extend(['\\', c]),
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '&' => escaped += "&amp;",
            '@' => escaped += "&#64;",
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::super::{bad, dim, line, strong};
    use super::*;

    #[test]
    fn names_are_no_markup_and_tables_keep_their_columns() {
        let mut report = Report { verdict: vec![line![bad("Not safe"), ": 1 *pod*"]], ..Report::default() };
        let part = report.titled("Pods <b>");
        part.table(&["Pod", "Node"], [("a|b", "@all"), ("`c`", "<none>")], 9, |(pod, node)| {
            line![strong(pod), node]
        });
        part.more(3);
        let part = report.part("");
        part.line(0, line!["- ", dim("why "), strong("x "), "y"]);
        part.line(1, line!["[z](u)"]);
        report.part("empty");
        assert_eq!(
            report.markdown("What if"),
            "## What if\n\n**Not safe: 1 \\*pod\\***\n\n### Pods &lt;b&gt;\n\n| Pod | Node |\n| --- | --- |\n| **a\\|b** | &#64;all |\n\
             | **\\`c\\`** | &lt;none&gt; |\n\nand 3 more\n\n- why **x** y\n  - \\[z\\](u)\n"
        );
    }
}
