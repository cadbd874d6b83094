//! Arguments that select a picture.

use std::collections::BTreeSet;

use berth_console::pictures::{self, ColorBy};
use berth_console::reports;
use berth_engine::Violation;
use berth_simulate::Simulation;
use clap::ValueEnum;

/// The picture of a cluster that `-o svg` writes.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct PictureArgs {
    /// The picture that -o svg writes; -o html has all pictures
    #[arg(long, value_enum, default_value_t = PictureKind::Topology, value_name = "PICTURE")]
    picture: PictureKind,
    /// What the color of a node shows in the topology picture [default: change in what-if, rule in audit, else utilization]
    #[arg(long, value_enum, value_name = "WHAT")]
    color_by: Option<NodeColor>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum PictureKind {
    /// Zones, racks and nodes with their pods
    Topology,
    /// Which workloads require or avoid which others
    Rules,
    /// The pods of each workload by domain
    Spread,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum NodeColor {
    /// How much of the node is requested
    Utilization,
    /// The workload with most pods there
    Workload,
    /// The namespace with most pods there
    Namespace,
    /// The pod group with most pods there
    Group,
    /// The priority of most pods there
    Priority,
    /// Whether rules of its pods are broken
    Rule,
    /// Whether pods were placed there or left
    Change,
}

impl PictureArgs {
    /// The picture as SVG; with `all`, every picture as a part of a page. `broken` are the violated rules of running pods.
    pub fn draw(
        self,
        simulation: &Simulation,
        broken: &[Violation],
        topology_key: &str,
        default: ColorBy<'_>,
        all: bool,
    ) -> Vec<String> {
        let color_by = match self.color_by {
            None => default,
            Some(NodeColor::Change) if matches!(default, ColorBy::Change(_)) => default,
            Some(NodeColor::Utilization) => ColorBy::Utilization,
            Some(NodeColor::Workload) => ColorBy::Workload,
            Some(NodeColor::Namespace) => ColorBy::Namespace,
            Some(NodeColor::Group) => ColorBy::Group,
            Some(NodeColor::Priority) => ColorBy::Priority,
            Some(NodeColor::Rule) => ColorBy::Rule,
            Some(NodeColor::Change) => ColorBy::Change(const { &BTreeSet::new() }),
        };
        let kinds = [PictureKind::Topology, PictureKind::Rules, PictureKind::Spread];
        let kinds = kinds.into_iter().filter(|kind| all || *kind == self.picture);
        let draw = |kind| match kind {
            PictureKind::Topology if all => reports::topology(simulation, broken, color_by),
            PictureKind::Spread if all => reports::spread(simulation, topology_key),
            PictureKind::Topology => pictures::topology(simulation, broken, color_by),
            PictureKind::Rules => pictures::rules(simulation, broken),
            PictureKind::Spread => pictures::spread(simulation, topology_key),
        };
        kinds.map(draw).collect()
    }
}
