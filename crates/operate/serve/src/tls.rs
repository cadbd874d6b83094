//! TLS of a server.

use std::sync::Arc;

use rustls::ServerConfig;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use crate::certificate::{CertificateError, CertificateSource, Certificates, RELOAD_INTERVAL, provider};
use crate::client_certificate::{AnyCertificate, ClientAuthorities};

/// TLS with the certificate that is current at each handshake.
pub fn tls_acceptor(certificates: Arc<Certificates>) -> Result<TlsAcceptor, rustls::Error> {
    tls_acceptor_for_clients(certificates, Arc::default())
}

/// TLS with a certificate whose files are read again when they change, until `stop`; clients may have certificates of
/// these authorities.
pub async fn reloading_tls(
    certificate: &CertificateSource,
    authorities: Arc<ClientAuthorities>,
    stop: &CancellationToken,
) -> Result<TlsAcceptor, CertificateError> {
    let certificates = Arc::new(Certificates::load(certificate).await?);
    let tls = tls_acceptor_for_clients(certificates.clone(), authorities)?;
    let reload = certificates.reload_changes(certificate.clone(), RELOAD_INTERVAL, |_| {});
    let stopped = stop.clone();
    tokio::spawn(async move { stopped.run_until_cancelled(reload).await });
    Ok(tls)
}

/// As [`tls_acceptor`]; clients may have certificates of these authorities.
fn tls_acceptor_for_clients(
    certificates: Arc<Certificates>,
    authorities: Arc<ClientAuthorities>,
) -> Result<TlsAcceptor, rustls::Error> {
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()?
        .with_client_cert_verifier(Arc::new(AnyCertificate(authorities)))
        .with_cert_resolver(certificates);
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}
