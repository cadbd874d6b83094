//! Headings of explanations.

use std::io::{self, Write};

use berth_terminal::output::{BOLD, NL};

/// Writes a heading after an empty line.
pub fn heading(out: &mut impl Write, text: &str) -> io::Result<()> {
    writeln!(out, "{NL}{BOLD}{text}{BOLD:#}")
}
