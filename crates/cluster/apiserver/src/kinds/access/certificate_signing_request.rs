//! CertificateSigningRequests.

use berth_schema::resource::CERTIFICATE_SIGNING_REQUESTS;
use serde_json::{Value, json};

use crate::server::Attributes;
use crate::server::status::Status;
use crate::strategy::fields::{Causes, object, text};
use crate::strategy::metadata::name;
use crate::strategy::typed::Typed;
use crate::strategy::{Context, Strategy};

pub struct CertificateSigningRequest;

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
        Typed(&CERTIFICATE_SIGNING_REQUESTS).validate(context, value, causes);
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
            context.shared.allows(context.user, &what)
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
