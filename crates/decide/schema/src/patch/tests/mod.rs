//! Managed fields after sequences of applies and updates.

mod applies;
mod updates;

use serde_json::{Value, json};

use super::apply::{ApplyError, apply};
use super::managed::{Actor, manager_name, track_update};
use crate::{Type, type_of};

/// An object and the operations on it.
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
