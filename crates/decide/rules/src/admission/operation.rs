//! The operations of the API that admission decides about.

use serde::{Deserialize, Serialize};

berth_api::named! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "UPPERCASE")]
    pub enum Operation(as_str) {
        /// An object is created, or a subresource posted to.
        Create = "CREATE",
        Update = "UPDATE",
        Delete = "DELETE",
        /// A connection is opened (`exec` and the like).
        Connect = "CONNECT",
    }
}
