//! Validation of webhook configurations, with the readers of their parts.

use std::collections::HashSet;

use berth_api::object::LabelSelector;
use berth_api::read::from_value;
use berth_api::syntax;
use berth_rules::Selector;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use serde_json::Value;

use berth_cel::Type;

use super::expression::Scope;
use super::fields::{Causes, items, repeated, text, validate_label_selector};

/// Versions of `AdmissionReview`. A webhook is sent the first of its versions that is one of these.
pub const REVIEW_VERSIONS: [&str; 2] = ["v1", "v1beta1"];
const OPERATIONS: &[&str] = &["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
const MAX_CONDITIONS: usize = 64;

/// Validates one webhook of a configuration; `path` is its own (`webhooks[0]`).
pub fn check(path: &str, webhook: &Value, causes: &mut Causes) {
    let at = |field: &str| format!("{path}.{field}");
    let name = text(webhook, "/name");
    let mut problems = syntax::dns_subdomain(name);
    if problems.is_empty() && name.split('.').count() < 3 {
        problems.push("should be a domain with at least three segments separated by dots".to_owned());
    }
    match name {
        "" => causes.required(&at("name"), ""),
        _ if problems.is_empty() => {}
        _ => causes.invalid(&at("name"), &webhook["name"], &problems.join(",")),
    }
    for (i, rule) in items(webhook, "rules").iter().enumerate() {
        check_rule(&format!("{path}.rules[{i}]"), rule, causes);
    }
    causes.one_of(&at("failurePolicy"), &webhook["failurePolicy"], &["Fail", "Ignore"]);
    causes.one_of(&at("matchPolicy"), &webhook["matchPolicy"], &["Equivalent", "Exact"]);
    match &webhook["sideEffects"] {
        Value::Null => causes.required(&at("sideEffects"), "must specify one of None, NoneOnDryRun"),
        effects => causes.one_of(&at("sideEffects"), effects, &["None", "NoneOnDryRun"]),
    }
    let seconds = &webhook["timeoutSeconds"];
    if !seconds.as_i64().is_some_and(|seconds| (1..=30).contains(&seconds)) {
        causes.invalid(&at("timeoutSeconds"), seconds, "the timeout value must be between 1 and 30 seconds");
    }
    for field in ["namespaceSelector", "objectSelector"] {
        validate_label_selector(&at(field), &webhook[field], causes);
    }
    if let Some(policy) = webhook["reinvocationPolicy"].as_str() {
        causes.one_of(&at("reinvocationPolicy"), &policy.into(), &["IfNeeded", "Never"]);
    }
    check_client(&at("clientConfig"), &webhook["clientConfig"], causes);
    check_conditions(&at("matchConditions"), webhook, false, causes);
    let (path, versions) = (at("admissionReviewVersions"), items(webhook, "admissionReviewVersions"));
    if versions.is_empty() {
        return causes.required(&path, "must specify one of v1, v1beta1");
    }
    let again = repeated(versions);
    for (i, version) in versions.iter().enumerate() {
        let problems = match again.contains(&i) {
            true => vec!["duplicate version".to_owned()],
            false => syntax::dns_1035_label(text(version, "")),
        };
        causes.problems(&format!("{path}[{i}]"), version, problems);
    }
    if !versions.iter().any(|version| REVIEW_VERSIONS.contains(&text(version, ""))) {
        causes.invalid(
            &path,
            &webhook["admissionReviewVersions"],
            "must include at least one of v1, v1beta1",
        );
    }
}

pub fn check_rule(path: &str, rule: &Value, causes: &mut Causes) {
    let what = [
        ("operations", "operations"),
        ("apiGroups", "API groups"),
        ("apiVersions", "API versions"),
        ("resources", ""),
    ];
    for (field, others) in what {
        let (path, list) = (format!("{path}.{field}"), items(rule, field));
        if list.is_empty() {
            causes.required(&path, "");
        }
        if list.len() > 1 && !others.is_empty() && list.iter().any(|item| item == "*") {
            let why = format!("if '*' is present, must not specify other {others}");
            causes.invalid(&path, &rule[field], &why);
        }
        for (i, item) in list.iter().enumerate() {
            let path = format!("{path}[{i}]");
            match field {
                "operations" => causes.one_of(&path, item, OPERATIONS),
                "apiVersions" | "resources" => causes.not_empty(&path, item),
                _ => {}
            }
        }
    }
    check_resources(&format!("{path}.resources"), &rule["resources"], causes);
    if let Some(scope) = rule["scope"].as_str() {
        causes.one_of(&format!("{path}.scope"), &scope.into(), &["*", "Cluster", "Namespaced"]);
    }
}

/// Whether resources of a rule name what others of it include.
fn check_resources(path: &str, list: &Value, causes: &mut Causes) {
    let names: Vec<&str> = list.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let (mut of_all, mut in_all) = (HashSet::new(), HashSet::new());
    for (i, name) in names.iter().enumerate() {
        let Some((resource, subresource)) = name.split_once('/') else { continue };
        for (all, is_included) in [
            (format!("{resource}/*"), of_all.contains(resource)),
            (format!("*/{subresource}"), in_all.contains(subresource)),
        ] {
            if is_included {
                let why = format!("if '{all}' is present, must not specify {name}");
                causes.invalid(&format!("{path}[{i}]"), &(*name).into(), &why);
            }
        }
        if subresource == "*" {
            of_all.insert(resource);
        }
        if resource == "*" {
            in_all.insert(subresource);
        }
    }
    if names.len() > 1 && names.contains(&"*/*") {
        causes.invalid(path, list, "if '*/*' is present, must not specify other resources");
    }
    let last = names.iter().rfind(|name| !name.contains('/'));
    if names.contains(&"*") && last.is_some_and(|name| *name != "*") {
        let why = "if '*' is present, must not specify other resources without subresources";
        causes.invalid(path, list, why);
    }
}

fn check_client(path: &str, client: &Value, causes: &mut Causes) {
    const FORM: &str = "; desired format: https://host[/path]";
    if client["url"].is_null() == client["service"].is_null() {
        causes.required(path, "exactly one of url or service is required");
    } else if let Some(url) = client["url"].as_str() {
        check_url(&format!("{path}.url"), url, FORM, causes);
    } else {
        let (path, service) = (format!("{path}.service"), &client["service"]);
        // kube-apiserver confuses the two.
        causes.not_empty(&format!("{path}.name"), &service["namespace"]);
        causes.not_empty(&format!("{path}.namespace"), &service["name"]);
        let number = service["port"].as_i64().and_then(|port| port.try_into().ok()).unwrap_or(0);
        let problems = syntax::port_number(number);
        if !problems.is_empty() {
            let why = format!("port is not valid: {}", problems.join(", "));
            causes.invalid(&format!("{path}.port"), &service["port"], &why);
        }
        check_path(&format!("{path}.path"), text(service, "/path"), causes);
    }
    if certificates(text(client, "/caBundle")).is_none() {
        let why = "unable to load root certificates: no PEM certificate found";
        causes.invalid(&format!("{path}.caBundle"), &client["caBundle"], why);
    }
}

fn check_url(path: &str, url: &str, form: &str, causes: &mut Causes) {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    if url.starts_with(':') || !scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c)) {
        return causes.required(
            path,
            &format!("url must be a valid URL: parse {url:?}: missing protocol scheme{form}"),
        );
    }
    if scheme.starts_with(|c: char| !c.is_ascii_alphabetic()) {
        let why = "first path segment in URL cannot contain colon";
        return causes.required(path, &format!("url must be a valid URL: parse {url:?}: {why}{form}"));
    }
    if !scheme.eq_ignore_ascii_case("https") {
        causes.invalid(path, &scheme.into(), &format!("'https' is the only allowed URL scheme{form}"));
    }
    let (rest, fragment) = rest.split_once('#').unwrap_or((rest, ""));
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let authority = rest.split('/').next().filter(|_| !scheme.is_empty()).unwrap_or_default();
    let (user, host) = authority.rsplit_once('@').unwrap_or(("", authority));
    if host.is_empty() {
        causes.invalid(path, &"".into(), &format!("host must be specified{form}"));
    }
    for (value, what) in [
        (user, "user information is not permitted in the URL"),
        (fragment, "fragments are not permitted in the URL"),
        (query, "query parameters are not permitted in the URL"),
    ] {
        if !value.is_empty() {
            causes.invalid(path, &value.into(), what);
        }
    }
}

fn check_path(path: &str, given: &str, causes: &mut Causes) {
    let value = Value::from(given);
    if matches!(given, "" | "/") {
        return;
    }
    if given == "//" {
        return causes.invalid(path, &value, "segment[0] may not be empty");
    }
    if !given.starts_with('/') {
        causes.invalid(path, &value, "must start with a '/'");
    }
    let steps = given.get(1..).unwrap_or_default();
    for (i, step) in steps.strip_suffix('/').unwrap_or(steps).split('/').enumerate() {
        if step.is_empty() {
            causes.invalid(path, &value, &format!("segment[{i}] may not be empty"));
        } else {
            let problems = syntax::dns_subdomain(step).into_iter();
            causes.problems(
                path,
                &value,
                problems.map(|problem| format!("segment[{i}]: {problem}")).collect(),
            );
        }
    }
}

/// Checks the `matchConditions` of a webhook or a policy.
pub fn check_conditions(path: &str, of: &Value, has_params: bool, causes: &mut Causes) {
    let conditions = items(of, "matchConditions");
    let scope = Scope::new(has_params);
    if conditions.len() > MAX_CONDITIONS {
        return causes.too_many(path, conditions.len(), MAX_CONDITIONS);
    }
    let again = repeated(conditions.iter().map(|condition| &condition["name"]));
    for (i, condition) in conditions.iter().enumerate() {
        let path = format!("{path}[{i}]");
        let (name, expression) = (text(condition, "/name"), text(condition, "/expression").trim());
        match scope.compile_as(&[Type::Bool], expression) {
            _ if expression.is_empty() => causes.required(&format!("{path}.expression"), ""),
            Ok(_) => {}
            Err(why) => causes.invalid(&format!("{path}.expression"), &expression.into(), &why),
        }
        let path = format!("{path}.name");
        match name {
            "" => causes.required(&path, ""),
            _ => causes.problems(&path, &name.into(), syntax::label_key(name)),
        }
        if !name.is_empty() && again.contains(&i) {
            causes.duplicate(&path, &name.into());
        }
    }
}

/// An absent selector selects every object.
pub fn selector(value: &Value) -> Option<Selector> {
    if value.is_null() {
        return Some(Selector::EVERYTHING);
    }
    let selector = from_value::<LabelSelector>(value).ok()?;
    Selector::parse(Some(&selector)).ok()
}

/// The certificates in a `caBundle` (base64 of PEM). `None` if it is malformed; an empty list if it is empty.
pub fn certificates(bundle: &str) -> Option<Vec<Vec<u8>>> {
    use base64::Engine as _;
    if bundle.is_empty() {
        return Some(Vec::new());
    }
    let pem = base64::engine::general_purpose::STANDARD.decode(bundle).ok()?;
    let certificates: Result<Vec<_>, _> =
        CertificateDer::pem_slice_iter(&pem).map(|found| found.map(|der| der.to_vec())).collect();
    certificates.ok().filter(|found| !found.is_empty())
}
