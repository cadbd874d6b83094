//! Progress bars. They go to standard error, and are drawn on a terminal only.

use indicatif::{ProgressBar, ProgressFinish, ProgressStyle};

use crate::input::Input;

/// Over the bytes of these inputs; hidden when their sizes are not known.
pub fn of_bytes(inputs: &[Input]) -> ProgressBar {
    match inputs.iter().map(Input::n_bytes).sum() {
        0 => ProgressBar::hidden(),
        n_bytes => bar(n_bytes, "{bar:40} {bytes}/{total_bytes} read, {elapsed}"),
    }
}

/// Over pods; the number of them comes with the first step.
pub fn of_pods() -> ProgressBar {
    bar(0, "{bar:40} {human_pos}/{human_len} pods placed, {elapsed}")
}

/// Over pods that are held against their rules.
pub fn of_audit() -> ProgressBar {
    bar(0, "{bar:40} {human_pos}/{human_len} pods audited, {elapsed}")
}

/// Over rounds of a benchmark.
pub fn of_rounds(n_rounds: u64) -> ProgressBar {
    bar(n_rounds, "{bar:40} {pos}/{len} rounds, {elapsed}")
}

/// Over objects of a live cluster, of which nobody knows how many there are.
pub fn of_objects() -> ProgressBar {
    let style = ProgressStyle::with_template("{spinner} {human_pos} objects read, {elapsed}");
    let style = style.unwrap_or_else(|_| ProgressStyle::default_spinner());
    ProgressBar::new_spinner().with_style(style).with_finish(ProgressFinish::AndClear)
}

fn bar(length: u64, template: &str) -> ProgressBar {
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    // Cleared when dropped, too: an error is not to be written behind a bar.
    ProgressBar::new(length).with_style(style).with_finish(ProgressFinish::AndClear)
}
