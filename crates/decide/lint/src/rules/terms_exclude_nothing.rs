//! Terms of a required node affinity of which one is enough, so that what one of them excludes, another one admits.

use berth_api::object::Node;
use berth_rules::{NodeRequirement, NodeSelectorRule, NodeTerm, Requirement, Selector, SetRelation};

use crate::finding::Findings;
use crate::input::LintInput;
use crate::nodes::{is_satisfiable, matches, requirement_steps};
use crate::work::Work;

/// Combinations beyond this many are not compared.
const MAX_COMBINATIONS: usize = 1024;

/// The fix where no node would match all of the terms.
const ONE_IS_MEANT: &str =
    "keep the term that is meant: in one term, the requirements would exclude every node";

pub(crate) fn check(input: &LintInput<'_>, findings: &mut Findings) {
    for subject in input.subjects() {
        for rule in &subject.pod.rules.required_node_affinity {
            let Some(terms) = requirements(rule).filter(|terms| terms.len() > 1) else { continue };
            let size: usize = terms.iter().flatten().map(requirement_steps).sum();
            if !input.work.spend(terms.len() * size) {
                return;
            }
            let (common, terms) = without_common(terms);
            let beyond = match common.as_slice() {
                [] => String::new(),
                all => format!(" beyond {}", shown(all, " and ")),
            };
            let n_terms = terms.len();
            let message = if match_every_label(&terms, &input.work) {
                format!("the {n_terms} terms are alternatives, and together exclude no node{beyond}")
            } else if has_opposite_bounds(&terms) {
                let key = terms[0][0].key();
                format!(
                    "the {n_terms} terms are alternatives, and together exclude no node with {key}, whatever its value"
                )
            } else if terms.iter().all(|term| is_negative(term)) && !one_is_the_union(&terms)
                || !input.nodes.is_empty()
                    && terms.iter().any(|term| is_negative(term))
                    && each_excludes(input, rule)
            {
                let all: Vec<_> = terms.iter().map(|term| shown(term, " and ")).collect();
                format!(
                    "the {n_terms} terms are alternatives, and together exclude no node{beyond} except one that fails all of {}",
                    all.join(", ")
                )
            } else {
                continue;
            };
            // With nodes that they exclude together, they may be meant so.
            let is_excluded =
                |node: &&Node| input.work.spend(size) && common_holds(&common, node) && !matches(rule, node);
            if input.nodes.all().iter().any(is_excluded) {
                continue;
            }
            let path = subject.path(format!("{}.nodeSelectorTerms", rule.path));
            let finding = findings.add(&subject.object, path, message);
            let together: Vec<_> = common.iter().chain(terms.iter().flatten()).cloned().collect();
            if !is_satisfiable(&together) {
                finding.fix(ONE_IS_MEANT);
            }
        }
    }
}

/// The requirements of the terms that match nodes; none if a term has more than requirements on labels and the name.
fn requirements(rule: &NodeSelectorRule) -> Option<Vec<Vec<Requirement>>> {
    let of_label = |requirement: &NodeRequirement| match requirement {
        NodeRequirement::Label(Requirement::VersionGt(..) | Requirement::VersionLt(..)) => None,
        NodeRequirement::Label(requirement) | NodeRequirement::Name(requirement) => Some(requirement.clone()),
        NodeRequirement::Attribute(_) => None,
    };
    let of_term = |term: &NodeTerm| match term {
        NodeTerm::All(requirements) => Some(requirements.iter().map(of_label).collect::<Option<Vec<_>>>()),
        NodeTerm::Nothing | NodeTerm::Invalid(_) => None,
    };
    rule.terms.iter().filter_map(of_term).collect()
}

/// The requirements that all terms have, and what is left of each.
fn without_common(mut terms: Vec<Vec<Requirement>>) -> (Vec<Requirement>, Vec<Vec<Requirement>>) {
    let (first, others) = terms.split_at(1);
    let is_common = |requirement: &&Requirement| others.iter().all(|term| term.contains(requirement));
    let common: Vec<_> = first.iter().flatten().filter(is_common).cloned().collect();
    terms.iter_mut().for_each(|term| term.retain(|requirement| !common.contains(requirement)));
    (common, terms)
}

fn common_holds(common: &[Requirement], node: &Node) -> bool {
    let value = |key: &str| match key {
        "metadata.name" => Some(node.metadata.name.as_str()),
        key => node.metadata.label(key),
    };
    common.iter().all(|requirement| requirement.matches(value(requirement.key())))
}

/// Whether no labels fail all terms: no choice of a failed requirement from each term can be satisfied.
fn match_every_label(terms: &[Vec<Requirement>], work: &Work) -> bool {
    let mut failing: Vec<Vec<Requirement>> = vec![Vec::new()];
    for term in terms {
        let failed: Vec<Requirement> = term.iter().flat_map(negations).collect();
        if failing.len() * failed.len() > MAX_COMBINATIONS
            || !work.spend(failing.len() * failed.len() * terms.len())
        {
            return false;
        }
        let with = |all: &Vec<Requirement>| {
            failed.iter().map(|one| all.iter().chain([one]).cloned().collect()).collect::<Vec<Vec<_>>>()
        };
        failing = failing.iter().flat_map(with).collect();
    }
    !failing.iter().any(|requirements| is_satisfiable(requirements))
}

/// What holds of labels that fail a requirement, one of them at least. Labels that are not integers are left out of account.
fn negations(requirement: &Requirement) -> Vec<Requirement> {
    match requirement.clone() {
        Requirement::In(key, values) => vec![Requirement::NotIn(key, values)],
        Requirement::NotIn(key, values) => vec![Requirement::In(key, values)],
        Requirement::Exists(key) => vec![Requirement::DoesNotExist(key)],
        Requirement::DoesNotExist(key) => vec![Requirement::Exists(key)],
        Requirement::Gt(key, bound) => {
            vec![Requirement::DoesNotExist(key.clone()), Requirement::Lt(key, bound.saturating_add(1))]
        }
        Requirement::Lt(key, bound) => {
            vec![Requirement::DoesNotExist(key.clone()), Requirement::Gt(key, bound.saturating_sub(1))]
        }
        // They were left out.
        version => vec![version],
    }
}

/// Whether all terms bound one label, and each integer is within one of the bounds.
fn has_opposite_bounds(terms: &[Vec<Requirement>]) -> bool {
    let (mut above, mut below) = (None::<i64>, None::<i64>);
    for term in terms {
        match term.as_slice() {
            [requirement] if requirement.key() != terms[0][0].key() => return false,
            [Requirement::Gt(_, bound)] => above = Some(above.map_or(*bound, |above| above.min(*bound))),
            [Requirement::Lt(_, bound)] => below = Some(below.map_or(*bound, |below| below.max(*bound))),
            _ => return false,
        }
    }
    above.zip(below).is_some_and(|(above, below)| below > above)
}

fn is_negative(term: &[Requirement]) -> bool {
    let is_negative = |r: &Requirement| matches!(r, Requirement::NotIn(..) | Requirement::DoesNotExist(_));
    !term.is_empty() && term.iter().all(is_negative)
}

/// Whether one of the terms admits what any of the others does.
fn one_is_the_union(terms: &[Vec<Requirement>]) -> bool {
    let sets: Vec<_> = terms.iter().map(|term| Selector::new(term.clone())).collect();
    let is_within =
        |a: &Selector, b: &Selector| matches!(a.relation(b), SetRelation::Equal | SetRelation::ContainedIn);
    sets.iter().any(|all| sets.iter().all(|set| is_within(set, all)))
}

/// Whether each term alone excludes a node of the input.
fn each_excludes(input: &LintInput<'_>, rule: &NodeSelectorRule) -> bool {
    rule.terms.iter().all(|term| {
        let alone = NodeSelectorRule { terms: vec![term.clone()], ..rule.clone() };
        input.work.spend(input.nodes.all().len())
            && input.nodes.all().iter().any(|node| !matches(&alone, node))
    })
}

fn shown(requirements: &[Requirement], between: &str) -> String {
    let all: Vec<_> = requirements.iter().map(|requirement| format!("`{requirement}`")).collect();
    all.join(between)
}
