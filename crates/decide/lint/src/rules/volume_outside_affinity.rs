//! Volumes that are not available on the nodes that the pod may run on.

use berth_api::object::VolumeObject;
use berth_api::object::volume::{NO_PROVISIONER, PersistentVolume, PersistentVolumeClaim, StorageClass};
use berth_api::read::Kind;
use berth_control::claim::mismatch;
use berth_input::inventory::WorkloadSpec;
use berth_rules::volume::{VOLUME_ZONE_LABELS, zones_of_label};
use berth_rules::{NodeRequirement, NodeSelectorRule, NodeTerm, Requirement};

use crate::finding::Findings;
use crate::input::LintInput;
use crate::nodes::{alternatives, conjunction, is_satisfiable, volume_rule};
use crate::subject::Subject;

pub(crate) fn check(input: &LintInput<'_>, findings: &mut Findings) {
    for subject in input.subjects() {
        let Some(own) = alternatives(&subject.pod.rules, &input.work) else { continue };
        let own: Vec<_> = own.into_iter().map(current_keys).filter(|own| is_satisfiable(own)).collect();
        // Without an allowed node the volumes do not matter.
        if own.is_empty() {
            continue;
        }
        for (path, claim) in claims(input, subject) {
            let Some((source, rules)) = restriction(input, &claim) else { continue };
            let rules: Vec<_> = rules.iter().map(with_current_keys).collect();
            let Some(both) = conjunction(own.clone(), &rules, &input.work) else { continue };
            let reason = if !both.iter().any(|requirements| is_satisfiable(requirements)) {
                "the node affinity of the pod excludes all of them"
            } else if !input.nodes.is_empty() && !any_node(input, subject, &rules) {
                "no node of the cluster is among them that the pod may run on"
            } else {
                continue;
            };
            let message = format!("{source} is available only on nodes with {}, and {reason}", shown(&rules));
            findings.add(&subject.object, path, message);
        }
    }
}

/// Whether a node that the pod may run on satisfies the rules of a volume; true if the pod may run on none.
fn any_node(input: &LintInput<'_>, subject: &Subject<'_>, rules: &[NodeSelectorRule]) -> bool {
    let eligible = input.nodes.matching(&subject.pod.rules);
    let has_all = |i: &usize| {
        let metadata = &input.nodes.get(*i).metadata;
        rules.iter().all(|rule| rule.matches(&metadata.name, &metadata.labels))
    };
    eligible.is_empty() || eligible.iter().any(has_all)
}

/// The claims of a pod with the paths in its object; those of a StatefulSet also as its templates make them.
fn claims(input: &LintInput<'_>, subject: &Subject<'_>) -> Vec<(String, PersistentVolumeClaim)> {
    let existing = || {
        input.work.spend(input.inventory.volume_objects.len());
        input.inventory.volume_objects.iter().filter_map(|entry| match &entry.object {
            VolumeObject::PersistentVolumeClaim(claim) if claim.metadata.namespace == subject.namespace() => {
                Some(claim)
            }
            _ => None,
        })
    };
    let mut claims = Vec::new();
    for (i, volume) in subject.pod.object.spec.volumes.iter().enumerate() {
        let Some(source) = &volume.persistent_volume_claim else { continue };
        let path = subject.path(format!("spec.volumes[{i}].persistentVolumeClaim.claimName"));
        let found = existing().filter(|claim| claim.metadata.name == source.claim_name);
        claims.extend(found.map(|claim| (path.clone(), PersistentVolumeClaim::clone(claim))));
    }
    let workload = input.inventory.workloads.iter().find(|entry| entry.order == subject.object.order);
    if let Some(WorkloadSpec::StatefulSet(set)) =
        workload.map(|entry| &entry.object.spec).filter(|_| subject.kind == Kind::StatefulSet)
    {
        for (i, template) in set.spec.volume_claim_templates.iter().enumerate() {
            let path = format!("spec.volumeClaimTemplates[{i}]");
            let prefix = format!("{}-{}-", template.metadata.name, subject.object.name);
            let is_ordinal =
                |claim: &str| claim.strip_prefix(&prefix).is_some_and(|n| n.parse::<u32>().is_ok());
            let found = existing().filter(|claim| is_ordinal(&claim.metadata.name));
            let found: Vec<_> =
                found.map(|claim| (path.clone(), PersistentVolumeClaim::clone(claim))).collect();
            claims.extend(if found.is_empty() { vec![(path, template.clone())] } else { found });
        }
    }
    claims
}

/// What a claim requires of nodes, and who requires it: its volume, its storage class, or the volumes that it can be bound
/// to if none is provisioned.
fn restriction(
    input: &LintInput<'_>,
    claim: &PersistentVolumeClaim,
) -> Option<(String, Vec<NodeSelectorRule>)> {
    let objects = || input.inventory.volume_objects.iter().map(|entry| &entry.object);
    let volumes = || {
        objects().filter_map(|object| match object {
            VolumeObject::PersistentVolume(volume) => Some(&**volume),
            _ => None,
        })
    };
    let is_bound =
        |volume: &&PersistentVolume| volume.metadata.name == claim.spec.volume_name || volume.is_for(claim);
    if let Some(volume) = volumes().find(is_bound) {
        let rules = volume_rules(volume);
        return (!rules.is_empty()).then(|| (format!("PersistentVolume {}", volume.metadata.name), rules));
    }
    let class = objects().find_map(|object| match object {
        VolumeObject::StorageClass(class) if class.metadata.name == claim.storage_class() => Some(class),
        _ => None,
    })?;
    let name = format!("storage of StorageClass {}", class.metadata.name);
    if class.provisioner == NO_PROVISIONER {
        let free =
            volumes().filter(|volume| volume.spec.claim_ref.is_none() && mismatch(volume, claim).is_none());
        // Each volume is an alternative.
        let terms_of = |volume| match volume_rules(volume).as_slice() {
            [rule] => Some(rule.terms.clone()),
            _ => None,
        };
        let terms = free.map(terms_of).collect::<Option<Vec<_>>>()?.concat();
        return (!terms.is_empty()).then(|| (name, vec![NodeSelectorRule { terms, ..rule_of(vec![]) }]));
    }
    let is_free = claim.spec.volume_name.is_empty() && !class.allowed_topologies.is_empty();
    is_free.then(|| (name, vec![class_rule(class)]))
}

fn volume_rules(volume: &PersistentVolume) -> Vec<NodeSelectorRule> {
    let affinity = volume.spec.node_affinity.as_ref().and_then(|affinity| affinity.required.as_ref());
    let mut rules: Vec<_> = affinity.map(volume_rule).into_iter().collect();
    for (label, _) in VOLUME_ZONE_LABELS {
        if let Some(zones) = volume.metadata.label(label).and_then(zones_of_label) {
            let zones = zones.into_iter().map(str::to_owned).collect();
            rules.push(rule_of(vec![vec![Requirement::In(label.to_owned(), zones)]]));
        }
    }
    rules
}

fn class_rule(class: &StorageClass) -> NodeSelectorRule {
    let terms = class.allowed_topologies.iter().map(|term| {
        let expressions = term.match_label_expressions.iter();
        let listed = expressions.map(|expression| {
            let mut values = expression.values.clone();
            values.sort_unstable();
            Requirement::In(expression.key.clone(), values)
        });
        listed.collect()
    });
    rule_of(terms.collect())
}

fn rule_of(terms: Vec<Vec<Requirement>>) -> NodeSelectorRule {
    let all = |term: Vec<Requirement>| NodeTerm::All(term.into_iter().map(NodeRequirement::Label).collect());
    NodeSelectorRule { terms: terms.into_iter().map(all).collect(), ..volume_rule(&Default::default()) }
}

/// Old names of topology labels mean the same as the current ones.
fn current_keys(requirements: Vec<Requirement>) -> Vec<Requirement> {
    requirements.into_iter().map(current_key).collect()
}

fn with_current_keys(rule: &NodeSelectorRule) -> NodeSelectorRule {
    let of_requirement = |requirement: &NodeRequirement| match requirement {
        NodeRequirement::Label(requirement) => NodeRequirement::Label(current_key(requirement.clone())),
        other => other.clone(),
    };
    let of_term = |term: &NodeTerm| match term {
        NodeTerm::All(requirements) => NodeTerm::All(requirements.iter().map(of_requirement).collect()),
        other => other.clone(),
    };
    NodeSelectorRule { terms: rule.terms.iter().map(of_term).collect(), ..rule.clone() }
}

fn current_key(requirement: Requirement) -> Requirement {
    const OLD: &str = "failure-domain.beta.kubernetes.io/";
    match requirement {
        Requirement::In(key, values) if key.starts_with(OLD) => {
            Requirement::In(key.replace(OLD, "topology.kubernetes.io/"), values)
        }
        other => other,
    }
}

fn shown(rules: &[NodeSelectorRule]) -> String {
    let term = |term: &NodeTerm| match term {
        NodeTerm::All(requirements) => {
            requirements.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
        }
        _ => "no labels".to_owned(),
    };
    let rule = |rule: &NodeSelectorRule| rule.terms.iter().map(term).collect::<Vec<_>>().join(" or ");
    rules.iter().map(rule).collect::<Vec<_>>().join(" and ")
}
