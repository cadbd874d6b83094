//! What explanations say beyond the verdicts: hints, and the bottleneck in short.

mod common;

use berth_engine::{MAX_BOTTLENECK, Settings};
use berth_testkit::text;
use common::{admitted, cluster};

/// The first hint for the last pod of the text.
fn first_hint(text: &str) -> String {
    let mut world = text::world(text);
    let pod = admitted(&world.pods.pop().expect("a pod waits"), true);
    let explanation = cluster(&world, Settings::default()).explain(&pod);
    assert_eq!(explanation.node, None, "{text}");
    explanation.hints.into_iter().next().unwrap_or_default()
}

#[test]
fn a_rolling_update_that_waits_for_itself_is_told_as_one() {
    let nodes = "node a\nnode b";
    let old = "pod default/o1 on a app=web pod-template-hash=1 anti(app=web @hostname)
        pod default/o2 on b app=web pod-template-hash=1 anti(app=web @hostname)";
    let hint = first_hint(&format!(
        "{nodes}\n{old}\npod default/n app=web pod-template-hash=2 anti(app=web @hostname)"
    ));
    assert!(hint.starts_with("a rolling update waits for itself: on 2 nodes"), "{hint}");
    assert!(hint.contains("keeps later updates from it"), "{hint}");

    // Only the new pod's rule is in the way: it can be lifted at once.
    let old = "pod default/o1 on a app=web pod-template-hash=1\npod default/o2 on b app=x cpu=64";
    let hint = first_hint(&format!(
        "{nodes}\n{old}\npod default/n app=web pod-template-hash=2 cpu=1 anti(app=web @hostname)"
    ));
    assert!(hint.starts_with("a rolling update waits for itself: on 1 node "), "{hint}");
    assert!(hint.contains("or put matchLabelKeys: [pod-template-hash] in spec.affinity"), "{hint}");
}

#[test]
fn other_conflicts_are_not_taken_for_rolling_updates() {
    for old in [
        // Another workload, another namespace, the same revision, pods without revisions.
        "pod default/o on a app=web tier=x pod-template-hash=1",
        "pod other/o on a app=web pod-template-hash=1",
        "pod default/o on a app=web pod-template-hash=2",
        "pod default/o on a app=web",
        // Two in the way, of which one is another workload's.
        "pod default/o on a app=web pod-template-hash=1\npod default/p on a app=web tier=x",
        // Something else is in the way as well.
        "pod default/o on a app=web pod-template-hash=1 cpu=64",
    ] {
        let pod = "pod default/n app=web pod-template-hash=2 cpu=1 anti(app=web @hostname ns=default,other)";
        let hint = first_hint(&format!("node a\n{old}\n{pod}"));
        assert!(hint.starts_with("on a: "), "{old}: {hint}");
    }
}

#[test]
fn a_bottleneck_in_short_names_the_term_and_its_witnesses() {
    let bottleneck = |text: &str| {
        let mut world = text::world(text);
        let pod = admitted(&world.pods.pop().expect("a pod waits"), true);
        cluster(&world, Settings::default()).bottleneck(&pod)
    };
    let nodes = "node a zone=z\nnode b zone=z\nnode c zone=y unschedulable";
    let pods: String = (0..9).map(|i| format!("\npod default/w{i} on a app=web")).collect();
    assert_eq!(
        bottleneck(&format!("{nodes}{pods}\npod default/n anti(app=web @zone)")).as_deref(),
        Some(
            "spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0] excludes 2/3 nodes, \
             alone because of default/w0 on a, default/w1 on a, default/w2 on a and 6 more: must not be with pods with \
             `app=web` in namespace default, per topology.kubernetes.io/zone"
        )
    );
    assert_eq!(bottleneck(&format!("{nodes}\npod default/n")), None, "it fits");
    let long = "x".repeat(60);
    let values: String = (0..20).map(|i| format!("{i}{long},")).collect();
    let values = values.trim_end_matches(',');
    let text =
        bottleneck(&format!("{nodes}\npod default/n aff(app={values} @zone)")).expect("nothing matches");
    assert!(text.len() <= MAX_BOTTLENECK && text.ends_with("..."), "{text}");
}
