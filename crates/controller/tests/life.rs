//! The program, nodes and operators, by real sockets; with an etcd where one is installed.

use headworks_controller::config::Tls;
use headworks_controller::server::Reach;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

const LONGEST: Duration = Duration::from_secs(60);

struct Dir(PathBuf);

impl Dir {
    fn new(name: &str) -> Dir {
        let path =
            std::env::temp_dir().join(format!("hw-controller-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Dir(path)
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// An address that no other test has: each process has a loopback address.
fn own_address(number: u16) -> SocketAddr {
    let [_, high, middle, low] = std::process::id().to_be_bytes();
    (std::net::Ipv4Addr::new(127, 64 | high, middle, low), 7_700 + number).into()
}

fn program() -> Command {
    Command::new(env!("CARGO_BIN_EXE_headworks-controller"))
}

fn serve(dir: &Dir, name: &str, config: &str) -> Process {
    let file = dir.0.join(name);
    std::fs::write(&file, config).unwrap();
    let mut command = program();
    command.args(["serve", "--config", file.to_str().unwrap()]).stdout(Stdio::null());
    Process(command.spawn().unwrap())
}

fn until(what: &str, mut is: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is() {
        assert!(begun.elapsed() < LONGEST, "not after {LONGEST:?}: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn ask(at: &[SocketAddr], words: &[&str]) -> Output {
    let mut command = program();
    command.args(words);
    for address in at {
        command.args(["--controller", &address.to_string()]);
    }
    command.output().unwrap()
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&[output.stdout.clone(), output.stderr.clone()].concat()).into_owned()
}

/// A node that says hello and hears.
struct Node {
    stream: TcpStream,
    lines: BufReader<TcpStream>,
}

impl Node {
    fn come(at: SocketAddr, token: &str) -> Node {
        let stream = TcpStream::connect(at).unwrap();
        stream.set_read_timeout(Some(LONGEST)).unwrap();
        let lines = BufReader::new(stream.try_clone().unwrap());
        let mut node = Node { stream, lines };
        node.say(&format!("hello 1 regionserver {token} rs 1\n"));
        node
    }

    fn say(&mut self, text: &str) {
        self.stream.write_all(text.as_bytes()).unwrap();
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// Lines up to one that begins so.
    fn hears(&mut self, begin: &str) -> String {
        loop {
            let line = self.line();
            assert!(!line.is_empty(), "the connection ended before: {begin}");
            if line.starts_with(begin) {
                return line;
            }
        }
    }
}

#[test]
fn what_is_set_reaches_nodes_and_outlives_the_controller() {
    let dir = Dir::new("life");
    let at = own_address(0);
    let token = dir.0.join("token");
    std::fs::write(&token, "word\n").unwrap();
    let config = format!(
        "listen = \"{at}\"\nstate = \"{}\"\ntoken_file = \"{}\"\nperiod_ms = 200\n",
        dir.0.join("state").display(),
        token.display()
    );
    let first = serve(&dir, "config", &config);
    until("it listens", || TcpStream::connect(at).is_ok());
    let token = token.to_str().unwrap();
    let mut node = Node::come(at, "word");
    let fence = node.hears("fence ");
    node.say("use 0.500 w alice smith\nuse 0.500 w bob\nreport\n");
    node.hears("weight 1.000 alice smith");
    let set = ask(
        &[at],
        &["set", "alice smith", "--weight", "4", "--limit", "50", "--token-file", token],
    );
    assert!(set.status.success(), "{}", text(&set));
    node.hears("weight 4.000 alice smith");
    node.hears("limit 50.0 alice smith");
    let status = text(&ask(&[at], &["status", "--token-file", token]));
    for words in ["rs 1", "regionserver", "alice smith", "50"] {
        assert!(status.contains(words), "{words}: {status}");
    }
    // Strangers and mistakes are refused.
    assert!(Node::come(at, "-").line().starts_with("error"));
    assert!(text(&ask(&[at], &["status"])).contains("token"));
    let wrong = ask(&[at], &["set", "bob", "--weight", "-1", "--token-file", token]);
    assert!(!wrong.status.success(), "{}", text(&wrong));
    // A second controller in the same place is refused.
    let other = serve(&dir, "other", &config.replace(&at.to_string(), &own_address(1).to_string()));
    let mut other = other;
    until("the second ends", || {
        other.0.try_wait().unwrap().is_some_and(|status| !status.success())
    });
    drop(first);
    let _second = serve(&dir, "config", &config);
    until("it listens again", || TcpStream::connect(at).is_ok());
    let mut node = Node::come(at, "word");
    let number = |line: &str| line["fence ".len()..].parse::<u64>().unwrap();
    assert!(number(&node.hears("fence ")) > number(&fence));
    node.say("use 0.500 w alice smith\nreport\n");
    node.hears("weight 4.000 alice smith");
}

#[test]
fn a_second_controller_takes_over_by_etcd_and_stores_hear_targets() {
    let has = |name: &str| {
        Command::new(name)
            .arg("--version")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .is_ok()
    };
    if !has("etcd") || !has("etcdctl") {
        eprintln!("skipped: etcd is not installed (apt-get install etcd-server etcd-client)");
        return;
    }
    let dir = Dir::new("etcd");
    let (client, peer) = (own_address(2), own_address(3));
    let url = |address: SocketAddr| format!("http://{address}");
    let etcd = Command::new("etcd")
        .args([
            "--data-dir",
            dir.0.join("etcd").to_str().unwrap(),
            "--listen-client-urls",
            &url(client),
        ])
        .args(["--advertise-client-urls", &url(client), "--listen-peer-urls", &url(peer)])
        .args([
            "--initial-advertise-peer-urls",
            &url(peer),
            "--initial-cluster",
            &format!("default={}", url(peer)),
        ])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let _etcd = Process(etcd);
    until("etcd answers", || TcpStream::connect(client).is_ok());
    let at = [own_address(4), own_address(5)];
    let config = |at: SocketAddr| {
        format!(
            "listen = \"{at}\"\nperiod_ms = 200\n[etcd]\nservers = [\"{client}\"]\nname = \"main\"\nstores = [\"one\"]\n"
        )
    };
    let first = serve(&dir, "first", &config(at[0]));
    until("the first is in office", || {
        text(&ask(&at[..1], &["status"])).contains("in office, fence")
    });
    let _second = serve(&dir, "second", &config(at[1]));
    until("the second waits", || text(&ask(&at[1..], &["status"])).contains("not in office"));
    assert!(Node::come(at[1], "-").line().starts_with("error"));
    let set = ask(&[at[1], at[0]], &["set", "orders", "--weight", "3", "--target", "200"]);
    assert!(set.status.success(), "the one in office is found: {}", text(&set));
    let target = Command::new("etcdctl")
        .env("ETCDCTL_API", "3")
        .args(["--endpoints", &client.to_string(), "get", "/headworks/one/targets/orders"])
        .output()
        .unwrap();
    assert!(text(&target).contains("200"), "{}", text(&target));
    let mut node = Node::come(at[0], "-");
    let fence = node.hears("fence ");
    drop(first);
    until("the second is in office", || {
        text(&ask(&at[1..], &["status"])).contains("in office, fence")
    });
    let mut node = Node::come(at[1], "-");
    let number = |line: &str| line["fence ".len()..].parse::<u64>().unwrap();
    assert!(number(&node.hears("fence ")) > number(&fence));
    node.say("use 0.500 w orders\nreport\n");
    node.hears("weight 3.000 orders");
}

#[test]
fn over_tls_each_question_is_answered_and_strangers_are_refused() {
    let dir = Dir::new("tls");
    let at = own_address(6);
    let script = "set -e
for authority in ours theirs; do
  openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=$authority -keyout $authority.key -out $authority.pem
done
for pair in controller:ours operator:ours stranger:theirs; do
  name=${pair%:*} authority=${pair#*:}
  openssl req -newkey rsa:2048 -nodes -subj /CN=$name -keyout $name.key -out $name.csr
  printf 'subjectAltName=IP:%s' $1 > $name.ext
  openssl x509 -req -in $name.csr -CA $authority.pem -CAkey $authority.key -CAcreateserial -days 2 -extfile $name.ext -out $name.pem
done";
    let openssl = Command::new("sh")
        .args(["-c", script, "sh", &at.ip().to_string()])
        .current_dir(&dir.0)
        .output()
        .unwrap();
    if text(&openssl).contains("openssl: not found") {
        eprintln!("skipped: openssl is missing: apt-get install openssl");
        return;
    }
    assert!(openssl.status.success(), "{}", text(&openssl));
    let file = |name: &str| dir.0.join(name);
    let config = format!(
        "listen = \"{at}\"\nstate = \"{}\"\n[tls]\ncertificate = \"{}\"\nkey = \"{}\"\nclients = \"{}\"\n",
        file("state").display(),
        file("controller.pem").display(),
        file("controller.key").display(),
        file("ours.pem").display()
    );
    let _controller = serve(&dir, "config", &config);
    let reach = |name: &str, authority: &str| Reach {
        controllers: vec![at.to_string()],
        token: "-".to_owned(),
        tls: Some(Tls {
            certificate: file(&format!("{name}.pem")),
            key: file(&format!("{name}.key")),
            clients: file(&format!("{authority}.pem")),
        }),
    };
    let operator = reach("operator", "ours");
    until("it listens", || TcpStream::connect(at).is_ok());
    // It answers and closes at once: the answer must not be lost.
    for _ in 0..100 {
        assert!(operator.ask("status -").unwrap().starts_with('{'));
    }
    assert!(reach("stranger", "ours").ask("status -").is_err());
    assert!(reach("operator", "theirs").ask("status -").is_err());
}
