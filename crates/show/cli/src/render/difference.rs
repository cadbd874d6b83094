//! A difference between a recording and Berth's answer.

use std::io::{self, Write};

use berth_simulate::replay::Difference;
use berth_terminal::output::{BAD, BOLD, GOOD};

/// Maximum length of a value, in characters.
const MAX_VALUE_CHARS: usize = 200;

/// Writes a difference in three lines: its location, the expected value and the actual value.
pub fn write(out: &mut impl Write, difference: &Difference) -> io::Result<()> {
    let Difference { scenario, pod, node, field, expected, got } = difference;
    let pod = if pod.is_empty() { String::new() } else { format!(": pod {pod}") };
    let node = node.as_ref().map(|node| format!(": node {node}")).unwrap_or_default();
    writeln!(out, "{BOLD}{scenario}{BOLD:#}{pod}{node}: {field}")?;
    writeln!(out, "  {GOOD}expected:{GOOD:#} {}", truncated(expected))?;
    writeln!(out, "  {BAD}got:{BAD:#}      {}", truncated(got))
}

fn truncated(value: &str) -> String {
    match value.char_indices().nth(MAX_VALUE_CHARS) {
        Some((end, _)) => format!("{}...", &value[..end]),
        None => value.to_owned(),
    }
}
