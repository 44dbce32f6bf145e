//! Arbitrary talk of clients that say they are ours: negotiation, tags and notes.

use crate::raw::{NOTE, READ, Raw, WRITE};
use crate::rig::{Random, Rig, resident_mib, times, until};
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::time::Duration;

const OPTIONS: [u32; 10] = [1, 2, 3, 6, 7, 8, 9, 10, 11, 5];
const WORDS: [&str; 12] = [
    "x-headworks:session=s",
    "x-headworks:",
    "x-headworks:session=;application=orders",
    "base:allocation",
    "{\"tags\":{\"1\":\"orders\",\"65535\":\"other\"}}",
    "{\"tags\":{\"70000\":\"orders\"}}",
    "{\"posts\":[{\"application\":\"orders\",\"achieved\":1e999}]}",
    "{\"posts\":[{\"application\":\"orders\",\"achieved\":-5,\"ask\":1e300,\"age_ms\":18446744073709551615}]}",
    "{\"posts\":[{\"application\":\"other\",\"achieved\":0,\"ask\":0.9}]}",
    "[[[[[[[[[[[[[[[[",
    "\0\u{7f}",
    "v",
];

fn words(random: &mut Random) -> Vec<u8> {
    let mut bytes = WORDS[random.below(WORDS.len() as u64) as usize].as_bytes().to_vec();
    while random.below(3) == 0 && !bytes.is_empty() {
        let at = random.below(bytes.len() as u64) as usize;
        bytes[at] ^= 1 << random.below(8);
    }
    bytes
}

fn text(bytes: &[u8]) -> Vec<u8> {
    [&(bytes.len() as u32).to_be_bytes()[..], bytes].concat()
}

fn option(random: &mut Random) -> Vec<u8> {
    let number = OPTIONS[random.below(OPTIONS.len() as u64) as usize];
    let data = match number {
        9 | 10 => {
            let mut data = text(b"v");
            let count = random.below(4);
            data.extend((count as u32).to_be_bytes());
            (0..count).for_each(|_| data.extend(text(&words(random))));
            data
        }
        6 | 7 => [text(b"v"), vec![0, 0]].concat(),
        1 => b"v".to_vec(),
        _ if random.below(3) == 0 => words(random),
        _ => Vec::new(),
    };
    let len = if random.below(12) == 0 { random.below(1 << 33) as u32 } else { data.len() as u32 };
    [&b"IHAVEOPT"[..], &number.to_be_bytes(), &len.to_be_bytes(), &data].concat()
}

fn request(random: &mut Random) -> Vec<u8> {
    let command = match random.below(8) {
        0..4 => NOTE,
        4 | 5 => WRITE,
        6 => READ,
        _ => random.below(1 << 16) as u16,
    };
    let payload = match command {
        NOTE => words(random),
        WRITE => vec![1; 4096],
        _ => Vec::new(),
    };
    let len = if command == READ { 4096 } else { payload.len() as u32 };
    let len = if random.below(15) == 0 { random.below(1 << 33) as u32 } else { len };
    // A note has no offset.
    let offset = if command == NOTE && random.below(8) > 0 { 0 } else { 4096 * random.below(300) };
    let mut bytes = 0x2560_9513_u32.to_be_bytes().to_vec();
    bytes.extend((random.below(16).saturating_sub(12) as u16).to_be_bytes());
    bytes.extend(command.to_be_bytes());
    // Any tag.
    bytes.extend((random.below(1 << 31) << 33 | random.below(1 << 31)).to_be_bytes());
    bytes.extend(offset.to_be_bytes());
    bytes.extend(len.to_be_bytes());
    bytes.extend(payload);
    bytes
}

#[test]
fn arbitrary_negotiation_tags_and_notes_harm_no_other() {
    let rig = Rig::start(
        "[[volume]]\nname = \"v\"\npath = \"memory\"\nsize = \"1MiB\"\n\
         [[volume]]\nname = \"safe\"\npath = \"memory\"\nsize = \"1MiB\"\n\
         [[application]]\nname = \"orders\"\nvolume = \"v\"\ntagged = true\ntarget = 100\n\
         [[application]]\nname = \"other\"\nvolume = \"safe\"\ntarget = 100\n",
    );
    let mut safe = Raw::open(&rig.socket(), "safe");
    safe.write(0, 77);
    let before = resident_mib(rig.pid());
    let mut random = Random(times("HEADWORKS_SEED", 5));
    for case in 0..times("HEADWORKS_STORE_CASES", 600) {
        let mut socket = UnixStream::connect(rig.socket()).unwrap();
        socket.set_write_timeout(Some(Duration::from_secs(5))).unwrap();
        let mut bytes = 3_u32.to_be_bytes().to_vec();
        if random.below(2) == 0 {
            // A proper greeting of ours, so that notes and tags get through.
            let query = [text(b"v"), 1_u32.to_be_bytes().to_vec(), text(b"x-headworks:session=q")];
            let go = [text(b"v"), vec![0, 0]].concat();
            for (number, data) in [(8_u32, Vec::new()), (10, query.concat()), (7, go)] {
                bytes.extend(b"IHAVEOPT");
                bytes.extend(number.to_be_bytes());
                bytes.extend(text(&data));
            }
        } else {
            (0..random.below(6)).for_each(|_| bytes.extend(option(&mut random)));
        }
        (0..random.below(12)).for_each(|_| bytes.extend(request(&mut random)));
        while random.below(4) == 0 {
            let at = random.below(bytes.len() as u64) as usize;
            bytes[at] ^= 1 << random.below(8);
        }
        let _ = socket.write_all(&bytes);
        let _ = socket.shutdown(Shutdown::Write);
        let mut answers = Vec::new();
        let _ = socket.take(1 << 20).read_to_end(&mut answers);
        if case % 50 == 0 {
            assert_eq!(safe.read(0), 77);
        }
    }
    // The governor has digested it.
    std::thread::sleep(Duration::from_millis(1_200));
    let status = rig.status();
    for app in status["applications"].as_array().unwrap() {
        let share = app["share"].as_f64().unwrap();
        assert!((0.0..=1.0).contains(&share), "{app}");
    }
    // None speaks for another volume's application.
    assert_eq!(rig.app("other")["need_windows"], 0);
    assert_eq!(safe.read(0), 77);
    drop(safe);
    until("all are gone", || rig.status()["connections"] == 0);
    assert!(resident_mib(rig.pid()) <= before + 32);
}
