//! Findings about the rules for nodes.

use crate::findings::workload;
use crate::report;

#[test]
fn alternatives_that_exclude_no_node_together_were_not_reported() {
    let term = |requirements: &str| {
        let requirements = requirements.split(", ").filter(|text| !text.is_empty()).map(|text| {
            let words: Vec<&str> = text.split(' ').collect();
            let values: Vec<_> = words[2..].iter().map(|value| format!("'{value}'")).collect();
            let values = values.join(", ");
            let values = if values.is_empty() { values } else { format!(", values: [{values}]") };
            format!("{{key: {}, operator: {}{values}}}", words[0], words[1])
        });
        format!("{{matchExpressions: [{}]}}", requirements.collect::<Vec<_>>().join(", "))
    };
    let node = |name: &str, labels: &str| {
        format!("---\n{{apiVersion: v1, kind: Node, metadata: {{name: {name}, labels: {{{labels}}}}}}}\n")
    };
    let bad = node("a", "host: a, gpu: bad");
    for (kind, terms, nodes, expected) in [
        ("Deployment", &["host NotIn a", "gpu NotIn bad worse"][..], "", Some("`gpu not in")),
        ("StatefulSet", &["zone NotIn a", "zone NotIn b"], "", Some("exclude no node")),
        ("DaemonSet", &["gpu DoesNotExist", "gpu Exists"], "", Some("exclude no node")),
        ("Deployment", &["gpu DoesNotExist", "zone NotIn a"], "", Some("exclude no node")),
        ("Deployment", &["zone NotIn a b", "zone NotIn b c"], "", Some("exclude no node")),
        ("Deployment", &["zone NotIn a", "zone In a"], "", Some("exclude no node")),
        ("Deployment", &["cores Gt 5", "cores Lt 6"], "", Some("exclude no node with cores")),
        ("Deployment", &["cores Gt 5", "cores Lt 6", "cores DoesNotExist"], "", Some("exclude no node")),
        ("Deployment", &["os In linux, zone NotIn a", "os In linux, zone NotIn b"], "", Some("beyond `os")),
        ("Deployment", &["os In linux, zone NotIn a", "os In linux"], "", Some("beyond `os")),
        (
            "Deployment",
            &["zone NotIn a, gpu NotIn b", "zone NotIn c, gpu NotIn d"],
            "",
            Some("exclude no node"),
        ),
        ("Deployment", &["host NotIn a", "gpu NotIn bad"], &node("b", "host: b, gpu: bad"), Some("no node")),
        // A node that the alternatives exclude shows that they may be meant.
        ("Deployment", &["host NotIn a", "gpu NotIn bad"], &bad, None),
        ("Deployment", &["zone NotIn a b"], "", None),
        ("Deployment", &["zone NotIn a, zone NotIn b"], "", None),
        ("Deployment", &["zone NotIn a", "zone NotIn a b"], "", None),
        ("Deployment", &["zone In a", "zone In b"], &node("b", "zone: b"), None),
        ("Deployment", &["zone In a", "gpu NotIn bad"], "", None),
        ("Deployment", &["cores Gt 5", "cores Exists"], "", None),
        ("Deployment", &["cores Gt 5", "cores Lt 5"], "", None),
        ("Deployment", &["cores Gt 5", "cores DoesNotExist"], "", None),
    ] {
        let terms: Vec<_> = terms.iter().map(|text| term(text)).collect();
        let affinity = format!(
            "affinity: {{nodeAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: {{nodeSelectorTerms: [{}]}}}}}},",
            terms.join(", ")
        );
        let report = report(&(workload(kind, "web", "", &affinity) + nodes), &["terms-exclude-nothing"]);
        assert!(report.invalid.is_empty(), "{report:?}");
        match (report.findings.as_slice(), expected) {
            ([], None) => {}
            ([finding], Some(text)) if finding.message.to_lowercase().contains(text) => {}
            _ => panic!("{terms:?} {nodes}: {report:?}"),
        }
    }
}
