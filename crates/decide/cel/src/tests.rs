//! Expressions about JSON values, and bad input.

use super::*;
use serde_json::json;

fn evaluated(text: &str, object: &serde_json::Value) -> Result<bool, String> {
    let program = Program::compile(text, &[("object", Type::Dyn)])?;
    match program.evaluate(&[("object", object.into())]).0? {
        Value::Bool(holds) => Ok(holds),
        other => Err(format!("must evaluate to bool but got {}", other.type_name())),
    }
}

#[test]
fn conditions_are_evaluated() {
    let pod = json!({"metadata": {"name": "web-1", "labels": {"app": "web"}}, "spec": {"priority": 5,
        "containers": [{"image": "a:1"}, {"image": "b:2"}]}});
    for (text, expected) in [
        ("object.metadata.name.startsWith('web-') && object.spec.priority > 3", Ok(true)),
        ("!has(object.metadata.annotations)", Ok(true)),
        ("object.spec.containers.all(c, c.image.endsWith(':1'))", Ok(false)),
        ("object.spec.containers.exists(c, c.image == 'b:2')", Ok(true)),
        ("'app' in object.metadata.labels && object.metadata.labels['app'] == 'web'", Ok(true)),
        ("size(object.spec.containers) == 2", Ok(true)),
        ("object.metadata.name.matches('^web-[0-9]$')", Ok(true)),
        ("1 + 1", Err("must evaluate to bool but got int")),
        ("object.none.deeper == 1", Err("")),
        ("objekt.x", Err("undeclared reference to 'objekt'")),
        ("object.", Err("")),
    ] {
        match (evaluated(text, &pod), expected) {
            (Err(error), Err(part)) => assert!(error.contains(part), "{text}: {error}"),
            (result, expected) => assert_eq!(result, expected.map_err(str::to_owned), "{text}"),
        }
    }
}

#[test]
fn expressions_cannot_take_long_or_exhaust_the_stack() {
    let long = json!({"list": vec![1; 2000]});
    let within = "object.list.all(a, a == 1)";
    assert_eq!(evaluated(within, &long), Ok(true));
    let nested = "object.list.all(a, object.list.all(b, object.list.all(c, a == b || b == c)))";
    assert!(evaluated(nested, &long).unwrap_err().contains("cost limit"));
    for text in [
        format!("{}true{}", "(".repeat(3000), ")".repeat(3000)),
        format!("{}true", "true ? true : ".repeat(500)),
        vec!["1"; 2000].join("+"),
        format!("object{}", ".a".repeat(3000)),
        "x".repeat(9000),
    ] {
        assert!(evaluated(&text, &json!({})).is_err(), "{}", &text[..20]);
    }
    let negated = format!("{}true", "!".repeat(8000));
    assert_eq!(evaluated(&negated, &json!({})), Ok(true), "it has no depth");
}

/// Nested `cel.bind`, each with a value made of the variable before.
fn bound(n: usize, value: impl Fn(&str) -> String, result: &str) -> String {
    let binds = (1..n).map(|i| format!("cel.bind(v{i}, {}, ", value(&format!("v{}", i - 1))));
    format!("cel.bind(v0, [1], {}{result}{}", binds.collect::<String>(), ")".repeat(n))
}

#[test]
fn values_and_types_that_double_end_with_an_error() {
    for (text, part) in [
        (bound(60, |v| format!("{v} + {v}"), "v59.size() > 0"), "cost limit"),
        (bound(60, |v| format!("[dyn({v}), dyn({v})]"), "v59 == [v58, dyn(v58)]"), "cost limit"),
        (bound(60, |v| format!("[dyn({v}), dyn({v})]"), "'%s'.format([v59]) == ''"), "cost limit"),
        (bound(60, |v| format!("{{{v}: {v}}}"), "v59 == v59"), "the types of the expression are too complex"),
        (format!("'{0}'.replace('a', '{0}').replace('a', '{0}') == ''", "a".repeat(3000)), "cost limit"),
        (format!("'{}'.matches('{}')", "a".repeat(99), "(a{99}){99}"), "invalid matches argument"),
    ] {
        let error = evaluated(&text, &json!({})).unwrap_err();
        assert!(error.contains(part), "{}: {}", &text[..60], &error[..error.len().min(200)]);
    }
}

#[test]
fn long_chains_are_not_deep() {
    assert_eq!(evaluated(&vec!["true"; 1500].join("&&"), &json!({})), Ok(true));
    let loops = format!("[{}].transformMap(k, v, v).size() == 3000", vec!["1"; 3000].join(","));
    assert_eq!(evaluated(&loops, &json!({})), Ok(true));
}
