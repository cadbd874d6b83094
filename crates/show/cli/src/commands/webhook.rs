//! `berth webhook`.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use berth_admission::AdmissionController;
use berth_admission::server::{self, ServerError, ServerOptions};
use berth_client::connect;
use berth_serve::CertificateSource;
use berth_terminal::output;
use berth_terminal::process::ExitStatus;
use berth_terminal::runtime;

use super::admission_args;
use super::cache_args::CacheArgs;
use super::connection_args::ConnectionArgs;
use super::policy_file;
use crate::cluster::components::Components;
use crate::cluster::log::LogArgs;
use crate::error::CliError;

/// Names in the generated certificate.
const OWN_NAMES: [&str; 4] =
    ["localhost", "127.0.0.1", "berth-webhook.berth-system.svc", "berth-webhook.berth-system"];

/// Serve admission webhooks
///
/// Serves /validate-pods, /mutate-pods, /validate-bindings and /validate-nodes over TLS. The webhook configurations of the
/// cluster define which of them the API server calls, and what it does if the webhook does not respond.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  berth webhook --cert-file tls.crt --key-file tls.key --config policy.yaml
  berth webhook --listen 127.0.0.1:9443 --write-ca ca.crt --context staging -v

Exit codes: 0 stopped by SIGINT or SIGTERM, 2 invalid input or usage, or the webhook cannot continue

See docs/admission.md for the rules, the policy file and the webhook configurations.")]
pub struct Args {
    #[command(flatten)]
    connection: ConnectionArgs,
    /// Address to serve webhooks on, over TLS; port 0 selects a free port
    #[arg(long, value_name = "ADDRESS:PORT", default_value_t = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 9443))]
    listen: SocketAddr,
    /// PEM file with the certificate chain, server certificate first; reloaded when it changes
    #[arg(long, value_name = "FILE", requires = "key_file")]
    cert_file: Option<PathBuf>,
    /// PEM file with the private key; reloaded when it changes
    #[arg(long, value_name = "FILE", requires = "cert_file")]
    key_file: Option<PathBuf>,
    /// Without --cert-file: write the generated certificate authority (caBundle) to this file
    #[arg(long, value_name = "FILE", conflicts_with = "cert_file")]
    write_ca: Option<PathBuf>,
    /// Without --cert-file: host names and addresses in the generated certificate [default: localhost, 127.0.0.1 and the
    /// Service berth-webhook in berth-system]
    #[arg(long, value_name = "NAME", value_delimiter = ',', conflicts_with = "cert_file")]
    tls_name: Vec<String>,
    /// File with an AdmissionPolicy [default: the default policy]
    #[arg(long, value_name = "FILE")]
    config: Option<String>,
    /// Serve /healthz, /readyz and /metrics at this address without TLS [default: only over TLS, with the webhooks]
    #[arg(long, value_name = "ADDRESS:PORT")]
    health_listen: Option<SocketAddr>,
    #[command(flatten)]
    cache: CacheArgs,
    #[command(flatten)]
    log: LogArgs,
}

/// Serves until SIGINT or SIGTERM.
pub fn run(args: &Args) -> Result<ExitStatus, CliError> {
    args.log.start();
    let policy = policy_file::read(args.config.as_deref())?;
    let options = ServerOptions {
        health_listen: args.health_listen,
        ..ServerOptions::new(args.listen, args.certificate())
    };
    runtime::run(async |stop| {
        let config = args.connection.options().config().await?;
        let client = connect::client(config)?;
        let admission = AdmissionController::mirrored(policy);
        let mut components = Components::new(stop.child_token());
        let server = server::start(admission.clone(), options, components.stop_token()).await?;
        if let (Some(path), Some(ca)) = (&args.write_ca, server.ca_pem()) {
            fs::write(path, ca).map_err(|source| ServerError::Write { path: path.clone(), source })?;
        }
        output::note(&format!("serving webhooks at https://{}", server.address()));
        if let Some(address) = server.health_address() {
            output::note(&format!("serving /healthz, /readyz and /metrics at http://{address}"));
        }
        admission_args::start_following(admission, client, args.cache.group(), &mut components);
        components.start("webhook server", |_| server.stopped());
        Ok(components.run_until(&stop).await.map(|()| ExitStatus::Success)?)
    })
}

impl Args {
    fn certificate(&self) -> CertificateSource {
        match (&self.cert_file, &self.key_file) {
            (Some(certificate), Some(key)) => {
                CertificateSource::Files { certificate: certificate.clone(), key: key.clone() }
            }
            _ => {
                let default = || OWN_NAMES.map(str::to_owned).to_vec();
                let names = if self.tls_name.is_empty() { default() } else { self.tls_name.clone() };
                CertificateSource::Own { common_name: "berth webhook", names }
            }
        }
    }
}
