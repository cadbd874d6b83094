//! Arguments that describe simulated nodes and what becomes of pods on them.

use std::time::Duration;

use berth_api::object::Taint;
use berth_api::quantity::Quantity;
use berth_kubelet::{Adopt, KubeletOptions, NodeTemplate, PodTimings};

/// More simulated nodes than this are not run in one process.
pub const MAX_NODES: u64 = 100_000;
const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

/// Zones and capacity of simulated nodes.
#[derive(Debug, clap::Args)]
pub struct NodeSizeArgs {
    /// Number of zones; the simulated nodes are assigned to them in turn
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=MAX_NODES))]
    pub zones: u64,
    /// CPU capacity of each simulated node
    #[arg(long, value_name = "QUANTITY", default_value = "4", value_parser = amount)]
    pub node_cpu: Quantity,
    /// Memory capacity of each simulated node
    #[arg(long, value_name = "QUANTITY", default_value = "16Gi", value_parser = amount)]
    pub node_memory: Quantity,
    /// Pod capacity of each simulated node
    #[arg(long, value_name = "QUANTITY", default_value = "110", value_parser = amount)]
    pub node_pods: Quantity,
}

/// Properties of simulated nodes in a cluster.
#[derive(Debug, clap::Args)]
pub struct NodeArgs {
    #[command(flatten)]
    size: NodeSizeArgs,
    /// Name prefix of the simulated nodes
    #[arg(long, value_name = "PREFIX", default_value = "node-")]
    node_prefix: String,
    /// Label of all simulated nodes; can be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = label)]
    node_label: Vec<(String, String)>,
    /// Taint of all simulated nodes; can be repeated
    #[arg(long, value_name = "KEY[=VALUE]:EFFECT", value_parser = taint)]
    node_taint: Vec<Taint>,
}

/// Which existing nodes are simulated, too.
#[derive(Debug, clap::Args)]
pub struct AdoptArgs {
    /// Simulate all nodes that the cluster has, and those it gets; never do this to a cluster that is in use
    #[arg(long)]
    adopt: bool,
    /// Simulate the nodes with these labels
    #[arg(long, value_name = "LABELS", conflicts_with = "adopt")]
    adopt_selector: Option<String>,
}

impl AdoptArgs {
    /// Which.
    pub fn adopt(&self) -> Adopt {
        match &self.adopt_selector {
            Some(labels) => Adopt::Selected { labels: labels.clone(), names: Vec::new() },
            None if self.adopt => Adopt::All,
            None => Adopt::None,
        }
    }
}

/// How long things take in the life of a simulated pod.
#[derive(Debug, clap::Args)]
pub struct TimingArgs {
    /// From a pod's binding to running containers
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = duration)]
    start_after: Duration,
    /// From running to ready
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = duration)]
    ready_after: Duration,
    /// How long the pods of Jobs run before they succeed
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = duration)]
    run_for: Duration,
    /// How long containers take to end after being told to; the pod's grace period bounds it
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = duration)]
    stop_after: Duration,
    /// Part of these times by which each pod deviates at random, from 0 to 1
    #[arg(long, value_name = "PART", default_value_t = 0.0, value_parser = part)]
    jitter: f64,
    /// Write the events Pulled, Created and Started of pods, ten a second at most
    #[arg(long)]
    pod_events: bool,
}

impl NodeArgs {
    /// This many such nodes.
    pub fn template(&self, n_nodes: u64) -> NodeTemplate {
        let NodeSizeArgs { zones, node_cpu, node_memory, node_pods } = &self.size;
        let mut template = NodeTemplate::new(n_nodes as usize, *zones as usize);
        template.made.cpu = *node_cpu;
        template.made.memory = *node_memory;
        template.made.pods = *node_pods;
        template.name_prefix.clone_from(&self.node_prefix);
        template.labels = self.node_label.iter().cloned().collect();
        template.taints.clone_from(&self.node_taint);
        template
    }
}

impl TimingArgs {
    /// Options with these times, and no nodes.
    pub fn options(&self) -> KubeletOptions {
        let pods = PodTimings {
            start_after: self.start_after,
            ready_after: self.ready_after,
            run_for: self.run_for,
            stop_after: self.stop_after,
            jitter: self.jitter,
            ..PodTimings::default()
        };
        KubeletOptions { pods, events: self.pod_events, ..KubeletOptions::default() }
    }
}

/// `1s`, `500ms`, `2m 30s`.
pub fn duration(text: &str) -> Result<Duration, String> {
    let parsed: jiff::SignedDuration =
        text.parse().map_err(|_| "write it like 500ms, 10s or 1m30s".to_owned())?;
    Duration::try_from(parsed).map_err(|_| "must not be negative".to_owned())
}

fn amount(text: &str) -> Result<Quantity, String> {
    let quantity = Quantity::parse(text).map_err(|e| e.to_string())?;
    if quantity.is_negative() { Err("must not be negative".to_owned()) } else { Ok(quantity) }
}

fn part(text: &str) -> Result<f64, String> {
    let part = text.parse().ok().filter(|part| (0.0..=1.0).contains(part));
    part.ok_or_else(|| "must be a number from 0 to 1".to_owned())
}

fn label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("write it like disk=ssd".to_owned()),
    }
}

fn taint(text: &str) -> Result<Taint, String> {
    let write_like = || format!("write it like dedicated=gpu:NoSchedule; effects are {}", EFFECTS.join(", "));
    let (pair, effect) = text.rsplit_once(':').ok_or_else(write_like)?;
    let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
    if key.is_empty() || !EFFECTS.contains(&effect) {
        return Err(write_like());
    }
    Ok(Taint { key: key.to_owned(), value: value.to_owned(), effect: effect.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_written_as_in_kubernetes() {
        for (text, millis) in [("0s", 0), ("500ms", 500), ("10s", 10_000), ("1m30s", 90_000), ("1.5s", 1_500)]
        {
            assert_eq!(duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for text in ["", "5", "-1s", "s", "1 parsec"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn taints_are_written_as_for_kubectl() {
        let expected = |value: &str| Taint {
            key: "dedicated".to_owned(),
            value: value.to_owned(),
            effect: "NoSchedule".to_owned(),
        };
        assert_eq!(taint("dedicated=gpu:NoSchedule"), Ok(expected("gpu")));
        assert_eq!(taint("dedicated:NoSchedule"), Ok(expected("")));
        for text in ["dedicated", "dedicated=gpu", "=x:NoSchedule", "a:Never"] {
            assert!(taint(text).is_err(), "{text}");
        }
    }
}
