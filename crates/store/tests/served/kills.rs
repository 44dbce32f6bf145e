//! Kills of the store, of clients, and of the relay between them, under a checker of every write
//! that was answered.
//!
//! The client is this program, started again for [`client_of_the_checker`]: it says what it is
//! about to write, and what was answered. Each block has the number of its last write. After each
//! kill, the next client finds in each block the last number that was answered, or one that was on
//! its way.

use crate::access::certificates;
use crate::raw::{READ, Raw};
use crate::rig::{Random, Rig, has, own_address, times, until};
use headworks_volume::store::Store;
use headworks_volume::store::nbd::{Address, Nbd};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

const BLOCKS: usize = 64;
const THREADS: usize = 4;
const SIZE: u64 = 4096 * BLOCKS as u64;

/// What is known of a block.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    answered: u64,
    sent: u64,
}

struct Client {
    child: Child,
    lines: Receiver<String>,
}

impl Client {
    /// The uri, and the number that the first write has.
    fn start(uri: &str, first: u64) -> Client {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "kills::client_of_the_checker", "--ignored", "--nocapture"])
            .env("HEADWORKS_CHECKER", format!("{first} {uri}"))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (sender, lines) = channel();
        let stdout: ChildStdout = child.stdout.take().unwrap();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Client { child, lines }
    }

    /// Takes in what it says, up to now, or to its end.
    fn hear(&mut self, known: &mut [Known; BLOCKS], to_its_end: bool) {
        loop {
            let line = match to_its_end {
                true => self.lines.recv().ok(),
                false => self.lines.try_recv().ok(),
            };
            let Some(line) = line else { return };
            let words: Vec<&str> = line.split(' ').collect();
            let number = |at: usize| words[at].parse::<u64>().unwrap();
            match words[0] {
                "sent" => known[number(1) as usize].sent = number(2),
                "answered" => known[number(1) as usize].answered = number(2),
                "found" => {
                    let (block, found) = (number(1) as usize, number(2));
                    let Known { answered, sent } = known[block];
                    assert!(
                        (answered..=sent).contains(&found),
                        "block {block}: {found}, {answered}..={sent}"
                    );
                    // From here on it stays.
                    known[block] = Known { answered: found, sent: found };
                }
                "failed" => panic!("{line}"),
                _ => {}
            }
        }
    }

    fn kill(mut self, known: &mut [Known; BLOCKS]) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.hear(known, true);
    }
}

#[test]
#[ignore = "it is started by the checker"]
fn client_of_the_checker() {
    let Ok(text) = std::env::var("HEADWORKS_CHECKER") else { return };
    let (first, uri) = text.split_once(' ').unwrap();
    let (first, address) = (first.parse::<u64>().unwrap(), Address::parse(uri).unwrap());
    let say = |words: String| {
        // One call, so that a kill leaves whole lines.
        let _ = std::io::stdout().lock().write_all(format!("{words}\n").as_bytes());
    };
    let mut opened = Nbd::open(address.clone(), SIZE, 512);
    for _ in 0..100 {
        if opened.is_ok() {
            break;
        }
        // The store or the relay was killed at the same time.
        std::thread::sleep(Duration::from_millis(100));
        opened = Nbd::open(address.clone(), SIZE, 512);
    }
    let store = opened.unwrap();
    for block in 0..BLOCKS {
        let mut bytes = vec![0; 4096];
        if let Err(error) = store.read(4096 * block as u64, &mut bytes) {
            return say(format!("failed {error}"));
        }
        let number = |at: usize| u64::from_le_bytes(bytes[8 * at..8 * at + 8].try_into().unwrap());
        if (0..512).any(|at| number(at) != number(0)) {
            return say(format!("failed block {block} is torn"));
        }
        say(format!("found {block} {}", number(0)));
    }
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (store, say) = (&store, &say);
            scope.spawn(move || {
                let mut random = Random(first + thread as u64);
                for number in first.. {
                    let own = (BLOCKS / THREADS) as u64;
                    let block = thread as u64 * own + random.below(own);
                    say(format!("sent {block} {number}"));
                    let bytes = number.to_le_bytes().repeat(512);
                    let fua = random.below(8) == 0;
                    let done = store
                        .write(4096 * block, &bytes, fua)
                        .and_then(|()| if random.below(16) == 0 { store.flush() } else { Ok(()) });
                    if let Err(error) = done {
                        return say(format!("failed {error}: {:?}", store.trouble()));
                    }
                    say(format!("answered {block} {number}"));
                }
            });
        }
    });
}

/// The relay: a tunnel from a Unix socket to the store's TLS.
fn relay(rig: &Rig, address: &str) -> Child {
    let dir = rig.dir.display().to_string();
    Command::new(env!("CARGO_BIN_EXE_headworks-store"))
        .args(["tunnel", address, "--socket", &format!("{dir}/relay")])
        .args(["--certificate", &format!("{dir}/alice.pem"), "--key", &format!("{dir}/alice.key")])
        .args(["--servers", &format!("{dir}/ca-cert.pem")])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// A store, a relay to it, and what was written by it.
struct Killed {
    rig: Rig,
    address: String,
    uri: String,
    relay: Child,
    client: Option<Client>,
    known: [Known; BLOCKS],
    answered: u64,
}

impl Killed {
    fn start() -> Killed {
        let mut rig = Rig::new("");
        let address = own_address();
        certificates(&rig.dir, &address);
        rig.file("data", SIZE);
        rig.configure(&format!(
            "listen = [\"unix:DIR/socket\", \"tcp:{address}\"]\n\
             [tls]\ncertificate = \"DIR/store.pem\"\nkey = \"DIR/store.key\"\nclients = \"DIR/ca-cert.pem\"\n\
             [[volume]]\nname = \"data\"\npath = \"DIR/data\"\n"
        ));
        rig.serve();
        let address = address.to_string();
        let relay = relay(&rig, &address);
        let uri = format!("nbd+unix:///data?socket={}/relay", rig.dir.display());
        until("the relay is there", || rig.dir.join("relay").exists());
        let client = Some(Client::start(&uri, 1));
        Killed { rig, address, uri, relay, client, known: [Known::default(); BLOCKS], answered: 0 }
    }

    fn kill_client(&mut self) {
        if let Some(client) = self.client.take() {
            client.kill(&mut self.known);
        }
        let latest = self.known.iter().map(|known| known.answered).max();
        self.answered = self.answered.max(latest.unwrap_or(0));
    }

    fn kill_relay(&mut self) {
        self.relay.kill().unwrap();
        self.relay.wait().unwrap();
    }

    /// Kills one or two of the three, and starts them again.
    fn round(&mut self, number: u64, random: &mut Random) {
        std::thread::sleep(Duration::from_millis(20 + random.below(150)));
        if let Some(client) = &mut self.client {
            client.hear(&mut self.known, false);
        }
        let (store, relay_too, client) = [
            (true, false, false),
            (false, true, false),
            (true, true, false),
            (false, false, true),
            (true, false, true),
            (false, true, true),
        ][random.below(6) as usize];
        if store {
            self.rig.kill();
        }
        if relay_too {
            self.kill_relay();
        }
        if client {
            self.kill_client();
            self.client = Some(Client::start(&self.uri, 1_000_000 * number));
        }
        std::thread::sleep(Duration::from_millis(random.below(100)));
        if relay_too {
            self.relay = relay(&self.rig, &self.address);
        }
        if store {
            self.rig.serve();
        }
    }
}

#[test]
fn no_answered_write_is_lost_whatever_is_killed() {
    if !has("openssl") {
        return;
    }
    let mut killed = Killed::start();
    let mut random = Random(11);
    for number in 1..=times("HEADWORKS_STORE_KILLS", 25) {
        killed.round(number, &mut random);
    }
    // What the last one wrote is there, too.
    std::thread::sleep(Duration::from_millis(500));
    killed.kill_client();
    killed.kill_relay();
    assert!(killed.answered > 0);
    let mut last = Raw::open(&killed.rig.socket(), "data");
    last.send(READ, 0, 4096, &[]);
    last.skip_answer(4096).unwrap();
    let bytes = std::fs::read(killed.rig.dir.join("data")).unwrap();
    for (block, known) in killed.known.iter().enumerate() {
        let found = u64::from_le_bytes(bytes[4096 * block..][..8].try_into().unwrap());
        assert!(
            (known.answered..=known.sent).contains(&found),
            "block {block}: {found}, {known:?}"
        );
    }
}
