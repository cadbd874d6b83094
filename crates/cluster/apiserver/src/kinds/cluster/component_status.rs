//! ComponentStatuses.

use crate::table::columns::{Column, NAME, Printer};

pub static COLUMNS: Printer = Printer::new(
    &[
        NAME,
        Column::text("Status", "Whether the component is healthy."),
        Column::text("Message", "What the check returned."),
        Column::text("Error", "Why the check failed."),
    ],
    |row| {
        let healthy = row.list("/conditions").iter().find(|condition| condition["type"] == "Healthy");
        let text = |field: &str| healthy.and_then(|healthy| healthy[field].as_str()).unwrap_or_default();
        let status = if text("status") == "True" { "Healthy" } else { "Unhealthy" };
        vec![row.name(), status.into(), text("message").into(), text("error").into()]
    },
);
