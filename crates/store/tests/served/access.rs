//! Who may open what.

use crate::raw::Raw;
use crate::rig::{Rig, has, own_address, run, until};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};

#[test]
fn a_user_sees_only_the_volumes_that_the_configuration_gives_it() {
    // SAFETY: geteuid has no preconditions.
    let own = unsafe { libc::geteuid() };
    let rig = Rig::start(&format!(
        "[[client]]\nname = \"me\"\nuid = {own}\n[[client]]\nname = \"other\"\nuid = {}\n\
         [[volume]]\nname = \"mine\"\npath = \"memory\"\nsize = 4096\nclients = [\"me\"]\n\
         [[volume]]\nname = \"theirs\"\npath = \"memory\"\nsize = 4096\nclients = [\"other\"]\n\
         [[volume]]\nname = \"all\"\npath = \"memory\"\nsize = 4096\n",
        own + 1
    ));
    Raw::open(&rig.socket(), "mine").write(0, 1);
    Raw::open(&rig.socket(), "all").write(0, 1);
    assert!(Raw::try_open(&rig.socket(), "theirs").is_err());
    let status = rig.status();
    let names: Vec<&str> = status["applications"]
        .as_array()
        .unwrap()
        .iter()
        .map(|app| app["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["mine/me", "theirs/other", "all/me", "all/other"]);
    assert_eq!(rig.app("all/me")["ios"][1], 1);
}

#[test]
fn a_mistake_in_the_configuration_is_said_and_changes_nothing() {
    let good = "[[volume]]\nname = \"a\"\npath = \"memory\"\nsize = 4096\n";
    let rig = Rig::start(good);
    for (bad, said) in [
        ("[[volume]]\nname = \"a\"\npath = \"memory\"\nsize = 7\n", "multiple of 512"),
        ("[[volume]]\nname = \"b\"\npath = \"DIR/nothing\"\n", "No such file"),
        ("[device]\nkind = \"disk\"\n", "restart"),
        ("nonsense", "expected"),
    ] {
        rig.configure(bad);
        let output = rig.ask(&["reload"]);
        let text = crate::rig::text(&output);
        assert!(!output.status.success() && text.contains(said), "{said}: {text}");
        Raw::open(&rig.socket(), "a").write(0, 1);
    }
}

/// Certificates of an authority, a store and two clients, by openssl.
pub fn certificates(dir: &Path, address: &SocketAddr) {
    let script = "set -e
openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=ca -keyout ca.key -out ca-cert.pem 2>/dev/null
for name in store alice mallory; do
  host=DNS:$name.example; [ $name != store ] || host=IP:$1
  mkdir -p $name; cp ca-cert.pem $name/
  openssl req -newkey rsa:2048 -nodes -subj /CN=$name -keyout $name.key -out $name.csr 2>/dev/null
  printf 'subjectAltName=%s' $host > $name.ext
  openssl x509 -req -in $name.csr -CA ca-cert.pem -CAkey ca.key -CAcreateserial -days 2 -extfile $name.ext -out $name.pem 2>/dev/null
  cp $name.key $name/client-key.pem; cp $name.pem $name/client-cert.pem
done";
    let made = Command::new("sh")
        .arg("-c")
        .arg(script)
        .args(["sh", &address.ip().to_string()])
        .current_dir(dir)
        .status()
        .unwrap();
    assert!(made.success());
}

#[test]
fn over_tls_a_client_is_who_its_certificate_says() {
    if !has("openssl") || !has("nbdinfo") {
        return;
    }
    let mut rig = Rig::new("");
    let address = own_address();
    certificates(&rig.dir, &address);
    rig.configure(&format!(
        "listen = [\"unix:DIR/socket\", \"tcp:{address}\"]\n\
         [tls]\ncertificate = \"DIR/store.pem\"\nkey = \"DIR/store.key\"\nclients = \"DIR/ca-cert.pem\"\n\
         [[client]]\nname = \"alice\"\ncertificate = \"alice.example\"\n\
         [[volume]]\nname = \"data\"\npath = \"memory\"\nsize = \"8MiB\"\nclients = [\"alice\"]\n"
    ));
    rig.serve();
    let dir = rig.dir.display().to_string();
    let uri = |who: &str| format!("nbds://{address}/data?tls-certificates={dir}/{who}");
    let info = run("nbdinfo", &[&uri("alice")]);
    assert!(info.contains("with TLS") && info.contains("8M"), "{info}");
    let refused = |uri: &str| {
        let output = Command::new("timeout").args(["20", "nbdinfo", uri]).output().unwrap();
        assert!(!output.status.success(), "{uri}: {}", crate::rig::text(&output));
    };
    refused(&uri("mallory"));
    refused(&format!("nbd://{address}/data"));
    if has("nbdcopy") {
        let file = rig.file("noise", 8 << 20);
        std::fs::write(&file, (0..8_u32 << 20).map(|n| (n / 4097) as u8).collect::<Vec<u8>>())
            .unwrap();
        let back = rig.file("back", 8 << 20);
        run("nbdcopy", &[file.to_str().unwrap(), &uri("alice")]);
        run("nbdcopy", &[&uri("alice"), back.to_str().unwrap()]);
        assert!(std::fs::read(&file).unwrap() == std::fs::read(&back).unwrap());
    }
    // A client without TLS, by the tunnel.
    let tunnel = rig.dir.join("tunnel");
    for end in ["pem", "key"] {
        std::fs::copy(rig.dir.join(format!("alice.{end}")), rig.dir.join(format!("own.{end}")))
            .unwrap();
    }
    let mut child = Command::new(env!("CARGO_BIN_EXE_headworks-store"))
        .args(["tunnel", &address.to_string(), "--socket"])
        .arg(&tunnel)
        .args(["--certificate", &format!("{dir}/own.pem"), "--key", &format!("{dir}/own.key")])
        .args(["--servers", &format!("{dir}/ca-cert.pem")])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    until("the tunnel is there", || tunnel.exists());
    let mut raw = Raw::open(&tunnel, "data");
    raw.write(4096, 7);
    assert_eq!(raw.read(4096), 7);
    // Its certificate is read at each connection: another's is refused, and a mended one taken.
    let swap = |who: &str| {
        for end in ["pem", "key"] {
            std::fs::copy(rig.dir.join(format!("{who}.{end}")), rig.dir.join(format!("own.{end}")))
                .unwrap();
        }
    };
    swap("mallory");
    assert!(Raw::try_open(&tunnel, "data").is_err());
    assert!(rig.log().contains("no [[client]]"), "{}", rig.log());
    std::fs::write(rig.dir.join("own.pem"), "").unwrap();
    assert!(Raw::try_open(&tunnel, "data").is_err());
    swap("alice");
    assert_eq!(Raw::open(&tunnel, "data").read(4096), 7);
    // The connection that was open goes on.
    assert_eq!(raw.read(4096), 7);
    child.kill().unwrap();
    child.wait().unwrap();
}
