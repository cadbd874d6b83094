//! Validation of webhook configurations, with the readers of their parts.

use std::collections::HashSet;

use berth_api::object::LabelSelector;
use berth_api::read::from_value;
use berth_api::syntax;
use berth_rules::Selector;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use serde_json::Value;

use berth_cel::Expression;

/// Versions of `AdmissionReview`. A webhook is sent the first of its versions that is one of these.
pub const REVIEW_VERSIONS: [&str; 2] = ["v1", "v1beta1"];
pub const VARIABLES: &[&str] = &["object", "oldObject", "request"];
const OPERATIONS: &[&str] = &["*", "CREATE", "UPDATE", "DELETE", "CONNECT"];
const MAX_CONDITIONS: usize = 64;

/// The errors of one webhook of a configuration, as `(field, value, reason)`; `path` is the webhook's own
/// (`webhooks[0]`). The schema check of every field happens elsewhere.
pub fn check(path: &str, webhook: &Value) -> Vec<(String, Value, String)> {
    let mut wrong = Vec::new();
    let mut add =
        |field: String, value: &Value, why: &str| wrong.push((field, value.clone(), why.to_owned()));
    let client = &webhook["clientConfig"];
    if let Some(url) = client["url"].as_str() {
        let why = match url.parse::<http::Uri>() {
            Ok(uri) if uri.scheme_str() != Some("https") => "'https' is the only allowed URL scheme",
            Ok(uri) if uri.host().is_none_or(str::is_empty) => "host must be specified",
            Ok(uri) if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) => {
                "user information is not permitted in the URL"
            }
            // The parser drops them.
            Ok(_) if url.contains('#') => "fragments are not permitted in the URL",
            Ok(uri) if uri.query().is_some() => "query parameters are not permitted in the URL",
            Ok(_) => "",
            Err(_) => "url must be a valid URL",
        };
        if !why.is_empty() {
            add(format!("{path}.clientConfig.url"), &client["url"], why);
        }
    }
    if certificates(client["caBundle"].as_str().unwrap_or_default()).is_none() {
        let field = format!("{path}.clientConfig.caBundle");
        add(field, &client["caBundle"], "unable to load root certificates: no PEM certificate found");
    }
    for field in ["namespaceSelector", "objectSelector"] {
        if selector(&webhook[field]).is_none() {
            add(format!("{path}.{field}"), &webhook[field], "not a valid label selector");
        }
    }
    let versions = webhook["admissionReviewVersions"].as_array();
    if versions.is_some_and(|versions| {
        !versions.is_empty()
            && !versions.iter().any(|version| REVIEW_VERSIONS.iter().any(|supported| version == supported))
    }) {
        let field = format!("{path}.admissionReviewVersions");
        add(field, &webhook["admissionReviewVersions"], "must include at least one of v1, v1beta1");
    }
    for (at, rule) in webhook["rules"].as_array().into_iter().flatten().enumerate() {
        let rule_path = format!("{path}.rules[{at}]");
        for field in ["operations", "apiGroups", "apiVersions", "resources"] {
            if rule[field].as_array().is_none_or(Vec::is_empty) {
                add(format!("{rule_path}.{field}"), &rule[field], "at least one is required");
            }
        }
        let is_supported = |operation: &Value| operation.as_str().is_some_and(|o| OPERATIONS.contains(&o));
        if !rule["operations"].as_array().into_iter().flatten().all(is_supported) {
            let why = "supported are \"*\", \"CONNECT\", \"CREATE\", \"DELETE\", \"UPDATE\"";
            add(format!("{rule_path}.operations"), &rule["operations"], why);
        }
        if !matches!(rule["scope"].as_str(), None | Some("*" | "Cluster" | "Namespaced")) {
            let why = "supported are \"*\", \"Cluster\", \"Namespaced\"";
            add(format!("{rule_path}.scope"), &rule["scope"], why);
        }
    }
    let conditions = webhook["matchConditions"].as_array().map_or(&[][..], Vec::as_slice);
    if conditions.len() > MAX_CONDITIONS {
        let why = format!("must have at most {MAX_CONDITIONS} items");
        add(format!("{path}.matchConditions"), &conditions.len().into(), &why);
        return wrong;
    }
    let mut names = HashSet::new();
    for (at, condition) in conditions.iter().enumerate() {
        let path = format!("{path}.matchConditions[{at}]");
        let name = condition["name"].as_str().unwrap_or_default();
        for problem in syntax::label_key(name) {
            add(format!("{path}.name"), &condition["name"], &problem);
        }
        if !names.insert(name) {
            add(format!("{path}.name"), &condition["name"], "another condition has this name");
        }
        let expression = condition["expression"].as_str().unwrap_or_default();
        if let Err(why) = Expression::compile(expression, VARIABLES) {
            add(format!("{path}.expression"), &condition["expression"], &why);
        }
    }
    wrong
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
