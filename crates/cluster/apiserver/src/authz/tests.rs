//! The permissions that cover others, compared with their definition, and what it costs to find out.

use std::sync::Arc;

use berth_api::work::WorkBudget;
use berth_schema::resource::{CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, ROLES};
use serde_json::{Value, json};

use super::authorizer::Authorizer;
use super::held::HeldPermissions;
use super::policy_rule::PolicyRule;
use super::role::Role;
use crate::request::{Attributes, User};
use crate::store::{Change, StorageOptions, Store, Write};

fn held(roles: &[Vec<Value>]) -> HeldPermissions {
    let roles: Vec<_> = roles.iter().map(|rules| Arc::new(Role::of(rules))).collect();
    HeldPermissions { n_cluster_wide: 1, roles, ..HeldPermissions::default() }
}

fn rule(value: Value) -> PolicyRule {
    PolicyRule::list(&json!([value])).remove(0)
}

/// The definition: some role allows each single permission; only the first one counts for paths.
fn each_is_held(held: &HeldPermissions, rule: &PolicyRule) -> bool {
    let nameless = ["\0".to_owned()];
    let names = if rule.resource_names.is_empty() { &nameless[..] } else { &rule.resource_names };
    rule.verbs.iter().all(|verb| {
        let paths = rule.non_resource_urls.iter();
        paths
            .map(|path| Attributes { verb, path, ..Attributes::default() })
            .all(|what| held.roles[0].allows(&what))
            && rule.api_groups.iter().all(|group| {
                rule.resources.iter().all(|resource| {
                    let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
                    let of = |name| Attributes {
                        verb,
                        group,
                        resource,
                        subresource,
                        name,
                        ..Attributes::default()
                    };
                    names.iter().all(|name| held.roles.iter().any(|role| role.allows(&of(name))))
                })
            })
    })
}

#[test]
fn a_rule_is_covered_if_each_of_its_permissions_is_granted_by_some_rule() {
    fastrand::seed(7);
    let some = |texts: &[&str], least: usize| {
        let n = fastrand::usize(least..3);
        json!((0..n).map(|_| texts[fastrand::usize(..texts.len())]).collect::<Vec<_>>())
    };
    let any_rule = || {
        if fastrand::usize(..4) == 0 {
            let urls = some(&["/a", "/a/*", "/a/b", "/a*", "*", "/ab/c"], 1);
            return json!({"verbs": some(&["get", "put", "*"], 1), "nonResourceURLs": urls});
        }
        json!({
            "verbs": some(&["get", "list", "put", "*"], 1),
            "apiGroups": some(&["", "apps", "*"], 1),
            "resources": some(&["pods", "pods/log", "*/log", "*/scale", "nodes", "*"], 1),
            "resourceNames": some(&["a", "b"], 0),
        })
    };
    let mut n_covered = 0;
    for _ in 0..20_000 {
        let role = || (0..fastrand::usize(1..100)).map(|_| any_rule()).take(fastrand::usize(1..6)).collect();
        let held = held(&[role(), role()]);
        let asked = rule(any_rule());
        let covered = held.covers(&asked, &WorkBudget::unlimited()).unwrap();
        assert_eq!(covered, each_is_held(&held, &asked), "{asked:?}\n{:#?}", held.roles);
        n_covered += usize::from(covered);
    }
    assert!((2_000..18_000).contains(&n_covered), "{n_covered}");
}

#[test]
fn the_work_for_a_rule_grows_with_its_texts_and_not_with_their_combinations_or_the_held_rules() {
    let texts = |prefix: &str, n: usize| (0..n).map(|i| format!("{prefix}{i}")).collect::<Vec<_>>();
    let steps = |n_texts: usize, n_rules: usize| {
        // Each rule has a distinct verb, resource and name; the last one has all the others.
        let own = (0..n_rules).map(|i| {
            json!({"verbs": [format!("v{i}"), "get"], "apiGroups": [""],
            "resources": [format!("r{i}"), "pods"], "resourceNames": [format!("n{i}")]})
        });
        let all = json!({"verbs": texts("x", n_texts), "apiGroups": [""], "resources": texts("y", n_texts)});
        let held = held(&[own.chain([all.clone()]).collect()]);
        let budget = WorkBudget::unlimited();
        assert_eq!(held.covers(&rule(all), &budget), Ok(true));
        let more = json!({"verbs": texts("x", n_texts), "apiGroups": [""], "resources": ["pods", "y0"]});
        assert_eq!(held.covers(&rule(more), &budget), Ok(false));
        budget.n_spent()
    };
    let small = steps(100, 100);
    assert!(steps(400, 100) < 5 * small);
    assert!(steps(100, 10_000) < small + 10 * 10_000 / 64, "a few steps for 64 rules");
}

#[test]
fn work_beyond_the_budget_is_refused() {
    let held = held(&[vec![json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]})]]);
    let many: Vec<String> = (0..100).map(|i| format!("v{i}")).collect();
    let asked = rule(json!({"verbs": many, "apiGroups": [""], "resources": ["pods"]}));
    assert!(held.covers(&asked, &WorkBudget::new(100)).is_err());
    assert_eq!(held.covers(&asked, &WorkBudget::new(1000)), Ok(true));
}

#[tokio::test]
async fn a_change_of_a_role_leaves_all_other_roles_as_they_were_compiled() {
    let store = Store::in_memory(1, &StorageOptions::default());
    let authorizer = Authorizer::new(&store);
    let role = |name: &str, verb: &str| {
        let rules = json!([{"verbs": [verb], "apiGroups": [""], "resources": ["pods"]}]);
        json!({"metadata": {"name": name, "labels": {"in": "whole"}}, "rules": rules})
    };
    let write = async |resource, change, value: Value| {
        store.write(Write { resource, change, object: value.into() }).await.unwrap().revision
    };
    let user = User { name: "u".to_owned(), ..User::default() };
    let compiled = || {
        let held = authorizer.held(&user, "");
        let own = held.roles.len() - held.objects.len();
        let names = held.objects.iter().map(|object| object.facts.name().to_owned());
        let mut all: Vec<_> = names.zip(held.roles[own..].to_vec()).collect();
        all.sort_by_key(|(name, _)| name.clone());
        all
    };
    let whole = json!({"metadata": {"name": "whole"},
        "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"in": "whole"}}]}});
    write(&CLUSTER_ROLES, Change::Create, whole).await;
    for name in ["a", "b", "whole"] {
        let binding = json!({"metadata": {"name": name}, "roleRef": {"kind": "ClusterRole", "name": name},
            "subjects": [{"kind": "User", "name": "u"}]});
        write(&CLUSTER_ROLE_BINDINGS, Change::Create, binding).await;
    }
    assert!(compiled().is_empty());
    write(&CLUSTER_ROLES, Change::Create, role("a", "get")).await;
    let b = write(&CLUSTER_ROLES, Change::Create, role("b", "get")).await;
    let before = compiled();
    write(&CLUSTER_ROLES, Change::Update { expected: b }, role("b", "list")).await;
    let mut elsewhere = role("c", "get");
    elsewhere["metadata"]["namespace"] = "n".into();
    write(&ROLES, Change::Create, elsewhere).await;
    let after = compiled();
    let same: Vec<bool> = before.iter().zip(&after).map(|((_, a), (_, b))| Arc::ptr_eq(a, b)).collect();
    assert_eq!(same, [true, false]);
    // The writer of a role compiled it.
    let stored = store.get(&CLUSTER_ROLES, "", "b").unwrap();
    assert!(Arc::ptr_eq(&stored.compiled::<Role>(), &after[1].1));
}
