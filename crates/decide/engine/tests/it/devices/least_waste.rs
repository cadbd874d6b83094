//! The scoring strategy `LeastWaste`: the smallest partition that fits, and whole devices and groups of linked devices kept free.

use std::sync::Arc;

use berth_engine::{Cluster, Settings};
use berth_input::config::{LeastWaste, SchedulerConfig};
use berth_testkit::generate::Random;

use super::{CLASS, World, nodes, pod_with_claim, requests, slice, world};

/// A cluster whose profile scores devices.
fn least_waste(manifest: &str, link_attributes: &[&str]) -> World {
    let link_attributes = link_attributes.iter().map(|name| (*name).to_owned()).collect();
    let mut config = SchedulerConfig::default();
    config.profiles[0].least_waste = Some(Arc::new(LeastWaste { link_attributes }));
    let World { inventory, .. } = world(manifest);
    let mut cluster = Cluster::new(Settings { config, ..Settings::default() });
    inventory.nodes.iter().for_each(|node| cluster.set_node(&node.object));
    inventory.device_objects.iter().for_each(|object| cluster.set_device_object(&object.object));
    World { cluster, inventory }
}

/// A pool of a node with counters `gpu-0`, `gpu-1` and so on of 8 units each.
fn partitioned(node: &str, n_gpus: usize, devices: &str) -> String {
    let pool =
        format!("driver: gpu.example.com, pool: {{name: {node}, generation: 1, resourceSliceCount: 2}}");
    let sets: Vec<_> =
        (0..n_gpus).map(|i| format!("{{name: gpu-{i}, counters: {{units: {{value: '8'}}}}}}")).collect();
    format!(
        "---\n{{apiVersion: resource.k8s.io/v1, kind: ResourceSlice, metadata: {{name: {node}-a}}, spec: {{{pool}, \
         nodeName: {node}, sharedCounters: [{}]}}}}\n---\n{{apiVersion: resource.k8s.io/v1, kind: ResourceSlice, \
         metadata: {{name: {node}-b}}, spec: {{{pool}, nodeName: {node}, devices: [{devices}]}}}}\n",
        sets.join(", ")
    )
}

/// A partition, with its number of units as an attribute.
fn part(name: &str, gpu: usize, units: usize) -> String {
    format!(
        "{{name: {name}, attributes: {{units: {{int: {units}}}}}, consumesCounters: \
         [{{counterSet: gpu-{gpu}, counters: {{units: {{value: '{units}'}}}}}}]}}"
    )
}

/// Requests of one device with at least this many units each.
fn of_at_least(units: usize) -> String {
    let expression = format!("device.attributes[\"gpu.example.com\"].units >= {units}");
    requests(&[&format!(", selectors: [{{cel: {{expression: '{expression}'}}}}]")])
}

#[test]
fn the_smallest_partition_that_fits_is_chosen() {
    let devices = [part("full", 0, 8), part("half", 0, 4), part("quarter", 0, 2)].join(", ");
    let objects = nodes(1) + CLASS + &partitioned("n0", 1, &devices);
    let pods = pod_with_claim("p", &of_at_least(3)) + &pod_with_claim("q", &of_at_least(1));
    let objects = objects + &pods;
    assert_eq!(world(&objects).placed("p"), "n0: r0=full", "by default, the first that fits");
    let mut world = least_waste(&objects, &[]);
    assert_eq!(world.placed("p"), "n0: r0=half");
    assert_eq!(world.placed("q"), "n0: r0=quarter");
}

#[test]
fn a_device_in_use_gives_partitions_before_a_whole_one() {
    let devices = [part("a-small", 0, 1), part("b-large", 1, 4), part("b-half", 1, 4), part("c-small", 2, 1)]
        .join(", ");
    let objects = nodes(1)
        + CLASS
        + &partitioned("n0", 3, &devices)
        + &pod_with_claim("p", &of_at_least(4))
        + &pod_with_claim("q", &of_at_least(1));
    let mut world = least_waste(&objects, &[]);
    assert_eq!(world.placed("p"), "n0: r0=b-large");
    assert_eq!(world.placed("q"), "n0: r0=b-half", "larger than needed, but no other device is broken");
}

fn linked(devices: &[(&str, usize)]) -> String {
    let device =
        |(name, link): &(&str, usize)| format!("{{name: {name}, attributes: {{link: {{int: {link}}}}}}}");
    devices.iter().map(device).collect::<Vec<_>>().join(", ")
}

#[test]
fn groups_of_linked_devices_are_kept_whole() {
    let devices = linked(&[("a", 0), ("b", 0), ("c", 1), ("d", 2), ("e", 2)]);
    let objects = nodes(1)
        + CLASS
        + &slice("n0", &devices)
        + &pod_with_claim("p", &requests(&["", ""]))
        + &pod_with_claim("q", &requests(&[""]))
        + &pod_with_claim("r", &requests(&["", ""]));
    let mut world = least_waste(&objects, &["gpu.example.com/link"]);
    assert_eq!(world.placed("p"), "n0: r0=a r1=b", "one group is broken: two requests, one group of two");
    assert_eq!(world.placed("q"), "n0: r0=c");
    assert_eq!(world.placed("r"), "n0: r0=d r1=e");
    let mut without = least_waste(&objects, &[]);
    assert_eq!(without.placed("q"), "n0: r0=a", "nothing says that the devices are linked");
}

#[test]
fn the_node_where_less_is_wasted_is_preferred() {
    let objects = nodes(2)
        + CLASS
        + &partitioned("n0", 1, &part("x-quarter", 0, 2))
        + &partitioned("n1", 1, &[part("y-half", 0, 4), part("y-quarter", 0, 2)].join(", "))
        + &pod_with_claim("p", &of_at_least(3))
        + &pod_with_claim("q", &of_at_least(1));
    let mut as_upstream = world(&objects);
    assert_eq!(as_upstream.placed("p"), "n1: r0=y-half");
    assert_eq!(as_upstream.placed("q"), "n0: r0=x-quarter", "by default, both nodes are as good");
    let mut world = least_waste(&objects, &[]);
    assert_eq!(world.placed("p"), "n1: r0=y-half");
    assert_eq!(world.placed("q"), "n1: r0=y-quarter", "the device of n0 stays whole");
}

#[test]
fn an_earlier_alternative_counts_before_less_waste() {
    let devices = [part("full", 0, 8), part("half", 0, 4)].join(", ");
    let of = |name: &str, units: usize| {
        format!(
            "{{name: {name}, deviceClassName: gpu, selectors: [{{cel: {{expression: \
             'device.attributes[\"gpu.example.com\"].units == {units}'}}}}]}}"
        )
    };
    let request =
        format!("requests: [{{name: r0, firstAvailable: [{}, {}]}}]", of("large", 8), of("small", 4));
    let objects = nodes(1) + CLASS + &partitioned("n0", 1, &devices) + &pod_with_claim("p", &request);
    assert_eq!(least_waste(&objects, &[]).placed("p"), "n0: r0/large=full");
}

/// A device of the property test: the set of counters that it takes from, if any, how much of it, and its group.
type Part = (Option<usize>, usize, usize);

/// What the choice of devices wastes: groups broken, whole devices broken, and the eighths of devices that are taken.
fn waste(parts: &[Part], used: &[usize], chosen: &[usize]) -> (usize, usize, usize) {
    let count = |is_broken: &dyn Fn(&Part, &Part) -> bool| {
        // Each is counted once: by the first chosen device of it.
        let mut n = 0;
        for (i, c) in chosen.iter().enumerate() {
            let before = used.iter().chain(&chosen[..i]);
            n += usize::from(before.into_iter().all(|other| !is_broken(&parts[*other], &parts[*c])));
        }
        n
    };
    let n_groups = count(&|a, b| a.2 == b.2);
    let n_whole = count(&|a, b| a.0.is_some() && a.0 == b.0);
    (n_groups, n_whole, chosen.iter().map(|c| parts[*c].0.map_or(8, |_| parts[*c].1)).sum())
}

/// Whether the devices can be allocated together: each once, and no counters are exceeded.
fn is_possible(parts: &[Part], devices: &[usize]) -> bool {
    let of_gpu =
        |gpu| devices.iter().filter(|d| parts[**d].0 == Some(gpu)).map(|d| parts[*d].1).sum::<usize>();
    let is_once = |d: &usize| devices.iter().filter(|other| *other == d).count() == 1;
    devices.iter().all(is_once) && (0..3).all(|gpu| of_gpu(gpu) <= 8)
}

/// All choices of `n` devices, in any order.
fn choices(n_devices: usize, n: usize) -> Vec<Vec<usize>> {
    match n {
        0 => vec![Vec::new()],
        _ => choices(n_devices, n - 1)
            .into_iter()
            .flat_map(|choice| (0..n_devices).map(move |d| [choice.clone(), vec![d]].concat()))
            .collect(),
    }
}

/// On small nodes, compared with all choices of devices.
#[test]
fn no_valid_choice_wastes_less() {
    for seed in 0..300 {
        let mut random = Random::new(seed);
        let mut part = |_| (random.chance(80).then(|| random.below(3)), 1 + random.below(8), random.below(3));
        let n_parts = 1 + seed as usize % 6;
        let parts: Vec<Part> = (0..n_parts).map(&mut part).collect();
        let (n_before, n_requests, matches) = (random.below(3), 1 + random.below(3), random.chance(50));
        let device = |(i, (gpu, units, group)): (usize, &Part)| {
            let consumes = gpu.map(|gpu| {
                format!(
                    ", consumesCounters: [{{counterSet: gpu-{gpu}, counters: {{units: {{value: '{units}'}}}}}}]"
                )
            });
            let consumes = consumes.unwrap_or_default();
            format!("{{name: d{i}, attributes: {{link: {{int: {group}}}}}{consumes}}}")
        };
        let devices: Vec<_> = parts.iter().enumerate().map(device).collect();
        let constraint = if matches { ", constraints: [{matchAttribute: gpu.example.com/link}]" } else { "" };
        let mut objects = nodes(1) + CLASS + &partitioned("n0", 3, &devices.join(", "));
        for i in 0..n_before {
            objects += &pod_with_claim(&format!("before-{i}"), &requests(&[""]));
        }
        objects += &pod_with_claim("p", &(requests(&vec![""; n_requests]) + constraint));
        let mut world = least_waste(&objects, &["gpu.example.com/link"]);
        let chosen = |placed: &str| -> Option<Vec<usize>> {
            let devices = placed.strip_prefix("n0:")?.split_whitespace();
            devices.map(|text| text.split_once("=d")?.1.parse().ok()).collect()
        };
        let before = (0..n_before).filter_map(|i| chosen(&world.placed(&format!("before-{i}"))));
        let used = before.collect::<Vec<_>>().concat();
        let is_valid = |devices: &Vec<usize>| {
            is_possible(&parts, &[&used[..], devices].concat())
                && (!matches || devices.iter().all(|d| parts[*d].2 == parts[devices[0]].2))
        };
        let valid = choices(parts.len(), n_requests).into_iter().filter(is_valid);
        let least = valid.map(|devices| waste(&parts, &used, &devices)).min();
        let placed = world.placed("p");
        let found = chosen(&placed);
        let case = format!("seed {seed}: {parts:?}, in use {used:?}: {placed}");
        assert!(found.as_ref().is_none_or(is_valid), "{case}");
        assert_eq!(found.map(|devices| waste(&parts, &used, &devices)), least, "{case}");
    }
}
