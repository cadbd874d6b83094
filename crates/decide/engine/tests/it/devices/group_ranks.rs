//! Groups whose levels are attributes of devices: `docs/groups.md`.

use berth_api::object::group::TopologyLevel;
use berth_engine::{Cluster, Group, GroupLevel, GroupOutcome};

use super::{CLASS, World, nodes, pod_with_claim, requests, slice, world};

const LINK: &str = "device:gpu.example.com/link";

/// Nodes `n0`, `n1` and so on with two devices each in these link domains, and four pods that request a device each.
fn racks(links: &[&str]) -> World {
    let device = |name: &str, link: &str| match link {
        "" => format!("{{name: {name}}}"),
        link => format!("{{name: {name}, attributes: {{link: {{string: \"{link}\"}}}}}}"),
    };
    let of_node = |(i, links): (usize, &&str)| {
        let (a, b) = links.split_once('/').unwrap_or((links, links));
        slice(&format!("n{i}"), &[device("a", a), device("b", b)].join(", "))
    };
    let slices: String = links.iter().enumerate().map(of_node).collect();
    let pods: String = (0..4).map(|i| pod_with_claim(&format!("m{i}"), &requests(&[""]))).collect();
    world(&(nodes(links.len()) + CLASS + &slices + &pods))
}

/// The node of each of four members, which are given by rank; or why they are not placed.
fn placed(world: &mut World, level: &TopologyLevel, value: Option<&str>) -> Result<Vec<String>, String> {
    let members: Vec<_> = (0..4).map(|i| world.prepare(&format!("m{i}"))).collect();
    let group =
        Group { members: &members, min: 4, levels: &[GroupLevel { rule: level, value }], composite: None };
    match world.cluster.decide_group(&group) {
        GroupOutcome::Placed { members, .. } => {
            Ok(members.iter().map(|outcome| outcome.node().unwrap_or("-").to_owned()).collect())
        }
        GroupOutcome::Unplaced(failure) => Err(failure.message(&group)),
    }
}

fn links(cluster: &Cluster, nodes: &[String]) -> Vec<String> {
    nodes.iter().map(|node| cluster.node_domain(node, LINK).unwrap_or_default().into_owned()).collect()
}

#[test]
fn members_share_the_value_of_an_attribute_where_one_has_devices_for_all() {
    // By name alone, the first two nodes would be taken.
    let mut world = racks(&["x", "y", "x", "z"]);
    let nodes = placed(&mut world, &TopologyLevel::preferred(LINK), None).unwrap();
    assert_eq!(links(&world.cluster, &nodes), ["x"; 4], "{nodes:?}");
    let required = TopologyLevel::required(LINK);
    let nodes = placed(&mut world, &required, None).unwrap();
    assert_eq!(links(&world.cluster, &nodes), ["x"; 4], "{nodes:?}");
    let other = placed(&mut world, &required, Some("y")).unwrap_err();
    assert!(other.contains("2 of 4 pods fit in y"), "{other}");
}

#[test]
fn neighbours_in_rank_share_the_value_where_the_group_needs_several() {
    let mut world = racks(&["x", "y", "z"]);
    let nodes = placed(&mut world, &TopologyLevel::preferred(LINK), None).unwrap();
    let links = links(&world.cluster, &nodes);
    assert!(links[0] == links[1] && links[2] == links[3] && links[1] != links[2], "{links:?}");
    let apart = placed(&mut world, &TopologyLevel::required(LINK), None).unwrap_err();
    assert!(apart.contains("2 of 4 pods fit in"), "{apart}");
}

#[test]
fn a_node_whose_devices_have_several_values_or_none_is_in_no_domain() {
    let mut world = racks(&["x/y", "", "x", "x/"]);
    let domains: Vec<_> = (0..4)
        .map(|i| world.cluster.node_domain(&format!("n{i}"), LINK).unwrap_or_default().into_owned())
        .collect();
    assert_eq!(domains, ["", "", "x", "x"], "devices without the attribute do not count");
    let nodes = placed(&mut world, &TopologyLevel::required(LINK), None).unwrap();
    assert!(nodes.iter().all(|node| node == "n2" || node == "n3"), "{nodes:?}");
    let none = placed(&mut racks(&["", ""]), &TopologyLevel::required(LINK), None).unwrap_err();
    assert!(
        none.contains("no node has devices with one value of the attribute gpu.example.com/link"),
        "{none}"
    );
}
