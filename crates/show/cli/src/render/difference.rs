//! A difference between a recording and Berth's answer.

use berth_console::report::{Part, bad, good, line, strong};
use berth_simulate::replay::Difference;

/// Maximum length of a value, in characters.
const MAX_VALUE_CHARS: usize = 200;

/// Adds a difference in three lines: its location, the expected value and the actual value.
pub fn add(part: &mut Part, difference: &Difference) {
    let Difference { scenario, pod, node, field, expected, got } = difference;
    let pod = if pod.is_empty() { String::new() } else { format!(": pod {pod}") };
    let node = node.as_ref().map(|node| format!(": node {node}")).unwrap_or_default();
    part.line(0, line![strong(scenario), format!("{pod}{node}: {field}")]);
    part.line(1, line![good("expected:"), format!(" {}", truncated(expected))]);
    part.line(1, line![bad("got:"), format!("      {}", truncated(got))]);
}

fn truncated(value: &str) -> String {
    match value.char_indices().nth(MAX_VALUE_CHARS) {
        Some((end, _)) => format!("{}...", &value[..end]),
        None => value.to_owned(),
    }
}
