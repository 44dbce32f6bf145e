//! The value of `LD_PRELOAD`: our library among those of the caller, whose order is kept.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Runtimes of AddressSanitizer. One that is not the first library of all ends its program.
const FIRST: [&str; 3] = ["libasan.so", "libclang_rt.asan", "libclang_rt.hwasan"];

/// Keeps the runtime from ending a program that is linked to it: our library is loaded before the
/// libraries that a program names. It works all the same, as our hooks call its functions.
pub const SANITIZER_OPTIONS: (&str, &str) = ("ASAN_OPTIONS", "verify_asan_link_order=0");

/// Our library before the caller's, but after those that must be the first ones.
pub fn among(ours: &Path, others: &OsStr) -> OsString {
    let others = others.as_bytes();
    // The loader separates by both.
    let is_separator = |byte: &u8| b": ".contains(byte);
    let mut at = 0;
    while at < others.len() {
        let len = others[at..].iter().position(is_separator).unwrap_or(others.len() - at);
        let name = others[at..at + len].rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        if len > 0 && !FIRST.iter().any(|first| name.starts_with(first.as_bytes())) {
            break;
        }
        at = (at + len + 1).min(others.len());
    }
    let parts = [&others[..at], ours.as_os_str().as_bytes(), &others[at..]];
    let trimmed = parts.map(|part| {
        let from = part.iter().position(|byte| !is_separator(byte)).unwrap_or(part.len());
        let to = part.iter().rposition(|byte| !is_separator(byte)).map_or(from, |last| last + 1);
        &part[from..to]
    });
    let list: Vec<&[u8]> = trimmed.into_iter().filter(|part| !part.is_empty()).collect();
    OsStr::from_bytes(&list.join(&b':')).to_owned()
}

/// Adds options to those that the caller has. Later ones count.
pub fn with_options(others: Option<OsString>, options: &str) -> OsString {
    let mut all = others.filter(|others| !others.is_empty()).unwrap_or_default();
    if !all.is_empty() {
        all.push(":");
    }
    all.push(options);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_runtime_that_must_be_first_is_and_the_others_keep_their_order() {
        let ours = Path::new("/o/libheadworks.so");
        for (others, expected) in [
            ("", "/o/libheadworks.so"),
            (" : ", "/o/libheadworks.so"),
            ("/l/libjemalloc.so.2:libx.so", "/o/libheadworks.so:/l/libjemalloc.so.2:libx.so"),
            ("b.so a.so", "/o/libheadworks.so:b.so a.so"),
            ("/l/libasan.so.8", "/l/libasan.so.8:/o/libheadworks.so"),
            (":libasan.so.8 x.so:y.so", "libasan.so.8:/o/libheadworks.so:x.so:y.so"),
            (
                "/c/libclang_rt.asan-x86_64.so:x.so",
                "/c/libclang_rt.asan-x86_64.so:/o/libheadworks.so:x.so",
            ),
            ("x.so:libasan.so.8", "/o/libheadworks.so:x.so:libasan.so.8"),
        ] {
            assert_eq!(among(ours, OsStr::new(others)), expected, "{others}");
        }
    }

    #[test]
    fn options_of_the_caller_stay() {
        assert_eq!(with_options(None, "b=0"), "b=0");
        assert_eq!(with_options(Some("a=1".into()), "b=0"), "a=1:b=0");
    }
}
