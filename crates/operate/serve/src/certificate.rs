//! The certificate of a server: read from files, and again when they change, or signed by its own authority.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio::io::AsyncReadExt as _;

use crate::authority::{Authority, LONG, ServerCertificate};

#[derive(Clone, Debug)]
pub enum CertificateSource {
    /// PEM files: the chain, the server's own certificate first, and its key.
    Files { certificate: PathBuf, key: PathBuf },
    /// Signed at start by a new authority, whose key is not kept.
    Own {
        /// Common name of the certificate; that of the authority is the same with ` CA` behind it.
        common_name: &'static str,
        /// Host names and IP addresses of the server.
        names: Vec<String>,
    },
}

#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    #[error("{path}: {source}", path = path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("{path}: no PEM {what} in it: {reason}", path = path.display())]
    Pem {
        path: PathBuf,
        /// `certificate` or `private key`.
        what: &'static str,
        reason: String,
    },
    #[error("{certificate} with {key}: {source}; both must have been issued together",
        certificate = certificate.display(), key = key.display())]
    Pair { certificate: PathBuf, key: PathBuf, source: rustls::Error },
    /// A certificate cannot be made; a name is neither a host name nor an address, most likely.
    #[error("a certificate for {names}: {source}", names = names.join(", "))]
    Make { names: Vec<String>, source: rcgen::Error },
    #[error("TLS: {0}")]
    Tls(#[from] rustls::Error),
}

/// The certificate in use. Open connections keep theirs; a handshake takes the newest.
#[derive(Debug)]
pub struct Certificates {
    current: RwLock<Arc<CertifiedKey>>,
    /// Contents of the files at the last reading.
    seen: RwLock<Option<(Vec<u8>, Vec<u8>)>>,
    ca_pem: Option<String>,
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current.read().unwrap_or_else(PoisonError::into_inner).clone())
    }
}

pub(crate) fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

impl Certificates {
    /// Loads or makes a certificate.
    pub async fn load(source: &CertificateSource) -> Result<Certificates, CertificateError> {
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
            CertificateSource::Own { common_name, names } => {
                let make = |source| CertificateError::Make { names: names.clone(), source };
                let authority = Authority::new(&format!("{common_name} CA"), LONG).map_err(make)?;
                let certificate = authority.sign(common_name, names, LONG).map_err(make)?;
                Ok(Certificates::signed(certificate, authority.pem)?)
            }
        }
    }

    /// A certificate with the authority that signed it.
    pub fn signed(certificate: ServerCertificate, ca_pem: String) -> Result<Certificates, rustls::Error> {
        let (own, key) = certificate.into_der();
        let ca = CertificateDer::pem_slice_iter(ca_pem.as_bytes()).flatten();
        let current = CertifiedKey::from_der(std::iter::once(own).chain(ca).collect(), key, &provider())?;
        let current = RwLock::new(Arc::new(current));
        Ok(Certificates { current, seen: RwLock::new(None), ca_pem: Some(ca_pem) })
    }

    /// The certificate (PEM) of the authority that signed the server's own; `None` for a certificate from files.
    pub fn ca_pem(&self) -> Option<&str> {
        self.ca_pem.as_deref()
    }

    /// Reads the files again at every interval, without end, and calls `report` with the result of each reload. A
    /// pair that cannot be used is logged, and the previous certificate stays in use: files are often replaced one by one.
    pub async fn reload_changes(
        self: Arc<Self>,
        source: CertificateSource,
        interval: Duration,
        report: impl Fn(bool),
    ) {
        let CertificateSource::Files { certificate, key } = source else { return };
        let mut ticks = tokio::time::interval(interval.max(Duration::from_millis(1)));
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            match self.reload(&certificate, &key).await {
                Ok(false) => {}
                Ok(true) => {
                    report(true);
                    tracing::info!(certificate = %certificate.display(), "the certificate has been replaced");
                }
                Err(error) => {
                    report(false);
                    tracing::warn!("the previous certificate stays in use: {error}");
                }
            }
        }
    }

    async fn reload(&self, certificate: &Path, key: &Path) -> Result<bool, CertificateError> {
        let contents = (read(certificate).await?, read(key).await?);
        let seen = |contents: &(Vec<u8>, Vec<u8>)| {
            self.seen.read().unwrap_or_else(PoisonError::into_inner).as_ref() == Some(contents)
        };
        if seen(&contents) {
            return Ok(false);
        }
        // The same unusable files are reported once.
        let made = certified(certificate, key, &contents);
        *self.seen.write().unwrap_or_else(PoisonError::into_inner) = Some(contents);
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(made?);
        Ok(true)
    }
}

/// Limit of a certificate or key.
const MAX_BYTES: u64 = 1 << 20;
/// How often files are read again.
pub(crate) const RELOAD_INTERVAL: Duration = Duration::from_secs(2);

pub(crate) async fn read(path: &Path) -> Result<Vec<u8>, CertificateError> {
    let failed = |source| CertificateError::Read { path: path.to_owned(), source };
    let mut contents = Vec::new();
    let file = tokio::fs::File::open(path).await.map_err(failed)?;
    file.take(MAX_BYTES + 1).read_to_end(&mut contents).await.map_err(failed)?;
    if contents.len() as u64 > MAX_BYTES {
        return Err(failed(std::io::Error::other("more than 1 MiB: not a certificate or key")));
    }
    Ok(contents)
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
