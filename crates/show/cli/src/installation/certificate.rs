//! Generates a certificate authority and the webhook's certificate.
//!
//! The key of the authority is discarded after signing: it cannot sign other certificates, and a new certificate needs a
//! new authority.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use berth_serve::authority::Authority;
use serde_json::{Value, json};

use super::{NAMESPACE, TLS_SECRET};

/// Validity; only a new installation renews the certificate.
const YEARS: i32 = 10;

#[derive(Debug, thiserror::Error)]
#[error("cannot generate a certificate for {host}: {source}")]
pub struct CertificateError {
    host: String,
    source: rcgen::Error,
}

/// A certificate for the webhook's Service, its key and its authority, all in PEM.
#[derive(Clone)]
pub struct Certificate {
    ca_pem: String,
    pem: String,
    key_pem: String,
    /// The day on which its validity ends, such as `2036-11-21`.
    pub not_after: String,
}

impl std::fmt::Debug for Certificate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Without the key.
        f.debug_struct("Certificate").field("not_after", &self.not_after).finish_non_exhaustive()
    }
}

impl Certificate {
    /// Generates a certificate for the webhook's Service in this namespace.
    ///
    /// # Errors
    /// The namespace is not valid in a host name, or the system has no randomness.
    pub fn generate(namespace: &str, today: jiff::civil::Date) -> Result<Certificate, CertificateError> {
        let host = host(namespace);
        generate(&host, today).map_err(|source| CertificateError { host, source })
    }

    /// The Secret, in the default namespace of the manifests.
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

    /// The `caBundle` that the API server verifies the certificate with.
    pub fn ca_bundle(&self) -> String {
        bundle(&self.ca_pem)
    }
}

/// PEM as `caBundle` and Secrets encode it.
pub fn bundle(pem: &str) -> String {
    STANDARD.encode(pem)
}

/// The host name of the webhook's Service.
pub fn host(namespace: &str) -> String {
    format!("berth-webhook.{namespace}.svc")
}

fn generate(host: &str, today: jiff::civil::Date) -> Result<Certificate, rcgen::Error> {
    let year = i32::from(today.year());
    let month = u8::try_from(today.month()).unwrap_or(1);
    // A day that exists in every year and month.
    let day = u8::try_from(today.day()).unwrap_or(1).min(28);
    // Clocks differ: valid from the first of the month.
    let validity = [(year, month, 1), (year + YEARS, month, day)];
    let authority = Authority::new("berth webhook CA", validity)?;
    let signed = authority.sign("berth webhook", &[host.to_owned()], validity)?;
    let not_after = format!("{:04}-{month:02}-{day:02}", year + YEARS);
    let key_pem = signed.key_pem();
    Ok(Certificate { ca_pem: authority.pem, pem: signed.pem, key_pem, not_after })
}
