//! Options of a deletion.

use serde_json::Value;

use super::status::{ApiResult, Cause, Status};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeleteOptions {
    pub grace_period_seconds: Option<i64>,
    pub propagation_policy: Option<String>,
    /// Precondition: uid.
    pub uid: Option<String>,
    /// Precondition: resource version.
    pub resource_version: Option<String>,
    pub dry_run: bool,
    /// Whether this is an eviction: admission has already decided, and the pod's conditions show it.
    pub evicts: bool,
}

impl DeleteOptions {
    /// The deprecated form of the propagation policy.
    pub fn set_orphan_dependents(&mut self, orphans: bool) {
        self.propagation_policy = Some(if orphans { "Orphan" } else { "Background" }.to_owned());
    }

    pub fn check_policy(&self) -> ApiResult {
        match self.propagation_policy.as_deref() {
            None | Some("Background" | "Foreground" | "Orphan") => Ok(()),
            Some(other) => {
                let supported = "\"Foreground\", \"Background\", \"Orphan\", \"nil\"";
                let cause = Cause::not_supported("propagationPolicy", format!("{other:?}"), supported);
                Err(Status::invalid_options("DeleteOptions", vec![cause]))
            }
        }
    }

    pub fn take_value(&mut self, value: &Value) -> ApiResult {
        let wrong = |field: &str| Status::bad_request(format!("DeleteOptions: {field}: Invalid value"));
        match &value["gracePeriodSeconds"] {
            Value::Null => {}
            seconds => {
                self.grace_period_seconds =
                    Some(seconds.as_i64().ok_or_else(|| wrong("gracePeriodSeconds"))?);
            }
        }
        let text = |value: &Value, field: &str| match value {
            Value::Null => Ok(None),
            Value::String(text) => Ok(Some(text.clone()).filter(|text| !text.is_empty())),
            _ => Err(wrong(field)),
        };
        if let Some(policy) = text(&value["propagationPolicy"], "propagationPolicy")? {
            if value["orphanDependents"].is_boolean() {
                let why = "orphanDependents and deletionPropagation cannot be both set";
                let cause = Cause::invalid("propagationPolicy", format!("{policy:?}"), why);
                return Err(Status::invalid_options("DeleteOptions", vec![cause]));
            }
            self.propagation_policy = Some(policy);
        } else if let Some(orphans) = value["orphanDependents"].as_bool() {
            self.set_orphan_dependents(orphans);
        }
        let preconditions = &value["preconditions"];
        self.uid = text(&preconditions["uid"], "preconditions.uid")?;
        self.resource_version = text(&preconditions["resourceVersion"], "preconditions.resourceVersion")?;
        match &value["dryRun"] {
            Value::Null => {}
            Value::Array(values) if values.iter().all(|v| v == "All") => self.dry_run |= !values.is_empty(),
            _ => return Err(wrong("dryRun")),
        }
        Ok(())
    }
}
