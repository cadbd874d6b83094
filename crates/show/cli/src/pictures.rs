//! Formats of reports with pictures.

use std::io::{self, Write};

use berth_console::report::Report;
use berth_console::reports;
use berth_terminal::output::{self, text, yaml};
use clap::ValueEnum;
use serde::Serialize;

use crate::render::report;

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
    /// The text for a pull request
    Markdown,
}

impl PictureOutputArgs {
    /// Writes a report with its title in the requested format; `json` is the whole of it, `draw` gives its picture, or all of them as
    /// parts of a page.
    pub fn write(
        self,
        out: &mut impl Write,
        json: &impl Serialize,
        (title, report): (&str, &Report),
        draw: impl FnOnce(bool) -> Vec<String>,
    ) -> io::Result<()> {
        match self.format {
            PictureFormat::Table => text(out, |out| report::write(out, report)),
            PictureFormat::Json => output::json(out, json),
            PictureFormat::Yaml => yaml(out, json),
            PictureFormat::Svg => out.write_all(draw(false).concat().as_bytes()),
            PictureFormat::Html => out.write_all(reports::page(title, &draw(true), report).as_bytes()),
            PictureFormat::Markdown => out.write_all(report.markdown(title).as_bytes()),
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
    /// The text for a pull request
    Markdown,
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
            ReportFormat::Markdown => PictureFormat::Markdown,
        };
        PictureOutputArgs { format }.write(out, json, (title, report), |_| Vec::new())
    }
}
