//! CertificateSigningRequests.

use berth_schema::resource::CERTIFICATE_SIGNING_REQUESTS;
use jiff::SignedDuration;

use crate::kinds::prelude::*;
use crate::request::Attributes;
use crate::table::duration::human_duration;

pub struct CertificateSigningRequest;

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

    fn validate(&self, context: &Context<'_>, value: &Value, causes: &mut Causes) {
        TYPED.validate(context, value, causes);
    }

    /// Approving and signing need a permission for the signer, as the admission plugins CertificateApproval and
    /// CertificateSigning demand.
    fn authorize_update(
        &self,
        context: &Context<'_>,
        subresource: &str,
        new: &Value,
        old: &Value,
    ) -> Result<(), Box<Status>> {
        let certificate = "/status/certificate";
        let verb = match subresource {
            "approval" => "approve",
            "status" if new.pointer(certificate) != old.pointer(certificate) => "sign",
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
