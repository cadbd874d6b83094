//! What the files of kinds are written with: raw JSON, the rules that kinds share, and columns.

pub use serde_json::{Map, Value, json};

pub use crate::request::{ApiResult, CauseType, Status};
pub use crate::strategy::fields::*;
pub use crate::strategy::metadata::{add_finalizer, name, take};
pub use crate::strategy::typed::{BY_CHECK, Typed};
pub use crate::strategy::{Context, Strategy, now};
pub use crate::table::columns::*;
pub use crate::table::row::{NONE, Row, UNKNOWN, UNSET, some_of};
