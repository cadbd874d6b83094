//! ControllerRevisions.

use berth_schema::resource::CONTROLLER_REVISIONS;

use crate::kinds::prelude::*;

pub static REVISION: Typed = Typed {
    check: |revision, causes| {
        match &revision["data"] {
            Value::Null => causes.required("data", "data is mandatory"),
            data if !data.is_object() => causes.required("data", "data must be a valid JSON object"),
            _ => {}
        }
        causes.not_negative("revision", &revision["revision"]);
    },
    ..Typed::new(&CONTROLLER_REVISIONS)
};

pub const COLUMNS: &[Column] = &[
    NAME,
    Column::text("Controller", "The workload it is a revision of.", |row| {
        let owner = row.list("/metadata/ownerReferences").iter().find(|owner| owner["controller"] == true);
        let Some(owner) = owner else { return NONE.into() };
        let of = |field: &str| owner[field].as_str().unwrap_or_default();
        let group = of("apiVersion").split_once('/').map_or("", |(group, _)| group);
        let dot = if group.is_empty() { "" } else { "." };
        format!("{}{dot}{group}/{}", of("kind").to_lowercase(), of("name")).into()
    }),
    Column::number("Revision", "Its number.", "/revision"),
    AGE,
];
