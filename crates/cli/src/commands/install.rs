//! `berth install`.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::{CommandFactory, ValueEnum};
use serde_json::{Value, json};

use crate::Answer;
use crate::cluster::admission;
use crate::error::CliError;
use crate::installation::{
    Certificate, CertificateSource, Component, ExtraArg, FailurePolicy, InstallError, Installation,
    NAMESPACE, Webhook,
};
use crate::output;

/// Print the manifests that install Berth on a Kubernetes cluster
///
/// They are those of deploy/kustomize, with what these options change: the scheduler for pods of the schedulerName
/// `berth`, the enforcer, and the webhook, two replicas of each. Nothing is sent anywhere.
///
/// The webhook gets a certificate of an authority that is made for it; its Secret, with the key, is part of what is
/// printed. Each time there is a new one: see --certificate.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  berth install --image registry.example/berth:0.1.0 | kubectl apply -f -
  berth install --components scheduler --arg scheduler=--scheduler-name=default-scheduler
  berth install --arg enforcer=--dry-run --service-monitor -o json
  berth install --certificate secret --ca-file ca.crt      # the certificate stays as it is

Exit codes: 0 printed, 2 bad usage

docs/install.md tells what is in it, and what to do on a cluster.")]
pub struct Args {
    /// The form of the manifests
    #[arg(short, long, value_enum, default_value_t = Format::Yaml, value_name = "FORMAT")]
    output: Format,
    /// Where everything goes
    #[arg(short, long, default_value = NAMESPACE, value_name = "NAMESPACE", value_parser = namespace)]
    namespace: String,
    /// The container image; deploy/Dockerfile makes it [default: berth:VERSION]
    #[arg(long, value_name = "IMAGE", value_parser = image)]
    image: Option<String>,
    /// Pods of each part; the webhook has one where it guards bindings [default: 2]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=100))]
    replicas: Option<u16>,
    /// Only these parts, with commas between them
    #[arg(long, value_enum, value_delimiter = ',', value_name = "PART",
          default_values_t = [Component::Scheduler, Component::Enforcer, Component::Webhook])]
    components: Vec<Component>,
    /// An argument for a part's command, such as enforcer=--dry-run; may be given several times
    #[arg(long = "arg", value_name = "PART=ARG", value_parser = extra_arg)]
    extra_args: Vec<ExtraArg>,
    /// Let the Prometheus operator find the metrics, by a ServiceMonitor
    #[arg(long)]
    service_monitor: bool,
    /// What the webhook is asked about, with commas between them [default: pods, and bindings if the policy guards them]
    #[arg(long, value_enum, value_delimiter = ',', value_name = "WHAT")]
    webhooks: Vec<Webhook>,
    /// The webhook's policy, a file with an AdmissionPolicy
    #[arg(long, value_name = "FILE")]
    policy: Option<String>,
    /// What API servers do with pods when the webhook does not answer [default: Ignore]
    #[arg(long, value_enum, ignore_case = true, value_name = "POLICY")]
    failure_policy: Option<FailurePolicy>,
    /// Where the webhook's certificate comes from
    #[arg(long, value_enum, default_value_t = From::Make, value_name = "FROM")]
    certificate: From,
    /// With --certificate secret: the authority of the certificate, in PEM
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
    /// A new one, for ten years, is part of what is printed
    Make,
    /// The Secret berth-webhook-tls is there, or will be
    Secret,
    /// cert-manager makes the Secret and tells the API server
    CertManager,
}

/// Prints the manifests. `C` is the whole command line, to which the arguments of containers have to make sense.
pub fn run<C: CommandFactory>(args: &Args) -> Result<Answer, CliError> {
    let installation = args.installation()?;
    let objects = installation.objects()?;
    for extra in &args.extra_args {
        check_args::<C>(extra.component, &objects)?;
    }
    print(args.output, &objects)?;
    if let CertificateSource::Made(certificate) = &installation.certificate
        && args.components.contains(&Component::Webhook)
    {
        output::note(&format!(
            "the webhook's certificate is new and holds until {}; its key is in the output",
            certificate.ends
        ));
    }
    Ok(Answer::Good)
}

impl Args {
    fn installation(&self) -> Result<Installation, CliError> {
        if self.ca_file.is_some() && self.certificate != From::Secret {
            return Err(CliError::Usage("--ca-file goes with --certificate secret only".to_owned()));
        }
        let (policy, webhooks) = self.policy()?;
        let certificate = match self.certificate {
            From::Make => {
                let today = jiff::Timestamp::now().to_zoned(jiff::tz::TimeZone::UTC).date();
                let made = Certificate::make(&self.namespace, today).map_err(InstallError::from)?;
                CertificateSource::Made(made)
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
                "--arg {name}={}: there is no {name} in --components",
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

    /// The policy's text, and what the webhook is asked about by it.
    fn policy(&self) -> Result<(Option<String>, Vec<Webhook>), CliError> {
        let (mut text, mut guards_bindings) = (None, false);
        if let Some(file) = &self.policy {
            let read = read(Path::new(file))?;
            guards_bindings = admission::policy(Some(file))?.binding_guard.is_some();
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
            return Err(CliError::Usage(format!("--ca-file {file}: no certificate in PEM in it")));
        }
        Ok(Some(pem))
    }
}

fn read(file: &Path) -> Result<String, InstallError> {
    std::fs::read_to_string(file).map_err(|source| InstallError::File { file: file.to_owned(), source })
}

/// The container would end with the same message, which would be seen late.
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
    let (component, arg) = text.split_once('=').ok_or("write it like enforcer=--dry-run")?;
    Ok(ExtraArg { component: Component::from_str(component, false)?, arg: arg.to_owned() })
}

fn namespace(text: &str) -> Result<String, String> {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let is_label = (1..=63).contains(&text.len())
        && text.chars().all(|c| is_plain(c) || c == '-')
        && text.starts_with(is_plain)
        && text.ends_with(is_plain);
    if !is_label {
        return Err("a namespace has lower case letters, digits and '-', and 63 of them at most".to_owned());
    }
    if text == "default" || text.starts_with("kube-") {
        // The Namespace is part of the manifests, with a label that other pods may not live up to.
        return Err("choose a namespace of Berth's own".to_owned());
    }
    Ok(text.to_owned())
}

fn image(text: &str) -> Result<String, String> {
    if text.is_empty() || text.contains(char::is_whitespace) {
        return Err("write it like registry.example/berth:0.1.0".to_owned());
    }
    Ok(text.to_owned())
}
