//! Changes of a cluster as users write them: arguments of `berth what-if`, parameters of a page.

use std::collections::{BTreeMap, BTreeSet};

use berth_api::object::{NamespacedName, Node, Taint};
use berth_api::read::Kind;
use berth_api::syntax;
use berth_api::syntax::format::{abbreviated, not_in_input};
use berth_api::syntax::labels::{HOSTNAME, REGION, ZONE};
use berth_api::syntax::similar;
use berth_input::inventory::Inventory;
use berth_rules::Selector;

use super::change::Change;
use super::error::ChangeError;
use super::roll::RollNodes;
use crate::simulation::workloads::Workloads;

const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
/// Values that an error names.
const MAX_NAMED: usize = 5;

/// A change, as it is written.
#[derive(Clone, Debug)]
pub enum ChangeRequest {
    Change(Change),
    /// A rolling replacement of nodes.
    RollNodes(RollNodes),
    /// The next change begins a step of its own.
    Then,
    /// A workload as `deploy/web`, and its replicas.
    Scale(String, u16),
    Evict(String),
    /// Objects to add or to replace: a file, or a text.
    Overlay(String),
    /// A file with a plan of moves.
    Moves(String),
}

/// The name of a node, which may have the prefix `node/`.
pub fn node_name(text: &str) -> String {
    text.strip_prefix("node/").unwrap_or(text).to_owned()
}

impl ChangeRequest {
    /// `KEY=VALUE`, or `KEY-` to remove the label.
    ///
    /// # Errors
    /// The text has another form, or key or value are not valid.
    pub fn label(node: &str, text: &str) -> Result<ChangeRequest, String> {
        let (key, value) = match (text.split_once('='), text.strip_suffix('-')) {
            (Some((key, value)), _) => (key, Some(value.to_owned())),
            (None, Some(key)) => (key, None),
            (None, None) => ("", None),
        };
        match key {
            "" => Err("the label must have the form KEY=VALUE or KEY-".to_owned()),
            key => {
                valid("key", key, syntax::label_key(key))?;
                value.iter().try_for_each(|value| valid("value", value, syntax::label_value(value)))?;
                Ok(ChangeRequest::Change(Change::SetLabel {
                    node: node_name(node),
                    key: key.to_owned(),
                    value,
                }))
            }
        }
    }

    /// `KEY[=VALUE]:EFFECT`, or `KEY:EFFECT-` or `KEY-` to remove taints.
    ///
    /// # Errors
    /// The text has another form.
    pub fn taint(node: &str, text: &str) -> Result<ChangeRequest, String> {
        let node = node_name(node);
        let Some(removed) = text.strip_suffix('-') else {
            return Ok(ChangeRequest::Change(Change::SetTaint { node, taint: taint(text)? }));
        };
        let (key, effect) = match removed.split_once(':') {
            Some((key, effect)) => (key, Some(effect.to_owned())),
            None => (removed, None),
        };
        let key = key.split('=').next().unwrap_or_default().to_owned();
        Ok(ChangeRequest::Change(Change::RemoveTaint { node, key, effect }))
    }

    /// `DRIVER[/POOL[/DEVICE]]`: a device, a pool or a driver.
    pub fn fail_device(text: &str) -> ChangeRequest {
        let mut parts = text.splitn(3, '/').map(str::to_owned);
        let driver = parts.next().unwrap_or_default();
        ChangeRequest::Change(Change::FailDevices { driver, pool: parts.next(), device: parts.next() })
    }

    /// The change, or one of each node that it names by a pattern or by labels. `namespace` is that of the objects; without it, the only
    /// one that has the name.
    ///
    /// # Errors
    /// The text names no workload or no node, the name is ambiguous, or it is not a change of objects.
    pub fn changes(&self, namespace: Option<&str>, inventory: &Inventory) -> Result<Vec<Change>, String> {
        let (of_node, nodes): (fn(String) -> Change, _) = match self {
            ChangeRequest::Change(Change::RemoveNode(nodes)) => (Change::RemoveNode, nodes),
            ChangeRequest::Change(Change::Drain(nodes)) => (Change::Drain, nodes),
            ChangeRequest::Change(Change::Cordon(nodes)) => (Change::Cordon, nodes),
            ChangeRequest::Change(Change::Uncordon(nodes)) => (Change::Uncordon, nodes),
            other => return Ok(vec![other.change(namespace, inventory)?]),
        };
        Ok(nodes_of(nodes, inventory)?.into_iter().map(of_node).collect())
    }

    fn change(&self, namespace: Option<&str>, inventory: &Inventory) -> Result<Change, String> {
        Ok(match self {
            ChangeRequest::Change(change) => change.clone(),
            ChangeRequest::Scale(workload, n_replicas) => {
                let (kind, name) = named_workload(workload, namespace, inventory)?;
                Change::Scale { kind, name, n_replicas: *n_replicas }
            }
            ChangeRequest::Evict(pod) => {
                let (given, name) = match pod.split_once('/') {
                    Some(("pod" | "po" | "pods", name)) => (namespace, name),
                    Some((namespace, name)) => (Some(namespace), name),
                    None => (namespace, pod.as_str()),
                };
                let pods = inventory.pods.iter().map(|entry| &entry.object.metadata);
                let named = pods.filter(|metadata| metadata.name == name);
                let namespace = only(given, named.map(|metadata| metadata.namespace.as_str()), pod)?;
                Change::Evict(NamespacedName::new(&namespace, name))
            }
            ChangeRequest::Overlay(_)
            | ChangeRequest::Moves(_)
            | ChangeRequest::RollNodes(_)
            | ChangeRequest::Then => {
                return Err("this is not a change of one object".to_owned());
            }
        })
    }
}

/// The nodes that a text names: one, those of a pattern such as `worker-*`, or those of labels such as `pool=web,!gpu`, by name.
fn nodes_of(text: &str, inventory: &Inventory) -> Result<Vec<String>, String> {
    let nodes = inventory.nodes.iter().map(|entry| &entry.object);
    let is_name = nodes.clone().any(|node| node.metadata.name == text);
    let mut found: Vec<String> = if text.contains('*') && !is_name {
        nodes.map(|node| &node.metadata.name).filter(|name| matches_pattern(text, name)).cloned().collect()
    } else if text.contains(['=', '!', ',', '(']) && !is_name {
        let selector: Selector = text.parse().map_err(|error| format!("{text}: {error}"))?;
        let has = |node: &&Node| {
            selector.matches(|key| node.metadata.labels.get(topology_key(key).as_str()).map(AsRef::as_ref))
        };
        nodes.filter(has).map(|node| node.metadata.name.clone()).collect()
    } else {
        return Ok(vec![text.to_owned()]);
    };
    if found.is_empty() {
        return Err(format!("{text}: no node of the input has such a name or such labels"));
    }
    found.sort();
    Ok(found)
}

/// `*` stands for any characters; a pattern has at least one.
fn matches_pattern(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let (start, end) = (parts.next().unwrap_or_default(), parts.next_back().unwrap_or_default());
    let mut rest = text.strip_prefix(start);
    for part in parts {
        rest = rest.and_then(|rest| rest.split_once(part)).map(|(_, rest)| rest);
    }
    rest.is_some_and(|rest| rest.ends_with(end))
}

/// The workload that a text such as `deploy/web` names.
///
/// # Errors
/// The text has another form, or several namespaces have the name.
pub fn named_workload(
    text: &str,
    namespace: Option<&str>,
    inventory: &Inventory,
) -> Result<(Kind, NamespacedName), String> {
    let parts = text.split_once('/');
    let parts = parts.and_then(|(kind, name)| Some((Kind::named(kind)?, name)));
    let Some((kind, name)) = parts.filter(|(kind, _)| kind.is_workload()) else {
        return Err(not_a_workload(text, inventory));
    };
    let workloads = inventory.workloads.iter().map(|entry| &entry.object);
    let named = workloads.filter(|w| w.kind() == kind && w.metadata().name == name);
    let namespace = only(namespace, named.map(|w| w.metadata().namespace.as_str()), text)?;
    Ok((kind, NamespacedName::new(&namespace, name)))
}

/// The error about a text that does not name a workload by its kind and name, with those that may be meant.
fn not_a_workload(text: &str, inventory: &Inventory) -> String {
    let name = text.rsplit('/').next().unwrap_or(text);
    let known: Vec<(String, String)> = Workloads::of_all(inventory)
        .into_iter()
        .filter_map(|(_, workload)| {
            let (kind, name) = workload.split_once(' ')?;
            // Pods may have other owners, such as a Node.
            Kind::named(kind).filter(|kind| kind.is_workload())?;
            Some((name.to_owned(), format!("{}/{name}", kind.to_lowercase())))
        })
        .collect();
    let near = similar::positions(name, known.iter().map(|(name, _)| name.as_str()));
    let near: Vec<&str> = near.into_iter().take(MAX_NAMED).map(|i| known[i].1.as_str()).collect();
    let hint = match near.as_slice() {
        [] => "such as deploy/web".to_owned(),
        near => format!("did you mean {}?", near.join(", ")),
    };
    format!("{text}: name a workload by its kind and name: {hint}")
}

/// The given namespace, or the only one that has the name.
fn only<'a>(
    given: Option<&str>,
    having: impl Iterator<Item = &'a str>,
    name: &str,
) -> Result<String, String> {
    if let Some(given) = given {
        return Ok(given.to_owned());
    }
    let having: Vec<&str> = having.collect::<BTreeSet<_>>().into_iter().collect();
    match having.as_slice() {
        [] => Ok("default".to_owned()),
        [one] => Ok((*one).to_owned()),
        several => Err(format!(
            "{name} is in several namespaces; add the namespace: {}",
            abbreviated(several, MAX_NAMED)
        )),
    }
}

/// Why a change cannot be made, with similar names.
pub fn refusal(error: &ChangeError) -> String {
    match error {
        ChangeError::NotFound { kind, name, known } => {
            let name_of = |key: &String| key.rsplit('/').next().unwrap_or(key).to_owned();
            let known: Vec<_> = known.iter().map(|key| (name_of(key), key.clone())).collect();
            match name.split_once('/') {
                Some((namespace, name)) => not_in_input(kind, Some(namespace), name, &known),
                None => not_in_input(kind, None, name, &known),
            }
        }
        ChangeError::NoDomain { key, value, known } => match known.as_slice() {
            [] => format!("no node has the label {key}"),
            known => format!(
                "no node has the label {key}={value}: its values are {}",
                abbreviated(known, MAX_NAMED)
            ),
        },
        ChangeError::NoTaint { node, taint, known } => match known.as_slice() {
            [] => format!("Node {node} has no taint {taint}: it has no taints"),
            known => format!("Node {node} has no taint {taint}: it has {}", abbreviated(known, MAX_NAMED)),
        },
        error => error.to_string(),
    }
}

/// `KEY=VALUE`.
///
/// # Errors
/// The text has another form.
pub fn key_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("must have the form KEY=VALUE, for example zone=eu-west-1a".to_owned()),
    }
}

/// Labels of nodes as `KEY=VALUE,...`, or `all`: none.
///
/// # Errors
/// The text has another form.
pub fn node_labels(text: &str) -> Result<BTreeMap<String, String>, String> {
    if text == "all" {
        return Ok(BTreeMap::new());
    }
    let pairs = text.split(',').map(|pair| key_value(pair).map(|(key, value)| (topology_key(&key), value)));
    pairs
        .collect::<Result<_, _>>()
        .map_err(|_| "must be labels as KEY=VALUE,... such as pool=web, or all".to_owned())
}

/// `WORKLOAD=N`.
///
/// # Errors
/// The text has another form.
pub fn workload_replicas(text: &str) -> Result<(String, u16), String> {
    let parts = text.rsplit_once('=').and_then(|(workload, n)| Some((workload.to_owned(), n.parse().ok()?)));
    parts.ok_or_else(|| "must have the form WORKLOAD=N, for example deploy/web=5".to_owned())
}

/// A taint as `kubectl taint` reads it: `KEY[=VALUE]:EFFECT`.
///
/// # Errors
/// The text has another form.
pub fn taint(text: &str) -> Result<Taint, String> {
    let expected = || {
        format!(
            "must have the form KEY[=VALUE]:EFFECT, for example dedicated=gpu:NoSchedule; effects: {}",
            EFFECTS.join(", ")
        )
    };
    let (pair, effect) = text.rsplit_once(':').ok_or_else(expected)?;
    let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
    if !EFFECTS.contains(&effect) {
        return Err(expected());
    }
    valid("key", key, syntax::label_key(key))?;
    valid("value", value, syntax::label_value(value))?;
    Ok(Taint { key: key.to_owned(), value: value.to_owned(), effect: effect.to_owned() })
}

/// An error with the problems of a part of a text, if it has any.
///
/// # Errors
/// There are problems.
pub fn valid(part: &str, value: &str, problems: Vec<String>) -> Result<(), String> {
    if problems.is_empty() { Ok(()) } else { Err(format!("{part} {value:?}: {}", problems.join("; "))) }
}

/// The node label key that `zone`, `region` and `node` stand for, or the key itself.
pub fn topology_key(text: &str) -> String {
    match text {
        "zone" => ZONE,
        "region" => REGION,
        "node" | "hostname" => HOSTNAME,
        key => key,
    }
    .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_of_nodes_names_one_a_pattern_or_labels() {
        let node = |name: &str, pool: &str| {
            format!(
                "---\n{{apiVersion: v1, kind: Node, metadata: {{name: {name}, labels: {{pool: {pool}, topology.kubernetes.io/zone: z}}}}}}\n"
            )
        };
        let text = [node("web-2", "web"), node("web-1", "web"), node("gpu-1", "gpu")].concat();
        let inventory = Inventory::from_text(&text).unwrap();
        let drained = |nodes: &str| {
            let changes = ChangeRequest::Change(Change::Drain(nodes.to_owned())).changes(None, &inventory)?;
            let name = |change: Change| match change {
                Change::Drain(name) => name,
                other => panic!("{other:?}"),
            };
            Ok::<_, String>(changes.into_iter().map(name).collect::<Vec<_>>())
        };
        for (nodes, expected) in [
            ("web-2", &["web-2"][..]),
            ("unknown", &["unknown"]),
            ("web-*", &["web-1", "web-2"]),
            ("*-1", &["gpu-1", "web-1"]),
            ("w*b*2", &["web-2"]),
            ("pool=web", &["web-1", "web-2"]),
            ("pool!=web,zone=z", &["gpu-1"]),
            ("pool in (gpu,web)", &["gpu-1", "web-1", "web-2"]),
        ] {
            assert_eq!(drained(nodes).unwrap(), expected, "{nodes}");
        }
        for nodes in ["db-*", "web-1*1", "pool=db", "=", "pool in (web"] {
            assert!(drained(nodes).unwrap_err().starts_with(nodes), "{nodes}");
        }
    }

    #[test]
    fn only_workloads_are_named_as_such() {
        let named = |text| named_workload(text, None, &Inventory::default());
        let (kind, name) = named("deploy/web").unwrap();
        assert_eq!((kind, name.to_string()), (Kind::Deployment, "default/web".to_owned()));
        for text in ["web", "pod/web", "node/web", "x/web"] {
            assert!(named(text).unwrap_err().ends_with("kind and name: such as deploy/web"), "{text}");
        }
    }

    #[test]
    fn a_misspelled_workload_without_a_kind_has_suggestions() {
        let mut inventory = Inventory::default();
        let text = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec: {selector: {matchLabels: {a: b}}, \
            template: {metadata: {labels: {a: b}}}}\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: db-0, ownerReferences: \
            [{apiVersion: apps/v1, kind: StatefulSet, name: db, uid: u, controller: true}]}\n";
        inventory.read(text.as_bytes(), "a.yaml").unwrap();
        let error = |text| named_workload(text, None, &inventory).unwrap_err();
        for (text, expected) in [
            ("wbe", "deployment/web"),
            ("deplyo/web", "deployment/web"),
            ("svc/web", "deployment/web"),
            ("dbb", "statefulset/db"),
        ] {
            let expected = format!("{text}: name a workload by its kind and name: did you mean {expected}?");
            assert_eq!(error(text), expected);
        }
    }

    #[test]
    fn labels_that_the_api_server_would_refuse_are_refused() {
        assert!(ChangeRequest::label("a", "disk=ssd").is_ok() && ChangeRequest::label("a", "disk-").is_ok());
        for text in ["bad key=1", "disk=a b", "=x", "disk", "a/b/c="] {
            assert!(ChangeRequest::label("a", text).is_err(), "{text}");
        }
    }

    #[test]
    fn taints_are_written_as_for_kubectl() {
        let expected = |value: &str| Taint {
            key: "dedicated".to_owned(),
            value: value.to_owned(),
            effect: "NoSchedule".to_owned(),
        };
        assert_eq!(taint("dedicated=gpu:NoSchedule"), Ok(expected("gpu")));
        assert_eq!(taint("dedicated:NoSchedule"), Ok(expected("")));
        for text in
            ["dedicated", "dedicated=gpu", "=x:NoSchedule", "a:Never", "a b:NoSchedule", "a=b c:NoSchedule"]
        {
            assert!(taint(text).is_err(), "{text}");
        }
    }
}
