//! The worked examples of the documents Berth implements, each on a cluster of a few lines.

use berth_api::object::Pod;
use berth_engine::Settings;
use berth_input::config::SchedulerConfig;
use berth_testkit::text;
use serde_json::json;

use crate::common::{admitted, cluster, placed, placed_with};

const THREE_NODES: &str = "
    node n1 zone=v cpu=2 mem=4Gi
    node n2 zone=v cpu=2 mem=4Gi
    node n3 zone=r cpu=2 mem=4Gi
";

#[test]
fn one_cache_and_one_web_server_on_every_node() {
    let text = format!(
        "{THREE_NODES}
        pod default/cache-1 app=store anti(app=store @hostname)
        pod default/cache-2 app=store anti(app=store @hostname)
        pod default/cache-3 app=store anti(app=store @hostname)
        pod default/web-1 app=web-store anti(app=web-store @hostname) aff(app=store @hostname)
        pod default/web-2 app=web-store anti(app=web-store @hostname) aff(app=store @hostname)
        pod default/web-3 app=web-store anti(app=web-store @hostname) aff(app=store @hostname)
        pod default/web-4 app=web-store anti(app=web-store @hostname) aff(app=store @hostname)"
    );
    assert_eq!(placed(&text), "cache-1=n1 cache-2=n2 cache-3=n3 web-1=n1 web-2=n2 web-3=n3 web-4=-");
}

#[test]
fn a_pod_goes_to_the_zone_of_s1_and_rather_not_to_that_of_s2() {
    let pod = "pod default/p aff(security=S1 @zone) prefer-anti(100 security=S2 @zone)";
    for (running, expected) in [
        ("pod default/s1 on n3 security=S1", "p=n3"),
        ("pod default/s1 on n1 security=S1", "p=n2"),
        // S1 runs in both zones: the one without S2 is preferred, even where its node is fuller.
        (
            "pod default/s1 on n1 security=S1\npod default/s1b on n3 security=S1\npod default/s2 on n1 security=S2",
            "p=n3",
        ),
        (
            "pod default/s1 on n1 security=S1\npod default/s1b on n3 security=S1\npod default/s2 on n3 security=S2",
            "p=n2",
        ),
        // The preference alone keeps nobody out.
        ("pod default/s1 on n3 security=S1\npod default/s2 on n3 security=S2", "p=n3"),
        ("pod default/other on n1 security=S3", "p=-"),
    ] {
        assert_eq!(placed(&format!("{THREE_NODES}\n{running}\n{pod}")), expected, "{running}");
    }
}

/// "Can only schedule P onto nodes that are running pods that satisfy P1. Should try to schedule P onto zones that are running pods that
/// satisfy P2. Cannot schedule P onto any racks that are running pods that satisfy P3. Should try not to schedule P onto any power domains
/// that are running pods that satisfy P4."
#[test]
fn a_pod_goes_by_p1_to_p4_to_node_zone_rack_and_power_domain() {
    let nodes = "node a zone=z1 rack=r1 power=w1\nnode b zone=z1 rack=r2 power=w2\nnode c zone=z2 rack=r3 power=w1\nnode d zone=z2 rack=r4 power=w2\n";
    let on_all: String = ["a", "b", "c", "d"].map(|n| format!("pod default/p1-{n} on {n} app=p1\n")).concat();
    for (p1, others, expected) in [
        ("pod default/p1 on c app=p1\n", "", "p=c"),
        ("", "", "p=-"),
        (on_all.as_str(), "pod default/p2 on d app=p2", "p=c"),
        (&on_all, "pod default/p2 on d app=p2\npod default/p3 on c app=p3", "p=d"),
        (&on_all, "pod default/p4 on c app=p4", "p=b"),
        (&on_all, "pod default/p3 on a app=p3\npod default/p4 on b app=p4", "p=c"),
        (&on_all, "pod default/p2 on a app=p2\npod default/p4 on a app=p4", "p=b"),
    ] {
        for [required, preferred] in [["", ""], ["rdrd-", "note-"]] {
            let terms = format!(
                "{required}aff(app=p1 @hostname) {required}anti(app=p3 @rack) {preferred}prefer-aff(50 app=p2 @zone) \
                 {preferred}prefer-anti(50 app=p4 @power)"
            );
            let text = format!("{nodes}{p1}{others}\npod default/p {terms}");
            assert_eq!(placed(&text), expected, "{required} {p1} {others}");
        }
    }
}

#[test]
fn added_affinity_holds_for_the_pods_of_its_profile() {
    let config = SchedulerConfig::from_value(&json!({
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [
            {"schedulerName": "default-scheduler"},
            {"schedulerName": "foo-scheduler", "pluginConfig": [{"name": "NodeAffinity", "args": {
                "addedAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                    {"matchExpressions": [{"key": "scheduler-profile", "operator": "In", "values": ["foo"]}]}
                ]}}
            }}]}
        ]
    }));
    let settings = Settings { config: config.expect("the configuration is valid"), ..Settings::default() };
    let world = text::world("node a\nnode b scheduler-profile=foo\nnode c scheduler-profile=foo disk=ssd");
    let mut cluster = cluster(&world, settings);
    let mut decide = |text: &str, scheduler: &str| {
        let mut pod = text::pod(text);
        pod.spec.scheduler_name = scheduler.to_owned();
        let prepared = cluster.prepare(&admitted(&pod, true));
        let outcome = cluster.decide(&prepared);
        outcome.node().map_or_else(|| outcome.message().into_owned(), str::to_owned)
    };
    assert_eq!(decide("pod default/p", "default-scheduler"), "a");
    assert_eq!(decide("pod default/p", "foo-scheduler"), "b");
    assert_eq!(decide("pod default/p node(disk=ssd)", "foo-scheduler"), "c");
    assert_eq!(
        decide("pod default/p node(!scheduler-profile)", "foo-scheduler"),
        "0/3 nodes are available: 1 node(s) didn't match scheduler-enforced node affinity, \
         2 node(s) didn't match Pod's node affinity/selector."
    );
    assert_eq!(
        decide("pod default/p", "bar-scheduler"),
        "no scheduling profile is named \"bar-scheduler\": add one to the configuration, or change spec.schedulerName"
    );
}

#[test]
fn only_pods_of_the_same_rollout_are_taken_into_consideration() {
    let server: Pod = serde_json::from_value(json!({
        "metadata": {"name": "application-server", "namespace": "default", "labels": {"pod-template-hash": "h1"}},
        "spec": {
            "affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{
                "labelSelector": {"matchExpressions": [{"key": "app", "operator": "In", "values": ["database"]}]},
                "topologyKey": "topology.kubernetes.io/zone",
                "matchLabelKeys": ["pod-template-hash"]
            }]}},
            "containers": [{"name": "main", "image": "app"}]
        }
    }))
    .expect("the pod is well-formed");
    let place = |databases: &str| {
        let mut cluster = cluster(&text::world(&format!("{THREE_NODES}{databases}")), Settings::default());
        let prepared = cluster.prepare(&admitted(&server, true));
        cluster.place(&prepared).node().map(str::to_owned)
    };
    // Taken literally, a database of another Deployment is never of the same rollout.
    assert_eq!(place("pod default/db on n3 app=database pod-template-hash=h2"), None);
    let both = "pod default/old on n1 app=database pod-template-hash=h2
        pod default/new on n3 app=database pod-template-hash=h1";
    assert_eq!(place(both).as_deref(), Some("n3"));
}

#[test]
fn tenants_keep_to_their_own_node_pools() {
    let tenant = |name: &str, tenant: &str| -> Pod {
        serde_json::from_value(json!({
            "metadata": {"name": name, "namespace": "default", "labels": {"tenant": tenant}},
            "spec": {
                "affinity": {
                    "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
                        {"matchLabelKeys": ["tenant"], "labelSelector": {}, "topologyKey": "node-pool"}
                    ]},
                    "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
                        {
                            "mismatchLabelKeys": ["tenant"],
                            "labelSelector": {"matchExpressions": [{"key": "tenant", "operator": "Exists"}]},
                            "topologyKey": "node-pool"
                        }
                    ]}
                },
                "containers": [{"name": "main", "image": "app"}]
            }
        }))
        .expect("the pod is well-formed")
    };
    let world = text::world(
        "
        node a node-pool=p1 cpu=2 mem=4Gi
        node b node-pool=p1 cpu=2 mem=4Gi
        node c node-pool=p2 cpu=2 mem=4Gi
        pod default/daemon on a app=daemon
        ",
    );
    let mut cluster = cluster(&world, Settings::default());
    let mut place = |pod: Pod| {
        let prepared = cluster.prepare(&admitted(&pod, true));
        cluster.place(&prepared).node().map(str::to_owned)
    };
    // The first pod of a tenant opens a pool; daemons without the label do not count.
    assert_eq!(place(tenant("one-1", "one")).as_deref(), Some("b"));
    assert_eq!(place(tenant("two-1", "two")).as_deref(), Some("c"));
    assert_eq!(place(tenant("one-2", "one")).as_deref(), Some("a"));
    assert_eq!(place(tenant("two-2", "two")).as_deref(), Some("c"));
    assert_eq!(place(tenant("three-1", "three")), None);
}

#[test]
fn a_range_of_pod_labels_with_gt_and_lt() {
    let text = |foo: &str| {
        format!("{THREE_NODES}\npod default/q on n3 {foo}\npod default/p aff(foo>20 foo<30 @zone)")
    };
    for (foo, expected) in [
        ("foo=25", "p=n3"),
        ("foo=21", "p=n3"),
        ("foo=29", "p=n3"),
        ("foo=20", "p=-"),
        ("foo=30", "p=-"),
        ("foo=25x", "p=-"),
        ("bar=25", "p=-"),
    ] {
        assert_eq!(placed(&text(foo)), expected, "{foo}");
    }
}

#[test]
fn an_exclusive_node_is_shared_with_nobody() {
    // "Don't co-locate pods of this service with any other pods including pods of this service."
    let exclusive = "anti(* @hostname ns:*)";
    let text = |rest: &str| format!("node a\nnode b\n{rest}");
    assert_eq!(
        placed(&text(&format!(
            "pod default/x on a
             pod team-a/e1 {exclusive}
             pod team-b/e2 {exclusive}
             pod default/late"
        ))),
        "e1=b e2=- late=a"
    );
    // A proposal's "all namespaces" is an empty list, and daemons in kube-system are exempt from it.
    assert_eq!(
        placed(&text(
            "pod kube-system/d1 on a
             pod default/x on b
             pod team-a/e1 rdrd-anti(* @hostname ns=)
             pod kube-system/d2 node(metadata.name=a)
             pod team-b/late node(metadata.name=a)"
        )),
        "e1=a d2=a late=-"
    );
}

#[test]
fn no_pods_of_another_service_on_the_same_node() {
    // "Don't co-locate pods of this service with pods from service evilService."
    let text = "
        node a
        node b
        pod default/evil on a service=evil
        pod default/good-1 service=good anti(service=evil @hostname)
        pod default/good-2 service=good anti(service=evil @hostname)
        pod default/evil-2 service=evil
    ";
    assert_eq!(placed(text), "good-1=b good-2=b evil-2=a");
    // "...with any other pods except other pods of this service": pods without the label are also others.
    let text = "
        node a
        node b
        node c
        pod default/bare on a
        pod default/other on b service=T
        pod default/s-1 service=S anti(service!=S @hostname)
        pod default/s-2 service=S anti(service!=S @hostname)
        pod default/late
    ";
    assert_eq!(placed(text), "s-1=c s-2=c late=a");
}

#[test]
fn a_service_is_spread_over_nodes_and_zones() {
    let nodes = "
        node a zone=z1
        node b zone=z1
        node c zone=z2
    ";
    let pods = |kind: &str| {
        let terms = match kind {
            "required" => "anti(service=S @hostname) anti(service=S @zone)",
            _ => "prefer-anti(100 service=S @hostname) prefer-anti(100 service=S @zone)",
        };
        let pod = |i| format!("pod default/s-{i} service=S {terms}\n");
        format!("{nodes}{}", (1..=4).map(pod).collect::<String>())
    };
    // Required, the zone term allows one pod a zone, and the node term is redundant.
    assert_eq!(placed(&pods("required")), "s-1=a s-2=c s-3=- s-4=-");
    assert_eq!(placed(&pods("preferred")), "s-1=a s-2=c s-3=b s-4=c");
}

#[test]
fn the_first_pod_of_a_self_affine_group_may_go_anywhere() {
    let group = |i| format!("pod default/g-{i} app=g aff(app=g @zone)\n");
    let three = (1..=3).map(group).collect::<String>();
    assert_eq!(placed(&format!("{THREE_NODES}{three}")), "g-1=n1 g-2=n2 g-3=n1");
    // Not where a topology key is missing, not if it does not match itself, and not if a pod matches elsewhere.
    assert_eq!(placed(&format!("node bare\n{}", group(1))), "g-1=-");
    assert_eq!(placed("node a zone=z\npod default/p app=x aff(app=g @zone)"), "p=-");
    assert_eq!(placed(&format!("node a zone=z\nnode b\npod default/g-0 on a app=g\n{}", group(1))), "g-1=a");
}

#[test]
fn required_anti_affinity_is_symmetric_and_required_affinity_a_preference() {
    for (running, pod, expected) in [
        // S1 must not be with S2: whichever comes first keeps the other out.
        ("pod default/s1 on a app=s1 anti(app=s2 @hostname)", "pod default/s2 app=s2", "s2=b"),
        ("pod default/s2 on a app=s2", "pod default/s1 app=s1 anti(app=s2 @hostname)", "s1=b"),
        // S1 must be with S2: S2 may go anywhere, but would rather be where S1 is.
        ("pod default/s2 on b app=s2", "pod default/s1 app=s1 aff(app=s2 @hostname)", "s1=b"),
        ("pod default/s1 on b app=s1 aff(app=s2 @hostname)", "pod default/s2 app=s2", "s2=b"),
        ("pod default/x on b", "pod default/s1 app=s1 aff(app=s2 @hostname)", "s1=-"),
        // Preferences work in both directions.
        ("pod default/s1 on b app=s1 prefer-aff(10 app=s2 @hostname)", "pod default/s2 app=s2", "s2=b"),
        ("pod default/s1 on a app=s1 prefer-anti(10 app=s2 @hostname)", "pod default/s2 app=s2", "s2=b"),
    ] {
        assert_eq!(placed(&format!("node a\nnode b\n{running}\n{pod}")), expected, "{running} / {pod}");
    }
}

/// "The lists of nodes corresponding to each PodAffinityTerm are intersected."
#[test]
fn a_pod_goes_where_different_pods_satisfy_each_term_of_the_proposals() {
    let apart = "node n zone=z2\nnode a zone=z1\nnode b zone=z1\npod default/db on a app=db\npod default/be on b tier=be\n";
    for (terms, expected) in [
        ("rdrd-aff(app=db @zone) rdrd-aff(tier=be @zone)", "p=a"),
        ("rdrd-aff(app=db @zone) rdrd-aff(tier=be @hostname)", "p=b"),
        ("note-aff(app=db @hostname) note-aff(tier=be @hostname)", "p=-"),
        ("aff(app=db @zone) note-aff(tier=be @zone)", "p=a"),
        ("aff(app=db @zone) aff(tier=be @zone)", "p=-"),
        ("aff(app=db @zone) aff(tier=be @zone) note-aff(app=db @zone)", "p=-"),
        // The first pod of its service, beside the database.
        ("app=web rdrd-aff(app=web @hostname) rdrd-aff(tier=be @hostname)", "p=b"),
        ("app=web aff(app=web @zone) note-aff(tier=be @hostname)", "p=b"),
        ("app=web aff(app=web @zone) aff(tier=be @hostname)", "p=-"),
        // Three terms, by three pods or one of them by the pod itself.
        ("rdrd-aff(app=db @zone) note-rdrd-aff(tier=be @zone) note-aff(* @hostname)", "p=a"),
        ("app=web note-aff(app=web @zone) note-aff(app=db @zone) note-aff(tier=be @hostname)", "p=b"),
        ("app=web note-aff(app=web @zone) note-aff(app=db @hostname) note-aff(tier=be @hostname)", "p=-"),
        ("app=web note-aff(app=web @zone) note-aff(app=db @zone) note-aff(app=none @zone)", "p=-"),
    ] {
        assert_eq!(placed(&format!("{apart}pod default/p {terms}")), expected, "{terms}");
    }
}

/// "If the affinity requirement matches a pod's own labels, and there are no other such pods anywhere, then disregard the requirement."
#[test]
fn a_requirement_that_the_pod_matches_itself_is_disregarded_only_while_no_other_pod_matches_it() {
    let two_zones = "node a zone=z1\nnode b zone=z2\nnode k\n";
    for (running, terms, expected) in [
        ("", "app=web rdrd-aff(app=web @zone)", "p=a"),
        ("pod default/w on b app=web", "app=web rdrd-aff(app=web @zone)", "p=b"),
        // The other requirement stays, and the chosen node must have the key of the one that is disregarded.
        ("pod default/db on b app=db", "app=web rdrd-aff(app=web @zone) note-aff(app=db @zone)", "p=b"),
        ("pod default/db on k app=db", "app=web rdrd-aff(app=web @zone) note-aff(app=db @hostname)", "p=-"),
        // A pod of another namespace is no pod of the service.
        ("pod other/w on b app=web", "app=web rdrd-aff(app=web @zone)", "p=a"),
        ("pod other/w on b app=web", "app=web rdrd-aff(app=web ns= @zone)", "p=b"),
        // "Anywhere" includes a node without the topology key; v1 counts pods in domains only, as kube-scheduler does.
        ("pod default/w on k app=web", "app=web rdrd-aff(app=web @zone)", "p=-"),
        ("pod default/w on k app=web", "app=web aff(app=web @zone)", "p=a"),
    ] {
        let text = format!("{two_zones}{running}\npod default/p {terms}");
        assert_eq!(placed(&text), expected, "{running} / {terms}");
    }
}

/// Step 2 removes a node where a rule is "currently satisfied but would be violated". As in kube-scheduler, a rule that is violated
/// already rejects the pod as well.
#[test]
fn a_rule_of_a_running_pod_that_is_violated_already_rejects_more_pods() {
    for rule in ["rdrd-anti(app=x @zone)", "anti(app=x @zone)"] {
        let text = format!(
            "node a zone=z1\nnode b zone=z1\npod default/b on a {rule}\npod default/x on b app=x\npod default/z app=x"
        );
        assert_eq!(placed(&text), "z=-", "{rule}");
    }
}

/// Steps 1a and 1b ask for "nodes of N with label [key=H.TopologyKey, ...]". As in kube-scheduler, a node without the key is in no domain.
#[test]
fn a_node_without_the_topology_key_never_satisfies_affinity_and_never_conflicts() {
    for (running, pod, expected) in [
        ("pod default/db on k app=db", "pod default/p rdrd-aff(app=db @zone)", "p=-"),
        ("pod default/db on k app=db", "pod default/p rdrd-anti(app=db @zone) note-node(!zone)", "p=k"),
        ("pod default/db on a app=db", "pod default/p rdrd-anti(app=db @zone)", "p=k"),
        ("pod default/x on k note-anti(app=web @zone)", "pod default/p app=web note-node(!zone)", "p=k"),
    ] {
        assert_eq!(
            placed(&format!("node a zone=z1\nnode k\n{running}\n{pod}")),
            expected,
            "{running} / {pod}"
        );
    }
}

/// Step 3b: "foreach node W of {N} not having label [key=H.TopologyKey, value=any K such that M[K]>0], Y[W]++".
#[test]
fn soft_anti_affinity_prefers_the_nodes_that_do_not_have_the_label() {
    let running = "node a zone=z1\nnode b zone=z2\nnode k\npod default/db-1 on a app=db\npod default/db-2 on a app=db\n";
    for (terms, expected) in [
        ("note-prefer-anti(10 app=db @zone)", "p=b"),
        ("note-prefer-anti(10 app=db @zone) note-prefer-node(1 !zone)", "p=k"),
        // One term of 30 outweighs one of 20, however many pods match either.
        ("note-prefer-anti(20 app=db @zone) note-prefer-aff(30 app=db @zone)", "p=a"),
        ("note-prefer-anti(30 app=db @zone) note-prefer-aff(20 app=db @zone)", "p=b"),
    ] {
        assert_eq!(placed(&format!("{running}pod default/p {terms}")), expected, "{terms}");
    }
}

/// Step 4 counts SoftPodAntiAffinity of running pods: a new pod stays away where it would break it, not where it is broken already.
#[test]
fn a_running_pod_keeps_away_the_first_pod_that_it_does_not_want() {
    let wish = "note-prefer-anti(10 app=db @hostname)";
    let lonely = format!("node a\nnode b\npod default/w on a {wish}\n");
    assert_eq!(placed(&format!("{lonely}pod default/db app=db")), "db=b");
    let broken = format!("{lonely}pod default/db-1 on a app=db\npod default/x on b {wish}\n");
    assert_eq!(placed(&format!("{broken}pod default/db-2 app=db")), "db-2=a");
}

/// "Adding "weight" to the sum if the node matches": once, however many pods match.
#[test]
fn three_matching_pods_of_weight_40_lose_to_one_of_weight_100() {
    let pods = "pod default/a-1 on a app=a\npod default/a-2 on a app=a\npod default/a-3 on a app=a\npod default/b on b app=b\n";
    let placed = |field: &str| {
        let pod = format!("pod default/p {field}(40 app=a @hostname) {field}(100 app=b @hostname)");
        placed(&format!("node a\nnode b\n{pods}{pod}"))
    };
    assert_eq!(placed("note-prefer-aff"), "p=b");
    assert_eq!(placed("prefer-aff"), "p=a", "v1 counts pods");
    assert_eq!(placed("note-prefer-anti"), "p=a");
}

/// Step 4: "satisfied if Z runs on A but are not satisfied if Z does not run on A".
#[test]
fn a_running_pod_draws_the_first_pod_that_it_wants_and_no_more() {
    for wish in ["note-prefer-aff(10 app=db @hostname)", "rdrd-aff(app=db @hostname)"] {
        // Where db runs already, one more makes no difference, so that the weak wish on c decides.
        let running = format!(
            "pod default/w-1 on b {wish}\npod default/db-1 on b app=db\npod default/w-2 on c note-prefer-aff(1 app=db @hostname)\n"
        );
        assert_eq!(
            placed(&format!("node a\nnode b\nnode c\n{running}pod default/db-2 app=db")),
            "db-2=c",
            "{wish}"
        );
    }
}

#[test]
fn strict_v1_knows_no_extensions() {
    let strict = || Settings::strict_v1(SchedulerConfig::default());
    let text = "node a disk=ssd\nnode b\npod default/p rdrd-node(!disk) note-anti(* @hostname)";
    assert_eq!(placed(text), "p=b");
    assert_eq!(placed_with(strict(), text), "p=a");
}
