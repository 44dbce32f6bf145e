//! What `headworks run` says of a program whose traffic the gate may not see.

use crate::cli::Run;
use crate::preflight::Binary;
use crate::profile::{GENERIC, Profile};

/// Warns of traffic that the gate will not see.
pub(super) fn warn(args: &Run, profile: &Profile, binary: &Binary, files_only: bool) {
    let program = binary.path().display();
    if binary.calls_the_kernel() {
        eprintln!(
            "headworks: warning: {program} is written in Go and makes its own system calls: neither its clients nor \
             its files are governed"
        );
        return;
    }
    if files_only {
        return;
    }
    let expected = profile.name == GENERIC && args.profile.is_none();
    if expected {
        eprintln!(
            "headworks: warning: no profile knows {program}: if it starts a server that a profile knows, that profile is \
             taken; otherwise a request is taken to be data that arrives after an answer, and neither clients' names nor \
             transactions are seen; try it first: --mode dry-run; no warning: --profile {GENERIC}; \
             others: headworks profile list"
        );
    }
    let lacks = |calls: &[String]| !calls.is_empty() && binary.calls_one_of(calls) == Some(false);
    let (receive, send) = (&profile.calls.receive, &profile.calls.send);
    let lacking = [(receive, "receive", "request"), (send, "send", "answer")];
    let lacking = lacking.into_iter().filter(|(calls, ..)| lacks(calls));
    // One that does neither is probably a wrapper.
    if expected && lacking.clone().count() == 2 {
        return;
    }
    for (calls, does, unseen) in lacking {
        eprintln!(
            "headworks: warning: {program} itself calls nothing to {does} ({}): unless one of its libraries does, the \
             gate sees no {unseen}",
            few(calls)
        );
    }
}

/// The first of these names, and how many others there are.
pub fn few<T: AsRef<str>>(names: &[T]) -> String {
    const FEW: usize = 4;
    let shown: Vec<&str> = names.iter().take(FEW).map(AsRef::as_ref).collect();
    let shown = shown.join(", ");
    match names.len().saturating_sub(FEW) {
        0 => shown,
        others => format!("{shown} and {others} others"),
    }
}
