//! ComponentStatuses.

use crate::kinds::prelude::*;

pub const COLUMNS: &[Column] = &[
    NAME,
    Column::text("Status", "Whether the component is healthy.", |row| {
        if healthy(row, "status") == "True" { "Healthy" } else { "Unhealthy" }.into()
    }),
    Column::text("Message", "What the check returned.", |row| healthy(row, "message").into()),
    Column::text("Error", "Why the check failed.", |row| healthy(row, "error").into()),
];

fn healthy<'o>(row: &Row<'o>, field: &str) -> &'o str {
    let condition = row.list("/conditions").iter().find(|condition| condition["type"] == "Healthy");
    condition.and_then(|condition| condition[field].as_str()).unwrap_or_default()
}
