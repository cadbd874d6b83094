//! The bottleneck of an unschedulable pod, as text for events.

use berth_engine::{MAX_BOTTLENECK, Settings};
use berth_testkit::text;

use crate::common::{admitted, cluster};

#[test]
fn a_bottleneck_in_short_names_the_term_and_its_witnesses() {
    let bottleneck = |text: &str| {
        let mut world = text::world(text);
        let pod = admitted(&world.pods.pop().expect("a pod waits"), true);
        let mut cluster = cluster(&world, Settings::default());
        let prepared = cluster.prepare(&pod);
        cluster.explain(&pod, &prepared, None).bottleneck_text()
    };
    let nodes = "node a zone=z\nnode b zone=z\nnode c zone=y unschedulable";
    let pods: String = (0..9).map(|i| format!("\npod default/w{i} on a app=web")).collect();
    assert_eq!(
        bottleneck(&format!("{nodes}{pods}\npod default/n anti(app=web @zone)")).as_deref(),
        Some(
            "spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0] excludes 2/3 nodes \
             (2 by this rule alone) because of default/w0 on a, default/w1 on a, default/w2 on a and 6 more: \
             rejects pods with `app=web` in namespace default in the same topology.kubernetes.io/zone"
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
