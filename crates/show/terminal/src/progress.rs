//! Progress bars on standard error, drawn only on a terminal.

pub use indicatif::ProgressBar;
use indicatif::{ProgressFinish, ProgressStyle};

use crate::input::Input;

/// Bytes of these inputs; hidden if their sizes are unknown.
pub fn of_bytes(inputs: &[Input]) -> ProgressBar {
    match inputs.iter().map(Input::n_bytes).sum() {
        0 => ProgressBar::hidden(),
        n_bytes => bar(n_bytes, "{bar:40} {bytes}/{total_bytes} read, {elapsed}"),
    }
}

/// Placed pods; the first step sets the total.
pub fn of_pods() -> ProgressBar {
    bar(0, "{bar:40} {human_pos}/{human_len} pods placed, {elapsed}")
}

/// Pods whose rules are checked.
pub fn of_audit() -> ProgressBar {
    bar(0, "{bar:40} {human_pos}/{human_len} pods checked, {elapsed}")
}

pub fn of_domains() -> ProgressBar {
    bar(0, "{bar:40} {human_pos}/{human_len} domains removed, {elapsed}")
}

pub fn of_steps(n_steps: u64) -> ProgressBar {
    bar(n_steps, "{bar:40} {human_pos}/{human_len} objects created and pods bound, {elapsed}")
}

/// Objects of a live cluster; their total is unknown.
pub fn of_objects() -> ProgressBar {
    let style = ProgressStyle::with_template("{spinner} {human_pos} objects read, {elapsed}");
    let style = style.unwrap_or_else(|_| ProgressStyle::default_spinner());
    ProgressBar::new_spinner().with_style(style).with_finish(ProgressFinish::AndClear)
}

fn bar(length: u64, template: &str) -> ProgressBar {
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    // Also cleared on drop, so that error messages start on an empty line.
    ProgressBar::new(length).with_style(style).with_finish(ProgressFinish::AndClear)
}
