//! Credentials that survive a restart: the CA, the token secret, the port, the kubeconfig.

use std::fs;
use std::io::{self, Write as _};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use berth_serve::authority::{Authority, LONG};
use berth_serve::{Certificates, tls_acceptor};
use ring::rand::{SecureRandom, SystemRandom};
use rustls::pki_types::CertificateDer;
use tempfile::NamedTempFile;
use tokio_rustls::TlsAcceptor;

/// Name of cluster, user and context in the kubeconfig; they also identify a kubeconfig that Berth wrote.
const KUBECONFIG_NAME: &str = "berth";

#[derive(Debug, thiserror::Error)]
pub enum CredentialsError {
    #[error("{path}: {source}")]
    File { path: PathBuf, source: io::Error },
    /// A certificate cannot be made, or the stored CA cannot be read.
    #[error("certificates in {0}: {1}; remove ca.crt and ca.key there to generate new ones")]
    Certificate(PathBuf, rcgen::Error),
    /// Clients would not trust the server.
    #[error(
        "{dir}: ca.crt and ca.key do not belong together, or one is damaged ({why}): restore both from a backup, or remove both to \
         generate new ones"
    )]
    Authority {
        dir: PathBuf,
        /// What a client says.
        why: String,
    },
    #[error("TLS: {0}")]
    Tls(#[from] rustls::Error),
    /// Berth did not write the kubeconfig at this path.
    #[error("{0} exists and was not written by berth; name another file with --kubeconfig-out")]
    ForeignKubeconfig(PathBuf),
    #[error("{} is damaged: restore it from a backup, or remove it to generate a new one; all tokens change then", .0.display())]
    Secret(PathBuf),
    #[error("the operating system provides no random numbers")]
    Randomness,
}

/// Keys and certificates of one server, and their directory.
pub struct Credentials {
    dir: PathBuf,
    ca: Authority,
    pub ca_der: Vec<u8>,
    /// The secret from which all tokens are derived.
    pub secret: [u8; 32],
}

impl Credentials {
    /// Reads the credentials in a directory and creates missing ones.
    pub fn load(dir: &Path) -> Result<Credentials, CredentialsError> {
        let (certificate, key) = (dir.join("ca.crt"), dir.join("ca.key"));
        let damaged = |error| CredentialsError::Certificate(dir.to_owned(), error);
        let ca = if let (Some(pem), Some(key)) = (read(&certificate)?, read(&key)?) {
            let ca = Authority::from_pem(pem, &key).map_err(damaged)?;
            ca.check().map_err(|error| CredentialsError::Authority {
                dir: dir.to_owned(),
                why: error.to_string(),
            })?;
            ca
        } else {
            let ca = Authority::new("berth CA", LONG).map_err(damaged)?;
            write_private(&key, &ca.key_pem())?;
            write_private(&certificate, &ca.pem)?;
            ca
        };
        let ca_der = der_of(&ca.pem).ok_or_else(|| damaged(rcgen::Error::CouldNotParseCertificate))?;
        Ok(Credentials { dir: dir.to_owned(), ca, ca_der, secret: load_secret(dir)? })
    }

    pub fn last_port(&self) -> Option<u16> {
        read(&self.dir.join("port")).ok()??.trim().parse().ok()
    }

    /// Stores the port, so that the kubeconfig stays valid after a restart.
    pub fn remember_port(&self, port: u16) -> Result<(), CredentialsError> {
        write_private(&self.dir.join("port"), &port.to_string())
    }

    /// TLS with a fresh certificate for an address, signed by the CA.
    pub fn tls(&self, address: SocketAddr) -> Result<TlsAcceptor, CredentialsError> {
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
        let signed = self.ca.sign("berth apiserver", &names, LONG);
        let signed = signed.map_err(|error| CredentialsError::Certificate(self.dir.clone(), error))?;
        Ok(tls_acceptor(Arc::new(Certificates::signed(signed, self.ca.pem.clone())?))?)
    }

    /// Writes the kubeconfig of the admin, readable by its owner only.
    pub fn write_kubeconfig(&self, path: &Path, url: &str, token: &str) -> Result<(), CredentialsError> {
        let ours = format!("current-context: {KUBECONFIG_NAME}\n");
        if read(path)?.is_some_and(|text| !text.contains(&ours)) {
            return Err(CredentialsError::ForeignKubeconfig(path.to_owned()));
        }
        let ca = STANDARD.encode(&self.ca.pem);
        let n = KUBECONFIG_NAME;
        let text = format!(
            "apiVersion: v1\nkind: Config\nclusters:\n- name: {n}\n  cluster:\n    server: {url}\n    \
             certificate-authority-data: {ca}\nusers:\n- name: {n}\n  user:\n    token: {token}\ncontexts:\n- name: {n}\n  \
             context:\n    cluster: {n}\n    user: {n}\n{ours}"
        );
        write_private(path, &text)
    }
}

fn der_of(pem: &str) -> Option<Vec<u8>> {
    use rustls::pki_types::pem::PemObject as _;
    CertificateDer::from_pem_slice(pem.as_bytes()).ok().map(|der| der.to_vec())
}

fn load_secret(dir: &Path) -> Result<[u8; 32], CredentialsError> {
    let path = dir.join("secret");
    let with_checksum = |secret: &str| format!("{secret} {:08x}", crc32fast::hash(secret.as_bytes()));
    if let Some(text) = read(&path)? {
        let text = text.trim();
        let encoded = text.split(' ').next().unwrap_or_default();
        let secret = STANDARD.decode(encoded).ok().and_then(|bytes| bytes.try_into().ok());
        // Earlier versions wrote no checksum.
        let is_old = text == encoded;
        let secret = secret.filter(|_| is_old || text == with_checksum(encoded));
        if secret.is_some() && is_old {
            write_private(&path, &with_checksum(encoded))?;
        }
        return secret.ok_or(CredentialsError::Secret(path));
    }
    let mut secret = [0; 32];
    SystemRandom::new().fill(&mut secret).map_err(|_| CredentialsError::Randomness)?;
    write_private(&path, &with_checksum(&STANDARD.encode(secret)))?;
    Ok(secret)
}

/// Reads a file of this directory; none if it does not exist. Reading a pipe or a device might never end.
fn read(path: &Path) -> Result<Option<String>, CredentialsError> {
    let read = || match fs::metadata(path)?.is_file() {
        true => fs::read_to_string(path),
        false => Err(io::ErrorKind::InvalidData.into()),
    };
    match read() {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            let why = "not a text file: restore it, or remove it and what belongs to it";
            Err(CredentialsError::File { path: path.to_owned(), source: io::Error::other(why) })
        }
        Err(source) => Err(CredentialsError::File { path: path.to_owned(), source }),
    }
}

/// Replaces a file as a whole, so that a crash leaves the old one or the new one; only the owner may read it.
fn write_private(path: &Path, text: &str) -> Result<(), CredentialsError> {
    let write = || -> io::Result<()> {
        let dir = path.parent().filter(|dir| *dir != Path::new("")).unwrap_or(Path::new("."));
        // A new file with a random name and mode 0600.
        let mut file = NamedTempFile::new_in(dir)?;
        file.write_all(text.as_bytes())?;
        file.as_file().sync_all()?;
        file.persist(path)?;
        Ok(())
    };
    write().map_err(|source| {
        // Without the name of the temporary file.
        let text = source.to_string();
        let text = text.split(" at path ").next().unwrap_or_default().to_owned();
        CredentialsError::File { path: path.to_owned(), source: io::Error::new(source.kind(), text) }
    })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_with_a_damaged_authority_started_and_no_client_trusted_it() {
        let dir = tempfile::tempdir().unwrap();
        let load = || Credentials::load(dir.path());
        load().unwrap();
        let pem = fs::read_to_string(dir.path().join("ca.crt")).unwrap();
        let der = der_of(&pem).unwrap();
        let mut n_refused = 0;
        for byte in 0..der.len() {
            let mut damaged = der.clone();
            damaged[byte] ^= 1;
            let text = format!(
                "-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n",
                STANDARD.encode(damaged)
            );
            fs::write(dir.path().join("ca.crt"), text).unwrap();
            n_refused += usize::from(load().is_err());
        }
        // What no client looks at, such as names and the certificate's own signature, may change.
        assert!(n_refused > 65, "the bytes of the key at least, and not only {n_refused}");
        fs::write(dir.path().join("ca.crt"), Authority::new("other", LONG).unwrap().pem).unwrap();
        let error = load().err().unwrap().to_string();
        assert!(error.contains("ca.crt and ca.key do not belong together"), "{error}");
    }

    #[test]
    fn a_flipped_bit_of_the_secret_made_all_tokens_invalid_without_a_word() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("secret");
        let secret = || load_secret(dir.path());
        let first = secret().unwrap();
        let written = fs::read(&path).unwrap();
        for bit in 0..8 * written.len() {
            let mut damaged = written.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            fs::write(&path, damaged).unwrap();
            assert!(secret().is_err(), "bit {bit}");
        }
        // The file of an earlier version gets a checksum.
        fs::write(&path, STANDARD.encode(first)).unwrap();
        assert_eq!((secret().unwrap(), fs::read(&path).unwrap()), (first, written));
    }

    #[test]
    fn files_that_are_no_texts_are_errors_with_a_remedy() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["secret", "ca.crt"] {
            let path = dir.path().join(name);
            Credentials::load(dir.path()).unwrap();
            fs::remove_file(&path).unwrap();
            fs::create_dir(&path).unwrap();
            let error =
                std::error::Error::source(&Credentials::load(dir.path()).err().unwrap()).unwrap().to_string();
            assert!(error.contains("restore it, or remove it"), "{error}");
            fs::remove_dir(&path).unwrap();
            fs::write(&path, [0xff, 0xfe]).unwrap();
            assert!(Credentials::load(dir.path()).is_err());
            fs::remove_file(&path).unwrap();
        }
    }
}
