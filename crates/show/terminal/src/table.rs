//! Tables in the style of `kubectl`: uppercase headings, no lines, columns as wide as their widest cell.

use std::io::{self, Write};

use berth_api::syntax::obeyed::shown;

use crate::output::{self, BOLD};
use crate::wrap::{Style, columns};

const GAP: usize = 3;
/// Cells are padded to at most this many columns: a few long cells would make every line as long.
const MAX_PADDED: usize = 200;

#[derive(Clone, Debug, Default)]
pub struct Cell {
    text: String,
    style: Style,
}

impl Cell {
    /// A cell with a style. Its text is escaped: names of inputs may hold what a terminal obeys.
    pub fn styled(text: impl Into<String>, style: Style) -> Cell {
        let text: String = text.into();
        Cell { text: shown(&text).into_owned(), style }
    }
}

impl<T: ToString> From<T> for Cell {
    fn from(value: T) -> Cell {
        Cell::styled(value.to_string(), Style::Plain)
    }
}

#[derive(Debug)]
pub struct Table {
    rows: Vec<Vec<Cell>>,
}

impl Table {
    pub fn new<T: Into<String>>(headings: impl IntoIterator<Item = T>) -> Table {
        let headings = headings.into_iter().map(|h| Cell::styled(h, BOLD));
        Table { rows: vec![headings.collect()] }
    }

    pub fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// Writes it, each line after `indent`. If it is wider than the terminal, the last column is wrapped, or each row
    /// becomes a block with a line for each cell.
    pub fn write(&self, out: &mut impl Write, indent: &str) -> io::Result<()> {
        self.write_within(out, indent, output::width())
    }

    /// Writes it without indent, and an empty line.
    pub fn write_paragraph(&self, out: &mut impl Write) -> io::Result<()> {
        self.write(out, "")?;
        writeln!(out)
    }

    fn write_within(&self, out: &mut impl Write, indent: &str, width: Option<usize>) -> io::Result<()> {
        let n_columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let cells = |i: usize| self.rows.iter().filter_map(move |row| row.get(i));
        let width_of = |i: usize| cells(i).map(|cell| columns(&cell.text)).max().unwrap_or(0);
        let mut widths: Vec<usize> = (0..n_columns).map(width_of).collect();
        let but_last = n_columns.saturating_sub(1);
        widths[..but_last].iter_mut().for_each(|width| *width = (*width).min(MAX_PADDED));
        let total =
            indent.len() + widths.iter().map(|width| width + GAP).sum::<usize>() - GAP.min(n_columns * GAP);
        if let (Some(width), Some(last)) = (width.filter(|width| total > *width), widths.last_mut()) {
            let left = width.saturating_sub(total - *last);
            let longest_word = cells(n_columns - 1).flat_map(|cell| cell.text.split(' ')).map(columns).max();
            if n_columns < 2 || longest_word > Some(left) {
                return self.write_blocks(out, indent);
            }
            *last = left;
        }
        for row in &self.rows {
            let n_cells = row.iter().rposition(|c| !c.text.is_empty()).map_or(0, |last| last + 1);
            let mut lines = vec![String::new()];
            if n_cells == n_columns
                && let Some(last) = row.last()
            {
                lines = broken(&last.text, widths[n_columns - 1]);
            }
            for (n, line) in lines.iter().enumerate() {
                write!(out, "{indent}")?;
                for (i, Cell { text, style }) in row[..n_cells].iter().enumerate() {
                    let text = match (i + 1 == n_columns, n) {
                        (true, _) => line,
                        (false, 0) => text,
                        (false, _) => "",
                    };
                    write!(out, "{style}{text}{style:#}")?;
                    if i + 1 < n_cells {
                        let n_spaces = widths[i].saturating_sub(columns(text)) + GAP;
                        write!(out, "{:n_spaces$}", "")?;
                    }
                }
                writeln!(out)?;
            }
        }
        Ok(())
    }

    /// A block for each row: the first cell, and below it the others, each after its heading.
    fn write_blocks(&self, out: &mut impl Write, indent: &str) -> io::Result<()> {
        let Some((headings, rows)) = self.rows.split_first() else { return Ok(()) };
        let width = headings.iter().skip(1).map(|heading| columns(&heading.text)).max().unwrap_or(0);
        for row in rows {
            for (i, (heading, Cell { text, style })) in headings.iter().zip(row).enumerate() {
                match i {
                    0 => writeln!(out, "{indent}{BOLD}{text}{BOLD:#}")?,
                    _ if text.is_empty() => {}
                    _ => writeln!(out, "{indent}  {:width$}  {style}{text}{style:#}", heading.text)?,
                }
            }
        }
        Ok(())
    }
}

/// A text in lines of at most this many columns.
fn broken(text: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let (mut line, mut length) = (String::new(), 0);
    for word in text.split(' ') {
        let of_word = columns(word);
        if !line.is_empty() {
            if length + 1 + of_word > width {
                lines.push(std::mem::take(&mut line));
                length = 0;
            } else {
                line.push(' ');
                length += 1;
            }
        }
        line.push_str(word);
        length += of_word;
    }
    lines.push(line);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::BAD;

    #[test]
    fn styles_do_not_count_as_width() {
        let mut table = Table::new(["POD", "NODE"]);
        table.row([Cell::styled("größe", BAD), Cell::from("n1")]);
        let mut out = anstream::StripStream::new(Vec::new());
        table.write_within(&mut out, "  ", None).unwrap();
        let text = String::from_utf8(out.into_inner()).unwrap();
        assert_eq!(text, "  POD     NODE\n  größe   n1\n");
    }

    #[test]
    fn a_long_cell_does_not_make_every_line_long() {
        let mut table = Table::new(["SELECTOR", "PODS"]);
        table.row([Cell::from("x".repeat(100_000)), Cell::from("1")]);
        let mut out = anstream::StripStream::new(Vec::new());
        table.write_within(&mut out, "", None).unwrap();
        let text = String::from_utf8(out.into_inner()).unwrap();
        let lengths: Vec<usize> = text.lines().map(str::len).collect();
        assert_eq!(lengths, [200 + 3 + 4, 100_000 + 3 + 1]);
    }

    #[test]
    fn cells_show_what_a_terminal_would_obey() {
        let mut table = Table::new(["POD\u{202e}"]);
        table.row([Cell::from("a\u{1b}[2Jb")]);
        table.row([Cell::styled("\u{9b}2J", BAD)]);
        let mut out = anstream::StripStream::new(Vec::new());
        table.write_within(&mut out, "", None).unwrap();
        let text = String::from_utf8(out.into_inner()).unwrap();
        assert_eq!(text, "POD\\u{202e}\na\\u{1b}[2Jb\n\\u{9b}2J\n");
    }

    #[test]
    fn wide_tables_fit_the_terminal() {
        let mut table = Table::new(["POD", "NODE", "VICTIMS"]);
        table.row(["a/high", "n1", "a/low-1, a/low-2, a/low-3"].map(Cell::from));
        let text = |width: Option<usize>| {
            let mut out = anstream::StripStream::new(Vec::new());
            table.write_within(&mut out, "", width).unwrap();
            String::from_utf8(out.into_inner()).unwrap()
        };
        let whole = "POD      NODE   VICTIMS\na/high   n1     a/low-1, a/low-2, a/low-3\n";
        assert_eq!((text(None).as_str(), text(Some(41)).as_str()), (whole, whole));
        let broken = "POD      NODE   VICTIMS\na/high   n1     a/low-1,\n                a/low-2,\n                a/low-3\n";
        assert_eq!(text(Some(30)), broken);
        assert_eq!(text(Some(20)), "a/high\n  NODE     n1\n  VICTIMS  a/low-1, a/low-2, a/low-3\n");
    }
}
