//! Our own client: it survives a restart, and its requests carry the tags of applications.

use crate::load::Load;
use crate::rig::Rig;
use headworks_policy::block::{BlockScheduler, Quanta, Sfq, Share, sfq};
use headworks_volume::store::Store;
use headworks_volume::store::nbd::{Address, Nbd};
use headworks_volume::{Engine, EngineConfig};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const MIB: u64 = 1 << 20;

pub fn open(rig: &Rig, export: &str, size: u64) -> Nbd {
    Nbd::open(Address::parse(&rig.uri(export)).unwrap(), size, 512).unwrap()
}

/// A client of ours without a queue, that asks for so much at a time.
pub fn client(rig: &Rig, name: &str, outstanding: usize) -> Load {
    let store = Arc::new(open(rig, name, 256 * MIB));
    let engine = Arc::new(Engine::start(EngineConfig::raw(store)).unwrap());
    Load::start(&engine, 0, outstanding, 256 * MIB)
}

#[test]
fn a_restart_is_a_pause_also_for_writes_that_were_not_flushed() {
    let mut rig = Rig::new("[[volume]]\nname = \"a\"\npath = \"DIR/a\"\n");
    rig.file("a", 8 * MIB);
    rig.serve();
    let store = open(&rig, "a", 8 * MIB);
    let ends = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4u64)
            .map(|part| {
                let (store, ends) = (&store, &ends);
                // Each its own part of the volume: every block has the number of its last write.
                scope.spawn(move || {
                    let mut last = [0u8; 64];
                    let mut count = 0u64;
                    while !ends.load(Ordering::Relaxed) {
                        count += 1;
                        let block = count.wrapping_mul(7) % 64;
                        last[block as usize] = count as u8;
                        let at = part * 2 * MIB + 4096 * block;
                        store.write(at, &[count as u8; 4096], false).unwrap();
                    }
                    for (block, byte) in last.iter().enumerate() {
                        let mut found = [0; 4096];
                        store.read(part * 2 * MIB + 4096 * block as u64, &mut found).unwrap();
                        assert!(found.iter().all(|found| found == byte), "part {part}, {block}");
                    }
                    count
                })
            })
            .collect();
        for pause_ms in [10, 2_000, 300] {
            std::thread::sleep(Duration::from_millis(300));
            rig.kill();
            std::thread::sleep(Duration::from_millis(pause_ms));
            rig.serve();
        }
        std::thread::sleep(Duration::from_millis(300));
        ends.store(true, Ordering::Relaxed);
        assert!(threads.into_iter().all(|thread| thread.join().unwrap() > 0));
    });
    assert_eq!(store.trouble(), None);
}

/// Every request fails from here on, and the reason and the way out are said.
fn has_other_bytes(store: &Nbd) {
    for _ in 0..2 {
        let errors =
            [store.read(0, &mut [0; 4096]), store.write(0, &[3; 4096], true), store.flush()];
        for error in errors {
            assert_eq!(error.unwrap_err().raw_os_error(), Some(libc::EIO));
        }
    }
    let trouble = store.trouble().unwrap();
    assert!(trouble.contains("other bytes") && trouble.contains("volume umount"), "{trouble}");
}

#[test]
fn a_volume_whose_bytes_are_others_is_no_pause() {
    for flushed in [false, true] {
        let mut rig = Rig::new("[[volume]]\nname = \"m\"\npath = \"memory\"\nsize = \"1MiB\"\n");
        rig.serve();
        let store = open(&rig, "m", MIB);
        store.write(0, &[1; 4096], flushed).unwrap();
        rig.kill();
        rig.serve();
        has_other_bytes(&store);
        // Who opens it then takes it as it is.
        open(&rig, "m", MIB).read(0, &mut [0; 4096]).unwrap();
    }
}

#[test]
fn a_name_that_leads_to_another_file_after_a_reload_is_no_pause() {
    let volume = |file| format!("[[volume]]\nname = \"v\"\npath = \"DIR/{file}\"\n");
    let mut rig = Rig::new(&volume("a"));
    rig.file("a", MIB);
    rig.file("b", MIB);
    rig.serve();
    let store = open(&rig, "v", MIB);
    store.write(0, &[1; 4096], true).unwrap();
    // The same file by another path goes on.
    std::fs::hard_link(rig.dir.join("a"), rig.dir.join("also")).unwrap();
    rig.kill();
    rig.configure(&volume("also"));
    rig.serve();
    let mut found = [0; 4096];
    store.read(0, &mut found).unwrap();
    assert_eq!(found, [1; 4096]);
    rig.configure(&volume("b"));
    rig.ok(&["reload"]);
    has_other_bytes(&store);
    // What went elsewhere by mistake would be in it.
    assert!(std::fs::read(rig.dir.join("b")).unwrap().iter().all(|byte| *byte == 0));
}

#[test]
fn a_file_that_was_replaced_while_the_store_was_away_is_no_pause() {
    let mut rig = Rig::new("[[volume]]\nname = \"v\"\npath = \"DIR/a\"\n");
    rig.file("a", MIB);
    rig.serve();
    let store = open(&rig, "v", MIB);
    store.write(0, &[1; 4096], true).unwrap();
    rig.kill();
    std::fs::remove_file(rig.dir.join("a")).unwrap();
    // Often with the same inode.
    rig.file("a", MIB);
    rig.serve();
    has_other_bytes(&store);
}

#[test]
fn a_store_on_another_server_passes_on_whose_bytes_they_are() {
    let mut under = Rig::new("[[volume]]\nname = \"u\"\npath = \"DIR/u\"\n");
    under.file("u", MIB);
    under.serve();
    let volume =
        format!("[[volume]]\nname = \"v\"\npath = \"{}\"\nsize = \"1MiB\"\n", under.uri("u"));
    let mut rig = Rig::start(&volume);
    let store = open(&rig, "v", MIB);
    store.write(0, &[1; 4096], true).unwrap();
    rig.kill();
    rig.serve();
    let mut found = [0; 4096];
    store.read(0, &mut found).unwrap();
    assert_eq!(found, [1; 4096]);
    rig.kill();
    under.kill();
    std::fs::remove_file(under.dir.join("u")).unwrap();
    under.file("u", MIB);
    under.serve();
    rig.serve();
    has_other_bytes(&store);
}

/// Four applications on two hosts, with fractions of their hosts, and of the store.
const FOUR: &str = "\
[device]
kind = \"array\"
disks = 15
depth = 12
model = \"disks\"
[[volume]]
name = \"h0\"
path = \"memory\"
size = \"256MiB\"
[[volume]]
name = \"h1\"
path = \"memory\"
size = \"256MiB\"
";

fn application(name: &str, host: usize, share: f64) -> String {
    format!(
        "[[application]]\nname = \"{name}\"\nvolume = \"h{host}\"\ntagged = true\nshare = {share}\n"
    )
}

/// A host: its queue, whose depth is more than twice the store's, and its volume.
fn host(rig: &Rig, number: usize, quanta: bool) -> Arc<Engine> {
    let store = open(rig, &format!("h{number}"), 256 * MIB);
    let (first, second) = (2 * number, 2 * number + 1);
    let note = format!("{{\"tags\":{{\"1\":\"a{first}\",\"2\":\"a{second}\",\"3\":\"a9\"}}}}");
    let answer = store.note(note.as_bytes()).expect("a store of ours");
    let answer: serde_json::Value = serde_json::from_slice(&answer).unwrap();
    assert_eq!(answer["grants"].as_array().unwrap().len(), 3, "{answer}");
    let limits = headworks_policy::block::table::Limits { sectors: 0 };
    let settings = sfq::Settings { depth: 32, limits, ..sfq::Settings::flash() };
    let scheduler: Box<dyn BlockScheduler> =
        if quanta { Box::new(Quanta::default()) } else { Box::new(Sfq::new(settings)) };
    let scheduler = Some(scheduler);
    let config =
        EngineConfig { store: Arc::new(store), model: None, scheduler, layers: Vec::new() };
    Arc::new(Engine::start(config).unwrap())
}

/// Use of the device ÷ product of the fractions, of each application.
fn ratios(quanta: bool, (p, q): (f64, f64), seconds: f64) -> Vec<f64> {
    let products = [p * q, (1.0 - p) * q, 0.5 * (1.0 - q), 0.5 * (1.0 - q)];
    let apps = products.iter().enumerate();
    let scheduler = if quanta { "depth = 12\nscheduler = \"quanta\"\n" } else { "depth = 12\n" };
    let rig = Rig::start(
        &(FOUR.replace("depth = 12\n", scheduler)
            + &apps
                .map(|(at, share)| application(&format!("a{at}"), at / 2, *share))
                .collect::<String>()),
    );
    let hosts = [host(&rig, 0, quanta), host(&rig, 1, quanta)];
    let fractions = [p, 1.0 - p, 0.5, 0.5];
    let loads: Vec<Load> = (0..4)
        .map(|at| {
            let tag = 1 + (at % 2) as u16;
            let share = Share { weight: (fractions[at] * 1e6) as u32, best_effort: false };
            hosts[at / 2].set_share(u32::from(tag), Some(share));
            Load::start(&hosts[at / 2], tag, 100, 256 * MIB)
        })
        .collect();
    std::thread::sleep(Duration::from_secs(2));
    let before: Vec<u64> = loads.iter().map(Load::done).collect();
    std::thread::sleep(Duration::from_secs_f64(seconds));
    let counts: Vec<f64> =
        loads.iter().zip(&before).map(|(load, before)| (load.done() - before) as f64).collect();
    drop(loads);
    let all: f64 = counts.iter().sum();
    counts.iter().zip(products).map(|(count, product)| count / all / product).collect()
}

#[test]
fn fractions_of_two_levels_multiply_on_the_real_stack() {
    let settings = match std::env::var("HEADWORKS_STORE_SECONDS") {
        Ok(_) => vec![
            (0.9, 0.9),
            (0.7, 0.7),
            (0.5, 0.5),
            (0.9, 0.5),
            (0.5, 0.9),
            (0.3, 0.5),
            (0.1, 0.5),
            (0.3, 0.3),
        ],
        Err(_) => vec![(0.7, 0.7), (0.3, 0.5)],
    };
    let seconds =
        std::env::var("HEADWORKS_STORE_SECONDS").map_or(4.0, |text| text.parse().unwrap());
    for (p, q) in settings {
        let ratios = ratios(false, (p, q), seconds);
        println!("{p} {q}: {ratios:.2?}");
        assert!(ratios.iter().all(|ratio| (0.8..1.25).contains(ratio)), "{p} {q}: {ratios:?}");
    }
}

#[test]
fn stacked_quanta_do_not_multiply_on_the_real_stack() {
    let ratios = ratios(true, (0.3, 0.5), 4.0);
    println!("quanta, 0.3 0.5: {ratios:.2?}");
    // 0.01 in simulation: a small share starves.
    assert!(ratios.iter().any(|ratio| *ratio < 0.75), "{ratios:?}");
}

#[test]
fn tags_count_for_applications_of_the_same_volume_alone() {
    let rig = Rig::start(
        "[[volume]]\nname = \"v\"\npath = \"memory\"\nsize = \"1MiB\"\n\
         [[volume]]\nname = \"w\"\npath = \"memory\"\nsize = \"1MiB\"\n\
         [[application]]\nname = \"one\"\nvolume = \"v\"\ntagged = true\n\
         [[application]]\nname = \"other\"\nvolume = \"w\"\ntagged = true\n",
    );
    let store = open(&rig, "v", MIB);
    store.note(br#"{"tags":{"1":"one","2":"other"}}"#).unwrap();
    let scheduler = Some(Box::new(Sfq::default()) as _);
    let config =
        EngineConfig { store: Arc::new(store), model: None, scheduler, layers: Vec::new() };
    let engine = Arc::new(Engine::start(config).unwrap());
    for tag in [0, 1, 2, 3] {
        let load = Load::start(&engine, tag, 1, MIB);
        crate::rig::until("one is done", || load.done() > 0);
    }
    let reads = |name: &str| rig.app(name)["ios"][0].as_u64().unwrap();
    assert!(reads("one") > 0 && reads("v") > 0);
    assert_eq!((reads("other"), reads("w")), (0, 0));
}
