//! Validation and the parser of rules must agree: what admission accepts, the engine can decide by.

use berth_rules::admission::{AdmissionOptions, admit};
use berth_rules::{NodeTerm, PodRules, RuleOptions};
use berth_testkit::generate::{Flavour, Operation, operations};

#[test]
fn the_rules_of_admitted_pods_parse() {
    let mut n_pods = 0;
    for (flavour, extensions) in [(Flavour::V1, false), (Flavour::Extensions, true)] {
        let rules = RuleOptions { extensions, ..RuleOptions::default() };
        for operation in (0..200).flat_map(|seed| operations(seed, 60, flavour)) {
            let (Operation::AddPod(mut pod) | Operation::Decide(mut pod)) = operation else { continue };
            pod.spec.containers.iter_mut().for_each(|c| c.image = "app".to_owned());
            let options = AdmissionOptions { rules, ..AdmissionOptions::default() };
            if !admit(&mut pod, &options).is_accepted() {
                continue;
            }
            n_pods += 1;
            let rules = PodRules::parse(&pod, rules);
            assert_eq!(rules.pod_term_error, None, "{pod:?}");
            let terms = rules.required_node_affinity.iter().flat_map(|r| &r.terms);
            for term in terms {
                assert!(!matches!(term, NodeTerm::Invalid(_)), "{term:?} of {pod:?}");
            }
        }
    }
    assert!(n_pods > 1000, "only {n_pods} generated pods were admitted");
}
