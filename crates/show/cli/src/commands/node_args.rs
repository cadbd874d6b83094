//! Arguments of simulated nodes and of the pods on them.

use std::time::Duration;

use berth_api::object::{Node, Taint};
use berth_api::simulated_nodes::SimulatedNodes;
use berth_api::syntax;
use berth_api::syntax::quantity::Quantity;
use berth_kubelet::{Adopt, CsiDriverTemplate, KubeletOptions, NodeTemplate, PodTimings};
use berth_simulate::what_if::{taint, valid};

/// Maximum number of simulated nodes in one process.
pub const MAX_NODES: u64 = 100_000;

const DEFAULT_ZONES: u64 = 3;

/// Topology and capacity of simulated nodes.
#[derive(Clone, Debug, clap::Args)]
pub struct NodeSizeArgs {
    /// Number of zones; the simulated nodes are assigned to them in turn [default: 3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=MAX_NODES))]
    zones: Option<u64>,
    /// Number of regions; the zones are assigned to them in turn
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=MAX_NODES))]
    regions: u64,
    /// Number of racks in each zone, with the node label topology.berth.dev/rack [default: no such label]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=MAX_NODES))]
    racks: Option<u64>,
    /// CPU capacity of each simulated node
    #[arg(long, value_name = "QUANTITY", default_value = "4", value_parser = amount)]
    node_cpu: Quantity,
    /// Memory capacity of each simulated node
    #[arg(long, value_name = "QUANTITY", default_value = "16Gi", value_parser = amount)]
    node_memory: Quantity,
    /// Pod capacity of each simulated node
    #[arg(long, value_name = "QUANTITY", default_value = "110", value_parser = amount)]
    node_pods: Quantity,
}

impl NodeSizeArgs {
    /// A node in each zone of --zones; none without it.
    pub fn zones(&self) -> Vec<Node> {
        self.zones.map(|n_zones| self.nodes(n_zones).nodes()).unwrap_or_default()
    }

    pub fn nodes(&self, n_nodes: u64) -> SimulatedNodes {
        SimulatedNodes {
            n_nodes: n_nodes as usize,
            n_zones: self.zones.unwrap_or(DEFAULT_ZONES) as usize,
            n_regions: self.regions as usize,
            n_racks: self.racks.unwrap_or(0) as usize,
            cpu: self.node_cpu,
            memory: self.node_memory,
            pods: self.node_pods,
        }
    }
}

/// Properties of simulated nodes in a cluster.
#[derive(Debug, clap::Args)]
pub struct NodeArgs {
    #[command(flatten)]
    size: NodeSizeArgs,
    /// Name prefix of the simulated nodes
    #[arg(long, value_name = "PREFIX", default_value = "node-", value_parser = prefix)]
    node_prefix: String,
    /// Label of all simulated nodes; can be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = label)]
    node_label: Vec<(String, String)>,
    /// CSI driver of all simulated nodes, with the number of volumes that a node can attach; can be repeated
    #[arg(long, value_name = "NAME[=LIMIT]", value_parser = csi_driver)]
    node_csi_driver: Vec<CsiDriverTemplate>,
    /// Taint of all simulated nodes; can be repeated
    #[arg(long, value_name = "KEY[=VALUE]:EFFECT", value_parser = taint)]
    node_taint: Vec<Taint>,
}

/// Which existing nodes to simulate.
#[derive(Debug, clap::Args)]
pub struct AdoptArgs {
    /// Simulate all existing and future nodes of the cluster; never use this on a cluster with real nodes
    #[arg(long)]
    adopt: bool,
    /// Simulate the nodes that match this label selector
    #[arg(long, value_name = "SELECTOR", conflicts_with = "adopt")]
    adopt_selector: Option<String>,
}

impl AdoptArgs {
    pub fn adopt(&self) -> Adopt {
        match &self.adopt_selector {
            Some(labels) => Adopt::Selected { labels: labels.clone(), names: Vec::new() },
            None if self.adopt => Adopt::All,
            None => Adopt::None,
        }
    }
}

/// Durations in the life of a simulated pod.
#[derive(Debug, clap::Args)]
pub struct TimingArgs {
    /// Time from the binding of a pod until its containers run
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = duration)]
    start_after: Duration,
    /// Time from running to ready
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = duration)]
    ready_after: Duration,
    /// Run time of pods with the restart policy Never or OnFailure, such as pods of Jobs
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = duration)]
    run_for: Duration,
    /// Time from the deletion of a pod until its containers stop, at most its grace period
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = duration)]
    stop_after: Duration,
    /// Maximum random deviation of --start-after and --ready-after, as a fraction from 0 to 1
    #[arg(long, value_name = "FRACTION", default_value_t = 0.0, value_parser = fraction)]
    jitter: f64,
    /// Create the events Pulled, Created, Started and Killing for pods, at most 10 per second
    #[arg(long)]
    pod_events: bool,
}

impl NodeArgs {
    pub fn template(&self, n_nodes: u64) -> NodeTemplate {
        NodeTemplate {
            nodes: self.size.nodes(n_nodes),
            name_prefix: self.node_prefix.clone(),
            labels: self.node_label.iter().cloned().collect(),
            taints: self.node_taint.clone(),
            ..NodeTemplate::new(0, 0)
        }
    }
}

impl NodeArgs {
    pub fn csi_drivers(&self) -> Vec<CsiDriverTemplate> {
        self.node_csi_driver.clone()
    }
}

impl TimingArgs {
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

/// Parses `1s`, `500ms` or `2m30s`.
pub fn duration(text: &str) -> Result<Duration, String> {
    let parsed: jiff::SignedDuration =
        text.parse().map_err(|_| "must be a duration, for example 500ms, 10s or 1m30s".to_owned())?;
    Duration::try_from(parsed).map_err(|_| "must not be negative".to_owned())
}

fn amount(text: &str) -> Result<Quantity, String> {
    let quantity = Quantity::parse(text).map_err(|e| e.to_string())?;
    if quantity.is_negative() { Err("must not be negative".to_owned()) } else { Ok(quantity) }
}

/// Parses a number from 0 to 1.
pub fn fraction(text: &str) -> Result<f64, String> {
    let fraction = text.parse().ok().filter(|fraction| (0.0..=1.0).contains(fraction));
    fraction.ok_or_else(|| "must be a number from 0 to 1".to_owned())
}

fn label(text: &str) -> Result<(String, String), String> {
    let Some((key, value)) = text.split_once('=') else {
        return Err("must have the form KEY=VALUE, for example disk=ssd".to_owned());
    };
    valid("key", key, syntax::label_key(key))?;
    valid("value", value, syntax::label_value(value))?;
    Ok((key.to_owned(), value.to_owned()))
}

fn prefix(text: &str) -> Result<String, String> {
    // A node is named by the prefix and a number.
    valid("name", text, syntax::dns_subdomain(&format!("{text}0")))?;
    Ok(text.to_owned())
}

fn csi_driver(text: &str) -> Result<CsiDriverTemplate, String> {
    let expected = || "must have the form NAME[=LIMIT], for example csi.berth.dev=25".to_owned();
    let (name, limit) = match text.split_once('=') {
        Some((name, limit)) => (name, Some(limit.parse().map_err(|_| expected())?)),
        None => (text, None),
    };
    valid("name", name, syntax::dns_subdomain(name))?;
    Ok(CsiDriverTemplate { name: name.to_owned(), limit })
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
    fn flags_of_nodes_that_the_api_server_rejects_were_retried_for_ever() {
        assert_eq!(label("example.com/disk=ssd"), Ok(("example.com/disk".to_owned(), "ssd".to_owned())));
        for text in ["a b=c", "=c", "a=b c", "disk"] {
            assert!(label(text).is_err(), "{text}");
        }
        assert!(prefix("node-").is_ok() && prefix("Node_").is_err());
        assert!(
            csi_driver("csi.berth.dev=25").is_ok() && csi_driver("a b").is_err() && csi_driver("=3").is_err()
        );
    }
}
