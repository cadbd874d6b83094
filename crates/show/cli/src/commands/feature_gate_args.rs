//! The argument for feature gates.

use berth_api::feature_gates::{FeatureGates, GateSetting, KubernetesVersion, ServerVersion};
use berth_terminal::output;

/// The version of Kubernetes.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct KubernetesArgs {
    /// Version of Kubernetes to decide as: 1.36, 1.37 or 1.38 [default: that of the server with --live and of components, else 1.37]
    #[arg(long, global = true, value_name = "VERSION")]
    kubernetes: Option<KubernetesVersion>,
}

impl KubernetesArgs {
    /// The version as set, else that of a server, else the default. Warns of a server with another version than the supported ones.
    pub fn version(self, of_server: Option<ServerVersion>) -> KubernetesVersion {
        self.kubernetes.unwrap_or_else(|| {
            let warning = of_server.and_then(ServerVersion::warning);
            warning.iter().for_each(output::warning);
            of_server.map(|server| server.nearest).unwrap_or_default()
        })
    }
}

/// The version of Kubernetes and its feature gates.
#[derive(Clone, Debug, clap::Args)]
pub struct FeatureGateArgs {
    /// Feature gates of Kubernetes, separated by commas: NAME=true or NAME=false [default: those of --kubernetes]
    ///
    /// All gates of kube-scheduler are accepted, and AllAlpha and AllBeta. docs/feature-gates.md lists the gates with what
    /// Berth does; a warning names gates that have no effect.
    #[arg(long, value_name = "NAME=BOOL", value_delimiter = ',', value_parser = setting)]
    feature_gates: Vec<Option<GateSetting>>,
    #[command(flatten)]
    kubernetes: KubernetesArgs,
}

impl FeatureGateArgs {
    /// The same of another version, with what cannot be set there, or has no effect any more.
    pub fn of_version(&self, version: KubernetesVersion) -> (FeatureGateArgs, Vec<String>) {
        let mut lost = Vec::new();
        let mut of_version = self.clone();
        of_version.kubernetes.kubernetes = Some(version);
        of_version.feature_gates.retain(|setting| {
            let text = setting.and_then(|setting| setting.without_effect(version));
            let is_kept = text.is_none();
            lost.extend(text);
            is_kept
        });
        (of_version, lost)
    }

    pub fn has_version(&self) -> bool {
        self.kubernetes.kubernetes.is_some()
    }

    /// Whether a version or a gate is set.
    pub fn is_given(&self) -> bool {
        self.kubernetes.kubernetes.is_some() || !self.feature_gates.is_empty()
    }

    /// The gates as set, of the version as set, else that of a server. Warns of settings without effect.
    pub fn gates(&self, of_server: Option<ServerVersion>) -> FeatureGates {
        let version = self.kubernetes.version(of_server);
        for text in self.settings().iter().filter_map(|setting| setting.without_effect(version)) {
            output::warning(&format!("--feature-gates: {text}"));
        }
        self.gates_without_warnings(of_server)
    }

    /// As [`FeatureGateArgs::gates`], where the warnings are due elsewhere.
    pub fn gates_without_warnings(&self, of_server: Option<ServerVersion>) -> FeatureGates {
        let of_server = of_server.map(|server| server.nearest);
        FeatureGates::new(self.kubernetes.kubernetes.or(of_server).unwrap_or_default(), &self.settings())
    }

    fn settings(&self) -> Vec<GateSetting> {
        self.feature_gates.iter().copied().flatten().collect()
    }
}

/// kube-scheduler skips what is empty between commas.
fn setting(text: &str) -> Result<Option<GateSetting>, String> {
    (!text.is_empty()).then(|| GateSetting::parse(text)).transpose()
}
