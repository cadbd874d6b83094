//! Arguments for serving health, metrics and the like.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use berth_client::delegated::ALWAYS_ALLOWED_PATHS;
use berth_client::serving::{SecureServingOptions, ServingOptions};
use berth_serve::CertificateSource;
use berth_terminal::output;

use crate::error::CliError;

/// Where a component serves.
#[derive(Debug, clap::Args)]
pub struct ServingArgs {
    /// Serve /healthz, /readyz and /metrics over plain HTTP at this loopback address [default: not served]
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<SocketAddr>,
    /// Serve the same over HTTPS at this port, with delegated authorization; 0 selects a free port [default: not served]
    ///
    /// The API server decides who may read: tokens are checked with TokenReviews, permissions with SubjectAccessReviews.
    /// A client certificate names its user (common name) and groups (organizations).
    #[arg(long, value_name = "PORT")]
    secure_port: Option<u16>,
    #[command(flatten)]
    secure: BindArgs,
    /// PEM file with the certificate authorities of clients, which may have a certificate instead of a token; reloaded
    /// when it changes [default: those of the ConfigMap extension-apiserver-authentication in kube-system]
    #[arg(long, value_name = "FILE", requires = "secure_port")]
    client_ca_file: Option<PathBuf>,
    /// HTTPS paths that need no permission, separated by commas; a path that ends with * includes all paths that begin with
    /// it
    #[arg(long, value_name = "PATH", value_delimiter = ',', default_values = ALWAYS_ALLOWED_PATHS, requires = "secure_port")]
    authorization_always_allow_paths: Vec<String>,
}

impl ServingArgs {
    /// The options; `common_name` is that of a generated certificate.
    ///
    /// # Errors
    /// Plain HTTP is requested on an address other than loopback.
    pub fn options(&self, common_name: &'static str) -> Result<ServingOptions, CliError> {
        if let Some(address) = self.listen.filter(|address| !address.ip().is_loopback()) {
            return Err(CliError::Usage(format!(
                "--listen {address}: plain HTTP is served on loopback addresses only; serve HTTPS with --bind-address={} \
                 --secure-port={}",
                address.ip(),
                address.port()
            )));
        }
        let https = self.secure_port.map(|port| SecureServingOptions {
            address: self.secure.address(port),
            certificate: self.secure.certificate(common_name, &[]),
            client_ca_file: self.client_ca_file.clone(),
            always_allowed_paths: self.authorization_always_allow_paths.clone(),
        });
        Ok(ServingOptions { http: self.listen, https })
    }
}

/// The address and the certificate of HTTPS, beside an argument `secure_port`.
#[derive(Debug, clap::Args)]
pub struct BindArgs {
    /// Address to serve HTTPS on
    #[arg(long, value_name = "ADDRESS", default_value_t = IpAddr::V4(Ipv4Addr::UNSPECIFIED), requires = "secure_port")]
    bind_address: IpAddr,
    /// PEM file with the certificate chain, server certificate first; reloaded when it changes [default: a generated
    /// certificate]
    #[arg(long, value_name = "FILE", requires = "tls_private_key_file", requires = "secure_port")]
    tls_cert_file: Option<PathBuf>,
    /// PEM file with the private key; reloaded when it changes
    #[arg(long, value_name = "FILE", requires = "tls_cert_file")]
    tls_private_key_file: Option<PathBuf>,
}

impl BindArgs {
    pub fn address(&self, port: u16) -> SocketAddr {
        SocketAddr::new(self.bind_address, port)
    }

    /// The certificate; a generated one has this common name, and the hosts without their ports.
    pub fn certificate(&self, common_name: &'static str, hosts: &[String]) -> CertificateSource {
        match (&self.tls_cert_file, &self.tls_private_key_file) {
            (Some(certificate), Some(key)) => {
                CertificateSource::Files { certificate: certificate.clone(), key: key.clone() }
            }
            _ => {
                let mut names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
                if !self.bind_address.is_unspecified() && !self.bind_address.is_loopback() {
                    names.push(self.bind_address.to_string());
                }
                names.extend(hosts.iter().map(|host| host.split(':').next().unwrap_or(host).to_owned()));
                CertificateSource::Own { common_name, names }
            }
        }
    }
}

/// Prints where a component serves.
pub fn note_addresses(paths: &str, http: Option<SocketAddr>, https: Option<SocketAddr>) {
    let schemes = [("http", http), ("https", https)];
    for (scheme, address) in schemes.into_iter().filter_map(|(scheme, address)| Some((scheme, address?))) {
        output::note(&format!("serving {paths} at {scheme}://{address}"));
    }
}
