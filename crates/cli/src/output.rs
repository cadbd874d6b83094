//! Standard output and standard error: colours, and the words messages begin with.

use std::fmt::Display;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use anstyle::{AnsiColor, Style};
use clap::ValueEnum;
use serde::Serialize;

use crate::error::CliError;

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
    ///
    /// # Errors
    /// Standard output cannot be written.
    pub fn write<W: Write>(
        self,
        out: &mut W,
        report: &impl Serialize,
        table: impl FnOnce(&mut W) -> io::Result<()>,
    ) -> Result<(), CliError> {
        match self.format {
            Format::Table => table(out)?,
            Format::Json => json(out, report)?,
            Format::Yaml => yaml(out, report)?,
        }
        Ok(())
    }
}

/// Names in headings.
pub const BOLD: Style = Style::new().bold();
/// What went well.
pub const GOOD: Style = AnsiColor::Green.on_default();
/// What did not.
pub const BAD: Style = AnsiColor::Red.on_default();
/// What asks for attention.
pub const ATTENTION: Style = AnsiColor::Yellow.on_default();
/// What may be passed over.
pub const DIM: Style = Style::new().dimmed();

/// `--color`.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Color {
    Auto,
    Always,
    Never,
}

impl Color {
    /// Makes it hold for all output from here on.
    pub fn apply(self) {
        let choice = match self {
            Color::Auto => anstream::ColorChoice::Auto,
            Color::Always => anstream::ColorChoice::Always,
            Color::Never => anstream::ColorChoice::Never,
        };
        choice.write_global();
    }
}

/// Standard output, which drops colours where they are not wanted. It must be flushed at the end: an
/// error on dropping it would go unnoticed.
pub fn stdout() -> impl Write {
    BufWriter::new(anstream::stdout().lock())
}

/// Prints the line that makes kubectl use this kubeconfig, for a shell to read.
///
/// # Errors
/// Standard output cannot be written.
pub fn kubeconfig_line(path: &Path) -> io::Result<()> {
    let path = path.display().to_string();
    let is_plain = path.chars().all(|c| c.is_alphanumeric() || "/._-+:@%".contains(c));
    let path = if is_plain { path } else { format!("'{}'", path.replace('\'', "'\\''")) };
    let mut out = stdout();
    writeln!(out, "export KUBECONFIG={path}")?;
    out.flush()
}

/// Writes a value as JSON, indented, with a line end.
pub fn json(out: &mut impl Write, value: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, value)?;
    writeln!(out)
}

/// Writes a value as YAML.
pub fn yaml(out: &mut impl Write, value: &impl Serialize) -> Result<(), CliError> {
    Ok(out.write_all(serde_saphyr::to_string(value)?.as_bytes())?)
}

/// Prints an error, each line of it on its own.
pub fn error(error: &impl Display) {
    message("error", BAD.bold(), error);
}

/// Prints a warning.
pub fn warning(text: &impl Display) {
    message("warning", ATTENTION.bold(), text);
}

/// Prints a note.
pub fn note(text: &impl Display) {
    message("note", BOLD, text);
}

/// Nothing can be done when standard error is closed.
fn message(word: &str, style: Style, text: &impl Display) {
    let mut stderr = anstream::stderr().lock();
    for line in text.to_string().lines() {
        let _: io::Result<()> = writeln!(stderr, "{style}{word}:{style:#} {line}");
    }
}
