//! A certificate authority of the webhook's own, and the one certificate it signs.
//!
//! The authority's key is thrown away: nobody can sign another certificate with it, and a new certificate comes with
//! a new authority.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, date_time_ymd,
};
use serde_json::{Value, json};

use super::{NAMESPACE, TLS_SECRET};

/// There is no renewal without a new installation.
const YEARS: i32 = 10;

/// What made no certificate.
#[derive(Debug, thiserror::Error)]
#[error("cannot make a certificate for {host}: {source}")]
pub struct CertificateError {
    host: String,
    source: rcgen::Error,
}

/// A certificate for the webhook's Service, its key, and the authority that signed it; all in PEM.
#[derive(Clone)]
pub struct Certificate {
    ca_pem: String,
    pem: String,
    key_pem: String,
    /// The first day on which it no longer holds, as `2036-11-21`.
    pub ends: String,
}

impl std::fmt::Debug for Certificate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Not the key.
        f.debug_struct("Certificate").field("ends", &self.ends).finish_non_exhaustive()
    }
}

impl Certificate {
    /// A new one, for the webhook's Service in this namespace, from this day on.
    ///
    /// # Errors
    /// The namespace is no part of a host name, or there is no randomness.
    pub fn make(namespace: &str, today: jiff::civil::Date) -> Result<Certificate, CertificateError> {
        let host = host(namespace);
        make(&host, today).map_err(|source| CertificateError { host, source })
    }

    /// The Secret, in the namespace of the files.
    pub fn secret(&self) -> Value {
        json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {
                "name": TLS_SECRET,
                "namespace": NAMESPACE,
                "labels": {"app.kubernetes.io/name": "berth", "app.kubernetes.io/component": "webhook"},
            },
            "type": "kubernetes.io/tls",
            "data": {
                "ca.crt": bundle(&self.ca_pem),
                "tls.crt": bundle(&self.pem),
                "tls.key": bundle(&self.key_pem),
            },
        })
    }

    /// What API servers check the certificate by.
    pub fn ca_bundle(&self) -> String {
        bundle(&self.ca_pem)
    }
}

/// As `caBundle` and Secrets hold PEM.
pub fn bundle(pem: &str) -> String {
    STANDARD.encode(pem)
}

/// The name API servers call the webhook by.
pub fn host(namespace: &str) -> String {
    format!("berth-webhook.{namespace}.svc")
}

fn make(host: &str, today: jiff::civil::Date) -> Result<Certificate, rcgen::Error> {
    let year = i32::from(today.year());
    let month = u8::try_from(today.month()).unwrap_or(1);
    // The same day in every year: there is no 29th in most Februaries.
    let day = u8::try_from(today.day()).unwrap_or(1).min(28);
    let lasting = |params: &mut CertificateParams| {
        // Clocks differ: it holds since the first of the month.
        params.not_before = date_time_ymd(year, month, 1);
        params.not_after = date_time_ymd(year + YEARS, month, day);
    };
    let mut ca = CertificateParams::new(Vec::new())?;
    ca.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    ca.distinguished_name = named("berth webhook CA");
    ca.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    lasting(&mut ca);
    let ca_key = KeyPair::generate()?;
    let ca_pem = ca.self_signed(&ca_key)?.pem();

    let mut params = CertificateParams::new(vec![host.to_owned()])?;
    params.distinguished_name = named("berth webhook");
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    lasting(&mut params);
    let key = KeyPair::generate()?;
    let pem = params.signed_by(&key, &Issuer::new(ca, ca_key))?.pem();
    let ends = format!("{:04}-{month:02}-{day:02}", year + YEARS);
    Ok(Certificate { ca_pem, pem, key_pem: key.serialize_pem(), ends })
}

fn named(common_name: &str) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, common_name);
    name
}
