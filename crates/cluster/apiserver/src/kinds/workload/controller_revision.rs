//! ControllerRevisions.

use crate::table::columns::{AGE, Column, NAME, Printer};
use crate::table::row::NONE;

pub static COLUMNS: Printer = Printer::new(
    &[
        NAME,
        Column::text("Controller", "The workload it is a revision of."),
        Column::integer("Revision", "Its number."),
        AGE,
    ],
    |row| {
        let owner = row.list("/metadata/ownerReferences").iter().find(|owner| owner["controller"] == true);
        let owner = owner.map_or(NONE.to_owned(), |owner| {
            let of = |field: &str| owner[field].as_str().unwrap_or_default();
            let group = of("apiVersion").split_once('/').map_or("", |(group, _)| group);
            let dot = if group.is_empty() { "" } else { "." };
            format!("{}{dot}{group}/{}", of("kind").to_lowercase(), of("name"))
        });
        vec![row.name(), owner.into(), row.integer("/revision").into(), row.age()]
    },
);
