//! Applying: conflicts, removal, lists.

use super::*;

#[test]
fn applying_creates_owns_and_removes() {
    let mut object = deployment();
    object.apply(
        "a",
        json!({"metadata": {"labels": {"x": "1", "y": "2"}}, "spec": {"replicas": 3, "paused": true}}),
    );
    object.managers(json!({"a Apply": {
        "f:metadata": {"f:labels": {"f:x": {}, "f:y": {}}}, "f:spec": {"f:paused": {}, "f:replicas": {}},
    }}));
    object.apply("a", json!({"metadata": {"labels": {"x": "1"}}, "spec": {"replicas": 3}}));
    object.spec(json!({"replicas": 3})).managers(json!({"a Apply": {
        "f:metadata": {"f:labels": {"f:x": {}}}, "f:spec": {"f:replicas": {}},
    }}));
    assert_eq!(object.object()["metadata"]["labels"], json!({"x": "1"}));
    object.apply("a", json!({}));
    assert_eq!(object.object()["metadata"].get("labels"), None, "empty maps go");
    assert_eq!(object.object()["metadata"].get("managedFields"), None);
}

#[test]
fn fields_that_are_applied_as_null_had_no_manager() {
    let mut object = deployment();
    let template = json!({"spec": {"nodeSelector": null, "containers": [{"name": "c", "env": null}]}});
    object
        .apply("a", json!({"metadata": {"labels": null}, "spec": {"replicas": null, "template": template}}));
    object.managers(json!({"a Apply": {
        "f:metadata": {"f:labels": {}},
        "f:spec": {"f:replicas": {}, "f:template": {"f:spec": {
            "f:containers": {"k:{\"name\":\"c\"}": {".": {}, "f:env": {}, "f:name": {}}}, "f:nodeSelector": {},
        }}},
    }}));
}

#[test]
fn defaults_have_no_manager_and_stay() {
    let mut object = deployment();
    object.apply("a", json!({"spec": {"replicas": 3, "strategy": {"type": "RollingUpdate"}}}));
    // What defaulting adds is not tracked for an apply.
    object.object.as_mut().expect("an object")["spec"]["progressDeadlineSeconds"] = 600.into();
    object.object.as_mut().expect("an object")["spec"]["strategy"]["rollingUpdate"] = json!({"maxSurge": 1});
    object.apply("a", json!({"spec": {"replicas": 4, "strategy": {"type": "RollingUpdate"}}}));
    object
        .spec(json!({"replicas": 4, "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}},
                       "progressDeadlineSeconds": 600}));
    object.apply("a", json!({"spec": {"replicas": 4}}));
    object.spec(json!({"replicas": 4, "progressDeadlineSeconds": 600}));
}

#[test]
fn conflicts_name_the_managers_and_the_fields() {
    let mut object = deployment();
    object.apply("a", json!({"spec": {"replicas": 3, "paused": false}}));
    assert_eq!(
        object.conflict("b", json!({"spec": {"replicas": 4}})),
        "Apply failed with 1 conflict: conflict with \"a\": .spec.replicas"
    );
    object.update("kubectl-edit", |object| object["spec"]["minReadySeconds"] = 5.into());
    assert_eq!(
        object.conflict("b", json!({"spec": {"replicas": 4, "paused": true, "minReadySeconds": 6}})),
        "Apply failed with 3 conflicts: conflicts with \"a\":\n- .spec.paused\n- .spec.replicas\n\
         conflicts with \"kubectl-edit\" using apps/v1:\n- .spec.minReadySeconds"
    );
    object.spec(json!({"replicas": 3, "paused": false, "minReadySeconds": 5}));
}

#[test]
fn the_same_value_is_shared_and_force_takes_over() {
    let mut object = deployment();
    object.apply("a", json!({"spec": {"replicas": 3, "paused": true}}));
    object.apply("b", json!({"spec": {"replicas": 3}}));
    object.managers(json!({
        "a Apply": {"f:spec": {"f:paused": {}, "f:replicas": {}}}, "b Apply": {"f:spec": {"f:replicas": {}}},
    }));
    // One of two owners removes the field: it stays.
    object.apply("a", json!({"spec": {"paused": true}}));
    object.spec(json!({"replicas": 3, "paused": true}));
    object.try_apply("c", json!({"spec": {"replicas": 5, "paused": false}}), true).expect("forced");
    object.managers(json!({"c Apply": {"f:spec": {"f:paused": {}, "f:replicas": {}}}}));
    object.spec(json!({"replicas": 5, "paused": false}));
}

#[test]
fn items_of_lists_have_owners() {
    let mut object = pod();
    object.apply("a", json!({"spec": {"containers": [{"name": "one", "image": "1", "env": [{"name": "E", "value": "1"}]}]}}));
    object.apply("b", json!({"spec": {"containers": [{"name": "side", "image": "2"}]}}));
    let one = "k:{\"name\":\"one\"}";
    object.managers(json!({
        "a Apply": {"f:spec": {"f:containers": {one: {
            ".": {}, "f:env": {"k:{\"name\":\"E\"}": {".": {}, "f:name": {}, "f:value": {}}},
            "f:image": {}, "f:name": {}}}}},
        "b Apply": {"f:spec": {"f:containers": {"k:{\"name\":\"side\"}": {".": {}, "f:image": {}, "f:name": {}}}}},
    }));
    assert_eq!(
        object.conflict("b", json!({"spec": {"containers": [{"name": "one", "image": "9"}]}})),
        "Apply failed with 1 conflict: conflict with \"a\": .spec.containers[name=\"one\"].image"
    );
    object.apply("a", json!({"spec": {"containers": [{"name": "new", "image": "3"}]}}));
    object.spec(json!({"containers": [{"name": "side", "image": "2"}, {"name": "new", "image": "3"}]}));
}

#[test]
fn applied_order_wins_and_the_others_stay_between() {
    let mut object = pod();
    object.update("create", |object| {
        object["spec"] = json!({"containers": [{"name": "a"}, {"name": "b"}, {"name": "c"}]});
    });
    object.apply("m", json!({"spec": {"containers": [{"name": "c"}, {"name": "a"}, {"name": "d"}]}}));
    object.spec(json!({"containers": [{"name": "b"}, {"name": "c"}, {"name": "a"}, {"name": "d"}]}));
    object.apply("n", json!({"spec": {"containers": [{"name": "x"}, {"name": "c"}]}}));
    object.spec(
        json!({"containers": [{"name": "b"}, {"name": "x"}, {"name": "c"}, {"name": "a"}, {"name": "d"}]}),
    );
}

#[test]
fn keys_that_are_left_out_have_their_default() {
    let mut object = pod();
    let with = |ports: Value| json!({"spec": {"containers": [{"name": "a", "ports": ports}]}});
    object.apply("a", with(json!([{"containerPort": 53}, {"containerPort": 53, "protocol": "UDP"}])));
    object.object.as_mut().expect("an object")["spec"]["containers"][0]["ports"][0]["protocol"] =
        "TCP".into();
    object.apply("a", with(json!([{"containerPort": 53, "name": "dns"}])));
    object.spec(json!({"containers": [{"name": "a", "ports": [
        {"containerPort": 53, "protocol": "TCP", "name": "dns"},
    ]}]}));
}

#[test]
fn sets_and_atomic_values() {
    let mut object = pod();
    object.apply("a", json!({"metadata": {"finalizers": ["x/a"]}, "spec": {"nodeSelector": {"d": "1"}}}));
    object.apply("b", json!({"metadata": {"finalizers": ["x/b"]}}));
    assert_eq!(object.object()["metadata"]["finalizers"], json!(["x/a", "x/b"]));
    object.apply("a", json!({"spec": {"nodeSelector": {"e": "2"}}}));
    assert_eq!(object.object()["metadata"]["finalizers"], json!(["x/b"]));
    object.spec(json!({"nodeSelector": {"e": "2"}})).managers(json!({
        "a Apply": {"f:spec": {"f:nodeSelector": {}}},
        "b Apply": {"f:metadata": {"f:finalizers": {"v:\"x/b\"": {}}}},
    }));
    assert_eq!(
        object.conflict("b", json!({"spec": {"nodeSelector": {"f": "3"}}})),
        "Apply failed with 1 conflict: conflict with \"a\": .spec.nodeSelector"
    );
}

#[test]
fn applying_the_same_again_changes_nothing() {
    let mut object = pod();
    let config = json!({"spec": {"containers": [{"name": "a", "resources": {"limits": {"cpu": 1}}}]}});
    object.apply("a", config.clone());
    let before = object.object().clone();
    object.apply("a", config);
    assert_eq!(object.object(), &before);
    assert_eq!(before["spec"]["containers"][0]["resources"]["limits"]["cpu"], "1");
}

#[test]
fn invalid_applies_are_errors() {
    for (fields, expected) in [
        (json!({"spec": {"color": 1}}), ".spec.color: field not declared in schema"),
        (
            json!({"spec": {"containers": [{"name": "x"}, {"name": "x"}]}}),
            ".spec.containers: duplicate entries for key [name=\"x\"]",
        ),
        (json!({"spec": {"containers": "x"}}), ".spec.containers: expected list, got &{x}"),
        (
            json!({"spec": {"containers": [{"name": "x", "command": [7]}], "priority": "1"}}),
            "errors:\n  .spec.containers[name=\"x\"].command[0]: expected string, got &value.valueUnstructured{Value:7}\n  \
             .spec.priority: expected numeric (int or float), got string",
        ),
        (
            json!({"spec": {"containers": [{"name": "x", "stdin": {}}, null]}}),
            "errors:\n  .spec.containers: element 1: associative list with keys may not have a null element\n  \
             .spec.containers[name=\"x\"].stdin: expected boolean, got &{map[]}",
        ),
    ] {
        let mut object = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}});
        object["spec"] = fields["spec"].clone();
        let ty = crate::type_of("", "v1", "Pod").expect("known");
        let error = crate::patch::apply::check(ty, &object).expect_err(expected);
        assert_eq!(
            error.to_string(),
            format!("failed to create typed patch object (/x; /v1, Kind=Pod): {expected}")
        );
    }
    let managed = json!({"metadata": {"managedFields": [{}]}});
    assert_eq!(pod().conflict("a", managed), "metadata.managedFields must be nil");
    let malformed = json!({"spec": {"overhead": {"cpu": "x"}}});
    assert_eq!(
        pod().conflict("a", malformed),
        "failed to convert new object (/x; /v1, Kind=Pod) to proper version: unable to convert unstructured object to /v1, Kind=Pod: \
         quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
    );
}
