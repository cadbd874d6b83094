//! `berth install`.

use std::io::Write;
use std::path::{Path, PathBuf};

use berth_terminal::output;
use berth_terminal::process::ExitStatus;
use clap::{CommandFactory, ValueEnum};
use serde_json::{Value, json};

use super::policy_file;
use crate::error::CliError;
use crate::installation::{
    Certificate, CertificateSource, Component, ExtraArg, FailurePolicy, InstallError, Installation,
    NAMESPACE, Webhook,
};

/// Print the manifests that install Berth on a Kubernetes cluster
///
/// Prints the manifests of deploy/kustomize with the changes that the options request: the scheduler for pods with the
/// schedulerName `berth`, the enforcer and the webhook, with two replicas each. The cluster is not changed.
///
/// By default, each run generates a certificate authority and a certificate for the webhook. The output includes the Secret
/// with the private key. To keep an existing certificate, see --certificate.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  berth install --image registry.example/berth:0.1.0 | kubectl apply -f -
  berth install --components scheduler --arg scheduler=--scheduler-name=default-scheduler
  berth install --arg enforcer=--dry-run --service-monitor -o json
  berth install --certificate secret --ca-file ca.crt      # keep the certificate

Exit codes: 0 success, 2 invalid usage

See docs/install.md for the manifests and the installation.")]
pub struct Args {
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Format::Yaml, value_name = "FORMAT")]
    output: Format,
    /// Namespace of the installation
    #[arg(short, long, default_value = NAMESPACE, value_name = "NAMESPACE", value_parser = namespace)]
    namespace: String,
    /// Container image; build it with deploy/Dockerfile [default: berth:VERSION]
    #[arg(long, value_name = "IMAGE", value_parser = image)]
    image: Option<String>,
    /// Number of replicas of each component; always 1 for a webhook with the binding guard [default: 2]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=100))]
    replicas: Option<u16>,
    /// Components to install, separated by commas
    #[arg(long, value_enum, value_delimiter = ',', value_name = "COMPONENT",
          default_values_t = [Component::Scheduler, Component::Enforcer, Component::Webhook])]
    components: Vec<Component>,
    /// Additional argument of a component, for example enforcer=--dry-run; can be repeated
    #[arg(long = "arg", value_name = "COMPONENT=ARG", value_parser = extra_arg)]
    extra_args: Vec<ExtraArg>,
    /// Add a ServiceMonitor for the Prometheus operator
    #[arg(long)]
    service_monitor: bool,
    /// Requests that the API server sends to the webhook, separated by commas [default: pods, and bindings if the policy
    /// enables the binding guard]
    #[arg(long, value_enum, value_delimiter = ',', value_name = "WEBHOOK")]
    webhooks: Vec<Webhook>,
    /// File with the AdmissionPolicy of the webhook
    #[arg(long, value_name = "FILE")]
    policy: Option<String>,
    /// What the API server does if the webhook does not respond [default: ignore]
    #[arg(long, value_enum, ignore_case = true, value_name = "POLICY")]
    failure_policy: Option<FailurePolicy>,
    /// Source of the webhook's certificate
    #[arg(long, value_enum, default_value_t = From::Generate, value_name = "SOURCE")]
    certificate: From,
    /// With --certificate secret: PEM file of the certificate authority
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    Yaml,
    Json,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum From {
    /// Generate a certificate that is valid for ten years and include it in the output
    Generate,
    /// Use the Secret berth-webhook-tls, which you provide
    Secret,
    /// Let cert-manager create the Secret and configure the API server
    CertManager,
}

/// Prints the manifests. `C` is the whole command line; it validates the arguments of the containers.
pub fn run<C: CommandFactory>(args: &Args) -> Result<ExitStatus, CliError> {
    let installation = args.installation()?;
    let objects = installation.objects()?;
    for extra in &args.extra_args {
        check_args::<C>(extra.component, &objects)?;
    }
    print(args.output, &objects)?;
    if let CertificateSource::Generated(certificate) = &installation.certificate
        && args.components.contains(&Component::Webhook)
    {
        output::note(&format!(
            "generated a certificate for the webhook, valid until {}; the output contains its private key",
            certificate.not_after
        ));
    }
    Ok(ExitStatus::Success)
}

impl Args {
    fn installation(&self) -> Result<Installation, CliError> {
        if self.ca_file.is_some() && self.certificate != From::Secret {
            return Err(CliError::Usage("--ca-file requires --certificate secret".to_owned()));
        }
        let (policy, webhooks) = self.policy()?;
        let certificate = match self.certificate {
            From::Generate => {
                let today = jiff::Timestamp::now().to_zoned(jiff::tz::TimeZone::UTC).date();
                let certificate =
                    Certificate::generate(&self.namespace, today).map_err(InstallError::from)?;
                CertificateSource::Generated(certificate)
            }
            From::Secret => CertificateSource::Secret { ca_pem: self.ca_pem()? },
            From::CertManager => CertificateSource::CertManager,
        };
        let mut components = self.components.clone();
        components.sort_by_key(|component| component.name());
        components.dedup();
        if let Some(extra) = self.extra_args.iter().find(|extra| !components.contains(&extra.component)) {
            let name = extra.component.name();
            return Err(CliError::Usage(format!(
                "--arg {name}={}: --components does not include {name}",
                extra.arg
            )));
        }
        Ok(Installation {
            components,
            namespace: self.namespace.clone(),
            image: self.image.clone(),
            replicas: self.replicas,
            extra_args: self.extra_args.clone(),
            service_monitor: self.service_monitor,
            webhooks,
            policy,
            failure_policy: self.failure_policy,
            certificate,
        })
    }

    /// The text of the policy, and the webhooks it needs.
    fn policy(&self) -> Result<(Option<String>, Vec<Webhook>), CliError> {
        let (mut text, mut guards_bindings) = (None, false);
        if let Some(file) = &self.policy {
            let read = read(Path::new(file))?;
            guards_bindings = policy_file::read(Some(file))?.binding_guard.is_some();
            text = Some(read);
        }
        let mut webhooks = self.webhooks.clone();
        if webhooks.is_empty() {
            webhooks.push(Webhook::Pods);
            webhooks.extend(guards_bindings.then_some(Webhook::Bindings));
        }
        if webhooks.contains(&Webhook::Bindings) && !guards_bindings {
            let usage = "--webhooks bindings needs a --policy with bindingGuard: {enabled: true}";
            return Err(CliError::Usage(usage.to_owned()));
        }
        webhooks.sort_by_key(|webhook| *webhook as u8);
        webhooks.dedup();
        Ok((text, webhooks))
    }

    fn ca_pem(&self) -> Result<Option<String>, CliError> {
        let Some(file) = &self.ca_file else { return Ok(None) };
        let pem = read(file)?;
        if !pem.contains("-----BEGIN CERTIFICATE-----") {
            let file = file.display();
            return Err(CliError::Usage(format!("--ca-file {file}: no PEM certificate found")));
        }
        Ok(Some(pem))
    }
}

fn read(file: &Path) -> Result<String, InstallError> {
    berth_terminal::input::small_text(file)
        .map_err(|source| InstallError::File { file: file.to_owned(), source })
}

/// Rejects arguments that the container would reject later.
fn check_args<C: CommandFactory>(component: Component, objects: &[Value]) -> Result<(), CliError> {
    let name = format!("berth-{}", component.name());
    let is_it = |o: &&Value| o["kind"] == "Deployment" && o["metadata"]["name"] == name.as_str();
    let Some(deployment) = objects.iter().find(is_it) else { return Ok(()) };
    let args =
        deployment["spec"]["template"]["spec"]["containers"][0]["args"].as_array().into_iter().flatten();
    let line = std::iter::once("berth").chain(args.filter_map(Value::as_str));
    match C::command().try_get_matches_from(line) {
        Ok(_) => Ok(()),
        Err(error) => {
            let text = error.to_string();
            let reason = text.lines().next().unwrap_or_default().trim_start_matches("error: ");
            Err(CliError::Usage(format!("--arg for the {}: {reason}", component.name())))
        }
    }
}

fn print(format: Format, objects: &[Value]) -> Result<(), CliError> {
    let mut out = output::stdout();
    match format {
        Format::Yaml => {
            for (at, object) in objects.iter().enumerate() {
                if at > 0 {
                    writeln!(out, "---")?;
                }
                output::yaml(&mut out, object)?;
            }
        }
        Format::Json => {
            output::json(&mut out, &json!({"apiVersion": "v1", "kind": "List", "items": objects}))?;
        }
    }
    out.flush()?;
    Ok(())
}

fn extra_arg(text: &str) -> Result<ExtraArg, String> {
    let (component, arg) =
        text.split_once('=').ok_or("must have the form COMPONENT=ARG, for example enforcer=--dry-run")?;
    Ok(ExtraArg { component: Component::from_str(component, false)?, arg: arg.to_owned() })
}

fn namespace(text: &str) -> Result<String, String> {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let is_label = (1..=63).contains(&text.len())
        && text.chars().all(|c| is_plain(c) || c == '-')
        && text.starts_with(is_plain)
        && text.ends_with(is_plain);
    if !is_label {
        return Err("must have at most 63 lowercase letters, digits and '-', and start and end with a letter or digit".to_owned());
    }
    if text == "default" || text.starts_with("kube-") {
        // The manifests contain the Namespace with a pod security label that other pods may violate.
        return Err("choose a namespace that only Berth uses".to_owned());
    }
    Ok(text.to_owned())
}

fn image(text: &str) -> Result<String, String> {
    if text.is_empty() || text.contains(char::is_whitespace) {
        return Err("must be an image name, for example registry.example/berth:0.1.0".to_owned());
    }
    Ok(text.to_owned())
}
