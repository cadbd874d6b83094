//! Options of requests that write, read once, before the body.

use berth_schema::patch::managed::manager_name;
use http::header;
use serde_json::Value;

use super::decode::{FieldValidation, is_apply, parse_object};
use crate::request::{
    ApiRequest, ApiResult, Cause, CauseType, DeleteOptions, Query, Status, Verb, not_a_number,
};

#[derive(Clone, Debug, Default)]
pub struct WriteOptions {
    pub dry_run: bool,
    pub validation: FieldValidation,
    /// Who manages the fields that the request sets.
    pub manager: String,
    /// Whether an apply takes fields from other managers.
    pub force: bool,
}

impl WriteOptions {
    /// # Errors
    /// Options are invalid: the status names all of them.
    pub fn read(request: &ApiRequest) -> ApiResult<WriteOptions> {
        let ApiRequest { info, query, headers, .. } = request;
        let (mut causes, mut unsupported) = (Vec::new(), Vec::new());
        let dry_run = is_dry_run(query, &mut unsupported);
        let (kind, force) = match info.verb {
            Verb::Delete | Verb::DeleteCollection => {
                refuse("DeleteOptions", unsupported)?;
                return Ok(WriteOptions { dry_run, ..WriteOptions::default() });
            }
            Verb::Create => ("CreateOptions", None),
            Verb::Update => ("UpdateOptions", None),
            _ => ("PatchOptions", query.flag("force")),
        };
        if is_apply(request) {
            if query.get("fieldManager").is_empty() {
                let why = "Required value: is required for apply patch";
                causes.push(Cause::new(CauseType::FieldValueRequired, "fieldManager", why));
            }
        } else if force.is_some() {
            causes.push(Cause::forbidden("force", "may not be specified for non-apply patch"));
        }
        let agent = headers.get(header::USER_AGENT).and_then(|value| value.to_str().ok());
        let manager = manager_name(query.get("fieldManager"), agent.unwrap_or_default());
        let manager = manager.unwrap_or_else(|why| {
            let is_long = why.starts_with("Too long");
            let of_type = if is_long { CauseType::FieldValueTooLong } else { CauseType::FieldValueInvalid };
            causes.push(Cause::new(of_type, "fieldManager", why));
            String::new()
        });
        causes.append(&mut unsupported);
        let validation = match query.get("fieldValidation") {
            "Ignore" => FieldValidation::Ignore,
            "" | "Warn" => FieldValidation::Warn,
            "Strict" => FieldValidation::Strict,
            other => {
                let supported = "\"\", \"Ignore\", \"Strict\", \"Warn\"";
                causes.push(Cause::not_supported("fieldValidation", format!("{other:?}"), supported));
                FieldValidation::Warn
            }
        };
        refuse(kind, causes)?;
        Ok(WriteOptions { dry_run, validation, manager, force: force == Some(true) })
    }
}

/// The further options of a deletion, from the body or the query; the body has precedence.
pub fn delete_options(request: &ApiRequest) -> ApiResult<DeleteOptions> {
    let query = &request.query;
    let mut options = DeleteOptions {
        grace_period_seconds: match query.get("gracePeriodSeconds") {
            "" => None,
            text => {
                let wrong = |error| Status::bad_request(not_a_number("ParseInt", text, &error));
                Some(text.parse().map_err(wrong)?)
            }
        },
        propagation_policy: Some(query.get("propagationPolicy").to_owned()).filter(|p| !p.is_empty()),
        ..DeleteOptions::default()
    };
    if let Some(orphans) = query.flag("orphanDependents") {
        options.set_orphan_dependents(orphans);
    }
    if !request.body.is_empty() {
        let sent = parse_object(request, "DeleteOptions")?.value;
        let [kind, version] = ["kind", "apiVersion"].map(|field| sent[field].as_str().unwrap_or_default());
        if !["", "DeleteOptions"].contains(&kind) {
            return Err(Status::bad_request(format!(
                "no kind {kind:?} is registered for version {version:?} in scheme \"pkg/runtime/scheme.go:111\""
            )));
        }
        options.take_value(&sent)?;
    }
    options.check_policy()?;
    Ok(options)
}

fn refuse(kind: &str, causes: Vec<Cause>) -> ApiResult {
    if causes.is_empty() { Ok(()) } else { Err(Status::invalid_options(kind, causes)) }
}

fn is_dry_run(query: &Query, causes: &mut Vec<Cause>) -> bool {
    let values: Vec<&str> = query.all("dryRun").collect();
    if values.iter().any(|value| *value != "All") {
        causes.push(Cause::not_supported("dryRun", Value::from(values.clone()), "\"All\""));
    }
    !values.is_empty()
}
