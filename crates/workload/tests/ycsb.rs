//! YCSB against real servers.

use std::time::Duration;

use headworks_rig::{LoopKind, LoopServer};
use headworks_workload::db::ErrorKind;
use headworks_workload::driver::{self, Progress, Report, RunOptions, Stop};
use headworks_workload::ycsb::{
    Address, Change, Core, Key, Record, Records, User, UserOptions, load,
};

const RECORDS: u64 = 500;
const SEED: u64 = 9;

fn server(kind: LoopKind) -> Option<(LoopServer, Address)> {
    if !kind.is_here_or_skip() {
        return None;
    }
    let server = LoopServer::builder(kind).start().unwrap();
    let scheme = match kind {
        LoopKind::Redis => "redis",
        LoopKind::Memcached => "memcached",
        LoopKind::MongoJava => "mongodb",
    };
    let address = format!("{scheme}://127.0.0.1:{}", server.port()).parse().unwrap();
    Some((server, address))
}

fn loaded(address: &Address) {
    let mut told = 0;
    load(address, RECORDS, SEED, 2, &mut |there| {
        assert!(told <= there && there <= RECORDS);
        told = there;
        true
    })
    .unwrap();
}

/// What is written is what is read.
fn keeps(address: &Address) {
    let mut store = address.connect().unwrap();
    for number in (0..RECORDS).step_by(50) {
        let record = store.read(Key::of(number)).unwrap();
        assert_eq!(record, Some(Record::loaded(SEED, number)), "{number}");
    }
    assert_eq!(store.read(Key::of(RECORDS)).unwrap(), None);
    let change = Change { field: 3, value: b"other".to_vec() };
    store.update(Key::of(7), &change).unwrap();
    let mut record = Record::loaded(SEED, 7);
    record.0[3] = change.value.clone();
    assert_eq!(store.read(Key::of(7)).unwrap().as_ref(), Some(&record));
    // An insert that is tried again is no error, and neither loses what is there nor doubles it.
    record = Record::loaded(SEED, 8);
    store.insert(&[(Key::of(8), &record)]).unwrap();
    assert_eq!(store.read(Key::of(8)).unwrap(), Some(record));
    let error = store.update(Key::of(RECORDS + 1), &change).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Data, "{error}");
}

/// A scan has the records that follow, in the order of their keys.
fn scans(address: &Address) {
    let mut store = address.connect().unwrap();
    let mut keys: Vec<(Key, u64)> = (0..RECORDS).map(|number| (Key::of(number), number)).collect();
    keys.sort();
    let expect = |from: usize, count: usize| -> Vec<Record> {
        let numbers = keys.iter().skip(from).take(count);
        numbers.map(|&(_, number)| Record::loaded(SEED, number)).collect()
    };
    assert_eq!(store.scan(keys[100].0, 20).unwrap(), expect(100, 20));
    assert_eq!(store.scan(keys[RECORDS as usize - 5].0, 20).unwrap(), expect(495, 20));
    assert_eq!(store.scan(keys[0].0, 1).unwrap(), expect(0, 1));
}

fn run(address: &Address, core: Core, records: &Records) -> Report {
    run_for(Duration::from_millis(900), address, core, records, &mut |_| {})
}

fn run_for(
    window: Duration,
    address: &Address,
    core: Core,
    records: &Records,
    observer: &mut dyn FnMut(&Progress),
) -> Report {
    let options =
        UserOptions { core, popularity: core.popularity(), records: records.clone(), seed: 3 };
    let how = RunOptions {
        users: 6,
        warm_up: Duration::from_millis(100),
        window,
        ..RunOptions::default()
    };
    let connect = |number: usize| User::connect(address, &options, number);
    driver::run(&how, User::KINDS, &connect, &Stop::default(), observer).unwrap()
}

/// Workloads, one after the other on the same records. An update is so many requests, at least.
fn serves(address: &Address, cores: &[Core], update: u64) {
    let records = Records::loaded(RECORDS);
    for &core in cores {
        let before = records.there();
        let report = run(address, core, &records);
        assert_eq!(report.first_failure, None, "{core}: {:?}", report.failures);
        assert!(report.users.len() == 6 && report.users.iter().all(|user| user.count > 0));
        for (kind, share) in report.kinds.iter().zip(core.mix()) {
            assert!((share > 0) || kind.count == 0, "{core}: {} {}", kind.count, kind.name);
            if share >= 50 {
                assert!(kind.count > 0 && kind.latency.p50_us > 0, "{core}: no {}", kind.name);
            }
        }
        let requests: u64 = report.users.iter().map(|user| user.requests).sum();
        match core {
            Core::A | Core::B | Core::C if update == 1 => assert_eq!(requests, report.count),
            Core::C => assert_eq!(requests, report.count),
            // Half of them are updates. Who comes too late with one reads again.
            Core::A => assert!(requests > report.count && requests < 3 * report.count),
            // Half of them have a read before it.
            Core::F => assert!(requests > report.count && requests < (1 + update) * report.count),
            _ => {}
        }
        let inserts = core.mix()[2] > 0;
        assert_eq!(records.there() > before, inserts, "{core}: {before}, {}", records.there());
        println!("{core}: {:.0}/s, P99 {} us", report.per_s, report.latency.p99_us);
    }
    let mut store = address.connect().unwrap();
    for number in RECORDS..records.there() {
        assert!(store.read(Key::of(number)).unwrap().is_some(), "{number} was acknowledged");
    }
}

#[test]
fn redis() {
    let Some((_server, address)) = server(LoopKind::Redis) else { return };
    loaded(&address);
    scans(&address);
    keeps(&address);
    serves(&address, &Core::ALL, 1);
}

#[test]
fn mongodb() {
    let Some((_server, address)) = server(LoopKind::MongoJava) else { return };
    loaded(&address);
    scans(&address);
    keeps(&address);
    serves(&address, &Core::ALL, 1);
}

#[test]
fn memcached() {
    let Some((_server, address)) = server(LoopKind::Memcached) else { return };
    loaded(&address);
    keeps(&address);
    // Keys have no order there, so that E cannot ask for those that follow.
    serves(&address, &[Core::A, Core::B, Core::C, Core::D, Core::F], 2);
    let error = address.connect().unwrap().scan(Key::of(1), 5).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Usage);
}

/// Two who change different fields of a record at the same time change both.
#[test]
fn no_update_of_a_value_is_lost() {
    let Some((_server, address)) = server(LoopKind::Memcached) else { return };
    loaded(&address);
    std::thread::scope(|scope| {
        for field in 0..4 {
            let address = &address;
            scope.spawn(move || {
                let mut store = address.connect().unwrap();
                for value in 0..200 {
                    let change = Change { field, value: format!("{field}-{value}").into_bytes() };
                    store.update(Key::of(3), &change).unwrap();
                }
            });
        }
    });
    let record = address.connect().unwrap().read(Key::of(3)).unwrap().unwrap();
    for field in 0..4 {
        assert_eq!(record.0[field], format!("{field}-199").into_bytes());
    }
}

/// Users of a store are known by their account in Redis, and by their application's name in
/// MongoDB's protocol.
#[test]
fn users_say_who_they_are() {
    if LoopKind::Redis.is_here_or_skip() {
        let acl = ["--user", "ls", "on", "nopass", "~*", "&*", "+@all"];
        let server = LoopServer::builder(LoopKind::Redis).options(acl).start().unwrap();
        let host = server.address();
        let named: Address = format!("redis://ls:any@{host}").parse().unwrap();
        let nameless: Address = format!("redis://{host}").parse().unwrap();
        let _stores = [named, nameless].map(|address| address.connect().unwrap());
        let client = redis::Client::open(format!("redis://{host}")).unwrap();
        let list: String =
            redis::cmd("CLIENT").arg("LIST").query(&mut client.get_connection().unwrap()).unwrap();
        let of = |user: &str| list.lines().filter(|line| line.contains(user)).count();
        assert_eq!((of(" user=ls "), of(" user=default ")), (1, 2), "{list}");
    }
    if let Some((server, _)) = server(LoopKind::MongoJava) {
        let address = format!("mongodb://127.0.0.1:{}/ycsb?appName=ls", server.port());
        let address: Address = address.parse().unwrap();
        loaded(&address);
        keeps(&address);
    }
}

/// A server that goes away under way is an error that is counted, not a panic or a hang.
#[test]
fn a_killed_server_is_survived() {
    let Some((server, address)) = server(LoopKind::Redis) else { return };
    loaded(&address);
    let mut server = Some(server);
    let records = Records::loaded(RECORDS);
    let report = run_for(Duration::from_secs(5), &address, Core::A, &records, &mut |progress| {
        if let Some(mut server) = server.take_if(|_| progress.answered > 10) {
            server.end(libc::SIGKILL, Duration::from_secs(60)).unwrap();
        }
    });
    assert!(report.retries.contains_key(&ErrorKind::Connection) || report.first_failure.is_some());
}

#[test]
fn addresses_that_are_none() {
    for bad in ["", "mysql://x:1", "redis://[", "mongodb://x", "memcached://x"] {
        assert_eq!(bad.parse::<Address>().unwrap_err().kind, ErrorKind::Usage, "{bad}");
    }
    let absent: Address = "redis://127.0.0.1:1".parse().unwrap();
    assert_eq!(absent.connect().err().unwrap().kind, ErrorKind::Connection);
}
