//! ServiceAccounts.

use crate::table::columns::{AGE, Column, NAME, Printer};

pub static COLUMNS: Printer =
    Printer::new(&[NAME, Column::integer("Secrets", "How many secrets its pods may use."), AGE], |row| {
        vec![row.name(), row.count("/secrets").into(), row.age()]
    });
