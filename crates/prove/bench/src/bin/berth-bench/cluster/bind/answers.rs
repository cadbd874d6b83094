//! Time and memory of commands about the cluster at the end. Each command lists all objects.

use std::time::{Duration, Instant};

use berth_bench::scale::templates::PodTemplate;
use berth_bench::scale::{nodes, pod_name};
use serde::Serialize;

use super::super::child::Server;
use super::loaded::Loaded;
use crate::error::BenchError;

const PERIOD: Duration = Duration::from_millis(10);

/// The answer of a command.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Answer {
    /// The command.
    pub command: String,
    /// From its start to its end.
    pub seconds: f64,
    /// Its peak memory; on Linux only.
    pub peak_bytes: Option<u64>,
}

/// Asks about a pod, the broken rules, and the loss of a node.
///
/// # Errors
/// A command cannot be started, or fails.
pub async fn ask(cluster: &Loaded) -> Result<Vec<Answer>, BenchError> {
    let Some(PodTemplate { pod, .. }) = cluster.templates.first() else { return Ok(Vec::new()) };
    let (pod, namespace) = (pod_name(&pod.metadata.name, 0), &pod.metadata.namespace);
    let node = nodes::node_name(0);
    let mut answers = Vec::new();
    for question in
        [&["explain", &pod, "--namespace", namespace][..], &["audit"], &["what-if", "--remove-node", &node]]
    {
        answers.push(answer(cluster, question).await?);
    }
    Ok(answers)
}

async fn answer(cluster: &Loaded, question: &[&str]) -> Result<Answer, BenchError> {
    let command = question.join(" ");
    let kubeconfig = cluster.kubeconfig().display().to_string();
    let begin = Instant::now();
    let mut process = Server::spawn(&[question, &["--kubeconfig", &kubeconfig]].concat())?;
    let mut peak_bytes = None;
    let status = loop {
        if let Some(status) = process.ended()? {
            break status;
        }
        peak_bytes = process.peak_rss_bytes().or(peak_bytes);
        tokio::time::sleep(PERIOD).await;
    };
    let seconds = begin.elapsed().as_secs_f64();
    // 1 is an answer: that a pod does not fit, or that rules are broken.
    match status.code() {
        Some(0 | 1) => Ok(Answer { command, seconds, peak_bytes }),
        _ => Err(BenchError::Child { command, reason: format!("{status}; its messages are above") }),
    }
}
