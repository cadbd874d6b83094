//! A difference between a recording and Berth's answer.

use std::io::{self, Write};

use berth_simulate::replay::Difference;

use crate::output::{BAD, BOLD, GOOD};

/// Values are cut after this many characters.
const MAX_VALUE_CHARS: usize = 200;

/// Writes a difference: where it is on one line, what was expected and what came on one each.
pub fn write(out: &mut impl Write, difference: &Difference) -> io::Result<()> {
    let Difference { scenario, pod, node, field, expected, got } = difference;
    write!(out, "{BOLD}{scenario}{BOLD:#}")?;
    if !pod.is_empty() {
        write!(out, ": pod {pod}")?;
    }
    if let Some(node) = node {
        write!(out, ": node {node}")?;
    }
    writeln!(out, ": {field}")?;
    writeln!(out, "  {GOOD}expected:{GOOD:#} {}", cut(expected))?;
    writeln!(out, "  {BAD}got:{BAD:#}      {}", cut(got))
}

fn cut(value: &str) -> String {
    match value.char_indices().nth(MAX_VALUE_CHARS) {
        Some((end, _)) => format!("{}...", &value[..end]),
        None => value.to_owned(),
    }
}
