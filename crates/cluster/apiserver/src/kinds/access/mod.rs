//! Roles, identities and the requests about them.

mod certificate_signing_request;
mod rbac;

use berth_schema::resource::*;

use crate::kinds::kind::{NoRules, kinds};
use crate::table::columns::{AGE, Column, DEFAULT, NAME};

kinds! {
    SERVICE_ACCOUNTS: NoRules, &[NAME, Column::count("Secrets", "How many secrets its pods may use.", "/secrets"), AGE];
    SELF_SUBJECT_REVIEWS: NoRules, DEFAULT;
    TOKEN_REVIEWS: NoRules, DEFAULT;
    LOCAL_SUBJECT_ACCESS_REVIEWS: NoRules, DEFAULT;
    SELF_SUBJECT_ACCESS_REVIEWS: NoRules, DEFAULT;
    SELF_SUBJECT_RULES_REVIEWS: NoRules, DEFAULT;
    SUBJECT_ACCESS_REVIEWS: NoRules, DEFAULT;
    CERTIFICATE_SIGNING_REQUESTS: certificate_signing_request::CertificateSigningRequest, certificate_signing_request::COLUMNS;
    CLUSTER_ROLE_BINDINGS: rbac::RoleBinding(&CLUSTER_ROLE_BINDINGS), rbac::BINDING_COLUMNS;
    CLUSTER_ROLES: rbac::Role(&CLUSTER_ROLES), DEFAULT;
    ROLE_BINDINGS: rbac::RoleBinding(&ROLE_BINDINGS), rbac::BINDING_COLUMNS;
    ROLES: rbac::Role(&ROLES), DEFAULT;
}
