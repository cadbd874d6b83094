//! Brute force on small clusters: every repair works, and there is none of the kind that costs less.

use super::*;

#[test]
fn no_cheaper_repair_of_a_kind_exists() {
    let (mut counts, mut n_pairs, mut wrong) = ([0; 4], 0, Vec::new());
    for seed in 0..500 {
        let text = random_cluster(&mut Random::new(seed));
        let (world, pod, explained) = explained(&text);
        if explained.explanation.outcome.node().is_some() {
            continue;
        }
        let mut check = |what: &str, fails: bool| {
            if fails {
                wrong.push(format!("seed {seed}: {what}\n{text}\n{:#?}", explained.repairs));
            }
        };
        for repair in &explained.repairs {
            assert_works(&world, &pod, repair);
        }
        // A pair of changes is there only where none of a single kind helps.
        let is_pair = |repair: &Repair| {
            let kind = |change: &Change| match change {
                change if is_of_node(change) => 0,
                Change::Move { .. } => 1,
                Change::Relax { .. } | Change::Tolerate { .. } | Change::FreeHostPort { .. } => 2,
                Change::RequestLess { .. } => 3,
                _ => 4,
            };
            repair.changes.iter().any(|change| kind(change) != kind(&repair.changes[0]))
        };
        let n_pairs_here = explained.repairs.iter().filter(|repair| is_pair(repair)).count();
        check("a pair beside others", n_pairs_here > 0 && explained.repairs.len() > 1);
        n_pairs += n_pairs_here;
        let single: Vec<_> = explained.repairs.iter().filter(|repair| !is_pair(repair)).collect();
        let cost =
            |is: fn(&Change) -> bool| single.iter().filter(|r| is(&r.changes[0])).map(|r| r.cost).min();
        let node = cost(is_of_node);
        check("a cheaper change of a node", node_change_below(&world, &pod, node.unwrap_or(4).min(4)));
        // Plans are compared with an exhaustive search where they are made.
        let moves = cost(|c| matches!(c, Change::Move { .. }));
        let rules = cost(|c| {
            matches!(c, Change::Relax { .. } | Change::Tolerate { .. } | Change::FreeHostPort { .. })
        });
        check("fewer rules", relaxed_below(&world, &pod, rules.map_or(4, |cost| cost / 20)));
        let less = single.iter().find_map(|r| match &r.changes[0] {
            Change::RequestLess { to, .. } => Some(to),
            _ => None,
        });
        check("a larger request", request_above(&world, &pod, less.map(String::as_str)));
        check("another core", !is_core_minimal(&explained.explanation, explained.core.len()));
        for (count, found) in
            counts.iter_mut().zip([node.is_some(), moves.is_some(), rules.is_some(), less.is_some()])
        {
            *count += u32::from(found);
        }
    }
    wrong.truncate(5);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // The clusters have something to repair in every way.
    assert!(counts.iter().all(|n| *n > 10) && n_pairs > 0, "{counts:?} {n_pairs}");
}

fn random_cluster(random: &mut Random) -> String {
    let mut text = String::new();
    let nodes = ["a", "b", "c", "d"];
    let n_nodes = 2 + random.below(3);
    for node in &nodes[..n_nodes] {
        text += &format!("node {node} cpu={}", 2 + random.below(3));
        for (percent, words) in [
            (85, &["zone=z1", "zone=z2"][..]),
            (40, &["disk=ssd", "disk=hdd"]),
            (40, &["gen=1", "gen=2", "gen=3"]),
            (25, &["taint:x=1:NoSchedule", "taint:y:NoExecute"]),
            (15, &["unschedulable"]),
        ] {
            if random.chance(percent) {
                text += " ";
                text += &random.word(words);
            }
        }
        text += "\n";
    }
    for i in 0..4 + random.below(4) {
        text += &format!("pod default/r{i} on {} owner:ReplicaSet/r{i}", random.word(&nodes[..n_nodes]));
        text += &rules(random, 12);
        text += "\n";
    }
    text + "pod default/p" + &rules(random, 40)
}

fn rules(random: &mut Random, percent: usize) -> String {
    let mut text =
        format!(" app={} cpu={}", random.word(&["x", "y"]), random.word(&["500m", "1", "1500m", "2", "3"]));
    for words in [
        &["anti(app=x @hostname)", "anti(app=y @zone)", "anti(app=x,y @zone)"][..],
        &["aff(app=x @zone)", "aff(app=y @hostname)"],
        &["select:disk=ssd", "select:disk=hdd"],
        &["node(gen>1)", "node(gen=3 | disk)", "node(!disk gen)", "node(disk!=hdd gen<3)"],
        &["spread(1 app=x @zone)", "spread(1 app=x,y @hostname)"],
        &["port:80"],
        &["tolerate:x"],
    ] {
        if random.chance(percent / 2) {
            text += " ";
            text += &random.word(words);
        }
    }
    text
}

/// Whether changes of one node that cost less together let the pod fit on it.
fn node_change_below(world: &World, pod: &Pod, cost: u32) -> bool {
    (0..world.nodes.len()).any(|i| {
        let node = &world.nodes[i];
        let name = node.metadata.name.clone();
        let mut changes: Vec<(u32, String, Change)> = Vec::new();
        if node.spec.unschedulable {
            changes.push((1, "cordon".to_owned(), Change::Uncordon { node: name.clone() }));
        }
        for taint in node.spec.taints.iter().map(text_of) {
            changes.push((1, taint.clone(), Change::RemoveTaint { node: name.clone(), taint }));
        }
        let zone = "topology.kubernetes.io/zone";
        for (key, values) in [("disk", &["ssd", "hdd"][..]), ("gen", &["1", "2", "3"]), (zone, &["z1", "z2"])]
        {
            let has = node.metadata.labels.contains_key(key);
            if has && key == zone {
                continue;
            }
            let (node, key) = (name.clone(), key.to_owned());
            if has {
                let change = Change::RemoveLabel { node: node.clone(), key: key.clone() };
                changes.push((2, key.clone(), change));
            }
            for value in values.iter().map(|v| (*v).to_owned()) {
                let change = Change::SetLabel { node: node.clone(), key: key.clone(), value };
                changes.push((if has { 2 } else { 1 }, key.clone(), change));
            }
        }
        subsets(changes.len(), 3).into_iter().any(|set| {
            let sum: u32 = set.iter().map(|c| changes[*c].0).sum();
            let mut of: Vec<_> = set.iter().map(|c| &changes[*c].1).collect();
            of.dedup();
            if sum >= cost || of.len() < set.len() {
                return false;
            }
            let mut world = world.clone();
            set.iter().for_each(|c| change_node(&mut world.nodes[i], &changes[*c].2));
            feasible_on(&world, pod).contains(&name)
        })
    })
}

/// The sets of up to `most` numbers below `n`, the empty one left out.
fn subsets(n: usize, most: usize) -> Vec<Vec<usize>> {
    let mut sets = vec![Vec::new()];
    let mut from = 0;
    for _ in 0..most {
        let to = sets.len();
        for i in from..to {
            let first = sets[i].last().map_or(0, |last| last + 1);
            let longer = (first..n).map(|next| sets[i].iter().copied().chain([next]).collect());
            sets.extend(longer.collect::<Vec<Vec<usize>>>());
        }
        from = to;
    }
    sets.split_off(1)
}

/// Whether the pod fits without fewer rules than `n`.
fn relaxed_below(world: &World, pod: &Pod, n: u32) -> bool {
    type Relax<'a> = Box<dyn Fn(&mut Pod) + 'a>;
    let mut rules: Vec<Relax<'_>> = Vec::new();
    for key in pod.spec.node_selector.keys() {
        rules.push(Box::new(move |pod| _ = pod.spec.node_selector.remove(key)));
    }
    let affinity = pod.spec.affinity.clone().unwrap_or_default();
    if affinity.node_affinity.is_some() {
        rules.push(Box::new(|pod| pod.spec.affinity.as_mut().expect("affinity").node_affinity = None));
    }
    if affinity.pod_affinity.is_some() {
        rules.push(Box::new(|pod| pod.spec.affinity.as_mut().expect("affinity").pod_affinity = None));
    }
    if affinity.pod_anti_affinity.is_some() {
        rules.push(Box::new(|pod| pod.spec.affinity.as_mut().expect("affinity").pod_anti_affinity = None));
    }
    if !pod.spec.topology_spread_constraints.is_empty() {
        rules.push(Box::new(|pod| pod.spec.topology_spread_constraints.clear()));
    }
    if pod.spec.containers[0].ports.iter().any(|p| p.host_port > 0) {
        rules.push(Box::new(|pod| pod.spec.containers[0].ports.clear()));
    }
    for key in ["x", "y"] {
        rules.push(Box::new(move |pod| {
            pod.spec.tolerations.push(berth_api::object::Toleration {
                key: key.to_owned(),
                operator: "Exists".to_owned(),
                ..Default::default()
            });
        }));
    }
    subsets(rules.len(), (n as usize).saturating_sub(1)).into_iter().any(|set| {
        let mut pod = pod.clone();
        set.iter().for_each(|i| rules[*i](&mut pod));
        !feasible_on(world, &pod).is_empty()
    })
}

/// Whether the pod fits with a larger request than `to`; without it, with any but none.
fn request_above(world: &World, pod: &Pod, to: Option<&str>) -> bool {
    let now = pod.spec.containers[0].resources.requests["cpu"].millis();
    let least = to.map_or(0, |to| Quantity::parse(to).expect("a quantity").millis());
    (least + 1..now).filter(|millis| millis % 100 == 0 || *millis == least + 1).any(|millis| {
        let mut pod = pod.clone();
        let requests = &mut pod.spec.containers[0].resources.requests;
        requests.insert("cpu".to_owned(), Quantity::from_millis(millis));
        !feasible_on(world, &pod).is_empty()
    })
}

/// Whether there is a core of this size, and none that is smaller.
fn is_core_minimal(explanation: &Explanation, n_core: usize) -> bool {
    let key = |term: &str, detail: &str| format!("{term} {detail}");
    let terms: Vec<_> = explanation.terms.iter().map(|t| key(&t.term, &t.detail)).collect();
    let groups = explanation.excluded.iter().map(|group| {
        let keys = group.verdicts.iter().map(|v| key(v.term.as_deref().unwrap_or_default(), &v.detail));
        keys.collect::<Vec<_>>()
    });
    let groups: Vec<_> = groups.collect();
    let excludes_all =
        |set: &Vec<usize>| groups.iter().all(|group| set.iter().any(|i| group.contains(&terms[*i])));
    n_core > 0
        && !subsets(terms.len(), n_core - 1).iter().any(excludes_all)
        && subsets(terms.len(), n_core).iter().any(excludes_all)
}

#[test]
fn the_search_for_repairs_of_large_pods_grows_with_their_rules() {
    let spent = |n_keys: usize| {
        let mut world = text::world("node a zone=z\nnode b zone=z\npod default/p");
        let keys = (0..n_keys).map(|i| (format!("key-{i}"), "v".to_owned()));
        world.pods[0].spec.node_selector = keys.collect::<BTreeMap<_, _>>().into();
        let mut inventory = Inventory::default();
        inventory.nodes = entries(world.nodes.clone());
        inventory.pods = entries(world.pods.clone());
        let mut simulation = Simulation::new(inventory, SimulationOptions::default()).expect("valid");
        let explained = simulation.explain("default", "p", None).expect("the pod exists");
        let budget = WorkBudget::unlimited();
        simulation.repairs("default", "p", None, &explained.explanation, &budget);
        assert_eq!(explained.core.len(), 1, "one rule excludes all nodes");
        budget.n_spent()
    };
    let (once, twice) = (spent(100), spent(200));
    assert!(twice <= 5 * once / 2, "{once} {twice}");
}
