//! CertificateSigningRequests.

use berth_schema::resource::CERTIFICATE_SIGNING_REQUESTS;
use jiff::SignedDuration;
use serde_json::{Value, json};

use crate::request::{Attributes, Status};
use crate::strategy::fields::{Causes, object, text};
use crate::strategy::metadata::name;
use crate::strategy::typed::Typed;
use crate::strategy::{Context, Strategy};
use crate::table::columns::{AGE, Column, NAME, Printer};
use crate::table::duration::human_duration;
use crate::table::row::NONE;

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

    fn validate_update(&self, new: &Value, old: &Value, causes: &mut Causes) {
        if new["spec"] != old["spec"] {
            causes.immutable("spec", &new["spec"]);
        }
    }
}

pub static COLUMNS: Printer = Printer::new(
    &[
        NAME,
        AGE,
        Column::text("SignerName", "Who is asked to sign."),
        Column::text("Requestor", "Who made the request."),
        Column::text("RequestedDuration", "How long the certificate is to be valid."),
        Column::text("Condition", "Whether it is approved and issued."),
    ],
    |row| {
        let has = |condition: &str| row.condition(condition).is_some();
        let mut state = match (has("Approved"), has("Denied")) {
            (_, true) => "Denied",
            (true, false) => "Approved",
            (false, false) => "Pending",
        }
        .to_owned();
        for (there, name) in
            [(has("Failed"), ",Failed"), (row.text("/status/certificate").is_some(), ",Issued")]
        {
            state.push_str(if there { name } else { "" });
        }
        let seconds = row.at("/spec/expirationSeconds").and_then(Value::as_i64);
        let duration =
            seconds.map_or(NONE.to_owned(), |seconds| human_duration(SignedDuration::from_secs(seconds)));
        vec![
            row.name(),
            row.age(),
            row.text_or("/spec/signerName", NONE),
            row.text_or("/spec/username", ""),
            duration.into(),
            state.into(),
        ]
    },
);
