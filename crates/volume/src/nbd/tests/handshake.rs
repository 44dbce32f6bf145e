//! The handshake by flags, options and errors.

use super::*;
use crate::nbd::backend::Greeting;
use crate::nbd::directory::Tls;
use crate::nbd::export::Mode;
use crate::nbd::handshake::{
    OPTION_DATA_BYTES_MAX, OPTION_SKIPPED_BYTES_MAX, OPTIONS_MAX, greeting,
};
use crate::nbd::options::QUERIES_MAX;
use crate::nbd::request::Agreement;
use crate::nbd::wire::{info, option as opt, option_reply as rep, u16_at};

#[test]
fn the_greeting_offers_fixed_newstyle_and_no_zeroes() {
    assert_eq!(&greeting()[..16], b"NBDMAGICIHAVEOPT");
    assert_eq!(&greeting()[16..], &[0, 3]);
}

#[test]
fn unknown_client_flags_end_the_connection() {
    for flags in [4, 7, 1 << 16, u32::MAX] {
        assert!(matches!(Talk::with_flags(flags).1, Step::Close(_)), "{flags:#x}");
    }
    for flags in 0..=3 {
        assert_eq!(Talk::with_flags(flags).1, Step::Again, "{flags:#x}");
    }
}

#[test]
fn a_client_without_fixed_newstyle_may_only_name_its_export() {
    let (mut talk, _) = Talk::with_flags(0);
    assert!(matches!(talk.raw(opt::LIST, &[]).1, Step::Close(_)));
    let (mut talk, _) = Talk::with_flags(0);
    let (out, step) = talk.raw(opt::EXPORT_NAME, b"log");
    assert!(matches!(step, Step::Agreed(Agreement { export: 1, mode: Mode::Simple, .. })));
    assert_eq!(out.len(), 8 + 2 + 124, "size, flags, zeroes");
}

#[test]
fn export_name_answers_size_and_flags_and_zeroes_unless_declined() {
    let (mut talk, _) = Talk::with_flags(3);
    let (out, step) = talk.raw(opt::EXPORT_NAME, b"");
    assert!(matches!(step, Step::Agreed(Agreement { export: 0, allocation: false, .. })));
    assert_eq!(out.len(), 10);
    assert_eq!(u64_at(&out, 0), Some(MIB));
    assert_eq!(u16_at(&out, 8), Some(talk.exports.list()[0].facts().flags(Mode::Simple)));
    let (mut talk, _) = Talk::with_flags(1);
    let (out, _) = talk.raw(opt::EXPORT_NAME, b"old");
    assert_eq!(out.len(), 134);
    assert!(out[10..].iter().all(|byte| *byte == 0));
}

#[test]
fn an_unknown_name_ends_the_old_option_and_fails_the_new_one() {
    let (out, step) = Talk::new().raw(opt::EXPORT_NAME, b"nothing");
    assert!(out.is_empty());
    assert!(matches!(step, Step::Close(_)));
    let mut talk = Talk::new();
    for number in [opt::INFO, opt::GO] {
        assert_eq!(talk.verdict(number, &info_data("nothing", &[])), rep::ERR_UNKNOWN);
    }
    // The client may go on.
    let (_, step) = talk.ask(opt::GO, &info_data("data", &[]));
    assert!(matches!(step, Step::Agreed(_)));
}

#[test]
fn info_tells_what_was_wished_for_and_goes_on() {
    let mut talk = Talk::new();
    let wishes = [info::NAME, info::DESCRIPTION, info::BLOCK_SIZE, 77];
    let (replies, step) = talk.ask(opt::INFO, &info_data("log", &wishes));
    assert_eq!(step, Step::Again);
    let kinds: Vec<_> = replies.iter().map(|(kind, _)| *kind).collect();
    assert_eq!(kinds, [rep::INFO, rep::INFO, rep::INFO, rep::INFO, rep::ACK]);
    let export = &replies[0].1;
    assert_eq!((u16_at(export, 0), u64_at(export, 2)), (Some(info::EXPORT), Some(64 * MIB)));
    assert_eq!(export.len(), 12);
    assert_eq!(replies[1].1, b"\0\x01log");
    assert_eq!(replies[2].1, b"\0\x02redo log");
    let sizes: Vec<_> = [2, 6, 10].map(|at| u32_at(&replies[3].1, at).unwrap()).into();
    assert_eq!(sizes, [512, 4096, 32 << 20]);
    assert_eq!(replies[3].1.len(), 14);
}

#[test]
fn info_without_wishes_tells_size_and_flags_only() {
    let (replies, _) = Talk::new().ask(opt::INFO, &info_data("log", &[]));
    assert_eq!(replies.len(), 2);
    // An export without a description has none to tell.
    let (replies, _) = Talk::new().ask(opt::INFO, &info_data("data", &[info::DESCRIPTION]));
    assert_eq!(replies.len(), 2);
}

#[test]
fn the_default_export_tells_its_own_name() {
    let (replies, step) = Talk::new().ask(opt::GO, &info_data("", &[info::NAME]));
    assert_eq!(replies[1].1, b"\0\x01data");
    assert!(matches!(step, Step::Agreed(Agreement { export: 0, .. })));
}

#[test]
fn go_and_info_refuse_data_that_do_not_add_up() {
    let good = info_data("data", &[info::NAME]);
    for number in [opt::INFO, opt::GO] {
        for len in 0..good.len() {
            let verdict = Talk::new().verdict(number, &good[..len]);
            assert_eq!(verdict, rep::ERR_INVALID, "cut to {len}");
        }
        let longer = [&good[..], b"x"].concat();
        assert_eq!(Talk::new().verdict(number, &longer), rep::ERR_INVALID);
        let mut huge = good.clone();
        huge[..4].copy_from_slice(&u32::MAX.to_be_bytes());
        assert_eq!(Talk::new().verdict(number, &huge), rep::ERR_INVALID);
        let name = "x".repeat(4097);
        assert_eq!(Talk::new().verdict(number, &info_data(&name, &[])), rep::ERR_TOO_BIG);
    }
}

#[test]
fn list_names_every_export_with_its_description() {
    let (replies, step) = Talk::new().ask(opt::LIST, &[]);
    assert_eq!(step, Step::Again);
    let names: Vec<_> = replies[..3].iter().map(|(_, payload)| &payload[4..]).collect();
    assert_eq!(names, [&b"data"[..], b"logredo log", b"old"]);
    assert_eq!(u32_at(&replies[1].1, 0), Some(3));
    assert_eq!(replies[3].0, rep::ACK);
    assert_eq!(Talk::new().verdict(opt::LIST, b"x"), rep::ERR_INVALID);
}

#[test]
fn abort_is_acknowledged_whatever_comes_with_it() {
    let (replies, step) = Talk::new().ask(opt::ABORT, b"bye");
    assert_eq!(replies, [(rep::ACK, vec![])]);
    assert!(matches!(step, Step::Close(_)));
}

#[test]
fn tls_and_unknown_options_are_declined_and_the_client_goes_on() {
    let mut talk = Talk::new();
    assert_eq!(talk.verdict(opt::STARTTLS, &[]), rep::ERR_UNSUP);
    assert_eq!(talk.verdict(opt::STARTTLS, b"x"), rep::ERR_INVALID);
    for number in [0, 4, 12, 99, u32::MAX] {
        assert_eq!(talk.verdict(number, b"anything"), rep::ERR_UNSUP, "{number}");
    }
    assert_eq!(talk.ask(opt::LIST, &[]).0.len(), 4);
}

#[test]
fn reply_forms_are_agreed_on_once_and_extended_headers_stay() {
    let mut talk = Talk::new();
    assert_eq!(talk.verdict(opt::STRUCTURED_REPLY, b"x"), rep::ERR_INVALID);
    assert_eq!(talk.verdict(opt::STRUCTURED_REPLY, &[]), rep::ACK);
    assert_eq!(talk.verdict(opt::STRUCTURED_REPLY, &[]), rep::ERR_INVALID);
    assert_eq!(talk.verdict(opt::EXTENDED_HEADERS, b"x"), rep::ERR_INVALID);
    assert_eq!(talk.verdict(opt::EXTENDED_HEADERS, &[]), rep::ACK);
    assert_eq!(talk.verdict(opt::EXTENDED_HEADERS, &[]), rep::ERR_INVALID);
    assert_eq!(talk.verdict(opt::STRUCTURED_REPLY, &[]), rep::ERR_EXT_HEADER_REQD);
    let (_, step) = talk.ask(opt::GO, &info_data("data", &[]));
    assert!(matches!(step, Step::Agreed(Agreement { mode: Mode::Extended, .. })));
}

#[test]
fn the_old_option_after_extended_headers_ends_the_connection() {
    let mut talk = Talk::new();
    talk.verdict(opt::EXTENDED_HEADERS, &[]);
    assert!(matches!(talk.raw(opt::EXPORT_NAME, b"data").1, Step::Close(_)));
}

/// Chooses contexts for `chosen`, goes to `taken`: whether the connection has the context.
fn allocation_after(chosen: &str, queries: &[&str], taken: &str) -> bool {
    let mut talk = Talk::new();
    talk.verdict(opt::STRUCTURED_REPLY, &[]);
    talk.ask(opt::SET_META_CONTEXT, &context_data(chosen, queries));
    let (_, step) = talk.ask(opt::GO, &info_data(taken, &[]));
    let Step::Agreed(agreement) = step else { panic!("{step:?}") };
    agreement.allocation
}

#[test]
fn a_context_holds_for_the_export_it_was_chosen_for() {
    assert!(allocation_after("log", &["base:allocation"], "log"));
    assert!(allocation_after("log", &["x-a:b", "base:allocation"], "log"));
    assert!(allocation_after("", &["base:allocation"], "data"), "both are the default export");
    assert!(!allocation_after("log", &["base:allocation"], "data"));
    assert!(!allocation_after("log", &[], "log"), "no query chooses nothing");
    assert!(!allocation_after("log", &["base:"], "log"), "a wildcard chooses nothing");
    assert!(!allocation_after("log", &["base:other", "qemu:x", "junk"], "log"));
}

#[test]
fn choosing_again_replaces_the_choice_even_when_it_fails() {
    let mut talk = Talk::new();
    talk.verdict(opt::STRUCTURED_REPLY, &[]);
    let good = context_data("log", &["base:allocation"]);
    let (replies, _) = talk.ask(opt::SET_META_CONTEXT, &good);
    assert_eq!(replies[0], (rep::META_CONTEXT, b"\0\0\0\x01base:allocation".to_vec()));
    assert_eq!(replies[1].0, rep::ACK);
    assert_eq!(talk.verdict(opt::SET_META_CONTEXT, &good[..9]), rep::ERR_INVALID);
    let (_, step) = talk.ask(opt::GO, &info_data("log", &[]));
    assert!(matches!(step, Step::Agreed(Agreement { allocation: false, .. })));
}

#[test]
fn contexts_are_listed_by_query() {
    let mut talk = Talk::new();
    talk.verdict(opt::EXTENDED_HEADERS, &[]);
    for (queries, count) in
        [(&[][..], 1), (&["base:"], 1), (&["base:allocation"], 1), (&["qemu:"], 0), (&["base"], 0)]
    {
        let data = context_data("log", queries);
        let (replies, _) = talk.ask(opt::LIST_META_CONTEXT, &data);
        assert_eq!(replies.len(), count + 1, "{queries:?}");
        if count == 1 {
            assert_eq!(replies[0].1, b"\0\0\0\0base:allocation");
        }
    }
}

#[test]
fn contexts_need_structured_replies_and_data_that_add_up() {
    for number in [opt::SET_META_CONTEXT, opt::LIST_META_CONTEXT] {
        let good = context_data("log", &["base:allocation"]);
        assert_eq!(Talk::new().verdict(number, &good), rep::ERR_INVALID, "simple replies");
        let mut talk = Talk::new();
        talk.verdict(opt::STRUCTURED_REPLY, &[]);
        for len in 0..good.len() {
            assert_eq!(talk.verdict(number, &good[..len]), rep::ERR_INVALID, "cut to {len}");
        }
        let unknown = context_data("nothing", &["base:allocation"]);
        assert_eq!(talk.verdict(number, &unknown), rep::ERR_UNKNOWN);
        let many = context_data("log", &vec!["x:"; QUERIES_MAX + 1]);
        assert_eq!(talk.verdict(number, &many), rep::ERR_TOO_BIG);
        let mut lies = context_data("log", &[]);
        let at = lies.len() - 4;
        lies[at..].copy_from_slice(&u32::MAX.to_be_bytes());
        assert_eq!(talk.verdict(number, &lies), rep::ERR_INVALID);
    }
}

#[test]
fn a_wrong_magic_number_ends_the_connection() {
    let mut talk = Talk::new();
    let mut bytes = option(opt::LIST, &[]);
    bytes[3] ^= 1;
    let (_, step) = talk.handshake.step(&talk.exports, &bytes, &mut Vec::new());
    assert!(matches!(step, Step::Close(_)));
    let (_, step) = talk.handshake.step(&talk.exports, &option(opt::LIST, &[]), &mut Vec::new());
    assert!(matches!(step, Step::Close(_)), "closed is closed");
}

#[test]
fn long_data_are_thrown_away_and_very_long_ones_end_the_connection() {
    let mut talk = Talk::new();
    let len = OPTION_DATA_BYTES_MAX + 1;
    let bytes = option(opt::INFO, &vec![7; len]);
    let mut out = Vec::new();
    let (used, step) = talk.handshake.step(&talk.exports, &bytes, &mut out);
    assert_eq!((used, step), (16, Step::Again));
    let (used, step) = talk.handshake.step(&talk.exports, &bytes[16..1000], &mut out);
    assert_eq!((used, step, out.len()), (984, Step::Again, 0));
    assert_eq!(talk.handshake.step(&talk.exports, &[], &mut out), (0, Step::More));
    let (used, _) = talk.handshake.step(&talk.exports, &bytes[1000..], &mut out);
    assert_eq!(used, len - 984);
    assert_eq!(replies(&out, opt::INFO)[0].0, rep::ERR_TOO_BIG);
    assert_eq!(talk.ask(opt::LIST, &[]).0.len(), 4, "the stream is in step");
    let mut head = option(opt::INFO, &[]);
    head[12..].copy_from_slice(&(OPTION_SKIPPED_BYTES_MAX + 1).to_be_bytes());
    let (_, step) = talk.handshake.step(&talk.exports, &head, &mut out);
    assert!(matches!(step, Step::Close(_)));
}

#[test]
fn a_client_cannot_haggle_for_ever() {
    let mut talk = Talk::new();
    for _ in 0..OPTIONS_MAX {
        talk.verdict(77, &[]);
    }
    assert!(matches!(talk.raw(77, &[]).1, Step::Close(_)));
}

/// Greets every client, and takes its words.
struct Greets;

impl Backend for Greets {
    fn size_bytes(&self) -> u64 {
        MIB
    }

    fn submit(&self, _: Submission) {
        unreachable!("pure tests submit nothing");
    }

    fn greet(&self, greeting: &Greeting) -> Option<String> {
        Some(format!("hello={}", greeting.session))
    }
}

#[test]
fn a_client_of_ours_is_greeted_and_others_are_served_as_before() {
    let exports = vec![Export::new("ours", Arc::new(Greets)), Export::new("data", volume(MIB))];
    let exports = Exports::new(exports).unwrap();
    let mut talk = Talk { exports, ..Talk::new() };
    assert_eq!(talk.verdict(opt::STRUCTURED_REPLY, &[]), rep::ACK);
    let query = &["base:allocation", "x-headworks:session=17;more=1"];
    let (replies, _) = talk.ask(opt::SET_META_CONTEXT, &context_data("ours", query));
    let names: Vec<_> = replies.iter().map(|(kind, data)| (*kind, data.get(4..))).collect();
    assert_eq!(
        names,
        [
            (rep::META_CONTEXT, Some(&b"base:allocation"[..])),
            (rep::META_CONTEXT, Some(&b"x-headworks:hello=17"[..])),
            (rep::ACK, None),
        ]
    );
    assert_eq!(talk.handshake.greeting().unwrap().session, "17");
    // Greeted was another export than the one that is taken.
    let (_, step) = talk.ask(opt::GO, &info_data("data", &[]));
    assert!(matches!(step, Step::Agreed(Agreement { export: 1, extension: false, .. })));
    assert!(talk.handshake.greeting().is_none());
    // A volume that does not greet.
    let mut talk = Talk::new();
    assert_eq!(talk.verdict(opt::STRUCTURED_REPLY, &[]), rep::ACK);
    let query = &["x-headworks:session=17"];
    assert_eq!(talk.verdict(opt::SET_META_CONTEXT, &context_data("data", query)), rep::ACK);
}

#[test]
fn where_tls_is_required_nothing_is_told_before_it() {
    let mut talk = Talk::new();
    talk.handshake = Handshake::new(Tls::Required);
    let mut out = Vec::new();
    assert_eq!(talk.handshake.step(&talk.exports, &3_u32.to_be_bytes(), &mut out).1, Step::Again);
    for (number, data) in [
        (opt::LIST, vec![]),
        (opt::GO, info_data("data", &[])),
        (opt::INFO, info_data("data", &[])),
        (opt::STRUCTURED_REPLY, vec![]),
        (opt::SET_META_CONTEXT, context_data("data", &["base:allocation"])),
        (99, vec![]),
    ] {
        assert_eq!(talk.verdict(number, &data), rep::ERR_TLS_REQD, "{number}");
    }
    let (replies, step) = talk.ask(opt::STARTTLS, &[]);
    assert_eq!((replies[0].0, step), (rep::ACK, Step::Secure));
    talk.handshake = talk.handshake.secured();
    assert_eq!(talk.verdict(opt::STARTTLS, &[]), rep::ERR_INVALID);
    let (_, step) = talk.ask(opt::GO, &info_data("data", &[]));
    assert!(matches!(step, Step::Agreed(_)));
    let mut old = Talk::new();
    old.handshake = Handshake::new(Tls::Required);
    assert_eq!(old.handshake.step(&old.exports, &3_u32.to_be_bytes(), &mut out).1, Step::Again);
    assert!(matches!(old.ask(opt::EXPORT_NAME, b"data").1, Step::Close(_)));
}
