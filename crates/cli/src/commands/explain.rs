//! `berth explain`.

use std::io::Write;

use berth_simulate::{SimulatedPod, Simulation};

use super::cluster_args::ClusterArgs;
use crate::Answer;
use crate::error::CliError;
use crate::output::{self, OutputArgs};
use crate::render::explanation;
use crate::render::names::abbreviated;

/// This many pods are named when the one asked for is not there.
const MAX_SUGGESTIONS: usize = 5;

/// Explain why a pod goes where it goes, or nowhere
///
/// Shows every term of every rule with the number of nodes it excludes and the pods that are the reason, the
/// nodes that come nearest, and the scores of the nodes that are feasible. A waiting pod is explained in its
/// turn: running pods are there, and so are those waiting ones that `simulate` places before it. A running pod
/// is explained as if it were not there, and its rules are checked against the node it is on.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "berth explain [OPTIONS] -f FILE... POD\n       berth explain [OPTIONS] --live [-f FILE...] POD",
    after_help = "\
Examples:
  berth explain -f cluster.yaml team-a/web-0
  berth explain -f cluster.yaml --node worker-3 web-0
  berth explain --live team-a/web-0
  kubectl get nodes,namespaces,pods -A -o yaml | berth explain -f - -o json web-0

Exit codes: 0 the pod fits, or its rules still hold; 1 it does not, or they do not; 2 bad input or usage"
)]
pub struct Args {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Show this node only, with everything about it
    #[arg(long, value_name = "NAME")]
    node: Option<String>,
    /// Place all other waiting pods first, not only those before it in the queue
    #[arg(long)]
    after_others: bool,
    #[command(flatten)]
    output: OutputArgs,
    /// The pod: NAMESPACE/NAME, or NAME where no other namespace has a pod of that name
    #[arg(value_name = "POD")]
    pod: Option<String>,
}

/// Explains the pod.
pub fn run(mut args: Args) -> Result<Answer, CliError> {
    // `-f` takes all names up to the next option, and so a pod that comes right after them.
    let pod = args.pod.take().or_else(|| take_last(&mut args.cluster)).ok_or_else(|| {
        CliError::NotFound("no pod is named: write it last, as in `berth explain -f FILE web-0`".to_owned())
    })?;
    let mut simulation = args.cluster.simulation(false)?;
    let (namespace, name) = find(&simulation, &pod)?;
    if args.after_others {
        simulation.run_others(&namespace, &name);
    } else {
        simulation.run_before(&namespace, &name);
    }
    if let Some(node) = args.node.as_ref().filter(|n| !simulation.has_node(n)) {
        return Err(CliError::NotFound(format!(
            "Node {node} is not in the input: give the name of one that is"
        )));
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
        None => explanation.outcome.node().is_some(),
    };
    Ok(if is_good { Answer::Good } else { Answer::Bad })
}

/// The last of the files, if there is input without it.
fn take_last(cluster: &mut ClusterArgs) -> Option<String> {
    let n_needed = usize::from(!cluster.is_live());
    if cluster.files.len() > n_needed { cluster.files.pop() } else { None }
}

/// The namespace and name of the pod asked for.
fn find(simulation: &Simulation, asked: &str) -> Result<(String, String), CliError> {
    let (namespace, name) = match asked.split_once('/') {
        Some((namespace, name)) => (Some(namespace), name),
        None => (None, asked),
    };
    let meant = |p: &&SimulatedPod| {
        p.pod.metadata.name == name && namespace.is_none_or(|n| p.pod.metadata.namespace == n)
    };
    let found: Vec<_> = simulation.pods().iter().filter(meant).collect();
    match found.as_slice() {
        [one] => Ok((one.pod.metadata.namespace.clone(), one.pod.metadata.name.clone())),
        [] => Err(CliError::NotFound(not_found(simulation, asked, name))),
        several => {
            let keys: Vec<_> = several.iter().map(|p| p.pod.key()).collect();
            let keys = abbreviated(&keys, MAX_SUGGESTIONS);
            Err(CliError::NotFound(format!("several pods are named {name}: write which: {keys}")))
        }
    }
}

fn not_found(simulation: &Simulation, asked: &str, name: &str) -> String {
    let all = simulation.pods();
    let key = |p: &SimulatedPod| p.pod.key();
    let like = |p: &&SimulatedPod| {
        let other = p.pod.metadata.name.as_str();
        other.contains(name) || name.contains(other) || other.starts_with(owner_part(name))
    };
    let near: Vec<_> = all.iter().filter(like).map(key).collect();
    let (word, names) = match near.as_slice() {
        [] if all.is_empty() => return format!("Pod {asked} is not in the input, which has no pods"),
        [] => ("there are", all.iter().map(key).collect()),
        _ => ("did you mean", near),
    };
    let end = if word == "did you mean" { "?" } else { "" };
    format!("Pod {asked} is not in the input: {word} {}{end}", abbreviated(&names, MAX_SUGGESTIONS))
}

/// The name without what a controller appends to tell its pods apart.
fn owner_part(name: &str) -> &str {
    name.rsplit_once('-').map_or(name, |(owner, _)| owner)
}
