//! Sites without a gate: their data, their users and their checks.

use std::time::Duration;

use headworks_rig::{LoopKind, mariadb_or_skip, postgres_or_skip};
use headworks_workload::driver::{Report, RunOptions as Driving, Stop};
use headworks_workload::tpcc::Mix;

use super::*;
use crate::apples::figure::{Users, Workload};
use crate::experiment::RunOptions;
use crate::work::Work;

/// Fills a site with little data, starts it again and lets six users work, two of them sensitive
/// ones, once for each workload (`None` is the site's own); then checks the data.
fn serve(site: Site, workloads: &[Option<Workload>]) -> Vec<Report> {
    let name = format!("headworks-site-{}-{}", site.title().replace(' ', "-"), std::process::id());
    let parent = std::env::temp_dir().join(name);
    let options = RunOptions { work: Some(parent.clone()), ..RunOptions::new(&parent) };
    let work = Work::new(&options, 1 << 30).unwrap();
    let place = Place { work: work.path(), quick: true };
    if site.keeps_data() {
        let mut server = site.start(place, &Front::default(), true).unwrap();
        server.fill(&mut || true).unwrap();
        server.stop().unwrap();
    }
    let mut server = site.start(place, &Front::default(), false).unwrap();
    server.make_ready(&mut || true).unwrap();
    let how = Driving {
        users: 6,
        warm_up: Duration::from_millis(200),
        window: Duration::from_secs(1),
        ..Driving::default()
    };
    let reports = workloads
        .iter()
        .map(|&workload| {
            let load =
                Load { sensitive: 2, workload, ..Load::of(Users::Fixed(how.users), Mix::STANDARD) };
            let stop = Stop::default();
            let mut ticks = 0;
            let tick = &mut |_| ticks += 1;
            let drive = Drive { load: &load, how: &how, seed: 1, stop: &stop, tick };
            let report = server.drive(drive).unwrap();
            assert_eq!(report.first_failure, None, "{site:?}, {workload:?}");
            assert!(report.count > 0 && ticks > 0, "{site:?}, {workload:?}");
            report
        })
        .collect();
    server.check().unwrap();
    server.stop().unwrap();
    drop(work);
    let _ = std::fs::remove_dir_all(parent);
    reports
}

/// Statements of a request: with begin and end of its transaction, and more if it was tried again.
fn statements(report: &Report) -> f64 {
    report.users.iter().map(|user| user.requests).sum::<u64>() as f64 / report.count as f64
}

fn sysbench(engine: Engine) {
    let updates = Some(Workload::Sysbench(Oltp::UpdateIndex));
    let reports = serve(Site::Sysbench(engine, Oltp::ReadWrite), &[None, updates]);
    let each: Vec<f64> = reports.iter().map(statements).collect();
    assert!(each[0] >= 19.0 && (0.9..2.0).contains(&each[1]), "{each:?}");
}

#[test]
fn sysbench_on_mariadb() {
    if mariadb_or_skip() {
        sysbench(Engine::MariaDb);
    }
}

#[test]
fn sysbench_on_postgresql() {
    if postgres_or_skip() {
        sysbench(Engine::PostgreSql);
    }
}

/// The kinds of requests that were made.
fn kinds(report: &Report) -> Vec<&str> {
    let made = report.kinds.iter().filter(|kind| kind.count > 0);
    made.map(|kind| kind.name.as_str()).collect()
}

fn ycsb(site: Site) {
    let reports = serve(site, &[None, Some(Workload::Ycsb(Core::F))]);
    assert_eq!(kinds(&reports[0]), ["read", "update"]);
    assert_eq!(kinds(&reports[1]), ["read", "read-modify-write"]);
}

#[test]
fn ycsb_on_redis() {
    if LoopKind::Redis.is_here_or_skip() {
        ycsb(Site::Redis(Core::A));
    }
}

#[test]
fn ycsb_on_memcached() {
    if LoopKind::Memcached.is_here_or_skip() {
        ycsb(Site::Memcached(Core::A));
    }
}

#[test]
fn ycsb_on_mongodbs_protocol() {
    if LoopKind::MongoJava.is_here_or_skip() {
        ycsb(Site::MongoDb(Core::A));
    }
}

#[test]
fn sites_say_what_they_are() {
    let sysbench = Site::Sysbench(Engine::PostgreSql, Oltp::ReadOnly);
    assert_eq!(sysbench.title(), "sysbench oltp_read_only on PostgreSQL");
    assert_eq!(sysbench.family(), "sysbench OLTP on PostgreSQL");
    assert_eq!(Site::MariaDb.title(), Site::MariaDb.family());
    assert_eq!(Site::Redis(Core::A).family(), "YCSB on Redis");
}
