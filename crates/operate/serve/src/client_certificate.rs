//! Client certificates: the authorities that sign them, and whom they name.
//!
//! A handshake accepts every certificate whose key the client has. Each request checks whether an accepted authority
//! signed it: a client with another certificate may have a token, or read what needs no permission.

use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};

use rustls::client::danger::HandshakeSignatureValid;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, Error, RootCertStore, SignatureScheme};

use crate::certificate::{CertificateError, RELOAD_INTERVAL, provider, read};

/// The certificates that a client sent, its own first; an extension of its requests.
#[derive(Clone)]
pub struct ClientChain(pub(crate) Arc<[CertificateDer<'static>]>);

/// Whom a client certificate names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientIdentity {
    pub common_name: String,
    pub organizations: Vec<String>,
}

/// The authorities whose client certificates are accepted; none at first.
#[derive(Debug, Default)]
pub struct ClientAuthorities(RwLock<Option<Arc<dyn ClientCertVerifier>>>);

impl ClientAuthorities {
    /// Replaces the authorities by those of a PEM text.
    ///
    /// # Errors
    /// The text has no certificate that can be used; the authorities before stay.
    pub fn set_pem(&self, pem: &[u8]) -> Result<(), String> {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(pem) {
            roots.add(certificate.map_err(|e| e.to_string())?).map_err(|e| e.to_string())?;
        }
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider());
        let verifier = verifier.build().map_err(|e| e.to_string())?;
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Some(verifier);
        Ok(())
    }

    /// Whom a chain names, if an accepted authority signed it and it is valid now.
    pub fn identify(&self, ClientChain(chain): &ClientChain) -> Option<ClientIdentity> {
        let verifier = self.verifier()?;
        let (own, intermediates) = chain.split_first()?;
        verifier.verify_client_cert(own, intermediates, UnixTime::now()).ok()?;
        let (_, certificate) = x509_parser::parse_x509_certificate(own).ok()?;
        let subject = certificate.subject();
        let common_name = subject.iter_common_name().next()?.as_str().ok()?.to_owned();
        let organizations =
            subject.iter_organization().filter_map(|o| o.as_str().ok().map(str::to_owned)).collect();
        (!common_name.is_empty()).then_some(ClientIdentity { common_name, organizations })
    }

    /// Reads the authorities from a file again and again, without end.
    pub async fn follow_file(&self, path: &Path) {
        let mut seen = Vec::new();
        loop {
            tokio::time::sleep(RELOAD_INTERVAL).await;
            match read(path).await {
                Ok(pem) if pem != seen => {
                    if let Err(reason) = self.set_pem(&pem) {
                        tracing::warn!(
                            "the previous certificate authorities stay in use: {}: {reason}",
                            path.display()
                        );
                    }
                    seen = pem;
                }
                Ok(_) => {}
                Err(error) => tracing::warn!("the previous certificate authorities stay in use: {error}"),
            }
        }
    }

    /// Reads the authorities from a file.
    ///
    /// # Errors
    /// The file cannot be read, or has no certificate that can be used.
    pub async fn read_file(&self, path: &Path) -> Result<(), CertificateError> {
        let pem = read(path).await?;
        let bad = |reason| CertificateError::Pem {
            path: path.to_path_buf(),
            what: "certificate authority",
            reason,
        };
        self.set_pem(&pem).map_err(bad)
    }

    fn verifier(&self) -> Option<Arc<dyn ClientCertVerifier>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Requests a client certificate if there are authorities.
#[derive(Debug)]
pub(crate) struct AnyCertificate(pub(crate) Arc<ClientAuthorities>);

impl ClientCertVerifier for AnyCertificate {
    fn offer_client_auth(&self) -> bool {
        self.0.verifier().is_some()
    }

    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = provider().signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signature, &algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = provider().signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, &algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        provider().signature_verification_algorithms.supported_schemes()
    }
}
