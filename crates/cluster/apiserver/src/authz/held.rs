//! The permissions that a user holds in a namespace, and whether they cover a rule.

use std::collections::HashSet;
use std::sync::Arc;

use berth_api::work::{TooMuchWork, WorkBudget};

use super::policy_rule::PolicyRule;
use super::role::Role;
use super::rule_set::RuleSet;
use crate::store::Object;

/// The permissions of a user in a namespace: roles, and the built-in ones.
#[derive(Clone, Debug, Default)]
pub struct HeldPermissions {
    /// The roles for all namespaces, cluster-scoped resources and paths, and after them those for the namespace.
    pub roles: Vec<Arc<Role>>,
    /// How many of them are for all namespaces.
    pub n_cluster_wide: usize,
    /// The objects of the roles that are not built in.
    pub objects: Vec<Arc<Object>>,
}

/// Sets of rules, each once: what makes no difference to any rule is compared once.
type Sets = HashSet<RuleSet>;

impl HeldPermissions {
    /// Whether every single permission of a rule is granted by one of the held rules.
    pub fn covers(&self, rule: &PolicyRule, budget: &WorkBudget) -> Result<bool, TooMuchWork> {
        let (all, cluster_wide) = (&self.roles[..], &self.roles[..self.n_cluster_wide]);
        let verbs = sets(all, &rule.verbs, Role::verb, budget)?;
        if !rule.non_resource_urls.is_empty() {
            let paths = sets(cluster_wide, &rule.non_resource_urls, Role::path, budget)?;
            if !all_meet(&verbs, &[&paths], budget)? {
                return Ok(false);
            }
        }
        if rule.api_groups.is_empty() || rule.resources.is_empty() {
            return Ok(true);
        }
        let names = if rule.resource_names.is_empty() {
            sets(all, &[String::new()], |role, _| role.nameless(), budget)?
        } else {
            sets(all, &rule.resource_names, Role::name, budget)?
        };
        let groups = sets(all, &rule.api_groups, Role::group, budget)?;
        let resources = sets(all, &rule.resources, Role::resource, budget)?;
        // The fewest sets first: what is compared with many has become small.
        let mut dimensions = [&verbs, &resources, &groups, &names];
        dimensions.sort_by_key(|sets| sets.len());
        all_meet(dimensions[0], &dimensions[1..], budget)
    }
}

/// For each text, the rules of all roles that name it.
fn sets(
    roles: &[Arc<Role>],
    texts: &[String],
    rules_for: impl Fn(&Role, &str) -> RuleSet,
    budget: &WorkBudget,
) -> Result<Sets, TooMuchWork> {
    let mut sets = Sets::new();
    for text in texts {
        let (mut all, mut n_words) = (RuleSet::default(), 0);
        for role in roles {
            let rules = rules_for(role, text);
            budget.spend(1 + rules.n_words())?;
            all.append(n_words, &rules);
            n_words += role.n_words;
        }
        sets.insert(all);
    }
    Ok(sets)
}

/// Whether a rule is in all of the sets, however one is chosen of each dimension.
fn all_meet(sets: &Sets, dimensions: &[&Sets], budget: &WorkBudget) -> Result<bool, TooMuchWork> {
    let Some((next, rest)) = dimensions.split_first() else {
        return Ok(sets.iter().all(|set| !set.is_empty()));
    };
    for set in sets {
        let mut met = Sets::new();
        for other in *next {
            budget.spend(1 + set.n_words().min(other.n_words()))?;
            met.insert(set.intersection(other));
        }
        if met.contains(&RuleSet::default()) || !all_meet(&met, rest, budget)? {
            return Ok(false);
        }
    }
    Ok(true)
}
