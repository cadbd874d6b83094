//! CertificateSigningRequests.

use berth_schema::resource::CERTIFICATE_SIGNING_REQUESTS;
use serde_json::{Value, json};

use super::typed::Typed;
use crate::strategy::fields::{Causes, object};
use crate::strategy::{Context, Strategy};

pub(super) struct CertificateSigningRequest;

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

    fn validate_update(&self, new: &Value, old: &Value, causes: &mut Causes) {
        if new["spec"] != old["spec"] {
            causes.immutable("spec", &new["spec"]);
        }
    }
}
