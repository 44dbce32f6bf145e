//! The settings of a `*-site.xml`.

use anyhow::{Context, Result, anyhow};
use roxmltree::{Document, Node};
use std::collections::BTreeMap;
use std::path::Path;

/// What a file says. Of two values of one name the later one counts, if no earlier one is final.
#[derive(Clone, Debug, Default)]
pub struct Site {
    values: BTreeMap<String, (String, bool)>,
}

impl Site {
    /// Reads a file. One that is not there says nothing.
    pub fn load(path: &Path) -> Result<Site> {
        match std::fs::read_to_string(path) {
            Ok(text) => {
                Site::parse(&text).with_context(|| format!("{} cannot be read", path.display()))
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Site::default()),
            Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
        }
    }

    /// Reads a text.
    pub fn parse(text: &str) -> Result<Site> {
        let document = Document::parse(text)?;
        let root = document.root_element();
        if !root.has_tag_name("configuration") {
            return Err(anyhow!("its outermost element is not <configuration>"));
        }
        let mut site = Site::default();
        let all = root.children().filter(|node| node.has_tag_name("property"));
        for property in all {
            // Hadoop reads attributes first, and elements of the same name go before them.
            let part = |name: &str| {
                let element = property.children().find(|node| node.has_tag_name(name));
                let text = |node: Node<'_, '_>| node.text().unwrap_or("").trim().to_owned();
                let attribute = || property.attribute(name).map(|text| text.trim().to_owned());
                element.map(text).or_else(attribute).unwrap_or_default()
            };
            let name = part("name");
            let is_final = part("final") == "true";
            if !site.is_final(&name) {
                site.values.insert(name, (part("value"), is_final));
            }
        }
        Ok(site)
    }

    /// A setting.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(|(value, _)| value.as_str())
    }

    /// All names that begin so, and their values.
    pub fn all<'a>(&'a self, begin: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        let ours = self.values.iter().filter(move |(name, _)| name.starts_with(begin));
        ours.map(|(name, (value, _))| (name.as_str(), value.as_str()))
    }

    /// A setting that is a number.
    pub fn number(&self, name: &str, usual: f64) -> f64 {
        self.get(name).and_then(|value| value.parse().ok()).unwrap_or(usual)
    }

    /// Later values of this name are not taken.
    pub fn is_final(&self, name: &str) -> bool {
        self.values.get(name).is_some_and(|(_, is_final)| *is_final)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_later_value_counts_unless_the_earlier_is_final() {
        let site = Site::parse(
            "<?xml version=\"1.0\"?><configuration>\
             <property><name>a</name><value> 1 </value></property>\
             <property><name>a</name><value>2</value></property>\
             <property><name>b</name><value>1</value><final>true</final></property>\
             <property><name>b</name><value>2</value></property>\
             <property name=\"d\" value=\"1\" final=\"true\"/>\
             <property name=\"d\" value=\"2\"/>\
             <!-- <property><name>c</name><value>1</value></property> --></configuration>",
        )
        .unwrap();
        assert_eq!(site.get("d"), Some("1"));
        assert_eq!((site.get("a"), site.get("b"), site.get("c")), (Some("2"), Some("1"), None));
        assert!(site.is_final("b") && !site.is_final("a"));
        assert!(Site::parse("<configuration>").is_err());
        assert!(Site::parse("<site/>").is_err());
    }
}
