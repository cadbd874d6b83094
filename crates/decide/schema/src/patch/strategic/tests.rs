use serde_json::{Value, json};

use super::*;
use crate::type_of;

#[track_caller]
fn check(spec: Value, patch: Value, expected: Value) {
    let ty = type_of("", "v1", "Pod").expect("pods are known");
    let result = apply(ty, &json!({"spec": spec}), &json!({"spec": patch}));
    assert_eq!(result.map(|object| object["spec"].to_string()), Ok(expected.to_string()));
}

#[test]
fn nulls_in_lists_that_are_replaced_were_dropped() {
    let list = |value: Value| json!({"tolerations": [{"key": value, "operator": "Exists"}]});
    check(list(json!("a")), list(Value::Null), list(Value::Null));
    check(json!({}), list(Value::Null), json!({"tolerations": [{"operator": "Exists"}]}));
    check(
        json!({"containers": [{"name": "a"}]}),
        json!({"containers": [{"name": "b", "image": null}]}),
        json!({"containers": [{"name": "b", "image": null}, {"name": "a"}]}),
    );
}

#[test]
fn directives_in_new_values_were_left_out_alone() {
    let patch = json!({"nodeSelector": {"$retainKeys": ["a"], "a": "b"}, "securityContext": {"$patch": "replace", "runAsUser": 1}});
    check(json!({}), patch, json!({"nodeSelector": {"$retainKeys": ["a"], "a": "b"}}));
}

#[test]
fn items_merge_by_key() {
    check(
        json!({"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "1"}]}),
        json!({"containers": [{"name": "b", "image": "2"}]}),
        json!({"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "2"}]}),
    );
}

#[test]
fn new_items_come_first_without_an_order() {
    check(
        json!({"containers": [{"name": "a", "image": "1"}]}),
        json!({"containers": [{"name": "new", "image": "2"}]}),
        json!({"containers": [{"name": "new", "image": "2"}, {"name": "a", "image": "1"}]}),
    );
}

#[test]
fn set_element_order_orders() {
    check(
        json!({"containers": [{"name": "a"}, {"name": "b"}, {"name": "server"}]}),
        json!({
            "$setElementOrder/containers": [{"name": "b"}, {"name": "a"}, {"name": "c"}],
            "containers": [{"name": "c", "image": "3"}],
        }),
        json!({"containers": [{"name": "b"}, {"name": "a"}, {"name": "c", "image": "3"}, {"name": "server"}]}),
    );
    check(
        json!({"containers": [{"name": "a"}, {"name": "b"}]}),
        json!({"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}]}),
        json!({"containers": [{"name": "b"}, {"name": "a"}]}),
    );
}

#[test]
fn items_are_deleted_and_lists_replaced() {
    check(
        json!({"containers": [{"name": "a"}, {"name": "b"}]}),
        json!({"containers": [{"name": "a", "$patch": "delete"}]}),
        json!({"containers": [{"name": "b"}]}),
    );
    check(
        json!({"containers": [{"name": "a"}, {"name": "b"}]}),
        json!({"containers": [{"$patch": "replace"}, {"name": "c"}]}),
        json!({"containers": [{"name": "c"}]}),
    );
}

#[test]
fn directives_on_objects() {
    check(
        json!({"securityContext": {"runAsUser": 1, "runAsGroup": 2}}),
        json!({"securityContext": {"$patch": "replace", "runAsUser": 3}}),
        json!({"securityContext": {"runAsUser": 3}}),
    );
    check(
        json!({"securityContext": {"runAsUser": 1}}),
        json!({"securityContext": {"$patch": "delete"}}),
        json!({"securityContext": {}}),
    );
}

#[test]
fn retain_keys_clears_the_other_member_of_a_union() {
    check(
        json!({"volumes": [{"name": "v", "emptyDir": {}}]}),
        json!({"volumes": [{"name": "v", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/x"}}]}),
        json!({"volumes": [{"name": "v", "hostPath": {"path": "/x"}}]}),
    );
    let deployment = type_of("apps", "v1", "Deployment").expect("known");
    let live = json!({"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}});
    let patch = json!({"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}});
    assert_eq!(apply(deployment, &live, &patch), Ok(json!({"spec": {"strategy": {"type": "Recreate"}}})));
}

#[test]
fn ports_merge_by_container_port_alone() {
    check(
        json!({"containers": [{"name": "a", "ports": [{"containerPort": 80, "protocol": "TCP"}]}]}),
        json!({"containers": [{"name": "a", "ports": [{"containerPort": 80, "name": "web"}]}]}),
        json!({"containers": [{"name": "a", "ports": [{"containerPort": 80, "protocol": "TCP", "name": "web"}]}]}),
    );
}

#[test]
fn lists_without_a_strategy_are_replaced() {
    check(
        json!({"tolerations": [{"key": "a"}], "nodeSelector": {"x": "1"}}),
        json!({"tolerations": [{"key": "b"}], "nodeSelector": {"y": "2"}}),
        json!({"tolerations": [{"key": "b"}], "nodeSelector": {"x": "1", "y": "2"}}),
    );
    check(
        json!({"containers": [{"name": "a", "args": ["1", "2"]}]}),
        json!({"containers": [{"name": "a", "args": ["3"]}]}),
        json!({"containers": [{"name": "a", "args": ["3"]}]}),
    );
}

#[test]
fn null_deletes_and_new_values_lose_their_nulls() {
    check(
        json!({"nodeName": "n", "containers": [{"name": "a", "image": "1", "tty": true}]}),
        json!({"nodeName": null, "containers": [{"name": "a", "tty": null}], "affinity": {"podAffinity": null}}),
        json!({"containers": [{"name": "a", "image": "1"}], "affinity": {}}),
    );
}

#[test]
fn scalars_are_merged_as_a_set_and_deleted() {
    let ty = type_of("", "v1", "Pod").expect("pods are known");
    let live = json!({"metadata": {"finalizers": ["x/a", "x/b"]}});
    let add = json!({"metadata": {"finalizers": ["x/c", "x/a"]}});
    assert_eq!(
        apply(ty, &live, &add).map(|o| o["metadata"]["finalizers"].clone()),
        Ok(json!(["x/c", "x/a", "x/b"]))
    );
    let delete = json!({"metadata": {
        "$deleteFromPrimitiveList/finalizers": ["x/a"],
        "$setElementOrder/finalizers": ["x/b"],
    }});
    assert_eq!(apply(ty, &live, &delete).map(|o| o["metadata"]["finalizers"].clone()), Ok(json!(["x/b"])));
}

#[test]
fn a_patch_that_cannot_be_merged_is_refused() {
    let ty = type_of("", "v1", "Pod").expect("pods are known");
    let live = json!({"spec": {"containers": [{"name": "a"}], "volumes": [{"name": "v"}]}});
    for (patch, expected) in [
        (json!({"containers": [{"image": "x"}]}), "does not contain declared merge key: name"),
        (json!({"$patch": "join"}), "unknown patch type"),
        (json!({"$retainKeys": ["a"], "b": 1}), "\"b\" is set but not named"),
        (json!({"$setElementOrder/containers": 5}), "expected a list"),
        (json!({"containers": [{"name": "a", "$patch": "merge"}]}), "merging lists"),
    ] {
        let error = apply(ty, &live, &json!({"spec": patch})).expect_err(expected);
        assert!(error.to_string().contains(expected), "{error}");
    }
    assert!(apply(ty, &live, &json!([])).is_err());
}
