//! Our blocks in the files of a configuration.

use crate::hbase::settings::{self, CONTROLLER, OURS, TLS, TOKEN_FILE, WEIGHTS};
use crate::hbase::shell::{self, Export, SHELL_BEGIN, SHELL_END};
use crate::hbase::site::Site;
use anyhow::{Context, Result, anyhow, bail, ensure};
use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

/// A call queue that can be replaced.
pub const QUEUE_TYPE: &str = "hbase.ipc.server.callqueue.type";
/// By what.
pub const QUEUE_CLASS: &str = "hbase.ipc.server.callqueue.pluggable.queue.class.name";
/// Ours.
pub const OUR_QUEUE: &str = "headworks.hbase.FairCallQueue";

const XML_BEGIN: &str = "<!-- headworks begin: `headworks hbase disable` takes this out -->";
const XML_END: &str = "<!-- headworks end -->";

/// The jars.
pub const PLUGIN: &str = "headworks-hbase-1.jar";
/// See [`PLUGIN`].
pub const AGENT: &str = "headworks-hbase-agent-1.jar";

/// Where things are.
#[derive(Clone, Debug)]
pub struct Place {
    /// HBase's configuration.
    pub conf: PathBuf,
    /// HDFS's, if its DataNodes are to have the agent.
    pub hadoop_conf: Option<PathBuf>,
    /// Where the jars are.
    pub jars: PathBuf,
    /// Settings of ours for `hbase-site.xml`. Those of an earlier time stay.
    pub settings: Vec<(String, String)>,
    /// Settings of an earlier time that go.
    pub unset: Vec<String>,
}

/// A file before and after.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// The file.
    pub path: PathBuf,
    /// As it is. None: it is not there.
    pub before: Option<String>,
    /// As it will be. None: it goes.
    pub after: Option<String>,
}

/// What `enable` changes.
pub fn enable(place: &Place) -> Result<Vec<Change>> {
    let site_path = place.conf.join("hbase-site.xml");
    let text = read(&site_path)?.with_context(|| {
        format!(
            "{} has no hbase-site.xml\n  name HBase's configuration: --conf DIR",
            place.conf.display()
        )
    })?;
    ensure!(
        place.jars.is_absolute(),
        "{} is no absolute path: servers do not start without the agent's file\n  name the directory of the jars on every node: --jars /opt/headworks",
        place.jars.display()
    );
    for jar in [PLUGIN, AGENT] {
        let file = place.jars.join(jar);
        ensure!(
            file.is_file(),
            "{} is not there\n  build it: mvn -f plugins/hbase/pom.xml package, and copy it to every node",
            file.display()
        );
    }
    let bare = without(&text, XML_BEGIN, XML_END)?;
    let site =
        Site::parse(&bare).with_context(|| format!("{} cannot be read", site_path.display()))?;
    let ours = ours(place, &earlier(&text)?)?;
    let mut settings = vec![
        (QUEUE_TYPE.to_owned(), "pluggable".to_owned()),
        (QUEUE_CLASS.to_owned(), OUR_QUEUE.to_owned()),
    ];
    settings.extend(ours);
    for (name, _) in &settings {
        ensure!(
            !site.is_final(name),
            "{} says that {name} is final\n  take <final> out first",
            site_path.display()
        );
    }
    let text = with_settings(&bare, &settings)?;
    let all = Site::parse(&text)?;
    let mut changes = vec![
        change(site_path, Some(text))?,
        shell(
            &place.conf.join("hbase-env.sh"),
            &[
                Export {
                    name: "HBASE_CLASSPATH",
                    between: "${HBASE_CLASSPATH:+:}",
                    value: place.jars.join(PLUGIN).display().to_string(),
                },
                Export {
                    name: "HBASE_REGIONSERVER_OPTS",
                    between: " ",
                    value: format!("-javaagent:{}", place.jars.join(AGENT).display()),
                },
            ],
        )?,
    ];
    if let Some(hadoop) = &place.hadoop_conf {
        let value = data_node(&all, &place.jars)?;
        let agent = Export { name: "HDFS_DATANODE_OPTS", between: " ", value };
        changes.push(shell(&hadoop.join("hadoop-env.sh"), &[agent])?);
    }
    Ok(changes.into_iter().flatten().collect())
}

/// Our settings of an earlier time.
fn earlier(text: &str) -> Result<BTreeMap<String, String>> {
    let Some(from) = text.find(XML_BEGIN) else { return Ok(BTreeMap::new()) };
    let block = text[from..].split(XML_END).next().unwrap_or_default();
    let site = Site::parse(&format!("<configuration>{block}</configuration>"))
        .context("our block in hbase-site.xml cannot be read\n  take it out by hand")?;
    Ok(site.all(OURS).map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
}

/// Our settings from now on: those of an earlier time, and the new ones.
fn ours(place: &Place, earlier: &BTreeMap<String, String>) -> Result<BTreeMap<String, String>> {
    let mut all = earlier.clone();
    for name in &place.unset {
        ensure!(all.remove(name).is_some(), "--unset {name}: no earlier `enable` has set it");
    }
    for (name, value) in &place.settings {
        settings::check(name, value).map_err(|words| anyhow!("{words}"))?;
        all.insert(name.clone(), value.clone());
    }
    Ok(all)
}

/// The options of a DataNode. It reads no `hbase-site.xml`: what it needs of that is said here.
fn data_node(site: &Site, jars: &Path) -> Result<String> {
    let mut options = String::new();
    let good = |name: &str| -> Result<Option<&str>> {
        let value = site.get(name).filter(|value| !value.is_empty());
        if let Some(value) = value {
            settings::check(name, value)
                .map_err(|words| anyhow!("{words}\n  a DataNode needs it, too"))?;
        }
        Ok(value)
    };
    if let Some(value) = good(WEIGHTS)? {
        let weights = settings::weights(value).map_err(|words| anyhow!("{words}"))?;
        let one = |(name, weight): &(&str, f64)| format!("{}={weight}", settings::escaped(name));
        let all: Vec<String> = weights.iter().map(one).collect();
        options += &format!("-D{WEIGHTS}={} ", all.join(","));
    }
    for name in [TOKEN_FILE, TLS] {
        if let Some(value) = good(name)? {
            options += &format!("-D{name}={value} ");
        }
    }
    // The agent's own arguments have commas between them.
    let controllers = good(CONTROLLER)?.map(|value| settings::controllers(value).join(";"));
    let argument = controllers.map_or(String::new(), |all| format!("=controller={all}"));
    Ok(format!("{options}-javaagent:{}{argument}", jars.join(AGENT).display()))
}

/// What `disable` changes.
pub fn disable(conf: &Path, hadoop_conf: Option<&Path>) -> Result<Vec<Change>> {
    let mut files = vec![
        (conf.join("hbase-site.xml"), XML_BEGIN, XML_END),
        (conf.join("hbase-env.sh"), SHELL_BEGIN, SHELL_END),
    ];
    files.extend(hadoop_conf.map(|hadoop| (hadoop.join("hadoop-env.sh"), SHELL_BEGIN, SHELL_END)));
    let mut changes = Vec::new();
    for (path, begin, end) in files {
        if let Some(text) = read(&path)? {
            let bare = without(&text, begin, end).with_context(|| path.display().to_string())?;
            // A file that has nothing but our block was made by us.
            changes.push(change(path, (!bare.is_empty()).then_some(bare))?);
        }
    }
    Ok(changes.into_iter().flatten().collect())
}

/// Makes all changes; if one fails, the earlier ones are undone.
pub fn apply(changes: &[Change]) -> Result<()> {
    for (done, change) in changes.iter().enumerate() {
        if let Err(error) = put(&change.path, change.after.as_deref()) {
            for undo in changes[..done].iter().rev() {
                let _ = put(&undo.path, undo.before.as_deref());
            }
            return Err(error.context("nothing was changed"));
        }
    }
    Ok(())
}

/// Lines that come and go.
pub fn words(changes: &[Change]) -> String {
    let mut out = String::new();
    for change in changes {
        out += &format!("{}\n", change.path.display());
        let lines = |text: &Option<String>| {
            text.as_deref().unwrap_or("").lines().map(str::to_owned).collect::<Vec<_>>()
        };
        let (before, after) = (lines(&change.before), lines(&change.after));
        for line in before.iter().filter(|line| !after.contains(line)) {
            out += &format!("  - {line}\n");
        }
        for line in after.iter().filter(|line| !before.contains(line)) {
            out += &format!("  + {line}\n");
        }
    }
    out
}

fn with_settings(bare: &str, settings: &[(String, String)]) -> Result<String> {
    let document = roxmltree::Document::parse(bare)?;
    // Behind the end there may be comments, with anything in them.
    let root = &bare[..document.root_element().range().end];
    let at = root.rfind("</").context("hbase-site.xml does not end with </configuration>")?;
    let mut block = format!("{XML_BEGIN}\n");
    for (name, value) in settings {
        block += &format!(
            "<property><name>{}</name><value>{}</value></property>\n",
            escaped(name),
            escaped(value)
        );
    }
    Ok(format!("{}{block}{XML_END}\n{}", &bare[..at], &bare[at..]))
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

fn shell(path: &Path, exports: &[Export]) -> Result<Option<Change>> {
    let text = read(path)?.unwrap_or_default();
    let bare =
        without(&text, SHELL_BEGIN, SHELL_END).with_context(|| path.display().to_string())?;
    change(path.to_owned(), Some(shell::with(&bare, exports)))
}

/// The text without our blocks, as it was before them.
fn without(text: &str, begin: &str, end: &str) -> Result<String> {
    let Some(from) = text.find(begin) else { return Ok(text.to_owned()) };
    let Some(to) = text[from..].find(end) else {
        bail!("our block begins and does not end\n  take it out by hand")
    };
    let rest = &text[from + to + end.len()..];
    let before = &text[..from];
    let before = if rest.is_empty() { before.strip_suffix('\n').unwrap_or(before) } else { before };
    without(&format!("{before}{}", rest.strip_prefix('\n').unwrap_or(rest)), begin, end)
}

fn change(path: PathBuf, after: Option<String>) -> Result<Option<Change>> {
    let before = read(&path)?;
    Ok((before != after).then_some(Change { path, before, after }))
}

fn read(path: &Path) -> Result<Option<String>> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
}

fn put(path: &Path, text: Option<&str>) -> Result<()> {
    let Some(text) = text else {
        return fs::remove_file(path).with_context(|| format!("cannot remove {}", path.display()));
    };
    replace(path, text).with_context(|| {
        format!(
            "cannot write {} with the owner that it has\n  run this as its owner, or as root",
            path.display()
        )
    })
}

/// A crash leaves the file before or the file after. Its owner and mode stay, and a link to it
/// stays a link: servers of another user read it.
fn replace(path: &Path, text: &str) -> std::io::Result<()> {
    let path = &fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let fresh = path.with_extension("headworks-new");
    let _ = fs::remove_file(&fresh);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&fresh)?;
    let mut write = || -> std::io::Result<()> {
        // A file that is new is its directory's.
        let (like, mode) = match fs::metadata(path) {
            Ok(old) => (old.clone(), old.permissions().mode()),
            Err(_) => (fs::metadata(path.parent().unwrap_or(path))?, 0o644),
        };
        let own = file.metadata()?;
        if (own.uid(), own.gid()) != (like.uid(), like.gid()) {
            fchown(&file, Some(like.uid()), Some(like.gid()))?;
        }
        file.set_permissions(fs::Permissions::from_mode(mode))?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&fresh, path)
    };
    write().inspect_err(|_| drop(fs::remove_file(&fresh)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SITE: &str = "<?xml version=\"1.0\"?>\n<configuration>\n  <property>\n    <name>hbase.rootdir</name>\n    \
                        <value>hdfs://x</value></property>\n</configuration>\n";

    fn place(name: &str) -> Place {
        let root = std::env::temp_dir().join(format!("hw-hbase-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&root);
        for part in ["conf", "hadoop", "jars"] {
            std::fs::create_dir_all(root.join(part)).unwrap();
        }
        for jar in [PLUGIN, AGENT] {
            std::fs::write(root.join("jars").join(jar), "").unwrap();
        }
        std::fs::write(root.join("conf/hbase-site.xml"), SITE).unwrap();
        Place {
            conf: root.join("conf"),
            hadoop_conf: Some(root.join("hadoop")),
            jars: root.join("jars"),
            settings: vec![("headworks.weights".into(), "a&b=4".into())],
            unset: Vec::new(),
        }
    }

    #[test]
    fn disable_gives_every_file_back_as_it_was() {
        let place = place("back");
        for env in ["# a shell file\nexport A=1\n", "export A=1", ""] {
            let path = place.conf.join("hbase-env.sh");
            std::fs::write(&path, env).unwrap();
            let changes = enable(&place).unwrap();
            assert_eq!(changes.len(), 3);
            apply(&changes).unwrap();
            let site = Site::load(&place.conf.join("hbase-site.xml")).unwrap();
            assert_eq!(site.get(QUEUE_CLASS), Some(OUR_QUEUE));
            assert_eq!(site.get("headworks.weights"), Some("a&b=4"));
            assert_eq!(site.get("hbase.rootdir"), Some("hdfs://x"));
            assert_eq!(enable(&place).unwrap(), vec![], "a second time changes nothing");
            apply(&disable(&place.conf, place.hadoop_conf.as_deref()).unwrap()).unwrap();
            assert_eq!(std::fs::read_to_string(place.conf.join("hbase-site.xml")).unwrap(), SITE);
            let kept = std::fs::read_to_string(&path).unwrap_or_default();
            assert_eq!(kept, env);
            assert!(!place.hadoop_conf.as_ref().unwrap().join("hadoop-env.sh").exists());
            assert_eq!(disable(&place.conf, None).unwrap(), vec![]);
        }
    }

    #[test]
    fn what_hbase_would_not_take_is_refused() {
        let place = place("refused");
        let path = place.conf.join("hbase-site.xml");
        let last = SITE.replace(
            "</configuration>",
            &format!("<property><name>{QUEUE_TYPE}</name><value>codel</value><final>true</final></property></configuration>"),
        );
        std::fs::write(&path, last).unwrap();
        assert!(format!("{:#}", enable(&place).unwrap_err()).contains("final"));
        std::fs::write(&path, "<configuration>").unwrap();
        assert!(format!("{:#}", enable(&place).unwrap_err()).contains("hbase-site.xml"));
        std::fs::write(&path, SITE).unwrap();
        std::fs::remove_file(place.jars.join(AGENT)).unwrap();
        assert!(format!("{:#}", enable(&place).unwrap_err()).contains(AGENT));
        let relative = Place { jars: "jars".into(), ..place };
        assert!(format!("{:#}", enable(&relative).unwrap_err()).contains("absolute"));
    }

    #[test]
    fn what_was_set_earlier_stays_and_reaches_data_nodes() {
        let place = place("earlier");
        apply(&enable(&place).unwrap()).unwrap();
        let set = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let settings = vec![
            set("headworks.controller", "a:7700, b:7700"),
            set("headworks.controller.token.file", "/etc/headworks/token"),
            set("headworks.controller.tls", "true"),
        ];
        let second = Place { settings, ..place };
        apply(&enable(&second).unwrap()).unwrap();
        let site = Site::load(&second.conf.join("hbase-site.xml")).unwrap();
        assert_eq!(site.get("headworks.weights"), Some("a&b=4"));
        let env = fs::read_to_string(second.hadoop_conf.as_ref().unwrap().join("hadoop-env.sh"));
        let env = env.unwrap();
        for words in [
            "-Dheadworks.weights=a%26b=4 ",
            "-Dheadworks.controller.token.file=/etc/headworks/token ",
            "-Dheadworks.controller.tls=true ",
            "=controller=a:7700;b:7700\"",
        ] {
            assert!(env.contains(words), "{words}: {env}");
        }
        let unset =
            |name: &str| Place { settings: vec![], unset: vec![name.into()], ..second.clone() };
        apply(&enable(&unset("headworks.weights")).unwrap()).unwrap();
        let site = Site::load(&second.conf.join("hbase-site.xml")).unwrap();
        assert_eq!(site.get("headworks.weights"), None);
        assert_eq!(site.get("headworks.controller.tls"), Some("true"));
        assert!(enable(&unset("headworks.speculate")).is_err());
        for wrong in [set("headworks.wieghts", "alice=3"), set("headworks.weights", "alice=three")]
        {
            assert!(enable(&Place { settings: vec![wrong], ..second.clone() }).is_err());
        }
    }

    #[test]
    fn owners_modes_and_links_stay() {
        let place = place("owner");
        let real = place.jars.join("site");
        let site = place.conf.join("hbase-site.xml");
        fs::rename(&site, &real).unwrap();
        std::os::unix::fs::symlink("../jars/site", &site).unwrap();
        fs::set_permissions(&real, fs::Permissions::from_mode(0o440)).unwrap();
        // Only root may give a file away.
        let _ = std::os::unix::fs::chown(&real, Some(4711), Some(4712));
        let was = fs::metadata(&real).unwrap();
        let same = || {
            let is = fs::metadata(&real).unwrap();
            assert!(fs::symlink_metadata(&site).unwrap().is_symlink());
            assert_eq!((is.mode(), is.uid(), is.gid()), (was.mode(), was.uid(), was.gid()));
        };
        apply(&enable(&place).unwrap()).unwrap();
        same();
        assert!(fs::read_to_string(&real).unwrap().contains(XML_BEGIN));
        apply(&disable(&place.conf, None).unwrap()).unwrap();
        same();
        assert_eq!(fs::read_to_string(&real).unwrap(), SITE);
    }

    #[test]
    fn a_file_that_returns_early_and_comments_behind_the_end_are_understood() {
        let place = place("early");
        let env = "#!/usr/bin/env bash\nif true; then\n  return 0\nfi\n";
        let site = format!("{SITE}<!-- made by </configuration> tool -->\n");
        fs::write(place.conf.join("hbase-env.sh"), env).unwrap();
        fs::write(place.conf.join("hbase-site.xml"), &site).unwrap();
        apply(&enable(&place).unwrap()).unwrap();
        let text = fs::read_to_string(place.conf.join("hbase-env.sh")).unwrap();
        assert!(text.starts_with(&format!("#!/usr/bin/env bash\n{SHELL_BEGIN}\n")), "{text}");
        let now = Site::load(&place.conf.join("hbase-site.xml")).unwrap();
        assert_eq!(now.get(QUEUE_CLASS), Some(OUR_QUEUE));
        // Once, however often it is read.
        let command = format!(
            ". {0}; . {0}; echo $HBASE_CLASSPATH $HBASE_REGIONSERVER_OPTS",
            place.conf.join("hbase-env.sh").display()
        );
        let shell = std::process::Command::new("sh").args(["-c", &command]).output().unwrap();
        let said = String::from_utf8_lossy(&shell.stdout).into_owned();
        assert_eq!((said.matches(PLUGIN).count(), said.matches(AGENT).count()), (1, 1), "{said}");
        apply(&disable(&place.conf, None).unwrap()).unwrap();
        assert_eq!(fs::read_to_string(place.conf.join("hbase-env.sh")).unwrap(), env);
        assert_eq!(fs::read_to_string(place.conf.join("hbase-site.xml")).unwrap(), site);
    }
}
