//! `berth explain`.

use std::io::Write;

use berth_simulate::{SimulatedPod, Simulation};

use super::cluster_args::ClusterArgs;
use crate::ExitStatus;
use crate::error::CliError;
use crate::output::{self, OutputArgs};
use crate::render::explanation;
use crate::render::names::abbreviated;

/// Number of pods suggested when the requested pod does not exist.
const MAX_SUGGESTIONS: usize = 5;

/// Explain why a pod is placed on its node, or on none
///
/// Shows each rule with the number of nodes that it excludes and the pods that cause this, the nodes that exclude the pod for
/// the fewest reasons, and the scores of the feasible nodes. A pending pod is explained with all running pods and with
/// the pending pods that `berth simulate` places before it. A running pod is explained as if it were pending, and its rules are
/// checked against its current node.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "berth explain [OPTIONS] -f FILE... POD\n       berth explain [OPTIONS] --live [-f FILE...] POD",
    after_help = "\
Examples:
  berth explain -f cluster.yaml team-a/web-0
  berth explain -f cluster.yaml --node worker-3 web-0
  berth explain --live team-a/web-0
  kubectl get nodes,namespaces,pods -A -o yaml | berth explain -f - -o json web-0

Exit codes: 0 the pod fits, if need be by preemption, or violates no rule on its node; 1 it does not fit, or violates a rule; 2 invalid input or \
usage"
)]
pub struct Args {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Show only this node, with all details
    #[arg(long, value_name = "NAME")]
    node: Option<String>,
    /// Do not preempt pods of lower priority for pods that fit nowhere
    #[arg(long)]
    no_preemption: bool,
    /// Place all other pending pods first, not only those before it in the queue
    #[arg(long)]
    after_others: bool,
    #[command(flatten)]
    output: OutputArgs,
    /// NAMESPACE/NAME of the pod, or NAME if it is unique
    #[arg(value_name = "POD")]
    pod: Option<String>,
}

/// Explains the pod.
pub fn run(mut args: Args) -> Result<ExitStatus, CliError> {
    // `-f` takes all values up to the next option, including a pod name that follows.
    let pod = args.pod.take().or_else(|| take_last(&mut args.cluster)).ok_or_else(|| {
        CliError::NotFound("no pod given: put it last, for example `berth explain -f FILE web-0`".to_owned())
    })?;
    let mut simulation = args.cluster.simulation(false)?;
    if args.no_preemption {
        simulation.disable_preemption();
    }
    let (namespace, name) = find(&simulation, &pod)?;
    if args.after_others {
        simulation.run_others(&namespace, &name);
    } else {
        simulation.run_before(&namespace, &name);
    }
    if let Some(node) = args.node.as_ref().filter(|n| !simulation.has_node(n)) {
        return Err(CliError::NotFound(format!("Node {node} is not in the input")));
    }
    let explanation = simulation.explain(&namespace, &name, args.node.as_deref());
    let explained = explanation.ok_or_else(|| CliError::NotFound(not_found(&simulation, &pod, &name)))?;
    let explanation = &explained.explanation;
    let is_node_known = explanation.running_on.as_deref().is_none_or(|node| simulation.has_node(node));
    let mut out = output::stdout();
    args.output.write(&mut out, &explained, |out| {
        explanation::write(out, &explained, args.node.as_deref(), is_node_known)
    })?;
    out.flush()?;
    let is_good = match &explanation.running_on {
        Some(_) => is_node_known && explanation.broken.is_empty(),
        None => match &explained.group {
            Some(group) => group.message.is_none(),
            None => explanation.outcome.node().is_some() || explained.preemption.is_some(),
        },
    };
    Ok(if is_good { ExitStatus::Success } else { ExitStatus::Failure })
}

/// The last of the files, if other input remains.
fn take_last(cluster: &mut ClusterArgs) -> Option<String> {
    let n_needed = usize::from(!cluster.is_live());
    if cluster.files.len() > n_needed { cluster.files.pop() } else { None }
}

/// The namespace and name of the requested pod.
fn find(simulation: &Simulation, requested: &str) -> Result<(String, String), CliError> {
    let (namespace, name) = match requested.split_once('/') {
        Some((namespace, name)) => (Some(namespace), name),
        None => (None, requested),
    };
    let matches = |p: &&SimulatedPod| {
        p.pod.metadata.name == name && namespace.is_none_or(|n| p.pod.metadata.namespace == n)
    };
    let found: Vec<_> = simulation.pods().iter().filter(matches).collect();
    match found.as_slice() {
        [one] => Ok((one.pod.metadata.namespace.clone(), one.pod.metadata.name.clone())),
        [] => Err(CliError::NotFound(not_found(simulation, requested, name))),
        several => {
            let keys: Vec<_> = several.iter().map(|p| p.pod.key()).collect();
            let keys = abbreviated(&keys, MAX_SUGGESTIONS);
            Err(CliError::NotFound(format!("several pods have the name {name}; add the namespace: {keys}")))
        }
    }
}

fn not_found(simulation: &Simulation, requested: &str, name: &str) -> String {
    let all = simulation.pods();
    let key = |p: &SimulatedPod| p.pod.key();
    let like = |p: &&SimulatedPod| {
        let other = p.pod.metadata.name.as_str();
        other.contains(name) || name.contains(other) || other.starts_with(owner_part(name))
    };
    let near: Vec<_> = all.iter().filter(like).map(key).collect();
    let (word, names) = match near.as_slice() {
        [] if all.is_empty() => return format!("Pod {requested} is not in the input, which has no pods"),
        [] => ("it has", all.iter().map(key).collect()),
        _ => ("did you mean", near),
    };
    let end = if word == "did you mean" { "?" } else { "" };
    format!("Pod {requested} is not in the input: {word} {}{end}", abbreviated(&names, MAX_SUGGESTIONS))
}

/// The name without the suffix that a controller appends.
fn owner_part(name: &str) -> &str {
    name.rsplit_once('-').map_or(name, |(owner, _)| owner)
}
