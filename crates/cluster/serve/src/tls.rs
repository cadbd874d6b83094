//! TLS of a server.

use std::sync::Arc;

use rustls::ServerConfig;
use tokio_rustls::TlsAcceptor;

use crate::certificate::{Certificates, provider};
use crate::client_certificate::{AnyCertificate, ClientAuthorities};

/// TLS with the certificate that is current at each handshake.
///
/// # Errors
/// TLS refuses the configuration.
pub fn tls_acceptor(certificates: Arc<Certificates>) -> Result<TlsAcceptor, rustls::Error> {
    tls_acceptor_for_clients(certificates, Arc::default())
}

/// As [`tls_acceptor`]; clients may have certificates of these authorities.
///
/// # Errors
/// TLS refuses the configuration.
pub(crate) fn tls_acceptor_for_clients(
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
