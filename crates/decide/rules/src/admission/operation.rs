//! The operations of the API that admission decides about.

use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Operation {
    /// An object is created, or a subresource posted to.
    Create,
    Update,
    Delete,
    /// A connection is opened (`exec` and the like).
    Connect,
}

impl Operation {
    /// The word in requests and rules.
    pub fn as_str(self) -> &'static str {
        match self {
            Operation::Create => "CREATE",
            Operation::Update => "UPDATE",
            Operation::Delete => "DELETE",
            Operation::Connect => "CONNECT",
        }
    }
}
