//! The manifests of `deploy/kustomize`, configured for an installation.
//!
//! The binary contains the files. All changes apply to the parsed objects, never to text: the output is always well formed.

mod certificate;

use std::path::PathBuf;

use berth_api::read::{Manifest, ReadError, collect_manifests};
use clap::ValueEnum;
use serde_json::{Value, json};

pub use certificate::{Certificate, CertificateError};

pub const NAMESPACE: &str = "berth-system";
/// The Secret with the webhook's certificate.
pub const TLS_SECRET: &str = "berth-webhook-tls";

const PLACEMENT_POLICY_FILE: &str =
    include_str!("../../../../../deploy/kustomize/components/placement-policies/crds.yaml");

const PODS_WEBHOOK: &str = "pods.scheduling.berth.dev";

const NAMESPACE_FILE: &str = include_str!("../../../../../deploy/kustomize/base/namespace.yaml");
const PLACEMENT_QUOTA_FILE: &str = include_str!("../../../../../deploy/kustomize/base/placement-quota.yaml");
const SERVICE_MONITOR_FILE: &str =
    include_str!("../../../../../deploy/kustomize/components/service-monitor/service-monitor.yaml");
const CERT_MANAGER_FILE: &str =
    include_str!("../../../../../deploy/kustomize/components/cert-manager/certificate.yaml");

berth_api::named! {
    /// A component of Berth.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, ValueEnum)]
    pub enum Component(name) {
        /// Schedules pods
        Scheduler = "scheduler",
        /// Evicts pods that violate rules required during execution
        Enforcer = "enforcer",
        /// Checks pods before the API server stores them
        Webhook = "webhook",
        /// Shows the cluster in the browser
        Console = "console",
    }
}

impl Component {
    fn file(self) -> &'static str {
        match self {
            Component::Scheduler => include_str!("../../../../../deploy/kustomize/base/scheduler.yaml"),
            Component::Enforcer => include_str!("../../../../../deploy/kustomize/base/enforcer.yaml"),
            Component::Webhook => include_str!("../../../../../deploy/kustomize/base/webhook.yaml"),
            Component::Console => {
                include_str!("../../../../../deploy/kustomize/components/console/console.yaml")
            }
        }
    }
}

/// A webhook configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, ValueEnum)]
pub enum Webhook {
    /// Validate pods, and return warnings for workloads
    Pods,
    /// Validate bindings; the policy needs bindingGuard: {enabled: true}
    Bindings,
    /// Restrict nodes, for API servers without NodeRestriction
    Nodes,
    /// Merge matchLabelKeys of new pods, for API servers that do not merge them
    MatchLabelKeys,
    /// Apply placement policies to new pods, and validate them
    Policies,
}

impl Webhook {
    /// The manifest file; none if the base contains the webhook.
    fn file(self) -> Option<&'static str> {
        match self {
            Webhook::Pods => None,
            Webhook::Bindings => {
                Some(include_str!("../../../../../deploy/kustomize/components/binding-guard/webhook.yaml"))
            }
            Webhook::Nodes => {
                Some(include_str!("../../../../../deploy/kustomize/components/node-restriction/webhook.yaml"))
            }
            Webhook::MatchLabelKeys => {
                Some(include_str!("../../../../../deploy/kustomize/components/match-label-keys/webhook.yaml"))
            }
            Webhook::Policies => Some(include_str!(
                "../../../../../deploy/kustomize/components/placement-policies/webhook.yaml"
            )),
        }
    }
}

berth_api::named! {
    /// What the API server does if the webhook does not respond.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
    pub enum FailurePolicy(as_str) {
        /// Accept the request
        Ignore = "Ignore",
        /// Reject the request
        Fail = "Fail",
    }
}

#[derive(Clone, Debug)]
pub enum CertificateSource {
    /// The manifests contain a Secret with a generated certificate.
    Generated(Certificate),
    /// The user provides the Secret.
    Secret {
        /// PEM certificates of its authority; none: the API server's default trust.
        ca_pem: Option<String>,
    },
    /// cert-manager creates the Secret and sets the `caBundle`.
    CertManager,
}

/// An additional argument of a component.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExtraArg {
    pub component: Component,
    /// The argument, such as `--dry-run`.
    pub arg: String,
}

#[derive(Clone, Debug)]
pub struct Installation {
    pub components: Vec<Component>,
    /// The namespace of all namespaced objects.
    pub namespace: String,
    pub image: Option<String>,
    /// Replicas of each component; a webhook with the binding guard has one, unless the policy gives it a ledger.
    pub replicas: Option<u16>,
    /// Additional arguments, in this order.
    pub extra_args: Vec<ExtraArg>,
    pub service_monitor: bool,
    pub webhooks: Vec<Webhook>,
    /// The webhook's policy, as YAML.
    pub policy: Option<String>,
    /// The failure policy of the webhook for pods.
    pub failure_policy: Option<FailurePolicy>,
    pub certificate: CertificateSource,
}

/// Why the manifests cannot be generated.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// The manifests in the binary cannot be parsed; a test excludes this.
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// A file given by the user cannot be read.
    #[error("{}: {source}", file.display())]
    File { file: PathBuf, source: std::io::Error },
}

impl Installation {
    /// All objects, in the order in which to create them.
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
            objects.append(&mut read(PLACEMENT_QUOTA_FILE)?);
            self.add_webhooks(&mut objects)?;
            self.certify(&mut objects)?;
        }
        // Referenced objects come first; webhook configurations come last, after the webhook exists.
        objects.sort_by_key(|object| rank(object["kind"].as_str().unwrap_or_default()));
        if self.namespace != NAMESPACE {
            objects.iter_mut().for_each(|object| rename(object, &self.namespace));
        }
        Ok(objects)
    }

    fn configure(&self, component: Component, objects: &mut [Value]) {
        for object in objects.iter_mut().filter(|o| o["kind"] == "Deployment") {
            if component == Component::Webhook
                && self.webhooks.contains(&Webhook::Bindings)
                && !self.has_ledger()
            {
                // Without a ledger, the binding guard keeps its state in one process.
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

    /// Whether the policy gives the binding guard a ledger. The webhook reads the policy itself, and reports errors.
    fn has_ledger(&self) -> bool {
        self.policy.as_ref().is_some_and(|policy| policy.contains("ledgerNamespace:"))
    }

    fn add_webhooks(&self, objects: &mut Vec<Value>) -> Result<(), InstallError> {
        if !self.webhooks.contains(&Webhook::Pods) {
            objects.retain(|object| !is_webhook_configuration(object));
        }
        for file in self.webhooks.iter().filter_map(|webhook| webhook.file()) {
            objects.append(&mut read(file)?);
        }
        if self.webhooks.contains(&Webhook::Policies) {
            objects.append(&mut read(PLACEMENT_POLICY_FILE)?);
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
            CertificateSource::Generated(certificate) => {
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

/// The definitions of placement policies.
///
/// # Errors
/// The manifest in the binary cannot be parsed; a test excludes this.
pub fn placement_policy_definitions() -> Result<Vec<Manifest>, InstallError> {
    Ok(collect_manifests(PLACEMENT_POLICY_FILE, "deploy/kustomize")?)
}

fn is_webhook_configuration(object: &Value) -> bool {
    object["kind"].as_str().is_some_and(|kind| kind.ends_with("WebhookConfiguration"))
}

fn webhooks(configuration: &mut Value) -> impl Iterator<Item = &mut Value> {
    configuration["webhooks"].as_array_mut().into_iter().flatten()
}

fn read(text: &str) -> Result<Vec<Value>, InstallError> {
    let manifests = collect_manifests(text, "deploy/kustomize")?;
    Ok(manifests.into_iter().map(|manifest| manifest.value).collect())
}

fn rank(kind: &str) -> u8 {
    match kind {
        "Namespace" | "CustomResourceDefinition" => 0,
        "ServiceAccount" => 1,
        "ClusterRole" | "ClusterRoleBinding" | "Role" | "RoleBinding" => 2,
        "Secret" | "ConfigMap" | "Issuer" | "Certificate" => 3,
        "ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration" => 5,
        _ => 4,
    }
}

/// Replaces the default namespace, which occurs as a value or in the host name of the webhook's Service.
fn rename(value: &mut Value, namespace: &str) {
    match value {
        Value::String(text) if text == NAMESPACE => namespace.clone_into(text),
        Value::String(text) if *text == certificate::host(NAMESPACE) => *text = certificate::host(namespace),
        Value::Array(values) => values.iter_mut().for_each(|v| rename(v, namespace)),
        Value::Object(members) => members.values_mut().for_each(|v| rename(v, namespace)),
        _ => {}
    }
}
