//! Formats of reports with pictures.

use std::io::{self, Write};

use anstream::StripStream;
use berth_console::report::Report;
use berth_console::reports;
use berth_terminal::output::{json, text, yaml};
use berth_terminal::wrap::Wrapped;
use clap::ValueEnum;
use serde::Serialize;

use crate::render::report::write as write_text;

/// `-o` of commands whose report has pictures.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct PictureOutputArgs {
    /// Output format
    #[arg(short = 'o', long = "output", value_enum, default_value_t = PictureFormat::Table, value_name = "FORMAT")]
    pub format: PictureFormat,
}

/// The form of a report with pictures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PictureFormat {
    /// Text for a terminal
    Table,
    /// The whole report as JSON
    Json,
    /// The whole report as YAML
    Yaml,
    /// A picture
    Svg,
    /// One self-contained page with all pictures and the text
    Html,
}

impl PictureOutputArgs {
    /// Writes `report` in the requested format; `table` writes its text form, `draw` gives its picture, or all of them as parts of
    /// a page.
    pub fn write(
        self,
        out: &mut impl Write,
        report: &impl Serialize,
        title: &str,
        table: impl FnOnce(&mut dyn Write) -> io::Result<()>,
        draw: impl FnOnce(bool) -> Vec<String>,
    ) -> io::Result<()> {
        match self.format {
            PictureFormat::Table => text(out, |out| table(out)),
            PictureFormat::Json => json(out, report),
            PictureFormat::Yaml => yaml(out, report),
            PictureFormat::Svg => out.write_all(draw(false).concat().as_bytes()),
            PictureFormat::Html => page(out, title, &draw(true), table),
        }
    }
}

impl PictureOutputArgs {
    /// As [`PictureOutputArgs::write`], for a report that is one value.
    pub fn write_report(
        self,
        out: &mut impl Write,
        json: &impl Serialize,
        (title, report): (&str, &Report),
        draw: impl FnOnce(bool) -> Vec<String>,
    ) -> io::Result<()> {
        match self.format {
            PictureFormat::Html => out.write_all(reports::page_of(title, &draw(true), report).as_bytes()),
            _ => self.write(out, json, title, |mut out| write_text(&mut out, report), draw),
        }
    }
}

/// `-o` of commands whose report has no picture.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct ReportOutputArgs {
    /// Output format
    #[arg(short = 'o', long = "output", value_enum, default_value_t = ReportFormat::Table, value_name = "FORMAT")]
    format: ReportFormat,
}

/// The form of a report without pictures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ReportFormat {
    /// Text for a terminal
    Table,
    /// The whole report as JSON
    Json,
    /// The whole report as YAML
    Yaml,
    /// One self-contained page
    Html,
}

impl ReportOutputArgs {
    pub fn write(
        self,
        out: &mut impl Write,
        json: &impl Serialize,
        title: &str,
        report: &Report,
    ) -> io::Result<()> {
        let format = match self.format {
            ReportFormat::Table => PictureFormat::Table,
            ReportFormat::Json => PictureFormat::Json,
            ReportFormat::Yaml => PictureFormat::Yaml,
            ReportFormat::Html => PictureFormat::Html,
        };
        PictureOutputArgs { format }.write_report(out, json, (title, report), |_| Vec::new())
    }
}

/// Writes one self-contained page: pictures, and the report as text.
pub fn page(
    out: &mut impl Write,
    title: &str,
    pictures: &[String],
    table: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    let mut text = StripStream::new(Vec::new());
    let mut lines = Wrapped::new(&mut text, None);
    table(&mut lines)?;
    lines.finish()?;
    let text = text.into_inner();
    out.write_all(reports::page(title, pictures, &String::from_utf8_lossy(&text)).as_bytes())
}
