//! The symbols of Table 3.1, each in a square of 16 by 16. Their outlines distinguish them, not
//! colours.

use crate::model::ResourceKind;

/// A chip with pins.
const CPU: &str = "M4 4h8v8h-8zM6.5 6.5h3v3h-3zM6 4V1.2M10 4V1.2M6 12v2.8M10 12v2.8M4 6H1.2M4 10H1.2M12 6h2.8M12 10h2.8";
/// A cylinder: disk.
const IO: &str = "M2.5 4c0-1.5 2.5-2.4 5.5-2.4s5.5.9 5.5 2.4v8c0 1.5-2.5 2.4-5.5 2.4s-5.5-.9-5.5-2.4zM2.5 4c0 1.5 2.5 2.4 5.5 2.4s5.5-.9 5.5-2.4M2.5 8c0 1.5 2.5 2.4 5.5 2.4s5.5-.9 5.5-2.4";
/// A globe.
const NETWORK: &str = "M1.7 8a6.3 6.3 0 1 0 12.6 0a6.3 6.3 0 1 0-12.6 0M1.7 8h12.6M8 1.7c-4 3.7-4 8.9 0 12.6c4-3.7 4-8.9 0-12.6";
/// A hexagon with a hole.
const CUSTOM: &str =
    "M8 1.5l5.6 3.2v6.6L8 14.5l-5.6-3.2V4.7zM5.8 8a2.2 2.2 0 1 0 4.4 0a2.2 2.2 0 1 0-4.4 0";
/// A clock: time that passes.
const DELAY: &str = "M1.7 8a6.3 6.3 0 1 0 12.6 0a6.3 6.3 0 1 0-12.6 0M8 4v4.2l3 1.8";
/// A padlock: a lock that is held, or, at a queue, an order that must be kept.
pub(super) const LOCK: &str = "M3.2 7.3h9.6v7h-9.6zM5.2 7.3V4.8a2.8 2.8 0 0 1 5.6 0v2.5M8 10v2";
/// A plug: the scheduler can be replaced.
pub(super) const PLUG: &str = "M5.5 1v3.8M10.5 1v3.8M3.2 4.8h9.6v2.4a4.8 4.8 0 0 1-9.6 0zM8 12v3.2";
/// A person: the clients.
pub(super) const PERSON: &str =
    "M5.2 4.6a2.8 2.8 0 1 0 5.6 0a2.8 2.8 0 1 0-5.6 0M2.2 14.4c0-7.4 11.6-7.4 11.6 0z";

/// The symbol of a resource, and the class under which it is drawn.
pub(super) fn resource(kind: ResourceKind) -> (&'static str, &'static str) {
    match kind {
        ResourceKind::Cpu => (CPU, "cpu"),
        ResourceKind::Io => (IO, "io"),
        ResourceKind::Network => (NETWORK, "network"),
        ResourceKind::Lock => (LOCK, "lock"),
        ResourceKind::Custom => (CUSTOM, "custom"),
        ResourceKind::Delay => (DELAY, "delay"),
    }
}
