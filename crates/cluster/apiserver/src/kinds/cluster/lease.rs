//! Leases.

use crate::table::columns::{AGE, Column, NAME, Printer};

pub static COLUMNS: Printer =
    Printer::new(&[NAME, Column::text("Holder", "Who holds the lease."), AGE], |row| {
        vec![row.name(), row.text_or("/spec/holderIdentity", ""), row.age()]
    });
