//! Our blocks in the files of a configuration.

use crate::hbase::site::Site;
use anyhow::{Context, Result, bail, ensure};
use std::io::Write;
use std::path::{Path, PathBuf};

/// A call queue that can be replaced.
pub const QUEUE_TYPE: &str = "hbase.ipc.server.callqueue.type";
/// By what.
pub const QUEUE_CLASS: &str = "hbase.ipc.server.callqueue.pluggable.queue.class.name";
/// Ours.
pub const OUR_QUEUE: &str = "headworks.hbase.FairCallQueue";

const XML_BEGIN: &str = "<!-- headworks begin: `headworks hbase disable` takes this out -->";
const XML_END: &str = "<!-- headworks end -->";
const SHELL_BEGIN: &str = "# headworks begin: `headworks hbase disable` takes this out";
const SHELL_END: &str = "# headworks end";
const CLOSING: &str = "</configuration>";

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
    /// Settings of ours for `hbase-site.xml`.
    pub settings: Vec<(String, String)>,
    /// A controller that DataNodes are to ask.
    pub controller: Option<String>,
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
    let mut settings = vec![
        (QUEUE_TYPE.to_owned(), "pluggable".to_owned()),
        (QUEUE_CLASS.to_owned(), OUR_QUEUE.to_owned()),
    ];
    settings.extend(place.settings.iter().cloned());
    for (name, _) in &settings {
        ensure!(
            !site.is_final(name),
            "{} says that {name} is final\n  take <final> out first",
            site_path.display()
        );
    }
    let mut changes = vec![
        change(site_path, Some(with_settings(&bare, &settings)?))?,
        shell(
            &place.conf.join("hbase-env.sh"),
            &[
                format!(
                    "export HBASE_CLASSPATH=\"${{HBASE_CLASSPATH:+$HBASE_CLASSPATH:}}{}\"",
                    place.jars.join(PLUGIN).display()
                ),
                format!(
                    "export HBASE_REGIONSERVER_OPTS=\"$HBASE_REGIONSERVER_OPTS -javaagent:{}\"",
                    place.jars.join(AGENT).display()
                ),
            ],
        )?,
    ];
    if let Some(hadoop) = &place.hadoop_conf {
        let controller =
            place.controller.as_ref().map_or(String::new(), |at| format!("=controller={at}"));
        let agent = format!(
            "export HDFS_DATANODE_OPTS=\"$HDFS_DATANODE_OPTS -javaagent:{}{controller}\"",
            place.jars.join(AGENT).display()
        );
        changes.push(shell(&hadoop.join("hadoop-env.sh"), &[agent])?);
    }
    Ok(changes.into_iter().flatten().collect())
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
    let at = bare.rfind(CLOSING).context("hbase-site.xml does not end with </configuration>")?;
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

fn shell(path: &Path, lines: &[String]) -> Result<Option<Change>> {
    let text = read(path)?.unwrap_or_default();
    let bare =
        without(&text, SHELL_BEGIN, SHELL_END).with_context(|| path.display().to_string())?;
    // A last line without an end must not run into ours. That our block has no end, too, says that.
    let (gap, end) = if bare.is_empty() || bare.ends_with('\n') { ("", "\n") } else { ("\n", "") };
    change(
        path.to_owned(),
        Some(format!("{bare}{gap}{SHELL_BEGIN}\n{}\n{SHELL_END}{end}", lines.join("\n"))),
    )
}

/// The text without our block, as it was before it.
fn without(text: &str, begin: &str, end: &str) -> Result<String> {
    let Some(from) = text.find(begin) else { return Ok(text.to_owned()) };
    let Some(to) = text[from..].find(end) else {
        bail!("our block begins and does not end\n  take it out by hand")
    };
    let rest = &text[from + to + end.len()..];
    let before = &text[..from];
    let before = if rest.is_empty() { before.strip_suffix('\n').unwrap_or(before) } else { before };
    Ok(format!("{before}{}", rest.strip_prefix('\n').unwrap_or(rest)))
}

fn change(path: PathBuf, after: Option<String>) -> Result<Option<Change>> {
    let before = read(&path)?;
    Ok((before != after).then_some(Change { path, before, after }))
}

fn read(path: &Path) -> Result<Option<String>> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
}

fn put(path: &Path, text: Option<&str>) -> Result<()> {
    let Some(text) = text else {
        return std::fs::remove_file(path)
            .with_context(|| format!("cannot remove {}", path.display()));
    };
    let write = || -> std::io::Result<()> {
        let fresh = path.with_extension("headworks-new");
        let mut file = std::fs::File::create(&fresh)?;
        if let Ok(old) = std::fs::metadata(path) {
            file.set_permissions(old.permissions())?;
        }
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&fresh, path)
    };
    write().with_context(|| format!("cannot write {}", path.display()))
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
            controller: None,
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
}
