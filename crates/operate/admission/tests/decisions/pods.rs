//! The pod rules that need no state.

use std::time::Instant;

use berth_admission::{AdmissionRequest, Endpoint, Nothing, Policy, review};
use serde_json::{Value, json};

use crate::world::{World, check, creation, one_pod, policy, request};

const GUARD: &str = "required anti-affinity over all namespaces may only have topologyKey \"kubernetes.io/hostname\", not \
                     {}: it would block pods of all namespaces from whole domains; select fewer namespaces, or use \
                     \"kubernetes.io/hostname\"";

fn guarded(path: &str, key: &str) -> String {
    format!("pods \"web\" is forbidden: {path}: {}", GUARD.replace("{}", key))
}

#[test]
fn the_host_name_is_allowed_and_a_zone_is_not_as_exclusive_topology() {
    let default = Policy::default();
    let v1 = "spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0]";
    let executing = "spec.affinity.podAntiAffinity.requiredDuringSchedulingRequiredDuringExecution[0]";
    let note = "metadata.annotations[scheduling.berth.dev/affinity].podAntiAffinity";
    let zone = "topologyKey \"topology.kubernetes.io/zone\"";
    for (pod, expected) in [
        ("anti(* @hostname ns:*)", None),
        ("anti(app=web @zone)", None),
        ("anti(* @zone ns=a,b)", None),
        // A selector that some namespaces do not match.
        ("anti(* @zone ns:team)", None),
        ("prefer-anti(1 * @zone ns:*)", None),
        ("aff(app=web @zone ns:*)", None),
        ("anti(app=web @zone ns:*)", Some(guarded(v1, zone))),
        ("anti(app=web @rack ns=a ns:*)", Some(guarded(v1, "topologyKey \"example.com/rack\""))),
        ("rdrd-anti(* @zone ns=)", Some(guarded(executing, zone))),
        (
            "note-anti(* @zone ns=)",
            Some(guarded(&format!("{note}.requiredDuringSchedulingIgnoredDuringExecution[0]"), zone)),
        ),
        (
            "note-rdrd-anti(* @* ns=)",
            Some(guarded(
                &format!("{note}.requiredDuringSchedulingRequiredDuringExecution[0]"),
                "an empty topologyKey (all topologies)",
            )),
        ),
    ] {
        let pod = format!("pod default/web app=web {pod}");
        let answer =
            review(Endpoint::ValidatePods, &creation(&one_pod(&pod)), &default, &Nothing, Instant::now());
        assert_eq!(answer.unwrap().denied.map(|d| d.text()), expected, "{pod}");
    }
}

#[test]
fn a_selector_that_every_namespace_matches_counts_as_all_namespaces() {
    let denied = |selector: &str| {
        let mut pod = serde_json::to_value(one_pod("pod default/web app=web anti(app=web @zone)")).unwrap();
        let term = "/spec/affinity/podAntiAffinity/requiredDuringSchedulingIgnoredDuringExecution/0";
        pod.pointer_mut(term).unwrap()["namespaceSelector"] = serde_json::from_str(selector).unwrap();
        let request = creation(&serde_json::from_value(pod).unwrap());
        let answer =
            review(Endpoint::ValidatePods, &request, &Policy::default(), &Nothing, Instant::now()).unwrap();
        answer.denied.is_some()
    };
    let name = r#""key": "kubernetes.io/metadata.name""#;
    assert!(denied("{}"));
    assert!(denied(&format!(r#"{{"matchExpressions": [{{{name}, "operator": "Exists"}}]}}"#)));
    assert!(!denied(&format!(r#"{{"matchExpressions": [{{{name}, "operator": "In", "values": ["a"]}}]}}"#)));
    assert!(!denied(r#"{"matchExpressions": [{"key": "team", "operator": "Exists"}]}"#));
}

#[test]
fn a_scope_that_has_every_existing_namespace_counts_as_all_namespaces() {
    const NAMESPACES: &str = "
        ns default
        ns kube-system team=platform
        ns shop team=shop
    ";
    let denial = |policy: Policy, pod: &str| {
        World::new(policy, NAMESPACES).create(pod).denied.map(|denial| denial.text())
    };
    let denied = |term: &str| denial(Policy::default(), &format!("pod default/web {term}")).is_some();
    let name = "kubernetes.io/metadata.name";
    for (term, expected) in [
        (format!("anti(app=x @zone ns:{name}!=nonexistent)"), true),
        (format!("anti(app=x @zone ns:{name}=default,kube-system,shop)"), true),
        // A list that names all of them, and a list and a selector that have all of them together.
        ("anti(app=x @zone ns=default,kube-system,shop)".to_owned(), true),
        ("anti(app=x @zone ns=default ns:team)".to_owned(), true),
        (format!("rdrd-anti(app=x @* ns:{name}!=nonexistent)"), true),
        // The host name reserves a node only.
        (format!("anti(app=x @hostname ns:{name}!=nonexistent)"), false),
        (format!("prefer-anti(1 app=x @zone ns:{name}!=nonexistent)"), false),
        (format!("anti(app=x @zone ns:{name}!=shop)"), false),
        ("anti(app=x @zone ns:team)".to_owned(), false),
        ("anti(app=x @zone ns=default,shop)".to_owned(), false),
        ("anti(app=x @zone)".to_owned(), false),
        // Rules of the proposals do not block pods of exempt namespaces: these do not count.
        ("rdrd-anti(app=x @zone ns=default,shop)".to_owned(), true),
    ] {
        assert_eq!(denied(&term), expected, "{term}");
    }
    let message =
        denial(Policy::default(), &format!("pod default/web anti(app=x @zone ns:{name}!=nonexistent)"))
            .unwrap();
    let expected = format!(
        "required anti-affinity over all namespaces (namespaces with {name} not in (nonexistent): every existing namespace \
         that the term can block) may only have topologyKey"
    );
    assert!(message.contains(&expected), "{message}");
    let pod = format!("pod default/web anti(app=x @zone ns:{name}!=nonexistent)");
    assert_eq!(denial(policy(r#""allNamespacesAntiAffinity": "Allow""#), &pod), None);
    // The only namespace there is: a term over it is not one over all namespaces.
    assert!(World::new(Policy::default(), "ns default").create(&pod).is_allowed());
}

#[test]
fn common_label_keys_could_be_enforced() {
    let convention = |action: &str| {
        policy(&format!(r#""requiredLabels": {{"action": "{action}", "keys": ["app", "team"]}}"#))
    };
    let reject = convention("Reject");
    let why = "metadata.labels: the pods lack the label team, which all pods must carry";
    check(&reject, "pod shop/web app=web team=a", &[]);
    check(&reject, "pod shop/web app=web", &[&format!("pods \"web\" is forbidden: {why}")]);
    check(&reject, "pod kube-system/web", &[]);
    check(&convention("Warn"), "pod shop/web app=web", &[why]);
    check(&Policy::default(), "pod shop/web", &[]);

    let update = |old: &str, new: &str| {
        let (old, new) = (one_pod(old), one_pod(new));
        let fields = json!({
            "operation": "UPDATE", "name": "web", "namespace": "shop", "object": new, "oldObject": old,
        });
        review(Endpoint::ValidatePods, &request(fields), &reject, &Nothing, Instant::now()).unwrap()
    };
    // A label may not be removed; pods from before the policy can be updated.
    assert!(!update("pod shop/web app=web team=a", "pod shop/web app=web").is_allowed());
    assert!(update("pod shop/web app=web", "pod shop/web app=web tier=x").is_allowed());
    assert!(update("pod shop/web app=web", "pod shop/web app=web team=b").is_allowed());

    let template = json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": []}});
    let deployment = request(json!({
        "resource": {"group": "apps", "version": "v1", "resource": "deployments"}, "namespace": "shop",
        "object": {"metadata": {"name": "web", "labels": {"team": "a"}}, "spec": {"template": template}},
    }));
    let answer = review(Endpoint::ValidatePods, &deployment, &reject, &Nothing, Instant::now()).unwrap();
    assert!(answer.is_allowed());
    assert_eq!(answer.warnings, [format!("spec.template: its pods will be refused: {why}")]);
}

#[test]
fn terms_that_cannot_block_pass_the_guard() {
    let exempt = "pod kube-system/web rdrd-anti(* @zone ns=)";
    let v1 = "pod kube-system/web anti(* @zone ns:*)";
    let denied = |policy: &Policy, pod: &str| {
        let request = creation(&one_pod(pod));
        let answer = review(Endpoint::ValidatePods, &request, policy, &Nothing, Instant::now()).unwrap();
        answer.denied.map(|d| d.code)
    };
    assert_eq!(denied(&Policy::default(), exempt), None);
    assert_eq!(denied(&Policy::default(), v1), Some(403));
    assert_eq!(denied(&policy(r#""exemptFromV1": true"#), v1), None);
    assert_eq!(denied(&policy(r#""exemptNamespaces": []"#), exempt), Some(403));
}

#[test]
fn the_guard_can_warn_or_be_disabled() {
    let pod = "pod default/web anti(* @zone ns:*)";
    let path = "spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0]";
    let warning = format!("{path}: {}", GUARD.replace("{}", "topologyKey \"topology.kubernetes.io/zone\""));
    check(&policy(r#""allNamespacesAntiAffinity": "Warn""#), pod, &[&warning]);
    check(&policy(r#""allNamespacesAntiAffinity": "Allow""#), pod, &[]);
}

#[test]
fn the_topology_limit_uses_the_message_of_the_reference() {
    let pod = "pod default/web anti(app=web @zone)";
    check(&Policy::default(), pod, &[]);
    let limited = policy(r#""limitPodHardAntiAffinityTopology": true"#);
    let message = "pods \"web\" is forbidden: affinity.PodAntiAffinity.RequiredDuringScheduling has TopologyKey \
                   topology.kubernetes.io/zone but only key kubernetes.io/hostname is allowed";
    check(&limited, pod, &[message]);
    check(&limited, "pod default/web anti(app=web @hostname) prefer-anti(1 app=web @zone)", &[]);
    // Daemon pods have no exemption.
    check(&limited, "pod kube-system/web anti(app=web @zone)", &[message]);
}

#[test]
fn annotation_errors_contain_field_paths() {
    let with = |annotation: &str| {
        let object = json!({
            "metadata": {"generateName": "web-", "annotations": {"scheduling.berth.dev/affinity": annotation}},
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        });
        let request = request(json!({"namespace": "default", "object": object}));
        let answer =
            review(Endpoint::ValidatePods, &request, &Policy::default(), &Nothing, Instant::now()).unwrap();
        answer.denied.map(|d| (d.code, d.text()))
    };
    let path = "Pod \"web-\" is invalid: metadata.annotations[scheduling.berth.dev/affinity]";
    let term =
        r#"{"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "a b"}]}}"#;
    for (annotation, expected) in [
        ("podAffinity: {}", None),
        (
            term,
            Some(
                ".podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey: Invalid value: \"a b\": name \
                 part must consist of",
            ),
        ),
        ("podAffinity: [", Some(": Invalid value: neither JSON nor YAML: ")),
        ("nodeAffinity: 3", Some(".nodeAffinity: Invalid value: invalid type: integer `3`")),
    ] {
        let said = with(annotation);
        match expected {
            None => assert_eq!(said, None),
            Some(begin) => {
                let (code, text) = said.unwrap();
                assert!(code == 422 && text.starts_with(&format!("{path}{begin}")), "{text}");
            }
        }
    }
}

#[test]
fn dialect_differences_cause_warnings() {
    let spec =
        "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]";
    check(
        &Policy::default(),
        "pod default/web node(|zone=a)",
        &[&format!(
            "{spec}: an empty term matches no node; in the proposals' fields: an empty term matches every node"
        )],
    );
    check(&policy(r#""dialectWarnings": false"#), "pod default/web node(|zone=a)", &[]);
}

#[test]
fn updates_that_keep_affinity_pass() {
    let old = one_pod("pod default/web anti(* @zone ns:*)");
    let mut new = old.clone();
    new.metadata.labels.insert("more".to_owned(), "labels".to_owned());
    let change = |new: &berth_api::object::Pod| {
        let fields = json!({
            "operation": "UPDATE", "name": "web", "namespace": "default", "object": new, "oldObject": old,
        });
        let request = request(fields);
        review(Endpoint::ValidatePods, &request, &Policy::default(), &Nothing, Instant::now()).unwrap()
    };
    assert!(change(&new).is_allowed());
    let annotation = r#"{"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"labelSelector": {}, "namespaces": [], "topologyKey": "zone"}]}}"#;
    new.metadata.annotations.insert("scheduling.berth.dev/affinity".to_owned(), annotation.to_owned());
    assert!(!change(&new).is_allowed());
    new.metadata.deletion_timestamp = "2026-01-01T00:00:00Z".parse().ok();
    assert!(change(&new).is_allowed());
}

#[test]
fn templates_cause_warnings_and_are_never_refused() {
    let pod = serde_json::to_value(one_pod("pod default/web anti(* @zone ns:*)")).unwrap();
    let template = json!({"metadata": {"labels": {"app": "web"}}, "spec": pod["spec"]});
    for (group, resource, spec, path) in [
        ("apps", "deployments", json!({"template": template}), "spec.template"),
        (
            "batch",
            "cronjobs",
            json!({"jobTemplate": {"spec": {"template": template}}}),
            "spec.jobTemplate.spec.template",
        ),
    ] {
        let object = json!({"metadata": {"name": "web"}, "spec": spec});
        let fields = |old| {
            request(json!({
                "resource": {"group": group, "version": "v1", "resource": resource}, "namespace": "default",
                "operation": "UPDATE", "object": object, "oldObject": old,
            }))
        };
        let ask = |old| {
            let request = fields(old);
            review(Endpoint::ValidatePods, &request, &Policy::default(), &Nothing, Instant::now()).unwrap()
        };
        let answer = ask(json!({}));
        assert!(answer.is_allowed());
        let begin = format!("{path}: its pods will be refused: spec.affinity.podAntiAffinity.");
        assert!(answer.warnings[0].starts_with(&begin), "{:?}", answer.warnings);
        assert!(ask(object.clone()).warnings.is_empty());
    }
}

#[test]
fn an_object_of_another_kind_gets_an_error() {
    let request = request(json!({"object": {"metadata": {"name": 3}}}));
    let error = review(Endpoint::ValidatePods, &request, &Policy::default(), &Nothing, Instant::now());
    let error = error.unwrap_err().to_string();
    assert!(
        error.starts_with("request.object: not a Pod: metadata.name: invalid type: integer `3`"),
        "{error}"
    );
}

/// The sentence of the issue: admission limits what a pod may carry where Kubernetes has no limit, as an option.
#[test]
fn a_pod_with_more_entries_than_the_limit_is_warned_about_or_refused() {
    let pod = |n_keys: usize, n_tolerations: usize| {
        let keys: serde_json::Map<_, _> = (0..n_keys).map(|i| (format!("k{i}"), json!("v"))).collect();
        let tolerations = vec![json!({"operator": "Exists"}); n_tolerations];
        json!({"metadata": {"name": "web"}, "spec": {"nodeSelector": keys, "tolerations": tolerations}})
    };
    let asked = |limits: &str, object: &serde_json::Value, old: &serde_json::Value| {
        let operation = if old.is_null() { "CREATE" } else { "UPDATE" };
        let request =
            request(json!({"name": "web", "operation": operation, "object": object, "oldObject": old}));
        let policy = policy(limits);
        let answer = review(Endpoint::ValidatePods, &request, &policy, &Nothing, Instant::now()).unwrap();
        (answer.denied.map(|denial| denial.text()), answer.warnings)
    };
    let (new, none) = (json!(null), (None, Vec::new()));
    let because = |field: &str, n: usize, most: usize| {
        format!(
            "{field} has {n} entries, more than {most} (ruleLimits.maxRuleEntries of the AdmissionPolicy): a scheduler \
             with this limit does not schedule the pod; use fewer entries, or raise the limit of both"
        )
    };
    assert_eq!(asked("", &pod(1000, 1000), &new), none);
    assert_eq!(asked("", &pod(1001, 0), &new), (None, vec![because("spec.nodeSelector", 1001, 1000)]));
    assert_eq!(asked(r#""ruleLimits": {"action": "Allow"}"#, &pod(1001, 0), &new), none);
    let reject = r#""ruleLimits": {"action": "Reject", "maxRuleEntries": 20}"#;
    let refused = |field, n| {
        (Some(format!("pods \"web\" is forbidden: {}", because(field, n, 20))), Vec::<String>::new())
    };
    assert_eq!(asked(reject, &pod(20, 20), &new), none);
    assert_eq!(asked(reject, &pod(21, 0), &new), refused("spec.nodeSelector", 21));
    // Tolerations can be added to a pod; one from before the policy can be changed and deleted.
    assert_eq!(asked(reject, &pod(0, 21), &pod(0, 20)), refused("spec.tolerations", 21));
    assert_eq!(asked(reject, &pod(0, 21), &pod(0, 21)), none);
    let mut ending = pod(0, 21);
    ending["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    assert_eq!(asked(reject, &ending, &pod(0, 20)), none);

    let workload = request(json!({
        "resource": {"group": "apps", "version": "v1", "resource": "deployments"},
        "name": "web", "object": {"spec": {"template": pod(21, 0)}},
    }));
    let answer =
        review(Endpoint::ValidatePods, &workload, &policy(reject), &Nothing, Instant::now()).unwrap();
    let warning =
        format!("spec.template: its pods will be refused: {}", because("spec.nodeSelector", 21, 20));
    assert_eq!((answer.denied, answer.warnings), (None, vec![warning]));
}

/// Every request that writes annotations of a pod, by the name of its resource.
fn writes(annotations: Value, old: Value) -> Vec<AdmissionRequest> {
    let pod = |annotations: &Value| {
        json!({"metadata": {"name": "web", "namespace": "default", "annotations": annotations},
            "spec": {"nodeName": "n"}})
    };
    let update = |sub: &str| {
        request(json!({"operation": "UPDATE", "name": "web", "namespace": "default", "subResource": sub,
            "object": pod(&annotations), "oldObject": pod(&old)}))
    };
    let bind = |resource: &str, sub: &str| {
        let metadata = json!({"name": "web", "namespace": "default", "annotations": annotations});
        request(json!({"name": "web", "namespace": "default", "subResource": sub,
            "resource": {"group": "", "version": "v1", "resource": resource},
            "object": {"metadata": metadata, "target": {"kind": "Node", "name": "n"}}}))
    };
    let mut all: Vec<_> = ["", "status", "resize", "ephemeralcontainers"].map(update).into();
    all.extend([bind("pods", "binding"), bind("bindings", "")]);
    all
}

#[test]
fn the_guard_was_passed_by_a_subresource_that_writes_annotations() {
    let world = World::new(Policy::default(), "ns default\nns kube-system\nns shop\nnode n zone=z1");
    let affinity = |key: &str| {
        let term = json!({"topologyKey": key, "namespaces": [], "labelSelector": {}});
        json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}).to_string()
    };
    let zone = json!({"scheduling.berth.dev/affinity": affinity("topology.kubernetes.io/zone")});
    for (annotations, old, expected) in [
        (zone.clone(), Value::Null, "required anti-affinity over all namespaces may only have topologyKey"),
        (zone.clone(), zone, ""),
        (json!({"scheduling.berth.dev/affinity": affinity("kubernetes.io/hostname")}), Value::Null, ""),
        (
            json!({"scheduling.berth.dev/affinity": "{podAfinity: {}}"}),
            Value::Null,
            "podAfinity: Invalid value: unknown field",
        ),
        (
            json!({"scheduling.berth.dev/relax-after": "soon"}),
            Value::Null,
            "relax-after]: Invalid value: \"soon\"",
        ),
        (
            json!({"scheduling.berth.dev/tolerates-anti-affinity": "*"}),
            Value::Null,
            "may not run beside pods that reject them",
        ),
        (json!({"example.com/a": "b"}), Value::Null, ""),
    ] {
        for write in writes(annotations.clone(), old.clone()) {
            if write.is_binding() && old != Value::Null {
                continue;
            }
            let denied = world.ask(Endpoint::ValidatePods, &write).unwrap().denied;
            let text = denied.map(|denial| denial.text()).unwrap_or_default();
            let what = format!("{} {:?}: {annotations}: {text}", write.resource.resource, write.sub_resource);
            assert_eq!(text.is_empty(), expected.is_empty(), "{what}");
            assert!(text.contains(expected), "{what}");
        }
    }
}

#[test]
fn an_invalid_annotation_that_an_update_leaves_does_not_block_the_update() {
    let known = |more: Value| {
        let mut annotations = json!({"scheduling.berth.dev/affinity": "{podAfinity: {}}"});
        annotations.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        annotations
    };
    let denied = |annotations: Value| {
        let write = writes(annotations, known(json!({}))).remove(0);
        let answer = review(Endpoint::ValidatePods, &write, &Policy::default(), &Nothing, Instant::now());
        answer.unwrap().denied.map(|denial| denial.message).unwrap_or_default()
    };
    assert_eq!(denied(known(json!({"scheduling.berth.dev/eviction-grace": "5s"}))), "");
    assert_eq!(denied(json!({})), "");
    let another = denied(known(json!({"scheduling.berth.dev/relax-after": "soon"})));
    assert!(
        another.starts_with("metadata.annotations[scheduling.berth.dev/relax-after]: Invalid"),
        "{another}"
    );
    let still_invalid =
        denied(json!({"scheduling.berth.dev/affinity": "{podAfinity: {}, nodeAffinity: {}}"}));
    assert!(still_invalid.contains("podAfinity: Invalid value: unknown field"), "{still_invalid}");
}
