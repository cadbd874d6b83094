//! Columns of tables, and the ones that several kinds have.

use berth_schema::resource::Custom;
use serde_json::{Value, json};

use super::row::Row;

/// A column of a table.
#[derive(Debug)]
pub struct Column {
    name: &'static str,
    kind: &'static str,
    format: &'static str,
    description: &'static str,
    priority: u8,
}

impl Column {
    /// A column of text.
    pub const fn text(name: &'static str, description: &'static str) -> Column {
        Column { name, kind: "string", format: "", description, priority: 0 }
    }

    /// A column of whole numbers.
    pub const fn integer(name: &'static str, description: &'static str) -> Column {
        Column { kind: "integer", ..Column::text(name, description) }
    }

    /// Shown only with `-o wide`.
    pub const fn wide(self) -> Column {
        Column { priority: 1, ..self }
    }

    /// As `meta.k8s.io` describes a column.
    pub fn definition(&self) -> Value {
        json!({
            "name": self.name,
            "type": self.kind,
            "format": self.format,
            "description": self.description,
            "priority": self.priority,
        })
    }
}

pub const NAME: Column =
    Column { format: "name", ..Column::text("Name", "Unique within its namespace, or the cluster.") };
pub const AGE: Column = Column::text("Age", "Time since the object was created.");
pub const CONTAINERS: Column = Column::text("Containers", "Names of the containers.").wide();
pub const IMAGES: Column = Column::text("Images", "Images of the containers.").wide();
pub const SELECTOR: Column = Column::text("Selector", "Which pods belong to it.").wide();

/// How the objects of a kind are shown.
pub struct Printer {
    pub columns: &'static [Column],
    /// One cell for each column.
    pub cells: fn(&Row<'_>) -> Vec<Value>,
    /// `conditions` of the row.
    pub conditions: Option<fn(&Row<'_>) -> Option<Value>>,
}

impl Printer {
    pub const fn new(columns: &'static [Column], cells: fn(&Row<'_>) -> Vec<Value>) -> Printer {
        Printer { columns, cells, conditions: None }
    }
}

/// The columns of kinds that define none.
pub static DEFAULT: Printer =
    Printer::new(&[NAME, Column::text("Created At", "When the object was created.")], |row| {
        vec![row.name(), row.text_or("/metadata/creationTimestamp", "")]
    });

/// For kinds without anything else to show.
pub static NAME_AND_AGE: Printer = Printer::new(&[NAME, AGE], |row| vec![row.name(), row.age()]);

/// The columns of a built-in kind or of a custom resource.
#[derive(Clone, Copy)]
pub enum Columns {
    BuiltIn(&'static Printer),
    Custom(&'static Custom),
}
