//! Lines that fit the terminal: broken between words, and continued with a deeper indent.

use std::io::{self, Write};

/// A narrower output is not wrapped: its words are longer.
const LEAST_WIDTH: usize = 20;

/// Wraps the lines that are written; the last one must be finished.
#[derive(Debug)]
pub struct Wrapped<W> {
    out: W,
    line: Vec<u8>,
    width: Option<usize>,
}

impl<W: Write> Wrapped<W> {
    /// Lines of this many columns; without a width, lines stay as they are.
    pub fn new(out: W, width: Option<usize>) -> Wrapped<W> {
        Wrapped { out, line: Vec::new(), width }
    }

    /// Writes what follows the last line end.
    pub fn finish(mut self) -> io::Result<()> {
        self.write_line()
    }

    fn write_line(&mut self) -> io::Result<()> {
        let line = std::mem::take(&mut self.line);
        match self.width {
            None => self.out.write_all(&line),
            Some(_) => self.out.write_all(wrapped(&String::from_utf8_lossy(&line), self.width).as_bytes()),
        }
    }
}

impl<W: Write> Write for Wrapped<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            match piece.strip_suffix(b"\n") {
                None => self.line.extend_from_slice(piece),
                Some(end) => {
                    self.line.extend_from_slice(end);
                    self.write_line()?;
                    self.out.write_all(b"\n")?;
                }
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// A line, wrapped. Words that are longer than a line stay whole: they are names and paths. So do commands (`$ kubectl ...`),
/// which users copy.
pub fn wrapped(line: &str, width: Option<usize>) -> String {
    let Some(width) = width.filter(|width| *width >= LEAST_WIDTH && columns(line) > *width) else {
        return line.to_owned();
    };
    let text = line.trim_start_matches(' ');
    if text.starts_with("$ ") {
        return line.to_owned();
    }
    let indent = line.len() - text.len();
    let hanging = " ".repeat((indent + 2).min(width / 2));
    let (mut lines, mut used) = (line[..indent].to_owned(), indent);
    for (i, word) in text.split(' ').enumerate() {
        let n_columns = columns(word);
        if i > 0 && used + 1 + n_columns > width && used > hanging.len() {
            lines.truncate(lines.trim_end_matches(' ').len());
            lines.push('\n');
            lines.push_str(&hanging);
            used = hanging.len();
        } else if i > 0 {
            lines.push(' ');
            used += 1;
        }
        lines.push_str(word);
        used += n_columns;
    }
    lines
}

/// The number of columns of a text on a terminal: styles take none.
pub fn columns(text: &str) -> usize {
    let mut is_style = false;
    let is_shown = |c: &char| {
        let is_end = is_style && *c == 'm';
        is_style = (is_style || *c == '\u{1b}') && !is_end;
        !is_style && !is_end
    };
    text.chars().filter(is_shown).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_broken_between_words_only() {
        let line = "  - on node-1: move default/web-0 out of zone-1, or relax the rule";
        let expected = "  - on node-1: move\n    default/web-0 out of\n    zone-1, or relax the\n    rule";
        assert_eq!(wrapped(line, Some(24)), expected);
        assert_eq!(wrapped(line, None), line);
        let long = "spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0]";
        assert_eq!(wrapped(long, Some(30)), long);
    }

    #[test]
    fn styles_take_no_columns() {
        let line = "\u{1b}[1mPod a/b\u{1b}[0m fits on\u{1b}[31m no\u{1b}[0m node";
        assert_eq!((columns(line), wrapped(line, Some(23)).as_str()), (23, line));
    }

    #[test]
    fn the_writer_wraps_each_line() {
        let mut out = Vec::new();
        let mut writer = Wrapped::new(&mut out, Some(20));
        write!(writer, "one two three four five six").unwrap();
        write!(writer, "\nshort\n  last").unwrap();
        writer.finish().unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "one two three four\n  five six\nshort\n  last");
    }
}
