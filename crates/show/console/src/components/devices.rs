//! Devices as cells: a cell for each, with its state in words and in color.

use berth_picture::{Class, Key};
use maud::{Markup, html};

use super::bars::legend;

berth_api::named! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub(crate) enum DeviceState(text) {
        Free = "free",
        Allocated = "allocated",
        /// Allocated to claims that leave others room.
        Shared = "shared",
        /// Nothing is allocated, but partitions of the same device are.
        NoCounters = "counters in use",
        Tainted = "tainted",
    }
}

impl DeviceState {
    fn class(self) -> Class {
        match self {
            DeviceState::Free => Class::Kind(2),
            DeviceState::Allocated => Class::Kind(0),
            DeviceState::Shared => Class::Kind(1),
            DeviceState::NoCounters => Class::Faint,
            DeviceState::Tainted => Class::Alert,
        }
    }

    /// For those who do not see the colors.
    fn mark(self) -> Option<char> {
        (self == DeviceState::Tainted).then_some('!')
    }
}

pub(crate) struct DeviceCell {
    pub(crate) name: String,
    pub(crate) title: String,
    pub(crate) state: DeviceState,
    /// What of its state there is to see, such as the claims that have it.
    pub(crate) detail: Markup,
}

/// Devices that belong together: those of a pool, or the partitions of a device.
pub(crate) struct DeviceGroup {
    pub(crate) name: String,
    pub(crate) note: String,
    pub(crate) cells: Vec<DeviceCell>,
}

/// The cells, and what the colors mean.
pub(crate) fn devices(groups: &[DeviceGroup]) -> Markup {
    let mut states: Vec<_> = groups.iter().flat_map(|group| &group.cells).map(|cell| cell.state).collect();
    states.sort_unstable();
    states.dedup();
    let key =
        |state: &DeviceState| Key { class: state.class(), mark: state.mark(), text: state.text().to_owned() };
    html! {
        (legend(&states.iter().map(key).collect::<Vec<_>>()))
        div.map.devices.berth-picture {
            @for DeviceGroup { name, note, cells } in groups {
                section.zone {
                    h3 { (name) small { (note) } }
                    ul.cells.plain aria-label={ "Devices of " (name) } { @for cell in cells { (self::cell(cell)) } }
                }
            }
        }
    }
}

fn cell(DeviceCell { name, title, state, detail }: &DeviceCell) -> Markup {
    html! {
        li.cell {
            span title=(title) {
                span { span class={ "swatch " (state.class().name()) } aria-hidden="true" { (state.mark().unwrap_or(' ')) } " " (name) }
                small { (state.text()) }
            }
            @if !detail.0.is_empty() { div.detail { (detail) } }
        }
    }
}
