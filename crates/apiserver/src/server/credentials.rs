//! What must survive a restart besides objects: the CA, the secret behind all tokens, the port, the kubeconfig.

use std::fs;
use std::io::{self, Write as _};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, date_time_ymd,
};
use ring::rand::{SecureRandom, SystemRandom};
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

/// Name of cluster, user and context in the kubeconfig; also how a kubeconfig of ours is told from another.
const KUBECONFIG_NAME: &str = "berth";

/// Why credentials could not be made or read.
#[derive(Debug, thiserror::Error)]
pub enum CredentialsError {
    /// A file cannot be read or written.
    #[error("{path}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// What went wrong.
        source: io::Error,
    },
    /// A certificate cannot be made, or the stored CA cannot be read.
    #[error("certificates in {0}: {1}; remove ca.crt and ca.key there to have new ones made")]
    Certificate(PathBuf, rcgen::Error),
    /// TLS refuses the certificate.
    #[error("TLS: {0}")]
    Tls(#[from] rustls::Error),
    /// The kubeconfig to be written is someone else's.
    #[error("{0} exists and was not written by berth; name another file with --kubeconfig-out")]
    ForeignKubeconfig(PathBuf),
    /// The system has no randomness.
    #[error("no randomness from the system")]
    Randomness,
}

/// Keys and certificates of one server, and where they are.
pub struct Credentials {
    dir: PathBuf,
    /// The CA's certificate, PEM.
    pub ca_pem: String,
    /// The CA's certificate, DER.
    pub ca_der: Vec<u8>,
    ca_key: KeyPair,
    /// What all tokens are derived from.
    pub secret: [u8; 32],
}

impl Credentials {
    /// Reads the credentials in a directory, and makes what is missing.
    ///
    /// # Errors
    /// A file cannot be read or written, or the stored CA is damaged.
    pub fn load(dir: &Path) -> Result<Credentials, CredentialsError> {
        let (certificate, key) = (dir.join("ca.crt"), dir.join("ca.key"));
        let damaged = |error| CredentialsError::Certificate(dir.to_owned(), error);
        let (ca_pem, ca_key) = if let (Some(pem), Some(key)) = (read(&certificate)?, read(&key)?) {
            (pem, KeyPair::from_pem(&key).map_err(damaged)?)
        } else {
            let (pem, ca_key) = make_ca().map_err(damaged)?;
            write_private(&key, &ca_key.serialize_pem())?;
            write_private(&certificate, &pem)?;
            (pem, ca_key)
        };
        let ca_der = der_of(&ca_pem).ok_or_else(|| damaged(rcgen::Error::CouldNotParseCertificate))?;
        Ok(Credentials { dir: dir.to_owned(), ca_pem, ca_der, ca_key, secret: load_secret(dir)? })
    }

    /// The port of the last run.
    pub fn last_port(&self) -> Option<u16> {
        fs::read_to_string(self.dir.join("port")).ok()?.trim().parse().ok()
    }

    /// Remembers the port, so that the kubeconfig stays valid after a restart.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn remember_port(&self, port: u16) -> Result<(), CredentialsError> {
        write_private(&self.dir.join("port"), &port.to_string())
    }

    /// TLS with a fresh certificate for an address, signed by the CA.
    ///
    /// # Errors
    /// The certificate cannot be made.
    pub fn tls(&self, address: SocketAddr) -> Result<ServerConfig, CredentialsError> {
        let damaged = |error| CredentialsError::Certificate(self.dir.clone(), error);
        let issuer = Issuer::from_ca_cert_pem(&self.ca_pem, &self.ca_key).map_err(damaged)?;
        let mut names: Vec<String> = [
            "localhost",
            "127.0.0.1",
            "::1",
            "10.96.0.1",
            "kubernetes",
            "kubernetes.default",
            "kubernetes.default.svc",
            "kubernetes.default.svc.cluster.local",
        ]
        .map(str::to_owned)
        .into();
        if !address.ip().is_unspecified() && !address.ip().is_loopback() {
            names.push(address.ip().to_string());
        }
        let mut params = CertificateParams::new(names).map_err(damaged)?;
        params.distinguished_name = name_of("berth apiserver");
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        make_long_lived(&mut params);
        let key = KeyPair::generate().map_err(damaged)?;
        let certificate = params.signed_by(&key, &issuer).map_err(damaged)?;
        let chain = vec![certificate.der().clone(), CertificateDer::from(self.ca_der.clone())];
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(chain, key)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(config)
    }

    /// Writes the kubeconfig of the admin, readable by its owner only.
    ///
    /// # Errors
    /// The file cannot be written, or is there and not ours.
    pub fn write_kubeconfig(&self, path: &Path, url: &str, token: &str) -> Result<(), CredentialsError> {
        let ours = format!("current-context: {KUBECONFIG_NAME}\n");
        if read(path)?.is_some_and(|text| !text.contains(&ours)) {
            return Err(CredentialsError::ForeignKubeconfig(path.to_owned()));
        }
        let ca = STANDARD.encode(&self.ca_pem);
        let n = KUBECONFIG_NAME;
        let text = format!(
            "apiVersion: v1\nkind: Config\nclusters:\n- name: {n}\n  cluster:\n    server: {url}\n    \
             certificate-authority-data: {ca}\nusers:\n- name: {n}\n  user:\n    token: {token}\ncontexts:\n- name: {n}\n  \
             context:\n    cluster: {n}\n    user: {n}\n{ours}"
        );
        write_private(path, &text)
    }
}

fn make_ca() -> Result<(String, KeyPair), rcgen::Error> {
    let mut params = CertificateParams::new(Vec::new())?;
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.distinguished_name = name_of("berth CA");
    params.key_usages =
        vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
    make_long_lived(&mut params);
    let key = KeyPair::generate()?;
    Ok((params.self_signed(&key)?.pem(), key))
}

fn name_of(common_name: &str) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, common_name);
    name
}

/// Long, so that a data directory works for years and on machines whose clock is off.
fn make_long_lived(params: &mut CertificateParams) {
    params.not_before = date_time_ymd(2020, 1, 1);
    params.not_after = date_time_ymd(2060, 1, 1);
}

fn der_of(pem: &str) -> Option<Vec<u8>> {
    use rustls::pki_types::pem::PemObject as _;
    CertificateDer::from_pem_slice(pem.as_bytes()).ok().map(|der| der.to_vec())
}

fn load_secret(dir: &Path) -> Result<[u8; 32], CredentialsError> {
    let path = dir.join("secret");
    if let Some(bytes) = read(&path)?.and_then(|text| STANDARD.decode(text.trim()).ok())
        && let Ok(secret) = bytes.try_into()
    {
        return Ok(secret);
    }
    let mut secret = [0; 32];
    SystemRandom::new().fill(&mut secret).map_err(|_| CredentialsError::Randomness)?;
    write_private(&path, &STANDARD.encode(secret))?;
    Ok(secret)
}

fn read(path: &Path) -> Result<Option<String>, CredentialsError> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(CredentialsError::File { path: path.to_owned(), source }),
    }
}

/// Replaces a file as a whole, so that a crash leaves the old one or the new one; only the owner may read it.
fn write_private(path: &Path, text: &str) -> Result<(), CredentialsError> {
    let write = || -> io::Result<()> {
        let mut temporary = path.as_os_str().to_owned();
        temporary.push(".new");
        let mut options = fs::OpenOptions::new();
        options.write(true).create(true).truncate(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(&temporary)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&temporary, path)
    };
    write().map_err(|source| CredentialsError::File { path: path.to_owned(), source })
}

/// The address clients use for a listening address.
pub fn url(address: SocketAddr) -> String {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::from([127, 0, 0, 1]),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1]),
        ip => ip,
    };
    format!("https://{}", SocketAddr::new(ip, address.port()))
}
