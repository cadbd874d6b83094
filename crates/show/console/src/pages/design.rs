//! The design system on one page: what pages are made of, each part with the words for when it is used. Debug builds have it.

use berth_picture::bars::{Row, Section};
use berth_picture::cells::{Cell, CellMap, Domain, Item, Part, Presence};
use berth_picture::{Class, Key, MAX_HEAT, N_KINDS};
use maud::{Markup, html};

use super::answer::{Answer, Page};
use super::parts;
use crate::components::bars::{bars, legend};
use crate::components::devices::{DeviceCell, DeviceGroup, DeviceState, devices};
use crate::components::map::map;
use crate::components::{
    Tone, badge, card, datalist, empty, facts, labels, linked_card, percent, stat, tabs, verdict,
};

const TONES: [(Tone, &str); 5] = [
    (Tone::Neutral, "a fact"),
    (Tone::Good, "as wanted"),
    (Tone::Info, "worth knowing"),
    (Tone::Warn, "needs a look"),
    (Tone::Bad, "broken"),
];

pub(super) fn page() -> Answer {
    let content = html! {
        (card("Type and spacing", &type_and_spacing()))
        div.sides { (card("Tones", &tones())) (card("Colors of pictures", &colors())) }
        h2 { "Verdicts: first on a page, what is the case" }
        @for (tone, text) in TONES { (verdict(tone, &html! { (text) }, &html! { p.detail { "A detail in small type." } })) }
        h2 { "Cards" }
        div.cards {
            (linked_card("A number", ("/design", "More"), &stat("12", "/design", "things that need a look", Tone::Warn)))
            (card("Facts", &facts(&[("Name", html! { "value" }), ("Labels", labels(["app=web".to_owned(), "tier=front".to_owned()])), ("Part", percent("requested cpu", 87))])))
            (card("Bars", &bars(&section())))
        }
        (card("Controls", &controls()))
        (parts::table(
            "Tables have a caption, small headings, and rows of one line where possible",
            &["Name", "State", "Pods"],
            (1..4).map(|i| vec![parts::node(&format!("node-{i}")), badge(Tone::Good, "schedulable"), parts::number(i * 7)]),
        ))
        (card("Maps: a cell for each node, a square for each pod", &map(&model())))
        (card("Devices: a cell for each, with its state in words and in color", &devices(&device_groups())))
        (empty("An empty state says what would be here", &html! { "and what to do about it." }))
    };
    Ok(Page::new("Design", content)
        .subtitle(html! { "The parts of which the console is made" })
        .actions(html! { a.button.small href="/design" { "An action" } }))
}

fn type_and_spacing() -> Markup {
    html! {
        h1 { "Heading of a page, 20 px" }
        h2 { "Heading of a section, 16 px" }
        h3 { "Heading of a part, 14 px" }
        p { "Text, 14 px, in the font of the system. " a href="/design" { "A link" } " is underlined. " code { "spec.affinity" } " names a field." }
        p.detail { "Detail, 13 px." }
        pre { code { "kubectl uncordon node-1" } }
        p.detail { "Distances are 4, 8, 12, 16 and 24 px: 4 within a part, 8 between parts, 16 around and between cards." }
    }
}

fn tones() -> Markup {
    html! {
        ul.rows { @for (tone, text) in TONES { li { span class=(tone.class()) { (text) } (badge(tone, tone.class())) } } }
    }
}

fn colors() -> Markup {
    let key = |class: Class, text: String| Key { class, mark: None, text };
    let mut keys: Vec<Key> = (0..N_KINDS).map(|i| key(Class::Kind(i), format!("kind {i}"))).collect();
    keys.extend((0..=MAX_HEAT).map(|i| key(Class::Heat(i), format!("step {i}"))));
    keys.push(key(Class::Alert, "alert".to_owned()));
    keys.push(key(Class::Other, "other".to_owned()));
    legend(&keys)
}

fn section() -> Section {
    let row = |name: &str, n: usize, class| Row {
        name: name.to_owned(),
        title: name.to_owned(),
        parts: vec![(class, n)],
        note: format!("{n} pods"),
        limit: Some(4),
    };
    Section {
        rows: vec![row("zone-a", 3, Class::Kind(0)), row("zone-b", 6, Class::Alert)],
        ..Section::default()
    }
}

fn controls() -> Markup {
    html! {
        (tabs("Choice", &[("/design".to_owned(), "Current", true), ("/design".to_owned(), "Other", false)]))
        form.toolbar {
            label.group { span { "A name, completed" } input name="name" list="names" placeholder="worker-1"; }
            label.group { span { "A choice" } select name="choice" { option { "One" } option { "Another" } } }
            button.primary type="button" { "What the page is for" }
            button type="button" { "Something else" }
            (datalist("names", ["worker-1".to_owned()]))
        }
        details { summary { "Folded: what few readers need" } p { "It opens in its place." } }
    }
}

fn device_groups() -> Vec<DeviceGroup> {
    let cell = |(i, state): (usize, DeviceState)| DeviceCell {
        name: format!("gpu-{i}"),
        title: format!("gpu-{i}, model=h100, memory 80Gi"),
        state,
        detail: html! { @if state == DeviceState::Allocated { a href="/design" { "shop/train" } } },
    };
    let states = [DeviceState::Free, DeviceState::Allocated, DeviceState::Shared];
    let partitions = [DeviceState::Free, DeviceState::NoCounters, DeviceState::Tainted];
    let group = |name: &str, states: [DeviceState; 3]| DeviceGroup {
        name: name.to_owned(),
        note: "1 of 3 devices free".to_owned(),
        cells: states.into_iter().enumerate().map(cell).collect(),
    };
    vec![
        group("gpu.example.com/node-1", states),
        group("gpu.example.com/node-1, partitions of card", partitions),
    ]
}

fn model() -> CellMap {
    let item = |i: usize, presence| Item {
        title: format!("pod {i}"),
        class: Class::Kind(i),
        mark: char::from(b'a' + i as u8),
        presence,
        ..Item::default()
    };
    let cell = |name: &str, level: usize, class, items| Cell {
        name: name.to_owned(),
        title: format!("{name}: {level} %"),
        level,
        class,
        note: format!("{level} % cpu"),
        items,
        ..Cell::default()
    };
    let cells = vec![
        cell("node-1", 40, Class::Heat(2), vec![item(0, Presence::Is), item(1, Presence::Leaves)]),
        cell("node-2", 85, Class::Heat(5), vec![item(0, Presence::Is), item(2, Presence::Arrives)]),
        cell("node-3", 97, Class::Alert, vec![item(0, Presence::Is), item(3, Presence::Nearly)]),
    ];
    let parts = vec![Part { name: "rack-1".to_owned(), cells, link: None }];
    let domains =
        vec![Domain { name: "zone-a".to_owned(), note: "3 nodes, 6 pods".to_owned(), parts, link: None }];
    CellMap { title: "Map".to_owned(), domains, ..CellMap::default() }
}
