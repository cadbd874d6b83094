//! APIServices.

use crate::strategy::fields::text;
use crate::strategy::metadata::name;
use crate::strategy::typed::Typed;
use crate::table::columns::{AGE, Column, NAME, Printer};
use berth_schema::resource::API_SERVICES;

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

pub static COLUMNS: Printer = Printer::new(
    &[
        NAME,
        Column::text("Service", "The service that serves the group and version."),
        Column::text("Available", "Whether it is served."),
        AGE,
    ],
    |row| {
        let service = match (row.text("/spec/service/namespace"), row.text("/spec/service/name")) {
            (Some(namespace), Some(name)) => format!("{namespace}/{name}"),
            _ => "Local".to_owned(),
        };
        vec![row.name(), service.into(), row.condition("Available").unwrap_or("Unknown").into(), row.age()]
    },
);
