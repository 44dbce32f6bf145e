//! The queues and handlers that a region server makes of its settings, as HBase 2.6 computes them.

use crate::hbase::site::Site;

/// Queues of one kind, and the handlers that take from them.
#[derive(Clone, Debug, PartialEq)]
pub struct Queues {
    /// What they are for.
    pub kind: &'static str,
    /// Their number.
    pub queues: i64,
    /// Handlers of all of them.
    pub handlers: i64,
}

/// What a region server makes of its settings.
pub fn of(site: &Site) -> Vec<Queues> {
    let handlers = site.number("hbase.regionserver.handler.count", 30.0).max(1.0) as i64;
    let factor = site.number("hbase.ipc.server.callqueue.handler.factor", 0.1);
    let read = site.number("hbase.ipc.server.callqueue.read.ratio", 0.0);
    let scan = site.number("hbase.ipc.server.callqueue.scan.ratio", 0.0);
    let all = (handlers as f64 * factor).round() as i64;
    if read <= 0.0 {
        return vec![Queues { kind: "all calls", queues: all.max(1), handlers }];
    }
    let handlers = handlers.max(2);
    let queues = all.max(2);
    let writers = |count: i64| (count - ((count as f64 * read).round() as i64).max(1)).max(1);
    let write = Queues {
        kind: "writes",
        queues: writers(queues),
        handlers: writers(queues).max(writers(handlers)),
    };
    let mut read_queues = queues - writers(queues);
    let mut read_handlers = read_queues.max(handlers - writers(handlers));
    let mut found = vec![write];
    let scan_handlers = ((read_handlers as f64 * scan).floor() as i64).max(0);
    if scan_handlers > 0 {
        let scan_queues = ((read_queues as f64 * scan).floor() as i64).max(1);
        read_queues = (read_queues - scan_queues).max(1);
        read_handlers -= scan_handlers;
        found.push(Queues { kind: "scans", queues: scan_queues, handlers: scan_handlers });
    }
    found.push(Queues { kind: "gets", queues: read_queues, handlers: read_handlers });
    found
}

/// Queues that no handler takes from, in words.
pub fn faults(site: &Site) -> Vec<String> {
    let lacks = |queues: &Queues| queues.handlers < queues.queues;
    let words = |queues: Queues| {
        format!(
            "{} of {} queues for {} have no handler: their calls wait until clients give up",
            queues.queues - queues.handlers,
            queues.queues,
            queues.kind
        )
    };
    of(site).into_iter().filter(lacks).map(words).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(values: &[(&str, &str)]) -> Site {
        let property = |(name, value): &(&str, &str)| {
            format!("<property><name>hbase.{name}</name><value>{value}</value></property>")
        };
        let all: String = values.iter().map(property).collect();
        Site::parse(&format!("<configuration>{all}</configuration>")).unwrap()
    }

    #[test]
    fn stock_settings_have_handlers_for_all() {
        assert_eq!(of(&site(&[])), [Queues { kind: "all calls", queues: 3, handlers: 30 }]);
        assert_eq!(
            faults(&site(&[("ipc.server.callqueue.read.ratio", "0.5")])),
            Vec::<String>::new()
        );
        let scans = site(&[
            ("ipc.server.callqueue.read.ratio", "0.5"),
            ("ipc.server.callqueue.scan.ratio", "0.5"),
        ]);
        assert_eq!(faults(&scans), Vec::<String>::new());
    }

    #[test]
    fn ratios_that_leave_a_queue_without_a_handler_are_named() {
        let all_scans = site(&[
            ("ipc.server.callqueue.read.ratio", "0.5"),
            ("ipc.server.callqueue.scan.ratio", "1.0"),
        ]);
        assert_eq!(
            faults(&all_scans),
            ["1 of 1 queues for gets have no handler: their calls wait until clients give up"]
        );
        let many = site(&[
            ("regionserver.handler.count", "20"),
            ("ipc.server.callqueue.handler.factor", "1"),
            ("ipc.server.callqueue.read.ratio", "0.5"),
            ("ipc.server.callqueue.scan.ratio", "0.99"),
        ]);
        assert_eq!(of(&many)[2], Queues { kind: "gets", queues: 1, handlers: 1 });
    }
}
