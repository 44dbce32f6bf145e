//! Volumes whose bytes lie with `headworks store`.

use crate::rig::{Rig, can_mount_or_skip, find};
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const DEADLINE: Duration = Duration::from_secs(60);

/// A store, killed at the end.
struct Store {
    program: PathBuf,
    config: PathBuf,
    child: Option<Child>,
}

impl Store {
    /// None, with a word, where the program is not built.
    fn start(rig: &Rig, config: &str) -> Option<Store> {
        let program = Path::new(env!("CARGO_BIN_EXE_headworks")).with_file_name("headworks-store");
        if !program.is_file() {
            println!("skipped: {} is missing: cargo build --workspace", program.display());
            return None;
        }
        let path = rig.dir.join("store.toml");
        let dir = rig.dir.display().to_string();
        let listen = if config.contains("listen") { "" } else { "listen = [\"unix:DIR/store\"]\n" };
        fs::write(&path, (listen.to_owned() + config).replace("DIR", &dir)).unwrap();
        let image = fs::File::create(rig.dir.join("bytes.img")).unwrap();
        image.set_len(256 << 20).unwrap();
        let mut store = Store { program, config: path, child: None };
        store.serve();
        Some(store)
    }

    fn serve(&mut self) {
        let mut command = Command::new(&self.program);
        command.arg("serve").arg("--config").arg(&self.config).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.contains("volumes are served"), "{line}");
        self.child = Some(child);
    }

    fn kill(&mut self) {
        let mut child = self.child.take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Requests of an application: reads, writes, flushes, others.
    fn requests(&self, application: &str) -> [u64; 4] {
        let mut command = Command::new(&self.program);
        let output = command.args(["status", "--json", "--config"]).arg(&self.config).output();
        let status: serde_json::Value = serde_json::from_slice(&output.unwrap().stdout).unwrap();
        let apps = status["applications"].as_array().unwrap();
        let app = apps.iter().find(|app| app["name"] == application).unwrap();
        [0, 1, 2, 3].map(|at| app["ios"][at].as_u64().unwrap())
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// How long a store is away: 20 s in the long test.
fn pause() -> Duration {
    let text = std::env::var("HEADWORKS_STORE_PAUSE_S").unwrap_or_else(|_| "3".to_owned());
    Duration::from_secs(text.parse().expect("HEADWORKS_STORE_PAUSE_S is a number"))
}

/// A file is written, and made durable now and then, while `happens` goes on; then all is there.
fn goes_on(rig: &Rig, happens: impl FnOnce()) {
    const BLOCKS: u64 = 2_000;
    let file = fs::File::create(rig.mnt().join("file")).unwrap();
    let ends = AtomicBool::new(false);
    let last = std::thread::scope(|scope| {
        let (file, ends) = (&file, &ends);
        let writes = scope.spawn(move || {
            let mut last = vec![0; BLOCKS as usize];
            let mut count = 0;
            while !ends.load(Ordering::Relaxed) {
                count += 1;
                let block = count * 7 % BLOCKS;
                last[block as usize] = count as u8;
                file.write_all_at(&[count as u8; 4096], 4096 * block).unwrap();
                if count % 50 == 0 {
                    file.sync_all().unwrap();
                }
            }
            last
        });
        std::thread::sleep(Duration::from_millis(300));
        happens();
        std::thread::sleep(Duration::from_secs(1));
        ends.store(true, Ordering::Relaxed);
        writes.join().unwrap()
    });
    drop(file);
    rig.umount("v");
    rig.assert_sound(&rig.image("bytes"));
    rig.mount("v");
    let found = fs::read(rig.mnt().join("file")).unwrap();
    for (block, bytes) in found.chunks(4096).enumerate() {
        assert!(bytes.iter().all(|byte| *byte == last[block]), "block {block}");
    }
    rig.umount("v");
}

#[test]
fn a_file_system_survives_a_restart_of_the_store_without_an_error() {
    if !can_mount_or_skip() {
        return;
    }
    let rig = Rig::new();
    let volume = "[[volume]]\nname = \"v\"\npath = \"DIR/bytes.img\"\n";
    let Some(mut store) = Store::start(&rig, volume) else { return };
    let uri = format!("nbd+unix:///v?socket={}/store", rig.dir.display());
    rig.ok(&["create", "v", "--size", "256M", "--backing", &uri]);
    rig.mount("v");
    goes_on(&rig, || {
        store.kill();
        std::thread::sleep(pause());
        store.serve();
    });
}

/// Certificates of an authority, a store and a client.
fn certificates(dir: &Path, address: &str) {
    let script = "set -e
openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=ca -keyout ca.key -out ca-cert.pem 2>/dev/null
for name in store client; do
  host=DNS:$name.example; [ $name != store ] || host=IP:$1
  openssl req -newkey rsa:2048 -nodes -subj /CN=$name -keyout $name-key.pem -out $name.csr 2>/dev/null
  printf 'subjectAltName=%s' $host > $name.ext
  openssl x509 -req -in $name.csr -CA ca-cert.pem -CAkey ca.key -CAcreateserial -days 2 -extfile $name.ext -out $name-cert.pem 2>/dev/null
done";
    let mut command = Command::new("sh");
    command.args(["-c", script, "sh", address]).current_dir(dir);
    assert!(command.status().unwrap().success());
}

/// The tunnels that a volume's process keeps.
fn tunnels(rig: &Rig) -> Vec<u32> {
    let socket = rig.dir.join("run").display().to_string();
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let is = |pid: &u32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).into_owned();
        line.contains("tunnel") && line.contains(&socket)
    };
    numbers.filter(is).collect()
}

#[test]
fn a_volume_reaches_a_store_by_tls_and_survives_the_end_of_its_tunnel() {
    if !can_mount_or_skip() {
        return;
    }
    if find("openssl").is_none() {
        println!("skipped: openssl is missing");
        return;
    }
    let rig = Rig::new();
    // A loopback address of this process, and a port that the kernel gives to no connection.
    let [_, high, middle, low] = std::process::id().to_be_bytes();
    let address = format!("127.{}.{middle}.{low}", 64 | high);
    certificates(&rig.dir, &address);
    let config = format!(
        "listen = [\"tcp:{address}:9081\"]\ncontrol = \"DIR/control\"\n\
         [tls]\ncertificate = \"DIR/store-cert.pem\"\nkey = \"DIR/store-key.pem\"\nclients = \"DIR/ca-cert.pem\"\n\
         [[client]]\nname = \"me\"\ncertificate = \"client.example\"\n\
         [[volume]]\nname = \"v\"\npath = \"DIR/bytes.img\"\nclients = [\"me\"]\n"
    );
    let Some(mut store) = Store::start(&rig, &config) else { return };
    let uri = format!("nbds://{address}:9081/v?tls-certificates=");
    let said =
        rig.refused(&["create", "v", "--size", "256M", "--backing", &format!("{uri}/nothing")]);
    assert!(said.contains("/nothing/ca-cert.pem"), "{said}");
    let uri = format!("{uri}{}", rig.dir.display());
    rig.ok(&["create", "v", "--size", "256M", "--backing", &uri]);
    assert!(tunnels(&rig).is_empty());
    rig.mount("v");
    goes_on(&rig, || {
        for pid in tunnels(&rig) {
            // SAFETY: sends a signal to a process of this test.
            unsafe { libc::kill(pid as libc::pid_t, libc::SIGKILL) };
        }
        std::thread::sleep(Duration::from_millis(500));
        store.kill();
        std::thread::sleep(pause());
        store.serve();
    });
    assert!(tunnels(&rig).is_empty(), "they end with their volume");
}

#[test]
fn a_store_learns_which_threads_of_a_program_cause_a_volumes_requests() {
    if !can_mount_or_skip() {
        return;
    }
    let rig = Rig::new();
    let application =
        |name: &str| format!("[[application]]\nname = \"{name}\"\nvolume = \"v\"\ntagged = true\n");
    let volume = "[[volume]]\nname = \"v\"\npath = \"DIR/bytes.img\"\n";
    let config = format!("{volume}{}{}", application("copies"), application("others"));
    let Some(mut store) = Store::start(&rig, &config) else { return };
    let uri = format!("nbd+unix:///v?socket={}/store", rig.dir.display());
    rig.ok(&["create", "v", "--size", "256M", "--backing", &uri, "--scheduler", "sfq"]);
    rig.ok(&["mount", "v", &rig.mnt().display().to_string(), "--io", "owners"]);
    let file = rig.mnt().join("file");
    fs::write(&file, vec![1; 4 << 20]).unwrap();
    fs::File::open(&file).unwrap().sync_all().unwrap();
    assert_eq!(store.requests("copies"), [0; 4]);
    // The threads of `dd` are of one application, and those of the shell of none.
    let rules = rig.dir.join("io.toml");
    fs::write(&rules, "[[io.thread]]\nname = \"dd\"\napplication = \"copies\"\n").unwrap();
    let drop = "echo 3 > /proc/sys/vm/drop_caches";
    let copy = format!(
        "while :; do dd if=/dev/zero of={0} bs=4k count=64 conv=notrunc,fsync; {drop}; \
         dd if={0} of=/dev/null bs=256k; sleep 0.1; done",
        file.display()
    );
    let mut command = Command::new(env!("CARGO_BIN_EXE_headworks"));
    command
        .args(["run", "--io", "afq", "--io-device", "flash", "--name", "owners", "--config"])
        .args([&rules, Path::new("--")])
        .args(["sh", "-c", &copy])
        .env("HEADWORKS_RUN_DIR", rig.dir.join("run"))
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let child = command.process_group(0).spawn().unwrap();
    let running = Running(child);
    let until = |what: &str, is: &dyn Fn() -> bool| {
        let begun = Instant::now();
        while !is() {
            assert!(begun.elapsed() < DEADLINE, "{what}: {}", rig.stat("v")["figures"]["causes"]);
            std::thread::sleep(Duration::from_millis(50));
        }
    };
    until("writes are known", &|| store.requests("copies")[1] > 10);
    assert_eq!(store.requests("others"), [0; 4]);
    let shown = rig.ok(&["stat", "v"]);
    assert!(shown.contains("copies"), "{shown}");
    // A store that comes back is told the names again.
    store.kill();
    store.serve();
    until("and after a restart", &|| store.requests("copies")[1] > 10);
    std::mem::drop(running);
    rig.umount("v");
}

/// A program that is killed with its children at the end, however that comes.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // SAFETY: its process group, which it leads.
        unsafe { libc::kill(-(self.0.id() as libc::pid_t), libc::SIGKILL) };
        let _ = self.0.wait();
    }
}
