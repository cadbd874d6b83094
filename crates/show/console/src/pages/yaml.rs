//! An object as YAML.

use berth_api::object::NamespacedName;
use berth_api::read::Kind;
use maud::html;
use serde_json::Value;

use super::answer::{Answer, Page, PageError};
use super::parts;
use crate::State;

pub(super) fn page(state: &mut State, kind: &str, namespace: &str, name: &str) -> Answer {
    let missing = || {
        let what = if namespace.is_empty() {
            format!("{kind} {name}")
        } else {
            format!("{kind} {namespace}/{name}")
        };
        PageError::NotFound { what, similar: Vec::new() }
    };
    let known = Kind::named(kind).ok_or_else(missing)?;
    let (mut value, is_whole) =
        state.object(known, &NamespacedName::new(namespace, name)).ok_or_else(missing)?;
    tidy(&mut value);
    let text = serde_saphyr::to_string(&value)
        .map_err(|error| PageError::Parameter(format!("{kind} {name}: {error}")))?;
    let content = html! {
        section.card {
            div.title {
                p.detail {
                    @if is_whole { "As it was read." }
                    @else { "As the console has it: fields that placement does not read are left out." }
                }
                button.small type="button" data-copy="yaml" { "Copy" }
            }
            pre tabindex="0" { code id="yaml" { (text) } }
        }
    };
    Ok(Page::new(format!("YAML of {kind} {name}"), content)
        .actions(html! { (parts::object(kind, namespace, name)) }))
}

/// Removes what is not set, and the bookkeeping of field managers.
fn tidy(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.remove("managedFields");
            members.values_mut().for_each(tidy);
            members.retain(|_, value| !is_unset(value));
        }
        Value::Array(items) => items.iter_mut().for_each(tidy),
        _ => {}
    }
}

fn is_unset(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{check, cluster, get, state};

    #[test]
    fn each_object_has_its_yaml() {
        check(
            "/yaml/Pod/shop/web-1",
            &["kind: Pod", "name: web-1", "topologyKey: topology.kubernetes.io/zone"],
        );
        check("/yaml/Node/a-1", &["kind: Node", "effect: PreferNoSchedule"]);
        check("/yaml/Deployment/shop/web", &["kind: Deployment", "replicas: 3"]);
        let (status, body) = get(&mut state(&cluster()), "/yaml/Pod/shop/web-9");
        assert!(status == 404 && body.contains("Pod shop/web-9 does not exist"), "{body}");
    }
}
