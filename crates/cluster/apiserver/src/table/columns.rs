//! Columns of tables, and the ones that several kinds have.

use berth_schema::resource::Custom;
use serde_json::{Value, json};

use super::row::Row;

/// A column of a table, with the cell of an object.
#[derive(Debug)]
pub struct Column {
    name: &'static str,
    kind: &'static str,
    format: &'static str,
    description: &'static str,
    priority: u8,
    cell: Cell,
    /// The text of a [`Cell::Text`] that is absent or empty.
    absent: &'static str,
}

/// How the cell of an object is read; texts are JSON pointers.
#[derive(Clone, Copy, Debug)]
enum Cell {
    Text(&'static str),
    Flag(&'static str),
    Integer(&'static str),
    Count(&'static str),
    Computed(fn(&Row<'_>) -> Value),
    /// One of the cells that several columns compute together.
    Together(fn(&Row<'_>) -> Vec<Value>, usize),
}

impl Column {
    const fn new(name: &'static str, kind: &'static str, description: &'static str, cell: Cell) -> Column {
        Column { name, kind, format: "", description, priority: 0, cell, absent: "" }
    }

    pub const fn text(name: &'static str, description: &'static str, cell: fn(&Row<'_>) -> Value) -> Column {
        Column::new(name, "string", description, Cell::Computed(cell))
    }

    /// A column of text whose cell is the `nth` of those that several columns of a kind compute together.
    pub const fn together(
        name: &'static str,
        description: &'static str,
        cells: fn(&Row<'_>) -> Vec<Value>,
        nth: usize,
    ) -> Column {
        Column::new(name, "string", description, Cell::Together(cells, nth))
    }

    pub const fn integer(
        name: &'static str,
        description: &'static str,
        cell: fn(&Row<'_>) -> Value,
    ) -> Column {
        Column::new(name, "integer", description, Cell::Computed(cell))
    }

    /// The text at a JSON pointer, empty if it is absent.
    pub const fn field(name: &'static str, description: &'static str, pointer: &'static str) -> Column {
        Column::new(name, "string", description, Cell::Text(pointer))
    }

    /// The truth at a JSON pointer, false if it is absent.
    pub const fn flag(name: &'static str, description: &'static str, pointer: &'static str) -> Column {
        Column::new(name, "string", description, Cell::Flag(pointer))
    }

    /// The whole number at a JSON pointer, 0 if it is absent.
    pub const fn number(name: &'static str, description: &'static str, pointer: &'static str) -> Column {
        Column::new(name, "integer", description, Cell::Integer(pointer))
    }

    /// How many entries the map or list at a JSON pointer has.
    pub const fn count(name: &'static str, description: &'static str, pointer: &'static str) -> Column {
        Column::new(name, "integer", description, Cell::Count(pointer))
    }

    /// Shown only with `-o wide`.
    pub const fn wide(self) -> Column {
        Column { priority: 1, ..self }
    }

    /// What a text field shows that is absent or empty.
    pub const fn or(self, absent: &'static str) -> Column {
        Column { absent, ..self }
    }

    pub const fn with(self, cell: fn(&Row<'_>) -> Value) -> Column {
        Column { cell: Cell::Computed(cell), ..self }
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

    pub fn cell(&self, row: &Row<'_>) -> Value {
        match self.cell {
            Cell::Text(pointer) => row.text_or(pointer, self.absent),
            Cell::Flag(pointer) => row.at(pointer).cloned().unwrap_or(Value::Bool(false)),
            Cell::Integer(pointer) => row.integer(pointer).into(),
            Cell::Count(pointer) => row.count(pointer).into(),
            Cell::Computed(cell) => cell(row),
            Cell::Together(cells, nth) => row.together(cells)[nth].clone(),
        }
    }
}

pub const NAME: Column = Column {
    format: "name",
    ..Column::field("Name", "Unique within its namespace, or the cluster.", "/metadata/name")
};
pub const AGE: Column = Column::text("Age", "Time since the object was created.", |row| {
    row.since("/metadata/creationTimestamp").into()
});
/// The names of the containers in the pod template of a workload.
pub const CONTAINERS: Column = Column::text("Containers", "Names of the containers.", |row| {
    row.containers("/spec/template/spec", "name")
})
.wide();
/// The images of the containers in the pod template of a workload.
pub const IMAGES: Column =
    Column::text("Images", "Images of the containers.", |row| row.containers("/spec/template/spec", "image"))
        .wide();
pub const SELECTOR: Column =
    Column::text("Selector", "Which pods belong to it.", |row| row.selector("/spec/selector")).wide();

/// The columns of kinds that define none.
pub const DEFAULT: &[Column] =
    &[NAME, Column::field("Created At", "When the object was created.", "/metadata/creationTimestamp")];

/// The `conditions` of the row of an object.
pub type Conditions = fn(&Row<'_>) -> Option<Value>;

/// The columns of a built-in kind or of a custom resource.
#[derive(Clone, Copy)]
pub enum Columns {
    BuiltIn(&'static [Column], Conditions),
    Custom(&'static Custom),
}
