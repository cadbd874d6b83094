//! Tables in the style of `kubectl`: uppercase headings, no lines, columns as wide as their widest cell.

use std::io::{self, Write};

use anstyle::Style;

use crate::output::BOLD;

/// Spaces between columns.
const GAP: usize = 3;

/// A cell.
#[derive(Clone, Debug, Default)]
pub struct Cell {
    text: String,
    style: Style,
}

impl Cell {
    /// A cell with a style.
    pub fn styled(text: impl Into<String>, style: Style) -> Cell {
        Cell { text: text.into(), style }
    }
}

impl<T: ToString> From<T> for Cell {
    fn from(value: T) -> Cell {
        Cell { text: value.to_string(), style: Style::new() }
    }
}

/// Rows of cells under headings.
#[derive(Debug)]
pub struct Table {
    rows: Vec<Vec<Cell>>,
}

impl Table {
    /// A table with these headings.
    pub fn new<T: Into<String>>(headings: impl IntoIterator<Item = T>) -> Table {
        let headings = headings.into_iter().map(|h| Cell::styled(h, BOLD));
        Table { rows: vec![headings.collect()] }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// Writes it, each line after `indent`.
    pub fn write(&self, out: &mut impl Write, indent: &str) -> io::Result<()> {
        let n_columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width_of =
            |i: usize| self.rows.iter().filter_map(|r| r.get(i)).map(|c| c.text.chars().count()).max();
        let widths: Vec<usize> = (0..n_columns).map(|i| width_of(i).unwrap_or(0)).collect();
        for row in &self.rows {
            write!(out, "{indent}")?;
            let n_cells = row.iter().rposition(|c| !c.text.is_empty()).map_or(0, |last| last + 1);
            for (i, Cell { text, style }) in row[..n_cells].iter().enumerate() {
                write!(out, "{style}{text}{style:#}")?;
                if i + 1 < n_cells {
                    let n_spaces = widths[i] - text.chars().count() + GAP;
                    write!(out, "{:n_spaces$}", "")?;
                }
            }
            writeln!(out)?;
        }
        Ok(())
    }
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
        table.write(&mut out, "  ").unwrap();
        let text = String::from_utf8(out.into_inner()).unwrap();
        assert_eq!(text, "  POD     NODE\n  größe   n1\n");
    }
}
