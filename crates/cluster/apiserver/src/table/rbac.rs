//! Bindings of roles.

use serde_json::Value;

use super::columns::{AGE, Column, NAME, Printer};
use super::row::Row;

pub(super) static BINDING: Printer = Printer::new(
    &[
        NAME,
        Column::text("Role", "Role that is bound."),
        AGE,
        Column::text("Users", "Users it is bound to.").wide(),
        Column::text("Groups", "Groups it is bound to.").wide(),
        Column::text("ServiceAccounts", "Service accounts it is bound to.").wide(),
    ],
    |row| {
        let text = |field: &str| row.text(&format!("/roleRef/{field}")).unwrap_or_default();
        vec![
            row.name(),
            format!("{}/{}", text("kind"), text("name")).into(),
            row.age(),
            subjects(row, "User"),
            subjects(row, "Group"),
            subjects(row, "ServiceAccount"),
        ]
    },
);

/// The subjects of a kind, joined; service accounts with their namespaces.
fn subjects(row: &Row<'_>, kind: &str) -> Value {
    let of_kind = row.list("/subjects").iter().filter(|subject| subject["kind"] == kind);
    let shown = of_kind.map(|subject| {
        let name = subject["name"].as_str().unwrap_or_default();
        match subject["namespace"].as_str() {
            Some(namespace) => format!("{namespace}/{name}"),
            None => name.to_owned(),
        }
    });
    shown.collect::<Vec<_>>().join(", ").into()
}
