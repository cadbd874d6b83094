//! Finds the pods and workloads that arguments name: `web-0`, `team-a/web-0`, `pod/web-0`, `deploy/web`, `podgroup/training`, or a
//! label selector.

use std::collections::BTreeSet;

use berth_api::object::{NamespacedName, Pod, PodStatus};
use berth_api::read::Kind;
use berth_api::syntax::format::abbreviated;
use berth_api::syntax::format::{MAX_SUGGESTIONS, not_in_input};
use berth_rules::Selector;
use berth_simulate::{SimulatedPod, Simulation, UnadmittedState};

use crate::error::CliError;

/// Which objects a name may stand for.
#[derive(Debug, Default, clap::Args)]
pub struct ScopeArgs {
    /// Namespace of the object [default: all namespaces]
    #[arg(short, long, value_name = "NAMESPACE")]
    namespace: Option<String>,
    /// Explain the pods with these labels instead of one pod, such as app=web,tier!=cache
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    selector: Option<String>,
}

impl ScopeArgs {
    pub fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    /// Whether a selector stands for a name.
    pub fn has_selector(&self) -> bool {
        self.selector.is_some()
    }
}

/// What a name stands for.
#[derive(Debug)]
pub struct Found {
    /// `Pod default/web-0`, `Deployment default/web`, or the selector.
    pub name: String,
    /// The positions of its pods in [`Simulation::pods`]; a workload may have none.
    pub pods: Vec<usize>,
}

impl Found {
    /// Namespace and name of the pod that shows best what happens to all: the last pending pod, else the first. Of pods that are created
    /// one after the other, it is the one that the others wait for: if it is not created yet, all other pods are placed now (`true`). Of
    /// pods that have their nodes, it is the last that is unplaced.
    pub fn pod_to_explain(&self, simulation: &mut Simulation) -> Result<(String, String, bool), CliError> {
        let is_not_created = |simulation: &Simulation, i: usize| {
            simulation.pods()[i].is_unadmitted(UnadmittedState::NotCreated)
        };
        let (mut waits_for, mut is_placed) = (None, false);
        let has_own_node = |i: &usize| simulation.pods()[*i].pod.belongs_to_node();
        if self.pods.iter().any(|i| has_own_node(i) || is_not_created(simulation, *i)) {
            let before = simulation.clone();
            simulation.run(|_, _| ());
            waits_for = self.pods.iter().copied().rfind(|i| simulation.pods()[*i].is_unplaced());
            is_placed = waits_for.is_some_and(|i| is_not_created(&before, i));
            if !is_placed {
                *simulation = before;
            }
        }
        let pods = || self.pods.iter().map(|i| &simulation.pods()[*i]);
        let pod = waits_for.map(|i| &simulation.pods()[i]);
        let pod = pod.or_else(|| pods().rfind(|pod| !pod.was_running)).or_else(|| pods().next());
        let pod = pod.ok_or_else(|| CliError::NotFound(format!("{} has no pods", self.name)))?;
        Ok((pod.pod.metadata.namespace.clone(), pod.pod.metadata.name.clone(), is_placed))
    }
}

/// Finds what a name, or the selector of the scope, stands for.
///
/// # Errors
/// Nothing, or more than one object, has the name; or no pod matches the selector.
pub fn find(simulation: &Simulation, name: Option<&str>, scope: &ScopeArgs) -> Result<Found, CliError> {
    let name = match (name, &scope.selector) {
        (Some(name), None) => name,
        (None, Some(selector)) => return matching(simulation, selector, scope.namespace.as_deref()),
        (Some(_), Some(_)) => return Err(CliError::Usage("give a name or --selector, not both".to_owned())),
        (None, None) => {
            let text = "no object given: put it last, for example `-f FILE web-0`";
            return Err(CliError::NotFound(text.to_owned()));
        }
    };
    let parts = name.split_once('/');
    // A namespace may be called like a kind.
    let is_namespace = |text: &str| simulation.pods().iter().any(|pod| pod.pod.metadata.namespace == text);
    match parts.and_then(|(kind, name)| Some((Kind::named(kind)?, name))) {
        Some((Kind::Pod, name)) => pod(simulation, scope.namespace.as_deref(), name),
        Some((kind, name)) if kind.is_workload() => {
            workload(simulation, kind, scope.namespace.as_deref(), name)
        }
        Some((Kind::PodGroup | Kind::CoschedulingPodGroup, name)) => {
            group(simulation, scope.namespace.as_deref(), name)
        }
        Some((kind, _)) if !parts.is_some_and(|(text, _)| is_namespace(text)) => Err(CliError::Usage(
            format!("{name}: a {} has no pods: name a pod or a workload, such as deploy/web", kind.name()),
        )),
        _ => match (parts, &scope.namespace) {
            (Some((namespace, name)), None) => pod(simulation, Some(namespace), name),
            (Some((namespace, name)), Some(other)) if namespace == other => {
                pod(simulation, Some(namespace), name)
            }
            (Some(_), Some(_)) => {
                Err(CliError::Usage(format!("{name}: --namespace names another namespace")))
            }
            (None, namespace) => pod(simulation, namespace.as_deref(), name),
        },
    }
}

fn positions(simulation: &Simulation, is_wanted: impl Fn(&SimulatedPod) -> bool) -> Vec<usize> {
    let pods = simulation.pods().iter().enumerate();
    pods.filter(|(_, pod)| is_wanted(pod)).map(|(i, _)| i).collect()
}

fn matching(simulation: &Simulation, selector: &str, namespace: Option<&str>) -> Result<Found, CliError> {
    let parsed: Selector =
        selector.parse().map_err(|error| CliError::Usage(format!("--selector {selector}: {error}")))?;
    let pods = positions(simulation, |SimulatedPod { pod, .. }| {
        namespace.is_none_or(|namespace| pod.metadata.namespace == namespace)
            && parsed.matches(|key| pod.metadata.labels.get(key).map(String::as_str))
    });
    if pods.is_empty() {
        let place = namespace.map_or_else(String::new, |namespace| format!(" in namespace {namespace}"));
        return Err(CliError::NotFound(format!("no pod{place} matches the selector {selector}")));
    }
    Ok(Found { name: format!("selector {selector}"), pods })
}

fn pod(simulation: &Simulation, namespace: Option<&str>, name: &str) -> Result<Found, CliError> {
    let pods = simulation.pods().iter().map(|p| &p.pod);
    let position = position_of_pod(pods, namespace, name, |pods| {
        let all = [workload_names(simulation, namespace), pods].concat();
        ended(simulation, namespace, name).unwrap_or_else(|| not_found("Pod", namespace, name, &all))
    })?;
    Ok(Found { name: format!("Pod {}", simulation.pods()[position].pod.key()), pods: vec![position] })
}

/// The error about a pod of this name that has ended.
fn ended(simulation: &Simulation, namespace: Option<&str>, name: &str) -> Option<CliError> {
    let is_it = |key: &NamespacedName| key.name() == name && namespace.is_none_or(|n| key.namespace() == n);
    let (key, status) = simulation.ended().iter().find(|(key, _)| is_it(key))?;
    let PodStatus { phase, reason, message, .. } = &**status;
    let why = [phase, reason, message].into_iter().filter(|text| !text.is_empty());
    let why = why.map(String::as_str).collect::<Vec<_>>().join(": ");
    Some(CliError::NotFound(format!(
        "Pod {key} has ended ({why}) and is not placed again: name a pod that runs or is pending"
    )))
}

/// The workloads that a name may have meant: their names, and how an argument names them.
fn workload_names(simulation: &Simulation, namespace: Option<&str>) -> Vec<(String, String)> {
    let of_pods = simulation
        .pods()
        .iter()
        .filter_map(|pod| Some((pod.pod.metadata.namespace.clone(), pod.workload.clone()?)));
    let all: BTreeSet<_> = of_pods.chain(simulation.workloads().iter().cloned()).collect();
    let here = all.into_iter().filter(|(of, _)| namespace.is_none_or(|namespace| of == namespace));
    let names: BTreeSet<_> = here
        .filter_map(|(_, workload)| {
            let (kind, name) = workload.split_once(' ')?;
            Some((name.to_owned(), format!("{}/{name}", kind.to_lowercase())))
        })
        .collect();
    names.into_iter().collect()
}

/// `missing` makes the error about a pod that is none of these, from the names of all.
fn position_of_pod<'a>(
    pods: impl Iterator<Item = &'a Pod> + Clone,
    namespace: Option<&str>,
    name: &str,
    missing: impl FnOnce(Vec<(String, String)>) -> CliError,
) -> Result<usize, CliError> {
    let is_it =
        |pod: &Pod| pod.metadata.name == name && namespace.is_none_or(|n| pod.metadata.namespace == n);
    let found: Vec<_> = pods.clone().enumerate().filter(|(_, pod)| is_it(pod)).collect();
    match found.as_slice() {
        [] => Err(missing(pods.map(|pod| (pod.metadata.name.clone(), pod.key())).collect())),
        [(position, _)] => Ok(*position),
        several => {
            let keys: Vec<_> = several.iter().map(|(_, pod)| pod.key()).collect();
            Err(ambiguous("pods", name, &keys))
        }
    }
}

/// Finds a pod of a state that knows no workloads.
///
/// # Errors
/// None, or more than one, has the name.
pub fn find_pod<'a>(pods: &[&'a Pod], name: &str, scope: &ScopeArgs) -> Result<&'a Pod, CliError> {
    let (namespace, name) = match name.split_once('/') {
        Some((kind, name)) if Kind::named(kind) == Some(Kind::Pod) => (scope.namespace.as_deref(), name),
        Some((namespace, name)) => (Some(namespace), name),
        None => (scope.namespace.as_deref(), name),
    };
    let missing = |all: Vec<_>| not_found("Pod", namespace, name, &all);
    Ok(pods[position_of_pod(pods.iter().copied(), namespace, name, missing)?])
}

fn workload(
    simulation: &Simulation,
    kind: Kind,
    namespace: Option<&str>,
    name: &str,
) -> Result<Found, CliError> {
    let (wanted, prefix) = (format!("{} {name}", kind.name()), format!("{} ", kind.name()));
    // A ReplicaSet of a Deployment is the controller of its pods, but not their workload.
    let controller = |pod: &SimulatedPod| {
        let owner = pod.pod.metadata.controller()?;
        Some(format!("{} {}", owner.kind, owner.name))
    };
    let of_pods = simulation.pods().iter().flat_map(|pod| {
        let names = pod.workload.clone().into_iter().chain(controller(pod));
        names.map(|workload| (pod.pod.metadata.namespace.clone(), workload))
    });
    let mut all: BTreeSet<(String, String)> = of_pods.chain(simulation.workloads().iter().cloned()).collect();
    all.retain(|(of, workload)| workload.starts_with(&prefix) && namespace.is_none_or(|n| of == n));
    let found: Vec<_> = all.iter().filter(|(_, workload)| *workload == wanted).collect();
    match found.as_slice() {
        [] => {
            let of = |(namespace, workload): &(String, String)| {
                let name = workload[prefix.len()..].to_owned();
                (name.clone(), format!("{namespace}/{name}"))
            };
            Err(not_found(kind.name(), namespace, name, &all.iter().map(of).collect::<Vec<_>>()))
        }
        [key] => {
            let pods = positions(simulation, |pod| {
                pod.pod.metadata.namespace == key.0
                    && (pod.workload.as_ref() == Some(&wanted) || controller(pod).as_ref() == Some(&wanted))
            });
            Ok(Found { name: format!("{} {}/{name}", kind.name(), key.0), pods })
        }
        several => {
            let keys: Vec<_> = several.iter().map(|(namespace, _)| format!("{namespace}/{name}")).collect();
            Err(ambiguous(&format!("{}s", kind.name()), name, &keys))
        }
    }
}

fn group(simulation: &Simulation, namespace: Option<&str>, name: &str) -> Result<Found, CliError> {
    let groups = simulation.pods().iter().filter_map(|pod| pod.group.as_ref()).map(|key| &key.name);
    let all: BTreeSet<_> = groups.filter(|group| namespace.is_none_or(|n| group.namespace() == n)).collect();
    let found: Vec<_> = all.iter().filter(|group| group.name() == name).collect();
    match found.as_slice() {
        [] => {
            let of = |group: &&NamespacedName| (group.name().to_owned(), group.to_string());
            Err(not_found("PodGroup", namespace, name, &all.iter().map(of).collect::<Vec<_>>()))
        }
        [group] => {
            let pods =
                positions(simulation, |pod| pod.group.as_ref().is_some_and(|key| key.name == ***group));
            Ok(Found { name: format!("PodGroup {group}"), pods })
        }
        several => {
            let keys: Vec<_> = several.iter().map(ToString::to_string).collect();
            Err(ambiguous("PodGroups", name, &keys))
        }
    }
}

fn ambiguous(kinds: &str, name: &str, keys: &[String]) -> CliError {
    let keys = abbreviated(keys, MAX_SUGGESTIONS);
    CliError::NotFound(format!("several {kinds} have the name {name}; add the namespace: {keys}"))
}

/// The error about an object that does not exist, with similar names. `all`: the names of this kind, and how they are
/// shown.
pub fn not_found(kind: &str, namespace: Option<&str>, name: &str, all: &[(String, String)]) -> CliError {
    CliError::NotFound(not_in_input(kind, namespace, name, all))
}

/// Pods of this namespace are in the input.
///
/// # Errors
/// None is: the error names those that have pods.
pub fn check_namespace(simulation: &Simulation, namespace: &str) -> Result<(), CliError> {
    let all: BTreeSet<&str> =
        simulation.pods().iter().map(|pod| pod.pod.metadata.namespace.as_str()).collect();
    if all.contains(namespace) {
        return Ok(());
    }
    let all: Vec<_> = all.into_iter().map(|name| (name.to_owned(), name.to_owned())).collect();
    Err(not_found("Namespace", None, namespace, &all))
}
