//! CertificateSigningRequests.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use berth_api::syntax;
use berth_schema::resource::CERTIFICATE_SIGNING_REQUESTS;
use jiff::SignedDuration;
use rustls::pki_types::CertificateSigningRequestDer;
use rustls::pki_types::pem::PemObject as _;

use crate::kinds::prelude::*;
use crate::request::{ApiResult, Attributes, Status};
use crate::table::duration::human_duration;

pub struct CertificateSigningRequest;

const APPROVED: &str = "Approved";
const DENIED: &str = "Denied";
const FAILED: &str = "Failed";
/// The conditions that only the subresource `approval` sets.
const DECISIONS: [&str; 2] = [APPROVED, DENIED];

fn conditions<'v>(request: &'v Value, condition: &'static str) -> impl Iterator<Item = &'v Value> + Clone {
    items(&request["status"], "conditions").iter().filter(move |entry| entry["type"] == condition)
}

const USAGES: &[&str] = &[
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
];

/// A domain and a path, such as `example.com/signer`.
fn validate_signer(signer: &Value, causes: &mut Causes) {
    let (field, name) = ("spec.signerName", text(signer, ""));
    let (domain, path) = match name.split_once('/') {
        _ if name.is_empty() => return causes.required(field, ""),
        Some((domain, path)) if !path.contains('/') => (domain, path),
        _ => {
            let why = "must be a fully qualified domain and path of the form 'example.com/signer-name'";
            return causes.invalid(field, signer, why);
        }
    };
    if domain.len() > 253 {
        causes.too_long(field, 253);
    }
    let first_wrong = |name: &str, problems: fn(&str) -> Vec<String>| {
        let wrong = name.split('.').find(|label| !problems(label).is_empty());
        let why = |label: &str| {
            problems(label).iter().map(|why| format!("validating label {label:?}: {why}")).collect()
        };
        wrong.map(why).unwrap_or_default()
    };
    causes.problems(field, &domain.into(), first_wrong(domain, syntax::dns_label));
    if !domain.contains('.') {
        causes.invalid(
            field,
            &domain.into(),
            "should be a domain with at least two segments separated by dots",
        );
    }
    causes.problems(field, &path.into(), first_wrong(path, syntax::dns_subdomain));
    if path.len() > 253 + 63 + 1 {
        causes.too_long(field, 253 + 63 + 1);
    }
}

fn is_pem(request: &Value) -> bool {
    let pem = STANDARD.decode(text(request, "")).unwrap_or_default();
    CertificateSigningRequestDer::from_pem_slice(&pem).is_ok()
}

impl Strategy for CertificateSigningRequest {
    /// The request says who made it.
    fn prepare_create(&self, context: &Context<'_>, value: &mut Value) {
        let Some(spec) = object(value, "spec") else { return };
        let user = context.user;
        for (field, fact) in [
            ("username", json!(user.name)),
            ("uid", json!(user.uid)),
            ("groups", json!(user.groups)),
            ("extra", json!(user.extra)),
        ] {
            spec.insert(field.to_owned(), fact);
        }
    }

    /// The subresource `status` keeps the conditions that `approval` sets; what is requested stays.
    fn prepare_update(&self, context: &Context<'_>, new: &mut Value, old: &Value) {
        take(new, old, "spec");
        for condition in
            items_mut(&mut new["status"], "conditions").iter_mut().filter_map(Value::as_object_mut)
        {
            ["lastTransitionTime", "lastUpdateTime"].iter().for_each(|time| default(condition, time, now()));
        }
        if context.subresource != "status" {
            return;
        }
        for decision in DECISIONS {
            let mut before = conditions(old, decision);
            if before.clone().count() != conditions(new, decision).count() {
                continue;
            }
            let sent = items_mut(&mut new["status"], "conditions").iter_mut();
            for condition in sent.filter(|condition| condition["type"] == decision) {
                if let Some(kept) = before.next() {
                    *condition = kept.clone();
                }
            }
        }
    }

    fn name_problems(&self, name: &str) -> Vec<String> {
        syntax::path_segment(name)
    }

    fn validate(&self, _context: &Context<'_>, value: &Value, causes: &mut Causes) {
        let spec = &value["spec"];
        if !is_pem(&spec["request"]) {
            causes.invalid("spec.request", &spec["request"], "PEM block type must be CERTIFICATE REQUEST");
        }
        let usages = items(spec, "usages");
        if usages.is_empty() {
            causes.required("spec.usages", "");
        }
        for (i, usage) in usages.iter().enumerate() {
            causes.one_of(&format!("spec.usages[{i}]"), usage, USAGES);
        }
        for i in repeated(usages) {
            causes.duplicate(&format!("spec.usages[{i}]"), &usages[i]);
        }
        validate_signer(&spec["signerName"], causes);
        let seconds = &spec["expirationSeconds"];
        if seconds.as_i64().is_some_and(|seconds| seconds < 600) {
            let why = "may not specify a duration less than 600 seconds (10 minutes)";
            causes.invalid("spec.expirationSeconds", seconds, why);
        }
    }

    fn validate_status(&self, new: &Value, old: &Value, causes: &mut Causes) {
        for kept in [APPROVED, DENIED, FAILED] {
            if conditions(new, kept).count() < conditions(old, kept).count() {
                let why = format!("updates may not remove a condition of type {kept:?}");
                causes.forbidden("status.conditions", &why);
            }
        }
        let list = items(&new["status"], "conditions");
        for (i, condition) in list.iter().enumerate() {
            let field = |name: &str| format!("status.conditions[{i}].{name}");
            causes.not_empty(&field("type"), &condition["type"]);
            let is_final = [APPROVED, DENIED, FAILED].contains(&text(condition, "/type"));
            let statuses: &[&str] = if is_final { &["True"] } else { &["False", "True", "Unknown"] };
            causes.not_empty(&field("status"), &condition["status"]);
            if !is_empty(&condition["status"]) {
                causes.one_of(&field("status"), &condition["status"], statuses);
            }
            let other = DECISIONS.into_iter().find(|other| condition["type"] != *other);
            let is_decision = DECISIONS.contains(&text(condition, "/type"));
            if is_decision
                && list[..i].iter().any(|earlier| other.is_some_and(|other| earlier["type"] == other))
            {
                let why = "Approved and Denied conditions are mutually exclusive";
                causes.invalid(&field("type"), &condition["type"], why);
            }
        }
        for i in repeated(list.iter().map(|condition| text(condition, "/type"))) {
            causes.duplicate(&format!("status.conditions[{i}].type"), &list[i]["type"]);
        }
        let certificate = |value: &Value| value["status"]["certificate"].clone();
        if !is_empty(&certificate(old)) && certificate(new) != certificate(old) {
            causes.forbidden("status.certificate", "updates may not modify existing certificate content");
        }
    }

    /// Approving and signing need a permission for the signer, as the admission plugins CertificateApproval and
    /// CertificateSigning demand.
    fn authorize_update(&self, context: &Context<'_>, new: &Value, old: &Value) -> ApiResult {
        if context.subresource == "status" {
            let mut causes = Causes::default();
            for decision in DECISIONS {
                if conditions(new, decision).count() > conditions(old, decision).count() {
                    let why = format!("updates may not add a condition of type {decision:?}");
                    causes.forbidden("status.conditions", &why);
                }
            }
            causes.refuse(&CERTIFICATE_SIGNING_REQUESTS, new)?;
        }
        let changes = |field: &str| new["status"][field] != old["status"][field];
        let verb = match context.subresource {
            "approval" => "approve",
            "status" if changes("certificate") || changes("conditions") => "sign",
            _ => return Ok(()),
        };
        let signer = text(old, "/spec/signerName");
        let domain = signer.split('/').next().unwrap_or_default();
        let group = CERTIFICATE_SIGNING_REQUESTS.group;
        let may = |name: &str| {
            let what = Attributes { verb, group, resource: "signers", name, ..Attributes::default() };
            context.lookup.allows(context.user, &what)
        };
        if may(signer) || may(&format!("{domain}/*")) {
            return Ok(());
        }
        let why = format!("user not permitted to {verb} requests with signerName {signer:?}");
        Err(Status::forbidden(&CERTIFICATE_SIGNING_REQUESTS, name(new), &why))
    }

    fn validate_update(&self, _context: &Context<'_>, new: &Value, old: &Value, causes: &mut Causes) {
        causes.unchanged("spec", &new["spec"], &old["spec"]);
    }
}

pub const COLUMNS: &[Column] = &[
    NAME,
    AGE,
    Column::field("SignerName", "The requested signer.", "/spec/signerName").or(NONE),
    Column::field("Requestor", "Who made the request.", "/spec/username"),
    Column::text("RequestedDuration", "How long the certificate is to be valid.", |row| {
        let seconds = row.at("/spec/expirationSeconds").and_then(Value::as_i64);
        seconds.map_or(NONE.into(), |seconds| human_duration(SignedDuration::from_secs(seconds)).into())
    }),
    Column::text("Condition", "Whether it is approved and issued.", |row| {
        let has = |condition: &str| row.condition(condition).is_some();
        let state = match (has("Approved"), has("Denied")) {
            (_, true) => "Denied",
            (true, false) => "Approved",
            (false, false) => "Pending",
        };
        let failed = if has("Failed") { ",Failed" } else { "" };
        let issued = if row.text("/status/certificate").is_some() { ",Issued" } else { "" };
        format!("{state}{failed}{issued}").into()
    }),
];
