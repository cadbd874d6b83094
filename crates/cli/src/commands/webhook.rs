//! `berth webhook`.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use berth_admission::server::{self, CertificateSource, ServerError, ServerOptions};
use berth_client::connect;

use super::connection_args::ConnectionArgs;
use crate::Answer;
use crate::cluster::admission;
use crate::cluster::log::LogArgs;
use crate::cluster::parts::Parts;
use crate::cluster::runtime;
use crate::error::CliError;
use crate::output;

/// Answers to these names with a certificate of its own.
const OWN_NAMES: [&str; 4] =
    ["localhost", "127.0.0.1", "berth-webhook.berth-system.svc", "berth-webhook.berth-system"];

/// Answer the admission webhooks of a cluster
///
/// Serves /validate-pods, /mutate-pods, /validate-bindings and /validate-nodes over TLS. Which of them are called, and
/// what happens when they do not answer, stands in the webhook configurations of the cluster.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  berth webhook --cert-file tls.crt --key-file tls.key --config policy.yaml
  berth webhook --listen 127.0.0.1:9443 --write-ca ca.crt --context staging -v

Exit codes: 0 ended by SIGINT or SIGTERM, 2 bad input or usage, or it could not go on

docs/admission.md has the rules, the policy file and the webhook configurations.")]
pub struct Args {
    #[command(flatten)]
    connection: ConnectionArgs,
    /// Serve webhooks here, over TLS; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS:PORT", default_value_t = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 9443))]
    listen: SocketAddr,
    /// The certificate chain (PEM), the server's own first; read again when it changes
    #[arg(long, value_name = "FILE", requires = "key_file")]
    cert_file: Option<PathBuf>,
    /// The key (PEM) of the certificate; read again when it changes
    #[arg(long, value_name = "FILE", requires = "cert_file")]
    key_file: Option<PathBuf>,
    /// Without --cert-file: write the certificate to this file that callers must trust (caBundle)
    #[arg(long, value_name = "FILE", conflicts_with = "cert_file")]
    write_ca: Option<PathBuf>,
    /// Without --cert-file: answer to these host names and addresses [default: localhost, 127.0.0.1 and the Service
    /// berth-webhook in berth-system]
    #[arg(long, value_name = "NAME", value_delimiter = ',', conflicts_with = "cert_file")]
    tls_name: Vec<String>,
    /// The policy (AdmissionPolicy); the default policy without it
    #[arg(long, value_name = "FILE")]
    config: Option<String>,
    /// Serve /healthz, /readyz and /metrics here without TLS; without it, they are served with TLS only
    #[arg(long, value_name = "ADDRESS:PORT")]
    health_listen: Option<SocketAddr>,
    #[command(flatten)]
    log: LogArgs,
}

/// Serves until told to stop.
pub fn run(args: &Args) -> Result<Answer, CliError> {
    args.log.start();
    let policy = admission::policy(args.config.as_deref())?;
    let options = ServerOptions {
        health_listen: args.health_listen,
        ..ServerOptions::new(args.listen, args.certificate())
    };
    runtime::run(async |stop| {
        let config = args.connection.options().config().await?;
        let client = connect::client(config)?;
        let admission = admission::with_state(policy);
        let server = server::start(admission.clone(), options, stop.child_token()).await?;
        if let (Some(path), Some(ca)) = (&args.write_ca, server.ca_pem()) {
            fs::write(path, ca).map_err(|source| ServerError::Write { path: path.clone(), source })?;
        }
        output::note(&format!("webhooks are at https://{}", server.address()));
        if let Some(address) = server.health_address() {
            output::note(&format!("healthz, readyz and metrics are at http://{address}"));
        }
        let mut parts = Parts::new(stop.child_token());
        parts.start("state", |stop| admission::follow(client, admission, stop));
        parts.start("server", |_| server.stopped());
        let ended = tokio::select! {
            () = stop.cancelled() => Ok(()),
            failed = parts.failed() => failed,
        };
        parts.end().await;
        ended.map(|()| Answer::Good)
    })
}

impl Args {
    fn certificate(&self) -> CertificateSource {
        match (&self.cert_file, &self.key_file) {
            (Some(certificate), Some(key)) => {
                CertificateSource::Files { certificate: certificate.clone(), key: key.clone() }
            }
            _ if self.tls_name.is_empty() => {
                CertificateSource::Own { names: OWN_NAMES.map(str::to_owned).to_vec() }
            }
            _ => CertificateSource::Own { names: self.tls_name.clone() },
        }
    }
}
