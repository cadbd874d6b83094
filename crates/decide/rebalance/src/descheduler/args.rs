//! Arguments that several plugins have.

use berth_api::object::LabelSelector;
use berth_api::read::fields::{Fields, Node};
use berth_api::read::from_value;
use berth_rules::{NAME_LABEL, Requirement, Selector};

use super::note::Notes;

/// A number that is not negative, with its field.
pub(super) fn unsigned<'a>(fields: &mut Fields<'a>, name: &'static str) -> Option<(Node<'a>, u64)> {
    let node = fields.get(name)?;
    let number = node.int64().map(u64::try_from)?;
    if number.is_err() {
        node.invalid("must not be negative");
    }
    Some((node, number.ok()?))
}

pub(super) fn one_of<'a>(node: &Node<'a>, known: &[&str]) -> Option<&'a str> {
    let text = node.string()?;
    if known.contains(&text) {
        return Some(text);
    }
    node.invalid(&format!("must be one of {}", known.join(", ")));
    None
}

/// A flag that is true; false is its default.
pub(super) fn flag<'a>(fields: &mut Fields<'a>, name: &'static str) -> Option<Node<'a>> {
    fields.get(name).filter(|node| node.bool() == Some(true))
}

/// The namespaces that a plugin is for: a selector of their names.
pub(super) fn namespaces(
    args: &mut Fields<'_>,
    name: &'static str,
    only_exclude: bool,
    notes: &mut Notes<'_>,
) -> Option<Selector> {
    let node = args.get(name)?;
    let mut fields = node.fields()?;
    let mut names =
        |field| fields.get(field).map(|list| (list.strings(), list.path)).filter(|(n, _)| !n.is_empty());
    let (include, exclude) = (names("include"), names("exclude"));
    notes.unread(&fields);
    if let Some((_, path)) = include.as_ref().filter(|_| only_exclude) {
        let text = "Forbidden: the descheduler only excludes namespaces here; use `exclude`";
        node.findings.error(path.as_str(), text);
        return None;
    }
    let (requirement, path) = match (include, exclude) {
        (Some(_), Some(_)) => {
            node.error("Invalid value: include and exclude exclude each other; remove one of them");
            return None;
        }
        (Some((names, path)), None) => (Requirement::In(NAME_LABEL.to_owned(), sorted(names)), path),
        (None, Some((names, path))) => (Requirement::NotIn(NAME_LABEL.to_owned(), sorted(names)), path),
        (None, None) => return None,
    };
    let selector = Selector::new(vec![requirement]);
    notes.instead(&path, format!("--namespace-selector '{}', for all goals", text_of(&selector)));
    Some(selector)
}

fn sorted(mut names: Vec<String>) -> Vec<String> {
    names.sort_unstable();
    names.dedup();
    names
}

/// A label selector; an empty one selects everything, like none. `flag` is written instead.
pub(super) fn label_selector(
    args: &mut Fields<'_>,
    name: &'static str,
    flag: &str,
    notes: &mut Notes<'_>,
) -> Option<Selector> {
    let node = args.get(name)?;
    let mut fields = node.fields()?;
    let _ = (fields.get("matchLabels"), fields.get("matchExpressions"));
    notes.unread(&fields);
    let read = match from_value::<LabelSelector>(node.value) {
        Ok(read) => read,
        Err(error) => {
            node.error(error.to_string());
            return None;
        }
    };
    match Selector::parse(Some(&read)) {
        Ok(selector) if selector.is_everything() => None,
        Ok(selector) => {
            notes.instead(&node.path, format!("{flag} '{}', for all goals", text_of(&selector)));
            Some(selector)
        }
        Err(error) => {
            node.error(error);
            None
        }
    }
}

/// The selector as flags take it.
fn text_of(selector: &Selector) -> String {
    let requirements = selector.requirements().iter().map(ToString::to_string);
    requirements.collect::<Vec<_>>().join(",").replace(" not in ", " notin ")
}
