//! Arguments for the scheduling rules.

use berth_api::feature_gates::{FeatureGates, KubernetesVersion, ServerVersion};
use berth_api::read::{Manifest, SourceLocation};
use berth_client::connect;
use berth_client::version::await_server_version;
use berth_engine::{MAX_ALL_TOPOLOGIES, Settings};
use berth_input::config::SchedulerConfig;
use berth_input::inventory::Inventory;
use berth_rules::{RuleOptions, all_topologies_problem};
use berth_terminal::input::find_inputs;
use berth_terminal::output;

use super::feature_gate_args::FeatureGateArgs;
use super::read_inputs::read;
use crate::error::CliError;

/// The scheduling rules.
#[derive(Clone, Debug, clap::Args)]
pub struct RulesArgs {
    /// File with a KubeSchedulerConfiguration v1 [default: the defaults of kube-scheduler]
    #[arg(long, value_name = "FILE")]
    pub(super) config: Option<String>,
    /// Disable Berth's extensions: decide exactly as kube-scheduler does
    ///
    /// Fields of the design proposals are ignored with a warning, Gt and Lt in pod affinity are errors, and no namespace is
    /// exempt from anti-affinity.
    #[arg(long)]
    strict_v1: bool,
    /// Exempt the pods of these namespaces, separated by commas, from anti-affinity: they neither block pods nor are blocked
    ///
    /// The list applies to v1 fields and to fields of the design proposals. By default, only kube-system is exempt, and only
    /// for fields of the proposals.
    #[arg(long, value_name = "NAMESPACE", value_delimiter = ',', num_args = 1, conflicts_with = "strict_v1")]
    exempt_namespaces: Option<Vec<String>>,
    /// Node label keys, separated by commas, that an empty topologyKey of the design proposals stands for [default: host name,
    /// zone and region]
    #[arg(long, value_name = "KEY", value_parser = all_topologies, conflicts_with = "strict_v1")]
    all_topologies: Option<AllTopologies>,
    #[command(flatten)]
    feature_gates: FeatureGateArgs,
}

#[derive(Clone, Debug)]
struct AllTopologies(Vec<String>);

fn all_topologies(text: &str) -> Result<AllTopologies, String> {
    let keys: Vec<String> = text.split(',').map(str::to_owned).collect();
    all_topologies_problem(&keys, MAX_ALL_TOPOLOGIES).map_or(Ok(AllTopologies(keys)), Err)
}

impl RulesArgs {
    /// The settings; `in_input` are the scheduler configurations among the input objects, `of_server` the version of the server
    /// that is read.
    ///
    /// # Errors
    /// The configuration cannot be read or is invalid, or there are several.
    pub fn settings(
        &self,
        in_input: &[Manifest],
        of_server: Option<ServerVersion>,
    ) -> Result<Settings, CliError> {
        self.settings_of(self.config_file()?.as_ref(), in_input, of_server)
    }

    /// The configuration of `--config`.
    pub fn config_file(&self) -> Result<Option<Manifest>, CliError> {
        self.config.as_ref().map(config_in_file).transpose()
    }

    /// The settings of a component that decides as the server of this connection, unless a version is set: with the configuration of
    /// `--config`.
    ///
    /// # Errors
    /// As [`RulesArgs::settings`], or the connection cannot be used. A server that does not answer is no error.
    pub async fn settings_for(
        &self,
        config: Option<&Manifest>,
        connection: &kube::Config,
    ) -> Result<Settings, CliError> {
        let of_server = match self.feature_gates.has_version() {
            true => None,
            false => await_server_version(&connect::client(connection.clone())?).await,
        };
        self.settings_of(config, &[], of_server)
    }

    fn settings_of(
        &self,
        file: Option<&Manifest>,
        in_input: &[Manifest],
        of_server: Option<ServerVersion>,
    ) -> Result<Settings, CliError> {
        let config = self.scheduler_config(file, in_input, self.feature_gates.gates(of_server))?;
        if self.strict_v1 {
            return Ok(Settings::strict_v1(config));
        }
        let mut settings = Settings { config, ..Settings::default() };
        if let Some(AllTopologies(keys)) = &self.all_topologies {
            settings.all_topologies.clone_from(keys);
        }
        Ok(match &self.exempt_namespaces {
            None => settings,
            Some(names) => Settings { exempt_namespaces: names.clone(), exempt_from_v1: true, ..settings },
        })
    }

    /// How the fields of objects are read for a server of this version.
    pub fn rule_options(&self, of_server: Option<ServerVersion>) -> RuleOptions {
        let feature_gates = self.feature_gates.gates_without_warnings(of_server);
        RuleOptions { extensions: !self.strict_v1, feature_gates }
    }

    /// The same for another version, with the gates that are lost.
    pub fn of_version(&self, version: KubernetesVersion) -> (RulesArgs, Vec<String>) {
        let (feature_gates, lost) = self.feature_gates.of_version(version);
        (RulesArgs { feature_gates, ..self.clone() }, lost)
    }

    /// Whether a scheduler configuration is given.
    pub fn is_configured(&self) -> bool {
        self.config.is_some()
    }

    /// From `--config`, or else from the input.
    fn scheduler_config(
        &self,
        file: Option<&Manifest>,
        in_input: &[Manifest],
        feature_gates: FeatureGates,
    ) -> Result<SchedulerConfig, CliError> {
        let Some(file) = file else {
            return match in_input {
                [] => Ok(SchedulerConfig { feature_gates, ..SchedulerConfig::default() }),
                [one] => resolve(one, !self.strict_v1, feature_gates),
                [first, second, ..] => Err(CliError::SeveralConfigs {
                    first: first.source.clone(),
                    second: second.source.clone(),
                }),
            };
        };
        if let [first, ..] = in_input {
            output::note(&format!(
                "{}: KubeSchedulerConfiguration is ignored: --config is set",
                first.source
            ));
        }
        resolve(file, !self.strict_v1, feature_gates)
    }
}

/// The only scheduler configuration in a file.
pub fn config_in_file(path: &String) -> Result<Manifest, CliError> {
    let mut in_file = Inventory::default();
    read(&mut in_file, &find_inputs(std::slice::from_ref(path))?, None)?;
    match in_file.scheduler_configurations.as_slice() {
        [one] => Ok(one.clone()),
        [first, second, ..] => {
            Err(CliError::SeveralConfigs { first: first.source.clone(), second: second.source.clone() })
        }
        [] => Err(CliError::NoConfig { file: path.clone() }),
    }
}

pub fn resolve(
    manifest: &Manifest,
    extensions: bool,
    feature_gates: FeatureGates,
) -> Result<SchedulerConfig, CliError> {
    let place: &SourceLocation = &manifest.source;
    match SchedulerConfig::read_with(&manifest.value, extensions, feature_gates) {
        Ok((config, warnings)) => {
            warnings.iter().for_each(|w| output::warning(&format!("{place}: {w}")));
            Ok(config)
        }
        Err(errors) => Err(CliError::Config { place: place.clone(), errors }),
    }
}
