//! Every placement of a group that an exhaustive solver finds, the engine finds too: of up to twelve pods on up to eight nodes, with
//! affinity, anti-affinity, spread, host ports and devices between the members.

mod draw;
mod solver;

use std::collections::BTreeMap;

use berth_api::object::Pod;
use berth_api::object::device::{DeviceObject, ResourceClaim};
use berth_api::object::group::TopologyLevel;
use berth_engine::{Cluster, Group, GroupLevel, GroupOutcome, Outcome, PreparedPod, Settings};
use berth_testkit::check::devices;
use berth_testkit::generate::{Random, seeds};
use berth_testkit::naive::World;
use berth_testkit::text;

use self::draw::{Case, draw};
use self::solver::{Solution, Solver};
use crate::common::{admitted, cluster};
use crate::groups::{ZONE, is_valid, within};

/// What the solver finds anywhere, or in the domains of a topology.
fn solve(case: &Case, members: &[Pod], min: usize, in_zone: bool) -> Solution {
    if !in_zone {
        return Solver::new(case, members, min).solve();
    }
    let in_zones = ["z0", "z1", "z2"].map(|zone| Solver::new(case, &within(members, zone), min).solve());
    let rank = |solution: &Solution| match solution {
        Solution::Placed(_) => 0,
        Solution::Unknown => 1,
        Solution::Impossible => 2,
    };
    in_zones.into_iter().min_by_key(rank).expect("three zones")
}

fn place(case: &Case, min: usize, levels: &[GroupLevel<'_>]) -> (GroupOutcome, Cluster) {
    let mut cluster =
        cluster(&World { pods: running(&case.world), ..case.world.clone() }, Settings::default());
    case.device_objects().device_objects.iter().for_each(|object| cluster.set_device_object(&object.object));
    let members: Vec<PreparedPod> =
        case.members_with_claims().iter().map(|pod| cluster.prepare(pod)).collect();
    (cluster.place_group(&Group { members: &members, min, levels, composite: None }), cluster)
}

fn running(world: &World) -> Vec<Pod> {
    world.pods.iter().filter(|pod| !pod.spec.node_name.is_empty()).cloned().collect()
}

/// What is wrong with the devices of placed members.
fn device_problems(case: &Case, outcomes: &[Outcome]) -> Vec<String> {
    let inventory = case.device_objects();
    let (mut claims, mut slices) = (Vec::<ResourceClaim>::new(), Vec::new());
    for object in &inventory.device_objects {
        match &object.object {
            DeviceObject::ResourceClaim(claim) => claims.push((**claim).clone()),
            DeviceObject::ResourceSlice(slice) => slices.push((**slice).clone()),
            _ => {}
        }
    }
    let mut problems = Vec::new();
    for (i, outcome) in outcomes.iter().enumerate() {
        let Outcome::Placed { node, devices, .. } = outcome else { continue };
        if case.claim_of(i).is_some() && devices.as_ref().is_none_or(|devices| devices.claims.is_empty()) {
            problems.push(format!("member {i} has no devices"));
        }
        let at = case.world.nodes.iter().position(|known| known.metadata.name == *node).expect("a node");
        for decision in devices.iter().flat_map(|devices| &devices.claims) {
            let Some(allocation) = &decision.allocation else { continue };
            let chosen = allocation.devices.results.iter().map(|result| {
                let device: usize = result.device[1..].parse().expect("a number");
                (result.pool == *node).then(|| case.devices[at][device])
            });
            let wanted = case.claim_of(i).expect("a claim").models();
            let is_wanted = |(chosen, wanted): (Option<&str>, Option<&str>)| {
                chosen.is_some_and(|model| wanted.is_none_or(|wanted| wanted == model))
            };
            if chosen.len() != case.claim_of(i).map_or(0, |claim| claim.models().count())
                || !chosen.zip(wanted).all(is_wanted)
            {
                problems.push(format!("member {i}: {allocation:?}"));
            }
            let claim = claims.iter_mut().find(|claim| claim.metadata.namespaced_name() == decision.claim);
            claim.expect("a claim").status.allocation = Some(allocation.clone());
        }
    }
    problems.extend(devices::check(&claims, &slices));
    problems
}

#[test]
fn a_group_is_placed_whenever_an_exhaustive_solver_places_it() {
    let mut counts = BTreeMap::<&str, usize>::new();
    let seeds = seeds(0, 150);
    for seed in seeds.clone() {
        let mut random = Random::new(seed);
        let (max_nodes, max_members) = if seed % 3 == 0 { (8, 12) } else { (4, 6) };
        let case = draw(&mut random, max_nodes, max_members);
        let members = case.members();
        let min = members.len() - usize::from(random.chance(15) && members.len() > 1);
        let in_zone = random.chance(25);
        let level = GroupLevel { rule: &TopologyLevel::required(ZONE), value: None };
        let levels = if in_zone { &[level][..] } else { &[] };
        let about = || format!("seed {seed}, at least {min}, in a zone: {in_zone}\n{case}");
        let solution = || solve(&case, &members, min, in_zone);
        match place(&case, min, levels).0 {
            GroupOutcome::Placed { domain, members: outcomes } => {
                *counts.entry("placed").or_default() += 1;
                let nodes: Vec<_> = outcomes.iter().map(Outcome::node).collect();
                let members = domain.map_or_else(|| members.clone(), |zone| within(&members, &zone));
                assert!(nodes.iter().flatten().count() >= min, "{}{nodes:?}", about());
                assert!(is_valid(&case.world, &members, &nodes), "{}{nodes:?}", about());
                assert_eq!(device_problems(&case, &outcomes), Vec::<String>::new(), "{}", about());
                if seed % 4 == 0 {
                    assert_ne!(solution(), Solution::Impossible, "{}{nodes:?}", about());
                }
            }
            GroupOutcome::Unplaced(failure) if failure.is_cut => *counts.entry("cut").or_default() += 1,
            GroupOutcome::Unplaced(failure) => match solution() {
                Solution::Placed(nodes) => {
                    panic!("{}\nsolver: {nodes:?}\nengine: {failure:?}", about())
                }
                Solution::Impossible => *counts.entry("impossible").or_default() += 1,
                Solution::Unknown => *counts.entry("unknown").or_default() += 1,
            },
        }
    }
    let (n_cases, n) = (seeds.count(), |key: &str| counts.get(key).copied().unwrap_or(0));
    assert!(n("placed") > n_cases / 8 && n("impossible") > n_cases / 8, "{counts:?}");
    assert!(n("cut") + n("unknown") < n_cases / 50, "{counts:?}");
}

/// Members that differ in their claims only.
#[test]
fn a_member_with_a_claim_is_not_taken_for_one_without() {
    let text = "node n0 zone=z0 cpu=8\nnode n1 zone=z0 cpu=2\npod default/m0 cpu=1\npod default/m1 cpu=1";
    let case = Case::new(text.to_owned(), &[&[], &["a"]], &[&[], &[Some("a")]]);
    let level = GroupLevel { rule: &TopologyLevel::required(ZONE), value: None };
    let GroupOutcome::Placed { members, .. } = place(&case, 2, &[level]).0 else { panic!("{case}") };
    assert_eq!(device_problems(&case, &members), Vec::<String>::new());
    assert_eq!(members.iter().map(Outcome::node).collect::<Vec<_>>(), [Some("n0"), Some("n1")]);
}

/// The nodes of the pending pods of a text, as one group of which all are required, where each has the claim of the same place.
fn placed(text: &str, devices: &[&[&'static str]], claims: &[&[Option<&'static str>]]) -> Vec<String> {
    let case = Case::new(text.to_owned(), devices, claims);
    match place(&case, claims.len(), &[]).0 {
        GroupOutcome::Placed { members, .. } => {
            assert_eq!(device_problems(&case, &members), Vec::<String>::new());
            members.iter().filter_map(Outcome::node).map(str::to_owned).collect()
        }
        GroupOutcome::Unplaced(failure) => vec![failure.outcome.message().into_owned()],
    }
}

#[test]
fn a_member_does_not_keep_the_only_device_that_another_can_use() {
    let any_before_a = "node n0\npod default/any\npod default/only-a";
    assert_eq!(placed(any_before_a, &[&["a", "b"]], &[&[None], &[Some("a")]]), ["n0", "n0"]);
    let two_of_three = "node n0\npod default/two\npod default/a";
    assert_eq!(placed(two_of_three, &[&["a", "b", "b"]], &[&[None, None], &[Some("a")]]), ["n0", "n0"]);
    let why = "0/1 nodes are available: 1 cannot allocate all claims.";
    assert_eq!(placed(two_of_three, &[&["a", "b"]], &[&[None, None], &[Some("a")]]), [why]);
}

#[test]
fn equal_members_are_not_tried_in_every_order() {
    // 14 equal pods on 7 nodes for two each; the last pod is unschedulable.
    let nodes: String = (0..7).map(|i| format!("node n{i} zone=z1 cpu=2\n")).collect();
    let members: String =
        (0..14).map(|i| format!("pod default/m{i:02} app=a cpu=1 spread(1 app=a @zone)\n")).collect();
    let world = text::world(&(nodes + &members + "pod default/zz app=b cpu=1 aff(app=a @zone)"));
    let mut cluster = cluster(&World { pods: Vec::new(), ..world.clone() }, Settings::default());
    let pods: Vec<_> = world.pods.iter().map(|pod| cluster.prepare(&admitted(pod, true))).collect();
    let outcome = cluster.place_group(&Group { members: &pods, min: 15, levels: &[], composite: None });
    assert!(matches!(&outcome, GroupOutcome::Unplaced(failure) if !failure.is_cut), "{outcome:?}");
}
