//! What the recorded requests do not show of policies.

use super::policy::{ParamKind, Refusal, validate};
use super::*;

fn policy(spec: Value) -> Value {
    let mut policy = json!({"metadata": {"name": "p"}, "spec": {"matchConstraints": {"resourceRules": [{
        "operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}]}}});
    let fields = spec.as_object().expect("fields");
    fields.iter().for_each(|(name, value)| policy["spec"][name] = value.clone());
    policy
}

/// What a policy with one binding says about a pod.
async fn reviewed(spec: Value) -> Result<(), Refusal> {
    let binding =
        json!({"metadata": {"name": "b"}, "spec": {"policyName": "p", "validationActions": ["Deny"]}});
    let policies = Policy::all(&[policy(spec)], &[binding]);
    let params = |_: &ParamKind, _: Option<&Value>, _: &str| Ok(vec![Value::Null]);
    validate(&policies, &attributes(), Some(&pod()), &params, &mut Vec::new()).await
}

async fn problem(spec: Value) -> String {
    let message = reviewed(spec).await.expect_err("refused").message;
    message.split_once(" denied request: ").expect("a policy").1.to_owned()
}

#[tokio::test]
async fn excluded_resources_and_other_names_are_not_reviewed() {
    let all = json!({"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["pods"]});
    let named = |names: &[&str]| {
        let mut rule = all.clone();
        rule["resourceNames"] = json!(names);
        json!([rule])
    };
    for (constraints, is_reviewed) in [
        (json!({"resourceRules": [all]}), true),
        (json!({"resourceRules": [all], "excludeResourceRules": [all]}), false),
        (json!({"resourceRules": [all], "excludeResourceRules": named(&["q"])}), true),
        (json!({"resourceRules": named(&["q", "p"])}), true),
        (json!({"resourceRules": named(&["q"])}), false),
    ] {
        let spec = json!({"matchConstraints": constraints, "validations": [{"expression": "false"}]});
        assert_eq!(reviewed(spec).await.is_err(), is_reviewed, "{constraints}");
    }
}

#[tokio::test]
async fn variables_cannot_exhaust_the_stack() {
    let chain = |n: usize| {
        let first = json!({"name": "v0", "expression": "1"});
        let others = (1..n).map(|i| {
            let before = i - 1;
            json!({"name": format!("v{i}"), "expression": format!("1 + (1 + (1 + (1 + variables.v{before})))")})
        });
        let variables: Vec<_> = std::iter::once(first).chain(others).collect();
        json!({"variables": variables, "validations": [{"expression": format!("variables.v{} > 0", n - 1)}]})
    };
    assert!(reviewed(chain(20)).await.is_ok());
    assert!(problem(chain(500)).await.ends_with("cost limit exceeded"));
    let again = json!({"variables": [{"name": "a", "expression": "1"}, {"name": "a", "expression": "variables.a"}],
        "validations": [{"expression": "variables.a == 1"}]});
    assert!(problem(again).await.ends_with("it reads itself"));
}

#[tokio::test]
async fn variables_are_evaluated_once_and_where_they_are_read() {
    let spec = json!({
    "variables": [{"name": "none", "expression": "object.none"}, {"name": "names", "expression":
        "object.spec.containers.map(c, c.name)"}],
    "validations": [
        {"expression": "true || variables.none"},
        {"expression": "variables.names.exists(variables, variables == 'c') && has(variables.names)"},
    ]});
    assert!(reviewed(spec).await.is_ok());
}

#[tokio::test]
async fn policies_of_a_request_cost_no_more_than_a_limit() {
    // Some 900,000 units each.
    let ten = "[1,2,3,4,5,6,7,8,9,10]";
    let loops = ["a", "b", "c", "d"]
        .iter()
        .fold("true".to_owned(), |inner, name| format!("{ten}.all({name}, {inner})"));
    let costly = |n: usize| json!({"validations": vec![json!({"expression": loops}); n]});
    assert!(reviewed(costly(1)).await.is_ok());
    let message = problem(costly(300)).await;
    assert!(message.starts_with("validation failed due to running out of cost budget"), "{message}");
}
