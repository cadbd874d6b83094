//! Searches that take kube-scheduler seconds or minutes: they have the same result within the limit of work.

use super::{CLASS, nodes, pod_with_claim, requests, slice, world};

const NOT_ALL: &str = "0/1 nodes are available: 1 cannot allocate all claims.";

fn devices(n: usize, attributes: impl Fn(usize) -> String) -> String {
    let device = |i: usize| format!("{{name: d{i}, attributes: {{{}}}}}", attributes(i));
    (0..n).map(device).collect::<Vec<_>>().join(", ")
}

fn placed(devices: &str, claim: &str) -> String {
    world(&(nodes(1) + CLASS + &slice("n0", devices) + &pod_with_claim("p", claim))).placed("p")
}

fn select(expression: &str) -> String {
    format!(", selectors: [{{cel: {{expression: '{expression}'}}}}]")
}

#[test]
fn more_requests_than_equal_devices_fail_at_once() {
    for (n_requests, n_devices) in [(10, 9), (11, 10), (32, 31)] {
        let claim = requests(&vec![""; n_requests]);
        assert_eq!(placed(&devices(n_devices, |_| String::new()), &claim), NOT_ALL);
        // Devices that differ in what no request looks at.
        let unlike = devices(n_devices, |i| format!("serial: {{string: s{i}}}"));
        assert_eq!(placed(&unlike, &claim), NOT_ALL);
    }
}

#[test]
fn the_last_request_gets_the_only_device_that_it_can_use() {
    let first = select("device.attributes[\"gpu.example.com\"].serial == \"s0\"");
    let mut fields = vec![""; 10];
    fields.push(&first);
    let found = placed(&devices(12, |i| format!("serial: {{string: s{i}}}")), &requests(&fields));
    assert!(found.starts_with("n0: r0=d1 r1=d2") && found.ends_with(" r10=d0"), "{found}");
}

#[test]
fn more_than_half_of_the_devices_never_have_one_value_of_two() {
    for n in [20, 24, 30] {
        let claim = requests(&[&format!(", count: {}", n / 2 + 1)]);
        let claim = claim + ", constraints: [{matchAttribute: gpu.example.com/numa}]";
        let of_two_nodes = devices(n, |i| format!("numa: {{int: {}}}, serial: {{string: s{i}}}", i % 2));
        assert_eq!(placed(&of_two_nodes, &claim), NOT_ALL);
    }
}

#[test]
fn devices_with_fewer_values_than_needed_are_never_distinct() {
    let claim = requests(&[", count: 13"]) + ", constraints: [{distinctAttribute: gpu.example.com/slot}]";
    let of_slots = devices(24, |i| format!("slot: {{int: {}}}", i % 12));
    assert_eq!(placed(&of_slots, &claim), NOT_ALL);
}

#[test]
fn lists_of_alternatives_do_not_multiply() {
    let alternative = |i: usize| format!("{{name: s{i}, deviceClassName: gpu}}");
    let list = (0..8).map(alternative).collect::<Vec<_>>().join(", ");
    for n in [6, 8, 12] {
        let request = |i: usize| format!("{{name: r{i}, firstAvailable: [{list}]}}");
        let claim = format!("requests: [{}]", (0..n).map(request).collect::<Vec<_>>().join(", "));
        assert_eq!(placed(&devices(n - 1, |i| format!("serial: {{string: s{i}}}")), &claim), NOT_ALL);
    }
}

#[test]
fn pairs_of_one_value_are_found_among_many() {
    // Requests in pairs, each pair with a value of its own: four constraints over eight devices.
    let constraint = |i: usize| {
        format!("{{requests: [r{}, r{}], matchAttribute: gpu.example.com/numa}}", 2 * i, 2 * i + 1)
    };
    let constraints = (0..4).map(constraint).collect::<Vec<_>>().join(", ");
    let claim = format!("{}, constraints: [{constraints}]", requests(&[""; 8]));
    let of_four = devices(8, |i| format!("numa: {{int: {}}}", i % 4));
    assert_eq!(placed(&of_four, &claim), "n0: r0=d0 r1=d4 r2=d1 r3=d5 r4=d2 r5=d6 r6=d3 r7=d7");
    let of_odd = devices(9, |i| format!("numa: {{int: {}}}", i % 9));
    assert_eq!(placed(&of_odd, &claim), NOT_ALL);
}

#[test]
fn a_search_that_ends_at_its_limit_says_so_and_is_counted() {
    // A selector that fails at run time, in a request that is never reached: all combinations are tried.
    let (none, fails) = (
        select("device.driver == \"no.example.com\""),
        select("device.attributes[\"gpu.example.com\"].no > 0"),
    );
    let mut fields = vec![""; 10];
    fields.extend([&*none, &*fails]);
    let devices = devices(14, |i| format!("serial: {{string: s{i}}}"));
    let mut world =
        world(&(nodes(1) + CLASS + &slice("n0", &devices) + &pod_with_claim("p", &requests(&fields))));
    let said = "0/1 nodes are available: 1 the search for devices on the node ended at its limit of work.";
    assert_eq!((world.placed("p"), world.cluster.n_cut_device_searches() > 0), (said.to_owned(), true));
}

/// A selector that takes many steps, and holds for devices with this serial.
fn costly(serial: &str) -> String {
    let list = (1..=20).map(|i| i.to_string()).collect::<Vec<_>>().join(", ");
    let loops = format!("[{list}].all(x, [{list}].all(y, [{list}].all(z, x + y + z > 0)))");
    select(&format!("{loops} && device.attributes[\"gpu.example.com\"].serial == \"{serial}\""))
}

fn serials(node: usize, n: usize) -> String {
    devices(n, |i| format!("serial: {{string: s{node}{i}}}"))
}

#[test]
fn searches_on_many_nodes_that_each_stay_within_their_limit_share_one_budget() {
    let (none, fails) = (
        select("device.driver == \"no.example.com\""),
        select("device.attributes[\"gpu.example.com\"].no > 0"),
    );
    let mut fields = vec![""; 10];
    fields.extend([&*none, &*fails]);
    let pods = pod_with_claim("p", &requests(&fields)) + &pod_with_claim("other", &requests(&[""]));
    let on_nodes = |n_nodes: usize| {
        let slices: String = (0..n_nodes).map(|n| slice(&format!("n{n}"), &serials(n, 14))).collect();
        world(&(nodes(n_nodes) + CLASS + &slices + &pods))
    };
    let mut alone = on_nodes(1);
    alone.cluster.device_work().allow(u64::MAX, u64::MAX);
    let p = alone.prepare("p");
    assert_eq!(alone.cluster.decide(&p).node(), None);
    // For the node, and for the reason.
    let one_search = (u64::MAX - alone.cluster.device_work().left()) / 2;
    // Without its 200,000 steps, a search costs less than 900,000.
    assert!(one_search >= 1_000_000, "each step of a search is taken from the budget: {one_search}");

    let mut world = on_nodes(8);
    let (p, other) = (world.prepare("p"), world.prepare("other"));
    let work = world.cluster.device_work().clone();
    // Enough for some nodes: what was found there is said, and how many were left out.
    work.allow(5 * one_search, 70 * one_search);
    let message = world.cluster.decide(&p).message().into_owned();
    assert!(
        message.contains(" 4 the search for devices on the node ended at its limit of work"),
        "{message}"
    );
    assert!(message.contains(" 4 without a search for devices"), "{message}");
    assert!(work.is_cut());
    assert_eq!(world.cluster.decide(&other).node(), Some("n0"), "others have what is left");
    assert!(!work.is_cut());
    // The next decision goes on with the nodes that are left.
    work.allow(9 * one_search, 70 * one_search);
    let message = world.cluster.decide(&p).message().into_owned();
    assert!(
        message.contains(" 8 the search for devices on the node ended at its limit of work"),
        "{message}"
    );
    assert!(!work.is_cut());
}

#[test]
fn selectors_that_cost_more_than_the_budget_of_a_decision_continue_in_the_next_one() {
    let slices: String = (0..3).map(|n| slice(&format!("n{n}"), &serials(n, 4))).collect();
    let p = pod_with_claim("p", &requests(&[&costly("s23")]));
    let q = pod_with_claim("q", &requests(&[""]));
    let mut world = world(&(nodes(3) + CLASS + &slices + &p + &q));
    let (p, q) = (world.prepare("p"), world.prepare("q"));
    let steps = 1_000_000;
    let mut n_cut = 0;
    let placed = loop {
        world.cluster.device_work().allow(steps, steps);
        let outcome = world.cluster.decide(&p);
        if !world.cluster.device_work().is_cut() {
            break outcome;
        }
        assert!(outcome.message().contains("without a search for devices"), "{}", outcome.message());
        assert!(n_cut < 100, "a decision goes on where the last one ended");
        n_cut += 1;
        world.cluster.device_work().allow(1000, 1000);
        assert!(world.cluster.decide(&q).node().is_some(), "another pod is not kept waiting");
    };
    assert!(n_cut > 1, "{n_cut}");
    assert_eq!(placed.node(), Some("n2"));
}

#[test]
fn no_pod_is_preempted_for_one_whose_devices_were_not_looked_for() {
    let slices: String = (0..3).map(|n| slice(&format!("n{n}"), &serials(n, 4))).collect();
    let mut world = world(&(nodes(3) + CLASS + &slices + &pod_with_claim("p", &requests(&[&costly("s00")]))));
    let pod = world.prepare("p");
    world.cluster.device_work().allow(1000, 1000);
    assert_eq!(world.cluster.decide(&pod).node(), None);
    let preemption = world.cluster.preempt(&pod, &[]);
    let said = preemption.message().unwrap_or_default();
    assert!(said.starts_with("preemption: without a search for devices"), "{said}");
}
