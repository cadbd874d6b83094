//! Which rules are generated.

/// Which rules the generated pods have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flavour {
    /// Only rules of kube-scheduler.
    V1,
    /// Also the proposals' fields: in the spec, in the annotation, and `Gt`/`Lt` in pod terms.
    Extensions,
    /// Rules of kube-scheduler, fewer between pods, and volumes.
    Volumes,
    /// Rules of kube-scheduler, fewer between pods, and claims of devices.
    Devices,
}

impl Flavour {
    /// Whether objects decide, so that fewer pods are to fail because of other rules.
    pub(super) fn has_objects(self) -> bool {
        matches!(self, Flavour::Volumes | Flavour::Devices)
    }
}
