//! Kubernetes' `scheduler_perf` files, as they are.
//!
//! A file lists test cases; a test case has operations and workloads, which give the operations' parameters.
//! Pods are decided one after the other, and preempt others. Churn and deletions go on meanwhile, by a clock that counts
//! decisions. What is outside the engine (queueing, API calls) is not supported: a workload that needs it is
//! reported with the reason.

mod format;
mod run;
mod templates;
mod volumes;

use std::io::Read as _;
use std::path::{Path, PathBuf};

use serde::Serialize;

pub use format::{Case, Workload};

use crate::measure::Figures;
use templates::Templates;

/// Why a benchmark file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum WorkloadError {
    #[error("{path}: {error}")]
    Io { path: PathBuf, error: std::io::Error },
    #[error("{path}: {message}: this must be a list of test cases as in Kubernetes' scheduler_perf")]
    Format { path: PathBuf, message: String },
}

#[derive(Clone, Debug)]
pub struct WorkloadFile {
    /// Its path; the paths in it are relative to its directory.
    pub path: PathBuf,
    pub cases: Vec<Case>,
}

/// Reads a file of at most 16 MiB: no benchmark is larger.
fn small_text(path: &Path) -> std::io::Result<String> {
    const SMALL: u64 = 16 << 20;
    let mut text = String::new();
    let n_bytes = std::fs::File::open(path)?.take(SMALL + 1).read_to_string(&mut text)? as u64;
    if n_bytes > SMALL { Err(std::io::Error::other("more than 16 MiB: not a benchmark")) } else { Ok(text) }
}

impl WorkloadFile {
    /// Reads a file.
    ///
    /// # Errors
    /// It cannot be read, or is not a list of test cases.
    pub fn read(path: &Path) -> Result<WorkloadFile, WorkloadError> {
        let text = small_text(path).map_err(|error| WorkloadError::Io { path: path.to_owned(), error })?;
        // Without the excerpt of the parser, which has several lines.
        let options = serde_saphyr::options! { with_snippet: false };
        let cases = serde_saphyr::from_str_with_options(&text, options)
            .map_err(|error| WorkloadError::Format { path: path.to_owned(), message: error.to_string() })?;
        Ok(WorkloadFile { path: path.to_owned(), cases })
    }

    /// Runs a workload `repeat` times; `progress` is called with the numbers of decided pods and of all pods.
    ///
    /// The figures are medians over the runs.
    pub fn run(
        &self,
        case: &Case,
        workload: &Workload,
        repeat: usize,
        progress: &mut dyn FnMut(usize, usize),
    ) -> WorkloadReport {
        let mut report = WorkloadReport {
            case: case.name.clone(),
            workload: workload.name.clone(),
            status: Status::Ok,
            reason: None,
            runs: 0,
            result: None,
        };
        let directory = self.path.parent().unwrap_or(Path::new(""));
        let mut runs: Vec<Measured> = Vec::new();
        for _ in 0..repeat.max(1) {
            match run::run(case, workload, Templates::new(directory), progress) {
                Ok(measured) => runs.push(measured),
                Err(stop) => {
                    (report.status, report.reason) = match stop {
                        Stop::NotSupported(reason) => (Status::NotSupported, Some(reason)),
                        Stop::Failed(reason) => (Status::Failed, Some(reason)),
                    };
                    return report;
                }
            }
        }
        report.runs = runs.len();
        let figures: Vec<_> = runs.iter().map(|m| m.figures).collect();
        let prepare_us = runs.iter().map(|m| m.prepare_us_per_pod).fold(f64::MAX, f64::min);
        let peak_rss_bytes = runs.iter().map(|m| m.peak_rss_bytes).max().flatten();
        if runs.iter().any(|m| m.checksum != runs[0].checksum) {
            report.status = Status::Failed;
            report.reason = Some("the runs decided differently".to_owned());
        }
        report.result = runs.into_iter().next().map(|first| Measured {
            figures: Figures::median(&figures),
            prepare_us_per_pod: prepare_us,
            peak_rss_bytes,
            ..first
        });
        report
    }
}

#[derive(Clone, Debug, Serialize)]
pub struct WorkloadReport {
    pub case: String,
    pub workload: String,
    pub status: Status,
    /// Why it did not run, or what is wrong with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    pub runs: usize,
    #[serde(flatten)]
    pub result: Option<Measured>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    Ok,
    /// It needs an operation that is not supported.
    NotSupported,
    /// It, or a file it names, is invalid.
    Failed,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Measured {
    /// Nodes at the end.
    pub nodes: usize,
    /// Rate and distribution of the measured decisions.
    #[serde(flatten)]
    pub figures: Figures,
    /// Measured pods that fit on no node.
    pub unplaced: usize,
    /// Pods of earlier phases that fit on no node or have scheduling gates.
    pub setup_unplaced: usize,
    /// Pods that were evicted for others.
    pub victims: usize,
    /// Duration of the preparation of a measured pod, in microseconds; not part of the decision.
    pub prepare_us_per_pod: f64,
    /// Peak memory of the process during this workload.
    pub peak_rss_bytes: Option<u64>,
    /// Checksum of the measured decisions, in order.
    pub checksum: String,
}

#[derive(Debug)]
enum Stop {
    NotSupported(String),
    Failed(String),
}
