//! The names and labels that objects have.

pub use berth_api::syntax::labels::{REGION, ZONE};

use super::random::Random;

pub const NAMESPACES: [&str; 5] = ["default", "team-a", "team-b", "kube-system", "ghost"];
pub const RACK: &str = "example.com/rack";
pub const ZONES: [&str; 3] = ["z0", "z1", "z2"];
pub const REGIONS: [&str; 2] = ["eu", "us"];
pub const RACKS: [&str; 3] = ["r0", "r1", "r2"];
pub const DISKS: [&str; 2] = ["ssd", "hdd"];
pub const CORES: [&str; 5] = ["4", "8", "16", "many", "-1"];
/// Values of a field of nodes.
pub const VERSIONS: [&str; 6] =
    ["6.1.58+", "containerd://5.15", "5.15.0-91-generic", "v5.15.0-100", "6.1.0-rc.1", "none"];
/// Those that are values of labels.
pub const LABEL_VERSIONS: &[&str] = VERSIONS.split_at(2).1;
/// An annotation of nodes.
pub const SLOT: &str = "example.com/slot";
pub const SLOTS: [&str; 4] = ["-3", "4", "v6.0", "a slot"];

pub fn node_name(random: &mut Random) -> String {
    format!("n{}", random.below(9))
}
