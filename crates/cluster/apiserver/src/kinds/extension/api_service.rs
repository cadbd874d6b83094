//! APIServices.

use berth_schema::resource::API_SERVICES;

use crate::kinds::prelude::*;

pub static STRATEGY: Typed = Typed {
    defaults: &[("ServiceReference", "port", "443")],
    check: |value, causes| {
        let spec = &value["spec"];
        let expected = format!("{}.{}", text(spec, "/version"), text(spec, "/group"));
        if name(value) != expected.trim_end_matches('.') {
            let why = format!("must be `spec.version+\".\"+spec.group`: {expected:?}");
            causes.invalid("metadata.name", &value["metadata"]["name"], &why);
        }
    },
    ..Typed::new(&API_SERVICES)
};

pub const COLUMNS: &[Column] = &[
    NAME,
    Column::text("Service", "The service that serves the group and version.", |row| {
        match (row.text("/spec/service/namespace"), row.text("/spec/service/name")) {
            (Some(namespace), Some(name)) => format!("{namespace}/{name}").into(),
            _ => "Local".into(),
        }
    }),
    Column::text("Available", "Whether it is served.", |row| {
        row.condition("Available").unwrap_or("Unknown").into()
    }),
    AGE,
];
