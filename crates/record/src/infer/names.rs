//! Names of threads and functions, as stages need them.

/// A thread's name without what tells threads of one stage apart: numbers, and what follows "for",
/// "at", a bracket or a colon with a space.
pub fn normalised(name: &str) -> String {
    let mut end = name.len();
    for mark in [" for ", " at ", " [", ": ", "@", "(", " from ", " to "] {
        if let Some(at) = name.find(mark)
            && at > 0
        {
            end = end.min(at);
        }
    }
    // The kernel keeps 15 characters of a name: it may end there.
    for mark in [" for", " at", " from", " to", ":"] {
        end = end.min(name[..end].strip_suffix(mark).map_or(end, str::len));
    }
    let mut out = String::new();
    for c in name[..end].chars() {
        // The kernel's side writes one for each digit.
        if c.is_ascii_digit() || c == '#' {
            if !out.ends_with('#') {
                out.push('#');
            }
        } else {
            out.push(c);
        }
    }
    // `#.#.#.#:#`: an address and a port.
    while let Some(at) = out.find("#.#") {
        out.replace_range(at..at + 3, "#");
    }
    out.replace("#:#", "#").trim().to_owned()
}

/// The word for a stage in a file: lower case, joined by hyphens.
pub fn word(name: &str) -> String {
    let mut out = String::new();
    for c in name.chars() {
        if c.is_ascii_alphanumeric() {
            out.push(c.to_ascii_lowercase());
        } else if !out.is_empty() && !out.ends_with('-') {
            out.push('-');
        }
    }
    let word = out.trim_end_matches('-');
    if word.is_empty() { "stage".to_owned() } else { word.chars().take(48).collect() }
}

/// A function without its arguments and template arguments.
pub fn short(function: &str) -> String {
    let mut out = String::new();
    let mut depth = 0u32;
    for c in function.replace("(anonymous namespace)::", "").chars() {
        match c {
            '<' => depth += 1,
            '>' => depth = depth.saturating_sub(1),
            // Go's methods have their type in parentheses.
            '(' if depth == 0 && !out.is_empty() && !out.ends_with('.') => break,
            c if depth == 0 => out.push(c),
            _ => {}
        }
    }
    // The return type that templates carry.
    let out = out.rsplit(' ').next().unwrap_or("").to_owned();
    if out.is_empty() { function.to_owned() } else { out }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_one_stage_are_alike() {
        for (name, alike) in [
            ("sync.4", "sync.#"),
            (
                "RpcServer.default.FPBQ.Fifo.handler=29,queue=2,port=16020",
                "RpcServer.default.FPBQ.Fifo.handler=#,queue=#,port=#",
            ),
            ("DataStreamer for file /hbase/WALs/x", "DataStreamer"),
            (
                "DataXceiver for client DFSClient_1 at /127.0.0.1:59440 [Sending block]",
                "DataXceiver",
            ),
            ("regionserver/127.0.0.1:16020.logRoller", "regionserver/#.logRoller"),
            ("PacketResponder: BP-1-127.0.0.1:blk_1, type=LAST", "PacketResponder"),
            ("worker", "worker"),
            ("DataXceiver for", "DataXceiver"),
            ("12", "#"),
            // As the kernel's side writes it.
            ("job-##", "job-#"),
        ] {
            assert_eq!(normalised(name), alike);
        }
    }

    #[test]
    fn a_word_can_be_a_name_in_a_file() {
        assert_eq!(word("RpcServer.default#"), "rpcserver-default");
        assert_eq!(word("###"), "stage");
    }

    #[test]
    fn functions_are_shown_without_arguments() {
        assert_eq!(short("void stage_fn<3>(Stage*)"), "stage_fn");
        assert_eq!(
            short("tpool::thread_pool_generic::worker_main(tpool::worker_data*)"),
            "tpool::thread_pool_generic::worker_main"
        );
        assert_eq!(short("server::stage_3"), "server::stage_3");
        assert_eq!(short("node::(anonymous namespace)::Worker(void*)"), "node::Worker");
        assert_eq!(short("mariadbd!77f3a0"), "mariadbd!77f3a0");
    }
}
