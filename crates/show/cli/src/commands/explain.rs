//! `berth explain`.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

use berth_api::feature_gates::KubernetesVersion;
use berth_api::object::time::rfc3339_micros;
use berth_api::read::Kind;
use berth_api::syntax::format::counted;
use berth_console::report::{Report, explanation, line};
use berth_console::{pictures, reports};
use berth_simulate::PodExplanation;
use berth_terminal::output;
use berth_terminal::process::{ExitStatus, leave_to_exit};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::json;

use super::cluster_args::{ClusterArgs, warn};
use crate::error::CliError;
use crate::objects::{ScopeArgs, check_namespace, find, find_pod, not_found};
use crate::pictures::{PictureFormat, PictureOutputArgs};
use crate::recordings::state_at;
use crate::render::placement;
use crate::summary::failures;

/// Explain why pods are pending, or why a pod is placed on its node
///
/// Shows the verdict, the first repair, and the three rules that exclude most nodes, with the pods that cause this. With --all, it shows
/// all rules and repairs, the nodes that exclude the pod for the fewest reasons, and the scores of the feasible nodes. A pending pod is explained with all running pods and with
/// the pending pods that `berth simulate` places before it. A running pod is explained as if it were pending, and its rules are
/// checked against its current node. A pod that its node rejects, or whose node does not exist, is explained as if it named no node.
#[derive(Debug, clap::Args)]
#[command(
    mut_arg("files", |files| {
        files.required_unless_present_any(["dump", "live", "kubeconfig", "context", "recording"])
    }),
    override_usage = "berth explain [OPTIONS] -f FILE... [POD]\n       berth explain [OPTIONS] (--dump FILE | --live) [-f FILE...] [POD]\n       \
berth explain [OPTIONS] --recording DIR [--at TIME] POD",
    after_help = "\
Examples:
  berth explain --dump cluster.yaml
  berth explain -f cluster.yaml team-a/web-0
  berth explain -f cluster.yaml --node worker-3 web-0
  berth explain --live team-a/web-0
  berth explain --recording recordings/ --at 2026-01-31T12:00:00Z team-a/web-0
  berth explain --dump cluster.yaml -n team-a deploy/web
  berth explain --dump cluster.yaml -f changed.yaml -l app=web
  berth dump cluster.json.gz; berth explain --dump cluster.json.gz -o json web-0

Exit codes: 0 the pod fits, if necessary by preemption, or violates no rule on its node; 1 it does not fit, violates a rule, or does not run on the node that it names; 2 invalid input or \
usage

See docs/json.md for the fields of -o json."
)]
pub struct Args {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Show only this node, with all details
    #[arg(long, value_name = "NAME")]
    node: Option<String>,
    /// Show all rules, nodes, scores and repairs, not only what matters most
    #[arg(long)]
    all: bool,
    /// Do not preempt pods of lower priority for unschedulable pods
    #[arg(long)]
    no_preemption: bool,
    /// Place all other pending pods first, not only those before it in the queue
    #[arg(long)]
    after_others: bool,
    /// Explain the pod with the state in a recording of `berth scheduler --record`: a directory or a file
    #[arg(long, value_name = "DIR", conflicts_with_all = ["files", "dump", "live", "kubeconfig", "context", "nodes"])]
    recording: Option<String>,
    /// With --recording: the time, such as 2026-01-31T12:00:00Z [default: the end of the recording]
    #[arg(long, value_name = "TIME", requires = "recording", value_parser = time)]
    at: Option<Timestamp>,
    /// Also explain it as this version of Kubernetes decides; exit code 1 if only this one does not place it
    #[arg(long, value_name = "VERSION", conflicts_with = "recording")]
    against: Option<KubernetesVersion>,
    #[command(flatten)]
    output: PictureOutputArgs,
    #[command(flatten)]
    scope: ScopeArgs,
    /// All namespaces, which is the default without -n
    #[arg(short = 'A', long, hide = true, conflicts_with = "namespace")]
    all_namespaces: bool,
    /// The pod: NAME, NAMESPACE/NAME or pod/NAME; or a workload, such as deploy/NAME: its last pending pod is explained
    ///
    /// Without it, all pods that do not run are shown by cause. `pod NAME` is pod/NAME, as for kubectl.
    #[arg(value_name = "POD", num_args = 0..=2)]
    pod: Vec<String>,
}

pub fn run(mut args: Args) -> Result<ExitStatus, CliError> {
    // `-f` takes all values up to the next option, including a pod name that follows.
    let mut names = std::mem::take(&mut args.pod);
    if names.is_empty() && !args.scope.has_selector() {
        names = take_names(&mut args.cluster);
    }
    if let [kind, name] = names.as_slice()
        && Kind::named(kind).is_none()
    {
        return Err(CliError::Usage(format!("{name}: one pod or workload is explained at a time")));
    }
    let pod = (!names.is_empty()).then(|| names.join("/"));
    if let Some(recording) = &args.recording {
        return explain_recorded(&args, recording, pod.as_deref());
    }
    // clap does not ask for an option that conflicts with another one.
    if args.at.is_some() {
        let text = "--at requires --recording: give the directory that --record wrote to";
        return Err(CliError::Usage(text.to_owned()));
    }
    if let Some(version) = args.against {
        return args.explain_against(pod.as_deref(), version);
    }
    if pod.is_none() && !args.scope.has_selector() {
        return args.explain_pending();
    }
    let Explained { title, pod: explained, is_node_known, .. } =
        args.explain(&args.cluster, pod.as_deref())?;
    let mut out = output::stdout();
    let report = args.report(&explained, is_node_known);
    let draw = |is_page| vec![picture(&explained, is_page)];
    args.output.write(&mut out, &explained, (&title, &report), draw)?;
    out.flush()?;
    Ok(status(&report))
}

struct Explained {
    /// Namespace and name.
    title: String,
    pod: PodExplanation,
    is_node_known: bool,
    kubernetes: KubernetesVersion,
}

impl Args {
    fn explain(&self, cluster: &ClusterArgs, pod: Option<&str>) -> Result<Explained, CliError> {
        let mut simulation = cluster.simulation(false)?;
        if self.no_preemption {
            simulation.disable_preemption();
        }
        let found = find(&simulation, pod, &self.scope)?;
        let (namespace, name, is_placed) = found.pod_to_explain(&mut simulation)?;
        if let n @ 2.. = found.pods.len() {
            output::note(&format!(
                "explaining Pod {namespace}/{name}: {} has {}",
                found.name,
                counted(n, "pod")
            ));
        }
        if is_placed {
            // All others are.
        } else if self.after_others {
            simulation.run_others(&namespace, &name);
        } else {
            simulation.run_before(&namespace, &name);
        }
        if let Some(node) = self.node.as_deref().filter(|node| !simulation.has_node(node)) {
            let all: Vec<_> =
                simulation.node_names().map(|name| (name.to_owned(), name.to_owned())).collect();
            return Err(not_found("Node", None, node, &all));
        }
        let explanation = simulation.explain(&namespace, &name, self.node.as_deref());
        let pod = explanation
            .ok_or_else(|| CliError::NotFound(format!("Pod {namespace}/{name} is not in the input")))?;
        let node = pod.explanation.running_on.as_deref();
        let is_node_known = node.is_none_or(|node| simulation.has_node(node));
        let kubernetes = simulation.cluster().settings().config.feature_gates.version;
        leave_to_exit(simulation);
        Ok(Explained { title: format!("{namespace}/{name}"), pod, is_node_known, kubernetes })
    }

    /// Shows all pods that do not run, by cause.
    fn explain_pending(&self) -> Result<ExitStatus, CliError> {
        if self.output.format == PictureFormat::Svg {
            return Err(CliError::Usage("-o svg is of one pod: name it".to_owned()));
        }
        let mut simulation = self.cluster.simulation(false)?;
        if let Some(namespace) = self.scope.namespace() {
            check_namespace(&simulation, namespace)?;
        }
        if self.no_preemption {
            simulation.disable_preemption();
        }
        simulation.run(|_, _| ());
        let (mut failures, mut not_running) = (failures(&mut simulation), simulation.not_running());
        if let Some(namespace) = self.scope.namespace() {
            let prefix = format!("{namespace}/");
            failures.iter_mut().for_each(|failure| failure.pods.retain(|pod| pod.starts_with(&prefix)));
            failures.retain(|failure| !failure.pods.is_empty());
            not_running.retain(|group| group.namespace == namespace);
        }
        leave_to_exit(simulation);
        let json = json!({"failures": failures, "notRunning": not_running});
        let report = placement::pending(failures, &not_running);
        let mut out = output::stdout();
        self.output.write(&mut out, &json, ("Pods that do not run", &report), |_| Vec::new())?;
        out.flush()?;
        Ok(status(&report))
    }

    /// Explains the pod as two versions of Kubernetes decide.
    fn explain_against(&self, pod: Option<&str>, version: KubernetesVersion) -> Result<ExitStatus, CliError> {
        let (newer, lost) = self.cluster.of_version(version);
        warn(&lost);
        let both = [self.explain(&self.cluster, pod)?, self.explain(&newer, pod)?];
        let json: BTreeMap<_, _> = both.iter().map(|of| (of.kubernetes.name(), &of.pod)).collect();
        let mut report = Report::default();
        let [before, after] = both.each_ref().map(|of| {
            let explained = self.report(&of.pod, of.is_node_known);
            let status = status(&explained);
            report.append(&format!("With Kubernetes {}", of.kubernetes), explained);
            status
        });
        let mut out = output::stdout();
        let draw = |is_page| both.iter().map(|of| picture(&of.pod, is_page)).collect();
        self.output.write(&mut out, &json, (&both[0].title, &report), draw)?;
        out.flush()?;
        Ok(if before == ExitStatus::Success { after } else { ExitStatus::Success })
    }

    /// The explanation: of one node with all details, otherwise as much as requested.
    fn report(&self, explained: &PodExplanation, is_node_known: bool) -> Report {
        match (&self.node, self.all) {
            (None, false) => explanation::summary(explained, is_node_known),
            (node, _) => explanation::report(explained, node.as_deref(), is_node_known),
        }
    }
}

#[derive(Serialize)]
struct Recorded {
    #[serde(flatten)]
    explained: PodExplanation,
    /// The last decision about the pod up to that time.
    recorded: Option<LastDecision>,
}

/// A recorded decision.
#[derive(Serialize)]
struct LastDecision {
    time: String,
    node: Option<String>,
    message: String,
}

/// Explains the pod in the state of a recording.
fn explain_recorded(args: &Args, recording: &str, pod: Option<&str>) -> Result<ExitStatus, CliError> {
    let usage = || CliError::Usage("--recording explains one pod: give its name".to_owned());
    let mut replay = state_at(recording, args.at)?;
    let pods: Vec<_> = replay.pods().collect();
    let name = find_pod(&pods, pod.ok_or_else(usage)?, &args.scope)?.metadata.namespaced_name();
    if let Some(node) = args.node.as_deref().filter(|node| !replay.cluster().has_node(node)) {
        return Err(CliError::NotFound(format!("Node {node} is not in the recording")));
    }
    let recorded = replay.last_decision(&name).map(|(time, decision)| LastDecision {
        time: rfc3339_micros(*time),
        node: decision.node.clone(),
        message: decision.message.clone(),
    });
    let explained = replay.explain(&name, args.node.as_deref());
    let explained =
        explained.ok_or_else(|| CliError::NotFound(format!("Pod {name} is not in the recording")))?;
    let recorded = Recorded { explained, recorded };
    let explained = &recorded.explained;
    let node = explained.explanation.running_on.as_deref();
    let is_node_known = node.is_none_or(|node| replay.cluster().has_node(node));
    let mut report = args.report(explained, is_node_known);
    let at = rfc3339_micros(args.at.unwrap_or(replay.now()));
    let decision = recorded.recorded.as_ref().map(|LastDecision { time, node, message }| {
        let result = node.as_ref().map_or_else(|| message.clone(), |node| format!("placed on {node}"));
        line![format!("Decision at {time}: {result}")]
    });
    report.verdict.splice(0..0, [line![format!("State at {at}")]].into_iter().chain(decision));
    let mut out = output::stdout();
    let draw = |is_page| vec![picture(explained, is_page)];
    args.output.write(&mut out, &recorded, (&name.to_string(), &report), draw)?;
    out.flush()?;
    Ok(status(&report))
}

fn status(report: &Report) -> ExitStatus {
    if report.is_good { ExitStatus::Success } else { ExitStatus::Failure }
}

fn time(text: &str) -> Result<Timestamp, String> {
    text.parse().map_err(|_| "not a time: write it as 2026-01-31T12:00:00Z".to_owned())
}

/// The last of the files, with a kind before it, if other input remains and they are no files.
fn take_names(cluster: &mut ClusterArgs) -> Vec<String> {
    let n_needed = usize::from(!cluster.has_base());
    let is_name = |text: &mut String| text != "-" && !(text.contains('.') && Path::new(text).exists());
    let mut names = Vec::new();
    if cluster.files.len() > n_needed {
        names.extend(cluster.files.pop_if(is_name));
    }
    if !names.is_empty() && cluster.files.len() > n_needed {
        names.splice(0..0, cluster.files.pop_if(|text| Kind::named(text).is_some() && is_name(text)));
    }
    names
}

/// The explanation as SVG, or as a part of a page.
fn picture(explained: &PodExplanation, is_page: bool) -> String {
    if is_page { reports::explanation(explained) } else { pictures::explanation(explained) }
}
