//! What a kind of machine has to consume.

use super::amounts::{quantity, some_time};
use super::error::{Report, list};
use super::names::unique;
use super::section::{Section, Text};
use crate::model::{Device, Discipline, NodeId, Resource, ResourceKind, Tad};
use crate::units;

const KINDS: [(ResourceKind, &str); 6] = [
    (ResourceKind::Cpu, "cpu"),
    (ResourceKind::Io, "io"),
    (ResourceKind::Network, "network"),
    (ResourceKind::Lock, "lock"),
    (ResourceKind::Custom, "custom"),
    (ResourceKind::Delay, "delay"),
];

/// Reads a `[[node.resource]]`.
pub(super) fn read(mut section: Section, report: &mut Report, tad: &mut Tad, node: NodeId) {
    let taken = tad.resources.iter().filter(|other| other.node == node);
    let name =
        unique(&mut section, report, "resource", taken.map(|resource| resource.name.as_str()));
    let kind = section.text(report, "kind").unwrap_or_else(|| name.clone());
    let Some((kind, _)) = KINDS.into_iter().find(|(_, known)| *known == kind.text) else {
        report.error(
            &kind.at,
            format!("\"{}\" is no kind of resource", kind.text),
            format!("Write `kind = …`, one of {}.", list(KINDS.map(|(_, known)| known))),
        );
        section.value("rate");
        return;
    };
    let rate_per_s = read_rate(&mut section, report, kind, &name).unwrap_or(1.0);
    let discipline = if section.has("quantum") {
        Discipline::RoundRobin { quantum_ns: some_time(&mut section, report, "quantum", 1) }
    } else {
        Discipline::Fifo
    };
    let device = read_device(&mut section, report, kind);
    if kind == ResourceKind::Delay {
        for key in ["rate", "parallelism", "quantum", "seek"] {
            if section.has(key) {
                report.error(
                    &section.at(key),
                    format!("a delay has no limit, so `{key}` means nothing"),
                    "Remove it. If requests wait for one another there, it is a resource of another kind.",
                );
            }
        }
    }
    tad.resources.push(Resource {
        title: section
            .text(report, "title")
            .map_or_else(|| kind.name().to_owned(), |title| title.text),
        name: name.text,
        kind,
        node,
        rate_per_s,
        parallelism: match (kind, section.count(report, "parallelism")) {
            (ResourceKind::Delay, _) => u32::MAX,
            (_, count) => count.unwrap_or(1),
        },
        discipline,
        device,
    });
    section.finish(report);
}

fn read_rate(
    section: &mut Section,
    report: &mut Report,
    kind: ResourceKind,
    name: &Text,
) -> Option<f64> {
    let dimension = kind.dimension();
    let Some(text) = section.text(report, "rate") else {
        if matches!(kind, ResourceKind::Lock | ResourceKind::Delay) {
            return Some(1e9); // A second of holding it takes a second.
        }
        if !section.has("rate") {
            report.error(
                &section.at,
                format!(
                    "resource \"{}\" has no rate: it is unknown how long its use takes",
                    name.text
                ),
                format!("Add `rate = …`, in {}.", dimension.rate_units()),
            );
        }
        return None;
    };
    let example = match kind {
        ResourceKind::Cpu => "1 GHz",
        ResourceKind::Io => "100 MB/s",
        ResourceKind::Network => "1 Gbps",
        ResourceKind::Lock | ResourceKind::Custom | ResourceKind::Delay => "1000 op/s",
    };
    let rate = quantity(report, &text, units::rate(&text.text, dimension), example)?;
    if rate <= 0.0 {
        report.error(
            &text.at,
            format!("resource \"{}\" has rate 0: a request that uses it never ends", name.text),
            format!("Write, for instance, \"{example}\"."),
        );
        return None;
    }
    Some(rate)
}

fn read_device(section: &mut Section, report: &mut Report, kind: ResourceKind) -> Device {
    if !section.has("seek") {
        return Device::Plain;
    }
    let at = section.at("seek");
    let seeks: Vec<u64> = section
        .texts(report, "seek")
        .iter()
        .filter_map(|text| quantity(report, text, units::time(&text.text), "4 ms"))
        .collect();
    match seeks.as_slice() {
        [min, max] if min <= max && kind == ResourceKind::Io => {
            Device::Seeking { seek_ns_min: *min, seek_ns_max: *max }
        }
        _ => {
            report.error(
                &at,
                "`seek` is the shortest and the longest seek of a disk",
                "Write `seek = [\"4 ms\", \"12 ms\"]`, at a resource of kind \"io\".",
            );
            Device::Plain
        }
    }
}
