//! RuntimeClasses.

use crate::strategy::typed::Typed;
use crate::table::columns::{AGE, Column, NAME, Printer};
use berth_schema::resource::RUNTIME_CLASSES;

pub static STRATEGY: Typed = Typed { immutable: &["/handler"], ..Typed::new(&RUNTIME_CLASSES) };

pub static COLUMNS: Printer =
    Printer::new(&[NAME, Column::text("Handler", "The runtime's configuration."), AGE], |row| {
        vec![row.name(), row.text_or("/handler", ""), row.age()]
    });
