//! What may keep a library out of a server: AppArmor, SELinux, ptrace rules.

use super::Finding;
use super::machine::read;
use std::path::Path;

pub(super) fn all(shim: &Path) -> Vec<Finding> {
    let enabled = read("/sys/module/apparmor/parameters/enabled").is_some_and(|word| word == "Y");
    vec![
        judge_apparmor(enabled, read("/sys/kernel/security/apparmor/profiles").as_deref(), shim),
        judge_selinux(read("/sys/fs/selinux/enforce").as_deref()),
        judge_ptrace(read("/proc/sys/kernel/yama/ptrace_scope").as_deref()),
    ]
}

/// A profile that confines the server must let it read the library and write the region.
fn judge_apparmor(enabled: bool, profiles: Option<&str>, shim: &Path) -> Finding {
    let name = "AppArmor";
    if !enabled {
        return Finding::ok(name, "off");
    }
    let Some(profiles) = profiles else {
        return Finding::ok(
            name,
            "on; only root can see whether a profile confines the server (sudo headworks doctor)",
        );
    };
    let profile = profiles
        .lines()
        .filter(|line| line.ends_with("(enforce)"))
        .filter_map(|line| line.split_whitespace().next())
        .find(|profile| ["mariadbd", "mysqld"].iter().any(|server| profile.contains(server)));
    let Some(profile) = profile else {
        return Finding::ok(name, "on; no profile confines a MariaDB server");
    };
    let file = profile.trim_start_matches('/').replace('/', ".");
    Finding::warning(
        name,
        format!(
            "the profile {profile} confines the server and must allow the library and the region"
        ),
        format!(
            "printf '{} mr,\\n/run/headworks/** rw,\\n/dev/shm/headworks-*/** rw,\\n' | sudo tee -a /etc/apparmor.d/local/{file}\n\
             sudo apparmor_parser -r /etc/apparmor.d/{file}",
            shim.display()
        ),
    )
}

fn judge_selinux(enforce: Option<&str>) -> Finding {
    let name = "SELinux";
    match enforce {
        None => Finding::ok(name, "off"),
        Some("0") => Finding::ok(name, "on, and only writes down what it would refuse"),
        Some(_) => Finding::warning(
            name,
            "on: it clears LD_PRELOAD when a service changes its domain, and may refuse the region",
            "sudo ausearch -m avc -ts recent | audit2allow -M headworks && sudo semodule -i headworks.pp",
        ),
    }
}

fn judge_ptrace(scope: Option<&str>) -> Finding {
    let name = "ptrace";
    match scope {
        None | Some("0") => Finding::ok(
            name,
            "processes of one user may trace each other; the gate does not need it",
        ),
        Some(scope) => Finding::ok(
            name,
            format!(
                "restricted (ptrace_scope {scope}); the gate does not need it, debugging a governed server does: use sudo"
            ),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::State;
    use super::*;

    #[test]
    fn only_an_enforced_profile_of_a_server_is_warned_of() {
        let judge = |enabled, profiles| {
            judge_apparmor(enabled, profiles, Path::new("/usr/lib/libheadworks.so"))
        };
        assert_eq!(judge(false, None).state, State::Ok);
        assert_eq!(judge(true, None).state, State::Ok);
        assert_eq!(
            judge(true, Some("/usr/sbin/ntpd (enforce)\n/usr/sbin/mariadbd (complain)")).state,
            State::Ok
        );
        let confined = judge(true, Some("man_groff (enforce)\n/usr/sbin/mariadbd (enforce)"));
        let mend = confined.mend.unwrap();
        assert!(
            mend.contains("/usr/lib/libheadworks.so mr,")
                && mend.contains("local/usr.sbin.mariadbd"),
            "{mend}"
        );
    }

    #[test]
    fn selinux_matters_only_when_it_enforces() {
        assert_eq!(judge_selinux(None).state, State::Ok);
        assert_eq!(judge_selinux(Some("0")).state, State::Ok);
        assert_eq!(judge_selinux(Some("1")).state, State::Warning);
    }
}
