//! Standard output and standard error: formats, colors and message prefixes.

use std::fmt::Display;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use berth_api::syntax::shell::quoted;
use clap::ValueEnum;
use serde::Serialize;

pub use crate::wrap::{NL, Style};
use crate::wrap::{Wrapped, harmless, wrapped};

/// `-o` of commands that print a report.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct OutputArgs {
    /// Output format
    #[arg(short = 'o', long = "output", value_enum, default_value_t = Format::Table, value_name = "FORMAT")]
    pub format: Format,
}

/// The form of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Text for a terminal
    Table,
    /// The whole report as JSON
    Json,
    /// The whole report as YAML
    Yaml,
}

impl OutputArgs {
    /// Writes `report` in the requested format; `table` writes its text form.
    pub fn write<W: Write>(
        self,
        out: &mut W,
        report: &impl Serialize,
        table: impl FnOnce(&mut Wrapped<&mut W>) -> io::Result<()>,
    ) -> io::Result<()> {
        match self.format {
            Format::Table => text(out, table),
            Format::Json => json(out, report),
            Format::Yaml => yaml(out, report),
        }
    }
}

/// Headings and names.
pub const BOLD: Style = Style::Bold;
pub const GOOD: Style = Style::Green;
pub const BAD: Style = Style::Red;
pub const ATTENTION: Style = Style::Yellow;
/// Secondary information.
pub const DIM: Style = Style::Dimmed;

/// `--color`.
#[derive(Clone, Copy, Debug, ValueEnum)]
// Its values have no doc comments: clap would print them.
pub enum Color {
    Auto,
    Always,
    Never,
}

impl Color {
    /// Sets the choice for all following output.
    pub fn apply(self) {
        let choice = match self {
            Color::Auto => anstream::ColorChoice::Auto,
            Color::Always => anstream::ColorChoice::Always,
            Color::Never => anstream::ColorChoice::Never,
        };
        choice.write_global();
    }
}

/// Columns of the output: those of the environment variable COLUMNS, else of the terminal; none without a terminal.
pub fn width() -> Option<usize> {
    let columns = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    columns.or_else(|| Some(terminal_size::terminal_size()?.0.0.into()))
}

/// Writes text for people: lines are wrapped between words.
pub fn text<W: Write>(
    out: &mut W,
    write: impl FnOnce(&mut Wrapped<&mut W>) -> io::Result<()>,
) -> io::Result<()> {
    let mut out = Wrapped::new(out, width());
    write(&mut out)?;
    out.finish()
}

/// Buffered standard output without unwanted colors. Callers must flush it: an error on drop is lost.
pub fn stdout() -> impl Write {
    BufWriter::new(anstream::stdout().lock())
}

/// Prints the shell command that selects this kubeconfig for kubectl.
pub fn kubeconfig_line(path: &Path) -> io::Result<()> {
    let mut out = stdout();
    writeln!(out, "export KUBECONFIG={}", quoted(&path.display().to_string()))?;
    out.flush()
}

/// Writes a value as indented JSON with a line end.
pub fn json(out: &mut impl Write, value: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, value)?;
    writeln!(out)
}

/// Writes a value as YAML.
pub fn yaml(out: &mut impl Write, value: &impl Serialize) -> io::Result<()> {
    // A line of a literal block would be one of the log that shows it.
    let options = serde_saphyr::ser_options! { prefer_block_scalars: false };
    let text = serde_saphyr::to_string_with_options(value, options)
        .map_err(|error| io::Error::other(format!("YAML: {error}")))?;
    out.write_all(text.as_bytes())
}

/// Prints an error to standard error, with a prefix on each line.
pub fn error(error: &impl Display) {
    message("error", BAD, error);
}

/// Prints a warning to standard error.
pub fn warning(text: &impl Display) {
    message("warning", ATTENTION, text);
}

/// Prints a note to standard error.
pub fn note(text: &impl Display) {
    message("note", Style::Plain, text);
}

/// Errors are ignored: there is no other output when standard error is closed.
fn message(word: &str, style: Style, text: &impl Display) {
    let mut stderr = anstream::stderr().lock();
    for line in text.to_string().lines() {
        let line = wrapped(&format!("{BOLD}{style}{word}:{BOLD:#} {}", harmless(line)), width());
        let _: io::Result<()> = writeln!(stderr, "{line}");
    }
}
