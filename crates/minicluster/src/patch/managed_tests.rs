//! Who manages what after histories of applies and updates.

use serde_json::{Value, json};

use super::apply::{ApplyError, apply};
use super::managed::{Actor, manager_name, track_update};
use crate::schema::{Type, type_of};

/// An object and what was done to it.
struct History {
    ty: &'static Type,
    api_version: &'static str,
    kind: &'static str,
    object: Option<Value>,
    second: u32,
}

impl History {
    fn of(group: &str, kind: &'static str) -> History {
        let api_version = if group.is_empty() { "v1" } else { "apps/v1" };
        History { ty: type_of(group, "v1", kind).expect(kind), api_version, kind, object: None, second: 0 }
    }

    fn actor<R>(&mut self, manager: &str, with: impl FnOnce(&History, &Actor<'_>) -> R) -> R {
        self.second += 1;
        let now = format!("2024-05-01T12:00:{:02}Z", self.second);
        let (manager, subresource) = manager.split_once('/').unwrap_or((manager, ""));
        let ignored = if subresource.is_empty() { &["status"] } else { &["spec"] };
        with(self, &Actor { manager, api_version: self.api_version, subresource, now: &now, ignored })
    }

    fn try_apply(&mut self, manager: &str, fields: Value, force: bool) -> Result<(), ApplyError> {
        let mut applied = fields;
        applied["apiVersion"] = self.api_version.into();
        applied["kind"] = self.kind.into();
        applied["metadata"]["name"] = "x".into();
        let object = self.actor(manager, |history, actor| {
            apply(history.ty, history.object.as_ref(), applied, actor, force)
        })?;
        self.object = Some(object);
        Ok(())
    }

    #[track_caller]
    fn apply(&mut self, manager: &str, fields: Value) -> &mut History {
        self.try_apply(manager, fields, false).expect("no conflict");
        self
    }

    #[track_caller]
    fn conflict(&mut self, manager: &str, fields: Value) -> String {
        self.try_apply(manager, fields, false).expect_err("a conflict").to_string()
    }

    /// An update that changes the object by `change`.
    fn update(&mut self, manager: &str, change: impl FnOnce(&mut Value)) -> &mut History {
        let before = self.object.clone();
        let mut after = before.clone().unwrap_or_else(
            || json!({"apiVersion": self.api_version, "kind": self.kind, "metadata": {"name": "x"}}),
        );
        change(&mut after);
        self.actor(manager, |history, actor| track_update(history.ty, before.as_ref(), &mut after, actor));
        self.object = Some(after);
        self
    }

    fn object(&self) -> &Value {
        self.object.as_ref().expect("an object")
    }

    /// The managed fields, by manager: `NAME OPERATION [SUBRESOURCE]`.
    #[track_caller]
    fn managers(&self, expected: Value) -> &History {
        let mut found = json!({});
        for entry in self.object()["metadata"]["managedFields"].as_array().into_iter().flatten() {
            let text = |field: &str| entry[field].as_str().unwrap_or_default();
            let name = format!("{} {} {}", text("manager"), text("operation"), text("subresource"));
            assert_eq!(text("fieldsType"), "FieldsV1");
            found[name.trim_end()] = entry["fieldsV1"].clone();
        }
        assert_eq!(found, expected);
        self
    }

    #[track_caller]
    fn spec(&self, expected: Value) -> &History {
        assert_eq!(self.object()["spec"], expected);
        self
    }
}

fn deployment() -> History {
    History::of("apps", "Deployment")
}

fn pod() -> History {
    History::of("", "Pod")
}

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
fn defaults_are_nobodys_and_stay() {
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
    // One of two owners lets go: the field stays.
    object.apply("a", json!({"spec": {"paused": true}}));
    object.spec(json!({"replicas": 3, "paused": true}));
    object.try_apply("c", json!({"spec": {"replicas": 5, "paused": false}}), true).expect("forced");
    object.managers(json!({"c Apply": {"f:spec": {"f:paused": {}, "f:replicas": {}}}}));
    object.spec(json!({"replicas": 5, "paused": false}));
}

#[test]
fn updates_take_fields_from_appliers() {
    let mut object = deployment();
    object.apply("a", json!({"spec": {"replicas": 3, "paused": true}}));
    object.update("hpa", |object| object["spec"]["replicas"] = 7.into());
    object.managers(json!({
        "a Apply": {"f:spec": {"f:paused": {}}}, "hpa Update": {"f:spec": {"f:replicas": {}}},
    }));
    // The applier that leaves the field out does not reset it.
    object.apply("a", json!({"spec": {"paused": true}}));
    object.spec(json!({"replicas": 7, "paused": true}));
    object.update("hpa", |object| {
        object["spec"].as_object_mut().expect("a spec").remove("paused");
    });
    object.managers(json!({"hpa Update": {"f:spec": {"f:replicas": {}}}}));
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
fn creations_are_tracked_as_the_reference_tracks_them() {
    let mut object = deployment();
    object.update("kubectl-create", |object| {
        object["metadata"]["labels"] = json!({"app": "x"});
        object["spec"] = json!({
            "replicas": 1,
            "selector": {"matchLabels": {"app": "x"}},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%"}},
            "template": {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [
                {"name": "c", "image": "i", "resources": {}, "ports": [{"containerPort": 80, "protocol": "TCP"}]},
            ]}},
        });
    });
    object.managers(json!({"kubectl-create Update": {
        "f:metadata": {"f:labels": {".": {}, "f:app": {}}},
        "f:spec": {
            "f:replicas": {},
            "f:selector": {},
            "f:strategy": {"f:rollingUpdate": {".": {}, "f:maxSurge": {}}, "f:type": {}},
            "f:template": {
                "f:metadata": {"f:labels": {".": {}, "f:app": {}}},
                "f:spec": {"f:containers": {"k:{\"name\":\"c\"}": {
                    ".": {}, "f:image": {}, "f:name": {}, "f:resources": {},
                    "f:ports": {".": {}, "k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {
                        ".": {}, "f:containerPort": {}, "f:protocol": {}}},
                }}},
            },
        },
    }}));
}

#[test]
fn status_is_managed_apart() {
    let mut object = pod();
    object.update("kubectl", |object| object["spec"] = json!({"nodeName": "n"}));
    object.update("kubelet/status", |object| object["status"] = json!({"phase": "Running"}));
    object.managers(json!({
        "kubectl Update": {"f:spec": {"f:nodeName": {}}},
        "kubelet Update status": {"f:status": {"f:phase": {}}},
    }));
    let time = |object: &History, at: usize| object.object()["metadata"]["managedFields"][at]["time"].clone();
    assert_eq!(time(&object, 1), "2024-05-01T12:00:02Z");
    object.update("kubelet/status", |object| object["status"]["phase"] = "Succeeded".into());
    assert_eq!(time(&object, 1), "2024-05-01T12:00:03Z", "a change of a managed field gets a new time");
    object.update("kubelet/status", |_| {});
    assert_eq!(time(&object, 1), "2024-05-01T12:00:03Z", "no change, no new time");
    object.apply("a", json!({"spec": {"hostname": "h"}, "status": {"phase": "Failed"}}));
    assert_eq!(object.object()["status"]["phase"], "Succeeded", "an apply of the object leaves the status");
    assert_eq!(
        object.conflict("a/status", json!({"status": {"phase": "Failed"}})),
        "Apply failed with 1 conflict: conflict with \"kubelet\" with subresource \"status\" using v1: .status.phase"
    );
}

#[test]
fn managed_fields_can_be_edited_and_reset() {
    let mut object = deployment();
    object.update("kubectl-client-side-apply", |object| object["spec"] = json!({"replicas": 1}));
    // What kubectl does when an object goes over to server-side apply.
    object.update("kubectl", |object| {
        let entry = &mut object["metadata"]["managedFields"][0];
        entry["manager"] = "kubectl".into();
        entry["operation"] = "Apply".into();
    });
    object.managers(json!({"kubectl Apply": {"f:spec": {"f:replicas": {}}}}));
    object.apply("kubectl", json!({"spec": {"paused": true}})).spec(json!({"paused": true}));
    for kept in [json!([]), json!([{"operation": "Apply"}]), json!("x"), json!(null), json!([1])] {
        object.update("m", |object| object["metadata"]["managedFields"] = kept);
        object.managers(json!({"kubectl Apply": {"f:spec": {"f:paused": {}}}}));
    }
    object.update("m/status", |object| object["metadata"]["managedFields"] = json!([{}]));
    object.managers(json!({"kubectl Apply": {"f:spec": {"f:paused": {}}}}));
    object.update("m", |object| object["metadata"]["managedFields"] = json!([{}]));
    object.managers(json!({}));
    object.update("m", |object| object["spec"]["replicas"] = 2.into());
    object.managers(json!({}));
    // The first apply starts again, with what is there as somebody else's.
    assert_eq!(
        object.conflict("a", json!({"spec": {"replicas": 3}})),
        "Apply failed with 1 conflict: conflict with \"before-first-apply\" using apps/v1: .spec.replicas"
    );
    object.apply("a", json!({"spec": {"replicas": 2}})).managers(json!({
        "a Apply": {"f:spec": {"f:replicas": {}}},
        "before-first-apply Update": {"f:spec": {"f:paused": {}, "f:replicas": {}}},
    }));
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
fn old_updates_are_merged() {
    let mut object = deployment();
    for i in 0..14 {
        object.update(&format!("m{i:02}"), |object| {
            object["metadata"]["labels"][format!("l{i:02}")] = "x".into();
        });
    }
    let entries = object.object()["metadata"]["managedFields"].as_array().expect("entries");
    assert_eq!(entries.len(), 10);
    assert_eq!(entries[0]["manager"], "ancient-changes");
    let labels = &entries[0]["fieldsV1"]["f:metadata"]["f:labels"];
    assert_eq!(
        labels.as_object().map(|l| l.keys().map(String::as_str).collect::<Vec<_>>()),
        Some(vec![".", "f:l00", "f:l01", "f:l02", "f:l03", "f:l04"])
    );
}

#[test]
fn what_cannot_be_applied_is_told() {
    let place = "failed to create typed patch object (/x; v1, Kind=Pod)";
    for (fields, expected) in [
        (json!({"spec": {"color": 1}}), format!("{place}: .spec.color: field not declared in schema")),
        (
            json!({"spec": {"containers": [{"image": "x"}]}}),
            format!(
                "{place}: .spec.containers: element 0: associative list with keys has an element that omits key \
                 field \"name\" (and doesn't have default value)"
            ),
        ),
        (
            json!({"spec": {"containers": [{"name": "x"}, {"name": "x"}]}}),
            format!("{place}: .spec.containers: duplicate entries for key [name=\"x\"]"),
        ),
        (
            json!({"spec": {"containers": 1}}),
            format!(
                "{place}: json: cannot unmarshal number into Go struct field PodSpec.spec.containers of type \
                 []v1.Container"
            ),
        ),
        (json!({"metadata": {"managedFields": [{}]}}), "metadata.managedFields must be nil".to_owned()),
    ] {
        assert_eq!(pod().conflict("a", fields), expected);
    }
}

#[test]
fn kubectls_annotation_follows_its_applies() {
    let mut object = deployment();
    let last_applied = "kubectl.kubernetes.io/last-applied-configuration";
    object.update("kubectl-client-side-apply", |object| {
        object["metadata"]["annotations"] = json!({last_applied: "{}\n"});
    });
    object.apply("kubectl", json!({"spec": {"replicas": 2}}));
    let annotation = object.object()["metadata"]["annotations"][last_applied].as_str().expect("text");
    let kept: Value = serde_json::from_str(annotation).expect("JSON");
    assert_eq!(kept["spec"], json!({"replicas": 2}));
}

#[test]
fn kubectl_takes_over_what_it_applied_client_side() {
    let mut object = deployment();
    object.update("kubectl-client-side-apply", |object| {
        let applied = json!({"spec": {"replicas": 1, "paused": true}});
        object["metadata"]["annotations"] =
            json!({"kubectl.kubernetes.io/last-applied-configuration": applied.to_string()});
        object["spec"] = applied["spec"].clone();
    });
    object.update("somebody", |object| object["spec"]["paused"] = false.into());
    assert_eq!(
        object.conflict("kubectl", json!({"spec": {"replicas": 2, "paused": true}})),
        "Apply failed with 1 conflict: conflict with \"somebody\" using apps/v1: .spec.paused"
    );
    object.apply("kubectl", json!({"spec": {"replicas": 2}})).spec(json!({"replicas": 2, "paused": false}));
    assert!(object.conflict("other", json!({"spec": {"replicas": 3}})).contains("\"kubectl\""));
}

#[test]
fn managers_have_names() {
    for (field_manager, agent, expected) in
        [("me", "kubectl/v1", "me"), ("", "kubectl/v1.32 (linux)", "kubectl"), ("", "", "")]
    {
        assert_eq!(manager_name(field_manager, agent), Ok(expected.to_owned()));
    }
    assert!(manager_name(&"x".repeat(129), "").is_err());
    assert!(manager_name("a\nb", "").is_err());
    assert_eq!(manager_name("", &"ü".repeat(100)).map(|name| name.len()), Ok(128));
}
