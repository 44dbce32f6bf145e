//! Obstacles between a service and the library: AppArmor, SELinux, restrictions of the unit.

use super::plan::Place;
use super::unit::Unit;
use std::path::Path;

/// What to know and to do beside the files.
pub fn all(
    place: &Place,
    unit: &Unit,
    program: Option<&Path>,
    instance: &str,
    scheduled: bool,
) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(program) = program {
        notes.extend(apparmor(&place.root, program, &place.library, instance));
    }
    notes.extend(selinux(&place.root));
    let filter = unit.all("SystemCallFilter");
    if scheduled && filter.first().is_some_and(|first| !first.starts_with('~')) {
        notes.push(
            "SystemCallFilter: where it does not allow cachestat, early writeback is not waited for and reads are not \
             held. Allow it if your systemd knows it (systemd-analyze syscall-filter @known)"
                .to_owned(),
        );
    }
    for key in ["RootDirectory", "RootImage"] {
        if let Some(value) = unit.last(key) {
            notes.push(format!(
                "{key}={value}: the library and /run/headworks must be reachable inside of it (BindReadOnlyPaths=, BindPaths=)"
            ));
        }
    }
    notes
}

/// A profile that confines the program must allow the library and the region.
fn apparmor(root: &Path, program: &Path, library: &Path, instance: &str) -> Option<String> {
    let name = program.to_string_lossy().trim_start_matches('/').replace('/', ".");
    let file = root.join("etc/apparmor.d").join(&name);
    let text = std::fs::read_to_string(&file).ok()?;
    // Debian's file for MariaDB exists, and is empty on purpose.
    let says = text.lines().any(|line| !line.trim().is_empty() && !line.trim().starts_with('#'));
    says.then(|| {
        format!(
            "AppArmor: /etc/apparmor.d/{name} confines the server and must allow the library and the region:\n\
             printf '  {} mr,\\n  /run/headworks/{instance}/** rw,\\n' | sudo tee -a /etc/apparmor.d/local/{name}\n\
             sudo apparmor_parser -r /etc/apparmor.d/{name}",
            library.display()
        )
    })
}

fn selinux(root: &Path) -> Option<String> {
    let config = std::fs::read_to_string(root.join("etc/selinux/config")).unwrap_or_default();
    let on = config.lines().any(|line| {
        line.trim().strip_prefix("SELINUX=").is_some_and(|mode| mode.trim() == "enforcing")
    });
    on.then(|| {
        "SELinux: it clears LD_PRELOAD where a service changes its domain, and may refuse the region. After the first \
         restart: sudo ausearch -m avc -ts recent | audit2allow -M headworks && sudo semodule -i headworks.pp \
         (a rule `noatsecure` from init_t to the server's domain keeps LD_PRELOAD)"
            .to_owned()
    })
}
