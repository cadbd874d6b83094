//! How a server's certificate is checked.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use x509_parser::prelude::{FromDer as _, X509Certificate};

/// Trusts certificates as clients in Go do: one that is listed itself is trusted for its names, also if it may sign others, as those that
/// `openssl req -x509` makes.
#[derive(Debug)]
struct ListedOrSigned {
    listed: Vec<CertificateDer<'static>>,
    signed: Arc<WebPkiServerVerifier>,
}

/// Trusts these certificates (in DER), and those that they signed.
pub(crate) fn trust(
    tls: &mut ClientConfig,
    listed: &[Vec<u8>],
) -> Result<(), rustls::client::VerifierBuilderError> {
    let listed: Vec<_> = listed.iter().map(|der| CertificateDer::from(der.clone())).collect();
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(listed.iter().cloned());
    let signed = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), tls.crypto_provider().clone())
        .build()?;
    tls.dangerous().set_certificate_verifier(Arc::new(ListedOrSigned { listed, signed }));
    Ok(())
}

impl ServerCertVerifier for ListedOrSigned {
    fn verify_server_cert(
        &self,
        own: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if !self.listed.contains(own) {
            return self.signed.verify_server_cert(own, intermediates, name, ocsp, now);
        }
        verify_server_name(&ParsedCertificate::try_from(own)?, name)?;
        let (_, parsed) = X509Certificate::from_der(own).map_err(|_| CertificateError::BadEncoding)?;
        let (validity, now) = (parsed.validity(), now.as_secs() as i64);
        if now > validity.not_after.timestamp() {
            return Err(CertificateError::Expired.into());
        }
        if now < validity.not_before.timestamp() {
            return Err(CertificateError::NotValidYet.into());
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        own: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.signed.verify_tls12_signature(message, own, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        own: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.signed.verify_tls13_signature(message, own, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.signed.supported_verify_schemes()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair, date_time_ymd};

    use super::*;

    #[test]
    fn a_listed_certificate_that_may_sign_others_was_not_trusted() {
        let mut params = CertificateParams::new(["hook.default.svc".to_owned()]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        (params.not_before, params.not_after) = (date_time_ymd(2026, 1, 1), date_time_ymd(2027, 1, 1));
        let made = |params: &CertificateParams| {
            params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().clone()
        };
        let (own, other) = (made(&params), made(&params));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let check = |listed: &CertificateDer<'static>, name: &str, day: u64| {
            let mut roots = RootCertStore::empty();
            roots.add(listed.clone()).unwrap();
            let signed =
                WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone()).build();
            let verifier = ListedOrSigned { listed: vec![listed.clone()], signed: signed.unwrap() };
            let (name, now) =
                (ServerName::try_from(name.to_owned()).unwrap(), Duration::from_secs(day * 86_400));
            verifier.verify_server_cert(&own, &[], &name, &[], UnixTime::since_unix_epoch(now)).is_ok()
        };
        // Days since 1970 in 2026, before and after it.
        assert!(check(&own, "hook.default.svc", 20_600));
        assert!(!check(&own, "other.default.svc", 20_600));
        assert!(!check(&own, "hook.default.svc", 20_400));
        assert!(!check(&own, "hook.default.svc", 20_900));
        assert!(!check(&other, "hook.default.svc", 20_600));
    }
}
