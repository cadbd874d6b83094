//! Certificate authorities of Berth's own, and the certificates that they sign.

use std::sync::Arc;
use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, date_time_ymd,
};
use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier as _;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, UnixTime};

/// First and last day (year, month, day) of a certificate.
pub type Validity = [(i32, u8, u8); 2];

/// Valid for longer than any process runs, and on machines whose clock is wrong.
pub const LONG: Validity = [(2020, 1, 1), (2060, 1, 1)];

pub struct Authority {
    pub pem: String,
    key: KeyPair,
}

pub struct ServerCertificate {
    der: CertificateDer<'static>,
    pub pem: String,
    key: KeyPair,
}

impl Authority {
    pub fn new(common_name: &str, validity: Validity) -> Result<Authority, rcgen::Error> {
        let mut params = params(Vec::new(), common_name, validity)?;
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages.extend([KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign]);
        let key = KeyPair::generate()?;
        Ok(Authority { pem: params.self_signed(&key)?.pem(), key })
    }

    /// An authority that was stored before.
    ///
    /// # Errors
    /// The key is no PEM of a private key.
    pub fn from_pem(pem: String, key_pem: &str) -> Result<Authority, rcgen::Error> {
        Ok(Authority { pem, key: KeyPair::from_pem(key_pem)? })
    }

    /// Checks that clients that trust the certificate trust what the key signs.
    ///
    /// # Errors
    /// They do not: the certificate and the key do not belong together, or one of them is damaged.
    pub fn check(&self) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        let signed = self.sign("check", &["localhost".to_owned()], LONG)?;
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.pem.as_bytes())?)?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let clients = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build()?;
        // Within LONG, whatever this machine's clock says.
        let time = UnixTime::since_unix_epoch(Duration::from_secs(1_800_000_000));
        clients.verify_server_cert(&signed.der, &[], &ServerName::try_from("localhost")?, &[], time)?;
        Ok(())
    }

    pub fn key_pem(&self) -> String {
        self.key.serialize_pem()
    }

    /// A certificate for a server with these host names and IP addresses.
    ///
    /// # Errors
    /// A name is neither a host name nor an address, or the authority's certificate cannot be read.
    pub fn sign(
        &self,
        common_name: &str,
        names: &[String],
        validity: Validity,
    ) -> Result<ServerCertificate, rcgen::Error> {
        let mut params = params(names.to_vec(), common_name, validity)?;
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let key = KeyPair::generate()?;
        let signed = params.signed_by(&key, &Issuer::from_ca_cert_pem(&self.pem, &self.key)?)?;
        Ok(ServerCertificate { der: signed.der().clone(), pem: signed.pem(), key })
    }
}

impl ServerCertificate {
    pub fn key_pem(&self) -> String {
        self.key.serialize_pem()
    }

    /// The certificate and its key, as TLS takes them.
    pub(crate) fn into_der(self) -> (CertificateDer<'static>, PrivateKeyDer<'static>) {
        (self.der, PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(self.key.serialize_der())))
    }
}

fn params(
    names: Vec<String>,
    common_name: &str,
    validity: Validity,
) -> Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::new(names)?;
    let [first, last] = validity.map(|(year, month, day)| date_time_ymd(year, month, day));
    params.not_before = first;
    params.not_after = last;
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, common_name);
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    Ok(params)
}
