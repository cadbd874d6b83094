//! The manifests of `deploy/kustomize`, with what an installation changes in them.
//!
//! The files are part of the binary. A change is made to the objects that were read from them, never to text, so that
//! whatever is printed is as well formed as they are.

mod certificate;

use std::path::PathBuf;

use berth_api::read::{ReadError, read_manifests};
use clap::ValueEnum;
use serde_json::{Value, json};

pub use certificate::{Certificate, CertificateError};

/// The namespace in the files.
pub const NAMESPACE: &str = "berth-system";
/// The Secret that the webhook reads its certificate from.
pub const TLS_SECRET: &str = "berth-webhook-tls";

/// The webhook that judges pods.
const PODS_WEBHOOK: &str = "pods.scheduling.berth.dev";

const NAMESPACE_FILE: &str = include_str!("../../../../deploy/kustomize/base/namespace.yaml");
const SERVICE_MONITOR_FILE: &str =
    include_str!("../../../../deploy/kustomize/components/service-monitor/service-monitor.yaml");
const CERT_MANAGER_FILE: &str =
    include_str!("../../../../deploy/kustomize/components/cert-manager/certificate.yaml");

/// A part of Berth that is installed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, ValueEnum)]
pub enum Component {
    /// Decides where pods run
    Scheduler,
    /// Evicts pods whose rules no longer hold
    Enforcer,
    /// Judges pods before they are stored
    Webhook,
}

impl Component {
    /// As the command is called, the label and the end of names.
    pub fn name(self) -> &'static str {
        match self {
            Component::Scheduler => "scheduler",
            Component::Enforcer => "enforcer",
            Component::Webhook => "webhook",
        }
    }

    fn file(self) -> &'static str {
        match self {
            Component::Scheduler => include_str!("../../../../deploy/kustomize/base/scheduler.yaml"),
            Component::Enforcer => include_str!("../../../../deploy/kustomize/base/enforcer.yaml"),
            Component::Webhook => include_str!("../../../../deploy/kustomize/base/webhook.yaml"),
        }
    }
}

/// What the webhook is asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, ValueEnum)]
pub enum Webhook {
    /// Pods, and workloads for warnings
    Pods,
    /// Bindings; the policy needs bindingGuard: {enabled: true}
    Bindings,
    /// What nodes do, for API servers without NodeRestriction
    Nodes,
    /// New pods, for API servers that do not merge matchLabelKeys
    MatchLabelKeys,
}

impl Webhook {
    /// The file of those that are not in the base.
    fn file(self) -> Option<&'static str> {
        match self {
            Webhook::Pods => None,
            Webhook::Bindings => {
                Some(include_str!("../../../../deploy/kustomize/components/binding-guard/webhook.yaml"))
            }
            Webhook::Nodes => {
                Some(include_str!("../../../../deploy/kustomize/components/node-restriction/webhook.yaml"))
            }
            Webhook::MatchLabelKeys => {
                Some(include_str!("../../../../deploy/kustomize/components/match-label-keys/webhook.yaml"))
            }
        }
    }
}

/// What API servers do when the webhook does not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FailurePolicy {
    /// Take the pod as it is
    Ignore,
    /// Refuse the pod
    Fail,
}

impl FailurePolicy {
    fn as_str(self) -> &'static str {
        match self {
            FailurePolicy::Ignore => "Ignore",
            FailurePolicy::Fail => "Fail",
        }
    }
}

/// What the webhook's certificate comes from.
#[derive(Clone, Debug)]
pub enum CertificateSource {
    /// A Secret with a new certificate is part of the manifests.
    Made(Certificate),
    /// The Secret is somebody else's; `ca_pem` is what the API server checks its certificate by.
    Secret {
        /// Certificates in PEM; none: what the API server trusts anyway.
        ca_pem: Option<String>,
    },
    /// cert-manager makes the Secret and tells the API server.
    CertManager,
}

/// An argument of a component, beyond those in the files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExtraArg {
    /// Whose.
    pub component: Component,
    /// The argument, such as `--dry-run`.
    pub arg: String,
}

/// What is installed.
#[derive(Clone, Debug)]
pub struct Installation {
    /// Its parts.
    pub components: Vec<Component>,
    /// Where everything that has a namespace goes.
    pub namespace: String,
    /// The container image of all parts.
    pub image: Option<String>,
    /// Pods of each part; of the webhook there is one where it guards bindings.
    pub replicas: Option<u16>,
    /// Arguments added to those in the files, in this order.
    pub extra_args: Vec<ExtraArg>,
    /// Whether there is a ServiceMonitor.
    pub service_monitor: bool,
    /// What the webhook is asked about.
    pub webhooks: Vec<Webhook>,
    /// The webhook's policy, as YAML.
    pub policy: Option<String>,
    /// What becomes of pods without an answer of the webhook.
    pub failure_policy: Option<FailurePolicy>,
    /// Where the webhook's certificate comes from.
    pub certificate: CertificateSource,
}

/// Why there are no manifests.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// The manifests in the binary cannot be read; a test rules it out.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// No certificate.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// A file that was named.
    #[error("{}: {source}", file.display())]
    File {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        source: std::io::Error,
    },
}

impl Installation {
    /// All objects, in an order in which they can be created.
    ///
    /// # Errors
    /// A file of the binary cannot be read.
    pub fn objects(&self) -> Result<Vec<Value>, InstallError> {
        let mut objects = read(NAMESPACE_FILE)?;
        for component in &self.components {
            let mut of_component = read(component.file())?;
            self.configure(*component, &mut of_component);
            objects.append(&mut of_component);
        }
        if self.service_monitor {
            objects.append(&mut read(SERVICE_MONITOR_FILE)?);
        }
        if self.components.contains(&Component::Webhook) {
            self.add_webhooks(&mut objects)?;
            self.certify(&mut objects)?;
        }
        // What others refer to comes first, and the webhook is asked last of all.
        objects.sort_by_key(|object| rank(object["kind"].as_str().unwrap_or_default()));
        if self.namespace != NAMESPACE {
            objects.iter_mut().for_each(|object| rename(object, &self.namespace));
        }
        Ok(objects)
    }

    fn configure(&self, component: Component, objects: &mut [Value]) {
        for object in objects.iter_mut().filter(|o| o["kind"] == "Deployment") {
            if component == Component::Webhook && self.webhooks.contains(&Webhook::Bindings) {
                // What was allowed is remembered in one process.
                object["spec"]["replicas"] = 1.into();
            } else if let Some(replicas) = self.replicas {
                object["spec"]["replicas"] = replicas.into();
            }
            let container = &mut object["spec"]["template"]["spec"]["containers"][0];
            if let Some(image) = &self.image {
                container["image"] = image.as_str().into();
            }
            let extra = self.extra_args.iter().filter(|extra| extra.component == component);
            if let Some(args) = container["args"].as_array_mut() {
                args.extend(extra.map(|extra| Value::from(extra.arg.as_str())));
            }
        }
    }

    fn add_webhooks(&self, objects: &mut Vec<Value>) -> Result<(), InstallError> {
        if !self.webhooks.contains(&Webhook::Pods) {
            objects.retain(|object| !is_webhook_configuration(object));
        }
        for file in self.webhooks.iter().filter_map(|webhook| webhook.file()) {
            objects.append(&mut read(file)?);
        }
        for object in objects.iter_mut().filter(|o| o["kind"] == "ConfigMap") {
            if let Some(policy) = &self.policy {
                object["data"]["policy.yaml"] = policy.as_str().into();
            }
        }
        for webhook in objects.iter_mut().filter(|o| is_webhook_configuration(o)).flat_map(webhooks) {
            if let Some(policy) = self.failure_policy
                && webhook["name"] == PODS_WEBHOOK
            {
                webhook["failurePolicy"] = policy.as_str().into();
            }
        }
        Ok(())
    }

    fn certify(&self, objects: &mut Vec<Value>) -> Result<(), InstallError> {
        let ca_bundle = match &self.certificate {
            CertificateSource::Made(certificate) => {
                objects.push(certificate.secret());
                Some(certificate.ca_bundle())
            }
            CertificateSource::Secret { ca_pem } => ca_pem.as_deref().map(certificate::bundle),
            CertificateSource::CertManager => {
                objects.append(&mut read(CERT_MANAGER_FILE)?);
                None
            }
        };
        for configuration in objects.iter_mut().filter(|o| is_webhook_configuration(o)) {
            if matches!(self.certificate, CertificateSource::CertManager) {
                let certificate = format!("{}/berth-webhook", self.namespace);
                configuration["metadata"]["annotations"] =
                    json!({"cert-manager.io/inject-ca-from": certificate});
            }
            let Some(bundle) = &ca_bundle else { continue };
            for webhook in webhooks(configuration) {
                webhook["clientConfig"]["caBundle"] = bundle.as_str().into();
            }
        }
        Ok(())
    }
}

fn is_webhook_configuration(object: &Value) -> bool {
    object["kind"].as_str().is_some_and(|kind| kind.ends_with("WebhookConfiguration"))
}

fn webhooks(configuration: &mut Value) -> impl Iterator<Item = &mut Value> {
    configuration["webhooks"].as_array_mut().into_iter().flatten()
}

fn read(text: &str) -> Result<Vec<Value>, InstallError> {
    let mut objects = Vec::new();
    read_manifests::<ReadError>(text.as_bytes(), "deploy/kustomize", &mut |manifest| {
        objects.push(manifest.value);
        Ok(())
    })?;
    Ok(objects)
}

fn rank(kind: &str) -> u8 {
    match kind {
        "Namespace" => 0,
        "ServiceAccount" => 1,
        "ClusterRole" | "ClusterRoleBinding" | "Role" | "RoleBinding" => 2,
        "Secret" | "ConfigMap" | "Issuer" | "Certificate" => 3,
        "ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration" => 5,
        _ => 4,
    }
}

/// The namespace stands alone wherever it stands, or in the host name of the webhook's Service.
fn rename(value: &mut Value, namespace: &str) {
    match value {
        Value::String(text) if text == NAMESPACE => namespace.clone_into(text),
        Value::String(text) if *text == certificate::host(NAMESPACE) => *text = certificate::host(namespace),
        Value::Array(values) => values.iter_mut().for_each(|v| rename(v, namespace)),
        Value::Object(members) => members.values_mut().for_each(|v| rename(v, namespace)),
        _ => {}
    }
}
