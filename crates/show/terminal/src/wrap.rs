//! Lines that fit the terminal: broken between words, and continued with a deeper indent. What is formatted into them is escaped:
//! names and messages of inputs may hold what a terminal or a CI system obeys.

use std::borrow::Cow;
use std::fmt::{self, Write as _};
use std::io::{self, Write};

use berth_api::syntax::obeyed::shown;

/// A line end within a text for people, where that of an argument is escaped ([`Wrapped`]).
pub static NL: &str = "\n";

/// A narrower output is not wrapped: its words are longer.
const LEAST_WIDTH: usize = 20;

/// Escapes what is formatted (`write!`, `writeln!`) and wraps the lines that are written; the last one must be finished. Of a
/// formatted text only the line end at its end, [`NL`], and the codes of our styles stay: a text with an argument at its end is
/// therefore written with `writeln!`.
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
        let line = String::from_utf8_lossy(&line);
        self.out.write_all(wrapped(&without_commands(&line), self.width).as_bytes())
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

    fn write_fmt(&mut self, text: fmt::Arguments<'_>) -> io::Result<()> {
        let mut escaped = Escaped::default();
        escaped.write_fmt(text).map_err(io::Error::other)?;
        let end = if escaped.ends_line { "\n" } else { "" };
        self.write_all((escaped.text + end).as_bytes())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// A formatted text. Pieces of the format and those of its arguments arrive alike.
#[derive(Default)]
struct Escaped {
    text: String,
    /// Whether a line end follows, if nothing else does.
    ends_line: bool,
}

impl fmt::Write for Escaped {
    fn write_str(&mut self, piece: &str) -> fmt::Result {
        if piece.is_empty() {
            return Ok(());
        }
        if std::mem::take(&mut self.ends_line) {
            self.text.push_str(&shown("\n"));
        }
        if std::ptr::eq(piece.as_ptr(), NL.as_ptr()) {
            self.text.push('\n');
            return Ok(());
        }
        let rest = piece.strip_suffix('\n');
        self.ends_line = rest.is_some();
        // An equal text elsewhere comes from an input.
        match CODES.iter().any(|code| std::ptr::eq(piece.as_ptr(), code.as_ptr())) {
            true => self.text.push_str(piece),
            false => self.text.push_str(&shown(rest.unwrap_or(piece))),
        }
        Ok(())
    }
}

/// How text is shown on a terminal: `{style}` begins it, `{style:#}` ends it.
#[derive(Clone, Copy, Debug, Default)]
pub enum Style {
    #[default]
    Plain,
    Bold,
    Dimmed,
    Red,
    Green,
    Yellow,
}

/// The codes of the styles; the first one ends all of them.
static CODES: [&str; 6] = ["\u{1b}[0m", "\u{1b}[1m", "\u{1b}[2m", "\u{1b}[31m", "\u{1b}[32m", "\u{1b}[33m"];

impl fmt::Display for Style {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Style::Plain => Ok(()),
            _ if f.alternate() => f.write_str(CODES[0]),
            style => f.write_str(CODES[*style as usize]),
        }
    }
}

/// A text of an input as a line, or a part of one, that neither a terminal nor the reader of a log obeys.
pub fn harmless(text: &str) -> String {
    without_commands(&shown(text)).into_owned()
}

/// A line without commands to the reader of a log. For the runner of GitHub Actions these are `::` at the beginning and `##[` anywhere
/// (its `ActionCommand.cs`); `##vso[` and `##teamcity[` of others are treated alike.
fn without_commands(line: &str) -> Cow<'_, str> {
    let mut start = line;
    loop {
        start = start.trim_start();
        match CODES.iter().find_map(|code| start.strip_prefix(code)) {
            Some(rest) => start = rest,
            None => break,
        }
    }
    let is_command = |rest: &str| {
        let word =
            rest.strip_prefix("##").map(|rest| rest.trim_start_matches(|c: char| c.is_ascii_alphabetic()));
        word.is_some_and(|rest| rest.starts_with('['))
    };
    let colon = start.starts_with("::").then_some((line.len() - start.len(), "\\u{3a}"));
    let hashes = line.match_indices('#').filter(|(at, _)| is_command(&line[*at..]));
    let (mut shown, mut end) = (String::new(), 0);
    for (at, escaped) in colon.into_iter().chain(hashes.map(|(at, _)| (at, "\\u{23}"))) {
        shown.extend([&line[end..at], escaped]);
        end = at + 1;
    }
    if end == 0 { line.into() } else { (shown + &line[end..]).into() }
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
        if i > 0 && used + 1 + n_columns > width && used > hanging.len() && !word.starts_with("::") {
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
    fn a_name_in_a_heading_or_a_message_ended_the_line_and_was_a_command_of_the_log() {
        let written = |name: &str| {
            let mut out = Vec::new();
            let mut writer = Wrapped::new(&mut out, None);
            let bold = Style::Bold;
            writeln!(writer, "{bold}{name}{bold:#}:{NL}  {name}").unwrap();
            writeln!(writer, "{name}").unwrap();
            writer.finish().unwrap();
            String::from_utf8(out).unwrap()
        };
        assert_eq!(written("web"), "\u{1b}[1mweb\u{1b}[0m:\n  web\nweb\n");
        let shown = "\\n::error::x\\r\\u{9b}2J\\u{202e}\\u{1b}]0;\\n";
        let expected = format!("\u{1b}[1m{shown}\u{1b}[0m:\n  {shown}\n{shown}\n");
        assert_eq!(written("\n::error::x\r\u{9b}2J\u{202e}\u{1b}]0;\n"), expected);
        for (name, shown) in [
            ("::error::x", "\\u{3a}:error::x"),
            ("::x ##[error]y ###vso[z]##", "\\u{3a}:x \\u{23}#[error]y #\\u{23}#vso[z]##"),
            ("# ## [x] \u{1b}[31mred", "# ## [x] \\u{1b}[31mred"),
            // A whole argument that is equal to a code of a style.
            ("\u{1b}[31m", "\\u{1b}[31m"),
        ] {
            assert_eq!(written(name), format!("\u{1b}[1m{shown}\u{1b}[0m:\n  {shown}\n{shown}\n"));
            assert_eq!(harmless(name), shown, "a line of the log");
        }
    }

    #[test]
    fn the_writer_wraps_each_line() {
        let mut out = Vec::new();
        let mut writer = Wrapped::new(&mut out, Some(20));
        write!(writer, "one two three four five six").unwrap();
        write!(writer, "{NL}short{NL}  last").unwrap();
        writer.finish().unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "one two three four\n  five six\nshort\n  last");
    }
}
