//! CertificateSigningRequests.

use berth_schema::resource::CERTIFICATE_SIGNING_REQUESTS;
use jiff::SignedDuration;

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

static TYPED: Typed = Typed::new(&CERTIFICATE_SIGNING_REQUESTS);

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

    fn validate(&self, context: &Context<'_>, value: &Value, causes: &mut Causes) {
        TYPED.validate(context, value, causes);
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
            causes.one_of(&field("status"), &condition["status"], statuses);
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
