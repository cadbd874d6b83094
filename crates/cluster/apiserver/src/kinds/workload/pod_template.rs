//! PodTemplates.

use berth_schema::resource::POD_TEMPLATES;

use crate::strategy::typed::Typed;
use crate::table::columns::{Column, NAME, Printer};

pub static STRATEGY: Typed = Typed::new(&POD_TEMPLATES);

pub static COLUMNS: Printer = Printer::new(
    &[
        NAME,
        Column::text("Containers", "Names of the containers."),
        Column::text("Images", "Images of the containers."),
        Column::text("Pod Labels", "Labels of the pods."),
    ],
    |row| {
        let [names, images] = row.containers("/template/spec");
        vec![row.name(), names, images, row.labels("/template/metadata/labels")]
    },
);
