//! Events that plans request.

/// An event about a claim or a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Notice {
    pub(super) is_warning: bool,
    pub(super) reason: &'static str,
    pub(super) message: String,
}

impl Notice {
    pub(super) fn normal(reason: &'static str, message: impl Into<String>) -> Notice {
        Notice { is_warning: false, reason, message: message.into() }
    }

    pub(super) fn warning(reason: &'static str, message: impl Into<String>) -> Notice {
        Notice { is_warning: true, reason, message: message.into() }
    }
}
