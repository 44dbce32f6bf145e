//! Our block in a file that the scripts of HBase and Hadoop read.

/// Begins it.
pub const SHELL_BEGIN: &str = "# headworks begin: `headworks hbase disable` takes this out";
/// Ends it.
pub const SHELL_END: &str = "# headworks end";

/// Adds something to a variable that servers are started with.
pub struct Export {
    /// The variable.
    pub name: &'static str,
    /// What stands before the value, where the variable has one.
    pub between: &'static str,
    /// The value.
    pub value: String,
}

impl Export {
    /// A file is read twice where one script starts another: what is there is not added again.
    fn line(&self) -> String {
        let Export { name, between, value } = self;
        format!(
            "case \"${name}\" in *\"{value}\"*) ;; *) export {name}=\"${name}{between}{value}\" ;; esac"
        )
    }
}

/// The text with our block at its end.
///
/// A file that returns early never comes to its end. What it sets later may replace what stands at
/// its beginning. So such a file has our lines at both.
pub fn with(bare: &str, exports: &[Export]) -> String {
    let lines: Vec<String> = exports.iter().map(Export::line).collect();
    let block = format!("{SHELL_BEGIN}\n{}\n{SHELL_END}", lines.join("\n"));
    let head = match returns(bare) {
        true => {
            let (first, rest) = bare.split_at(after_interpreter(bare));
            format!("{first}{block}\n{rest}")
        }
        false => bare.to_owned(),
    };
    // A last line without an end must not run into ours. That our block has no end, too, says that.
    let (gap, end) = if bare.is_empty() || bare.ends_with('\n') { ("", "\n") } else { ("\n", "") };
    format!("{head}{gap}{block}{end}")
}

/// Whether a shell's file may be left before its end.
fn returns(text: &str) -> bool {
    let words = |line: &str| {
        let code = line.split('#').next().unwrap_or("").to_owned();
        code.split([' ', '\t', ';', '&', '|', '{', '}', '(', ')'])
            .any(|word| word == "return" || word == "exit" || word == "exec")
    };
    text.lines().any(words)
}

/// Where the first line ends that names an interpreter.
fn after_interpreter(text: &str) -> usize {
    let line = text.starts_with("#!").then(|| text.find('\n')).flatten();
    line.map_or(0, |end| end + 1)
}
