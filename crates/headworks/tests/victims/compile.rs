//! Makes programs from the C sources beside this file.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use headworks_rig::find_program;

/// A directory for what is compiled, gone when dropped.
#[derive(Debug)]
pub struct Workshop {
    path: PathBuf,
    compiler: PathBuf,
}

impl Workshop {
    /// `None`, with the reason printed, if there is no C compiler.
    pub fn open() -> Option<Workshop> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let Some(compiler) = find_program("cc") else {
            println!("skipped: no C compiler (apt-get install gcc libc6-dev)");
            return None;
        };
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path =
            std::env::temp_dir().join(format!("headworks-victims-{}-{number}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir(&path).expect("a directory for victims");
        Some(Workshop { path, compiler })
    }

    /// A library of the compiler's, if it is installed.
    #[allow(dead_code)] // one of the test programs uses it
    pub fn library(&self, name: &str) -> Option<PathBuf> {
        let asked = format!("-print-file-name={name}");
        let output = Command::new(&self.compiler).arg(asked).output().expect("the C compiler");
        // An unknown one comes back as it was asked for.
        let path = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim_end());
        path.is_absolute().then(|| fs::canonicalize(path).expect("the library"))
    }

    /// Compiles `source` with these options and returns the result.
    pub fn compile(&self, source: &str, options: &[&str]) -> PathBuf {
        let library = options.contains(&"-shared");
        let stem = source.trim_end_matches(".c");
        let made = self.path.join(if library { format!("lib{stem}.so") } else { stem.to_owned() });
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/victims");
        let output = Command::new(&self.compiler)
            // Some compilers fortify, and then warn of each result that is not looked at.
            .args(["-O1", "-Wall", "-Werror", "-Wno-unused-result", "-pthread"])
            .arg(concat!("-I", env!("CARGO_MANIFEST_DIR"), "/../../include"))
            .arg("-o")
            .arg(&made)
            .arg(sources.join(source))
            .args(options)
            .output()
            .expect("the C compiler");
        assert!(output.status.success(), "{source}: {}", String::from_utf8_lossy(&output.stderr));
        made
    }
}

impl Drop for Workshop {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}
