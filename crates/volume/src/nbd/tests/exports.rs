//! Valid and invalid exports, and what clients learn of them.

use super::*;
use crate::nbd::export::{EXPORTS_MAX, ExportError, Mode};
use crate::nbd::wire::transmission_flag as flag;

#[test]
fn exports_are_found_by_name_and_the_empty_name_is_the_default() {
    let exports = three();
    assert_eq!(exports.find(b"log"), Some(1));
    assert_eq!(exports.find(b"lo"), None);
    assert_eq!(exports.find(b"LOG"), None);
    assert_eq!(exports.find(b""), Some(0));
    assert_eq!(exports.default_name("old").unwrap().find(b""), Some(2));
    assert_eq!(Exports::default().find(b""), None);
}

#[test]
fn an_export_without_a_name_is_found_under_it() {
    let exports = Exports::new(vec![Export::new("a", volume(MIB)), Export::new("", volume(MIB))]);
    assert_eq!(exports.unwrap().find(b""), Some(1));
}

#[test]
fn what_cannot_be_offered_is_refused_with_a_reason() {
    let one = |name: &str, size| Exports::new(vec![Export::new(name, volume(size))]).unwrap_err();
    assert_eq!(one("a", 1000), ExportError::Size { name: "a".into(), size_bytes: 1000 });
    assert_eq!(one("a\0b", 512), ExportError::Nul("name"));
    let long = "x".repeat(4097);
    assert_eq!(one(&long, 512), ExportError::TooLong { what: "name", bytes: 4097 });
    let described = Export::new("a", volume(512)).description(long);
    let refused = Exports::new(vec![described]).unwrap_err();
    assert_eq!(refused, ExportError::TooLong { what: "description", bytes: 4097 });
    let twice = vec![Export::new("a", volume(512)), Export::new("a", volume(512))];
    assert_eq!(Exports::new(twice).unwrap_err(), ExportError::Twice("a".into()));
    let many = (0..=EXPORTS_MAX).map(|n| Export::new(n.to_string(), volume(512))).collect();
    assert_eq!(Exports::new(many).unwrap_err(), ExportError::TooMany(EXPORTS_MAX + 1));
    assert_eq!(three().default_name("x").unwrap_err(), ExportError::NoDefault("x".into()));
}

#[test]
fn flags_say_what_an_export_can_do() {
    let exports = three();
    let plain = exports.list()[0].facts();
    let always = flag::HAS_FLAGS
        | flag::SEND_FLUSH
        | flag::SEND_FUA
        | flag::CAN_MULTI_CONN
        | flag::SEND_CACHE;
    let writes = flag::SEND_TRIM | flag::SEND_WRITE_ZEROES | flag::SEND_FAST_ZERO;
    assert_eq!(plain.flags(Mode::Simple), always | writes);
    assert_eq!(plain.flags(Mode::Structured), always | writes | flag::SEND_DF);
    assert_eq!(plain.flags(Mode::Extended), always | writes | flag::SEND_DF);
    let old = exports.list()[2].facts();
    assert_eq!(old.flags(Mode::Simple), always | flag::READ_ONLY | flag::ROTATIONAL);
}
