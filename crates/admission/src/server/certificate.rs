//! The certificate the server shows: given in files and read again when they change, or made by itself.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, date_time_ymd,
};
use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use super::metrics::Metrics;

/// Where the certificate comes from.
#[derive(Clone, Debug)]
pub enum CertificateSource {
    /// PEM files: the chain, the server's own certificate first, and its key.
    Files {
        /// The chain.
        certificate: PathBuf,
        /// The key.
        key: PathBuf,
    },
    /// Made at start, signed by a CA that is made with it and not kept.
    Own {
        /// Host names and IP addresses that the server is called by.
        names: Vec<String>,
    },
}

/// Why there is no certificate.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// A file cannot be read.
    #[error("{path}: {source}", path = path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// A file is not what it should be.
    #[error("{path}: no PEM {what} in it: {reason}", path = path.display())]
    Pem {
        /// The file.
        path: PathBuf,
        /// `certificate` or `private key`.
        what: &'static str,
        /// What is wrong.
        reason: String,
    },
    /// Certificate and key do not belong together, or the key is of no known kind.
    #[error("{certificate} with {key}: {source}; both must be of the same issue",
        certificate = certificate.display(), key = key.display())]
    Pair {
        /// The chain.
        certificate: PathBuf,
        /// The key.
        key: PathBuf,
        /// What is wrong.
        source: rustls::Error,
    },
    /// A certificate cannot be made; a name is neither a host name nor an address, most likely.
    #[error("a certificate for {names}: {source}", names = names.join(", "))]
    Make {
        /// Who it was for.
        names: Vec<String>,
        /// What is wrong.
        source: rcgen::Error,
    },
    /// TLS refuses.
    #[error("TLS: {0}")]
    Tls(#[from] rustls::Error),
}

/// The certificate in use. Connections that are open keep theirs; new ones are shown the newest.
#[derive(Debug)]
pub(super) struct Certificates {
    current: RwLock<Arc<CertifiedKey>>,
    /// Contents of the files as last looked at.
    seen: RwLock<Option<(Vec<u8>, Vec<u8>)>>,
    ca_pem: Option<String>,
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current.read().unwrap_or_else(PoisonError::into_inner).clone())
    }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// TLS with whatever certificate is current.
pub(super) fn tls_config(certificates: Arc<Certificates>) -> Result<ServerConfig, CertificateError> {
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_cert_resolver(certificates);
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

impl Certificates {
    pub(super) async fn load(source: &CertificateSource) -> Result<Certificates, CertificateError> {
        match source {
            CertificateSource::Files { certificate, key } => {
                let contents = (read(certificate).await?, read(key).await?);
                let current = certified(certificate, key, &contents)?;
                Ok(Certificates {
                    current: RwLock::new(Arc::new(current)),
                    seen: RwLock::new(Some(contents)),
                    ca_pem: None,
                })
            }
            CertificateSource::Own { names } => {
                let make = |source| CertificateError::Make { names: names.clone(), source };
                let Made { chain, key, ca_pem } = make_certificate(names).map_err(make)?;
                let current = CertifiedKey::from_der(chain, key, &provider())?;
                let current = RwLock::new(Arc::new(current));
                Ok(Certificates { current, seen: RwLock::new(None), ca_pem: Some(ca_pem) })
            }
        }
    }

    pub(super) fn ca_pem(&self) -> Option<&str> {
        self.ca_pem.as_deref()
    }

    /// Looks at the files from time to time, for ever. What cannot be used is told, and the certificate in use stays:
    /// files are often replaced one after the other.
    pub(super) async fn keep_up(
        self: Arc<Self>,
        source: CertificateSource,
        interval: Duration,
        metrics: Arc<Metrics>,
    ) {
        let CertificateSource::Files { certificate, key } = source else { return };
        let mut ticks = tokio::time::interval(interval.max(Duration::from_millis(1)));
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            match self.reload(&certificate, &key).await {
                Ok(false) => {}
                Ok(true) => {
                    metrics.certificate_reloaded(true);
                    tracing::info!(certificate = %certificate.display(), "the certificate has been replaced");
                }
                Err(error) => {
                    metrics.certificate_reloaded(false);
                    tracing::warn!("the certificate in use stays: {error}");
                }
            }
        }
    }

    /// Tells whether there is another certificate now.
    async fn reload(&self, certificate: &Path, key: &Path) -> Result<bool, CertificateError> {
        let contents = (read(certificate).await?, read(key).await?);
        let seen = |contents: &(Vec<u8>, Vec<u8>)| {
            self.seen.read().unwrap_or_else(PoisonError::into_inner).as_ref() == Some(contents)
        };
        if seen(&contents) {
            return Ok(false);
        }
        // What was looked at in vain is not complained about a second time.
        let made = certified(certificate, key, &contents);
        *self.seen.write().unwrap_or_else(PoisonError::into_inner) = Some(contents);
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(made?);
        Ok(true)
    }
}

async fn read(path: &Path) -> Result<Vec<u8>, CertificateError> {
    let failed = |source| CertificateError::Read { path: path.to_owned(), source };
    tokio::fs::read(path).await.map_err(failed)
}

fn certified(
    certificate: &Path,
    key: &Path,
    (chain_pem, key_pem): &(Vec<u8>, Vec<u8>),
) -> Result<CertifiedKey, CertificateError> {
    let bad =
        |path: &Path, what, reason: String| CertificateError::Pem { path: path.to_owned(), what, reason };
    let chain = CertificateDer::pem_slice_iter(chain_pem).collect::<Result<Vec<_>, _>>();
    let chain = chain.map_err(|e| bad(certificate, "certificate", e.to_string()))?;
    if chain.is_empty() {
        return Err(bad(certificate, "certificate", "the file has none".to_owned()));
    }
    let private = PrivateKeyDer::from_pem_slice(key_pem);
    let private = private.map_err(|e| bad(key, "private key", e.to_string()))?;
    CertifiedKey::from_der(chain, private, &provider()).map_err(|source| CertificateError::Pair {
        certificate: certificate.to_owned(),
        key: key.to_owned(),
        source,
    })
}

struct Made {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    ca_pem: String,
}

/// A CA and a certificate signed by it. The CA's key is forgotten at once: nobody can sign another.
fn make_certificate(names: &[String]) -> Result<Made, rcgen::Error> {
    let mut ca = CertificateParams::new(Vec::new())?;
    ca.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    ca.distinguished_name = name_of("berth webhook CA");
    ca.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    make_long_lived(&mut ca);
    let ca_key = KeyPair::generate()?;
    let ca_certificate = ca.self_signed(&ca_key)?;

    let mut server = CertificateParams::new(names.to_vec())?;
    server.distinguished_name = name_of("berth webhook");
    server.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    make_long_lived(&mut server);
    let key = KeyPair::generate()?;
    let signed = server.signed_by(&key, &Issuer::from_params(&ca, &ca_key))?;
    Ok(Made {
        chain: vec![signed.der().clone(), ca_certificate.der().clone()],
        key: PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der())),
        ca_pem: ca_certificate.pem(),
    })
}

fn name_of(common_name: &str) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, common_name);
    name
}

/// Valid for longer than any process runs, and on machines whose clock is off.
fn make_long_lived(params: &mut CertificateParams) {
    params.not_before = date_time_ymd(2020, 1, 1);
    params.not_after = date_time_ymd(2060, 1, 1);
}
