//! Compares text with golden files.

#![allow(clippy::unwrap_used)]

use std::path::Path;
/// The first difference between a text and its golden file, if any; `BERTH_UPDATE_GOLDEN=1` updates the file instead.
pub fn difference(path: &Path, got: &str) -> Option<String> {
    let expected = std::fs::read_to_string(path).unwrap_or_default();
    if got == expected {
        return None;
    }
    if std::env::var_os("BERTH_UPDATE_GOLDEN").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, got).unwrap();
        return None;
    }
    let i = got.lines().zip(expected.lines()).take_while(|(g, e)| g == e).count();
    let line = |text: &str| text.lines().nth(i).unwrap_or("(end)").to_owned();
    Some(format!(
        "{}:{}\n  expected: {}\n  got:      {}\n",
        path.display(),
        i + 1,
        line(&expected),
        line(got)
    ))
}
