//! `volume create` and `volume rm`.

use super::state::{self, Description, FileSystem, Named};
use super::tunnel::Tunnel;
use crate::cli;
use anyhow::{Context, Result, bail};
use headworks_volume::VolumeConfig;
use headworks_volume::config::MEMORY;
use headworks_volume::store;
use std::fs::{DirBuilder, OpenOptions};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

/// Describes a volume. On failure nothing is left.
pub fn create(args: &cli::Create) -> Result<()> {
    let volume = Named::new(&args.name)?;
    if volume.path().exists() {
        bail!(
            "there is a volume `{0}` already\n  look: headworks volume stat {0}; remove it: headworks volume rm {0}",
            volume.name
        );
    }
    let absolute = |text: &str| -> Result<String> {
        let path = std::path::absolute(text)?;
        path.into_os_string().into_string().ok().context("paths of volumes must be UTF-8")
    };
    let in_memory = args.backing == MEMORY;
    let remote = store::nbd::Address::looks_like(&args.backing);
    let backing = if in_memory || remote { args.backing.clone() } else { absolute(&args.backing)? };
    let mut config = VolumeConfig::new(args.size, &backing);
    config.memory_bytes_max = args.memory_max;
    config.page_cache = page_cache(args, in_memory || remote)?;
    // The volume's process has another working directory.
    config.device =
        if args.device.ends_with(".toml") { absolute(&args.device)? } else { args.device.clone() };
    config.scheduler.clone_from(&args.scheduler);
    config.block_bytes = args.block;
    config.seed = args.seed;
    config.layers = args
        .layer
        .iter()
        .map(|text| match text.strip_prefix("record:") {
            Some(file) => Ok(format!("record:{}", absolute(file)?)),
            None => Ok(text.clone()),
        })
        .collect::<Result<_>>()?;
    config.check()?;
    refuse_taken(&backing)?;
    if remote {
        // Opened as the volume will, then closed: it exists, and is large enough and writable.
        let dir = std::env::temp_dir().join(format!("headworks-{}", std::process::id()));
        DirBuilder::new().mode(0o700).create(&dir)?;
        let opened = Tunnel::open(&config, &dir.join("tunnel.sock")).and_then(|tunnel| {
            Ok(config.open_store_by(tunnel.as_ref().map(Tunnel::socket)).map(|_| ())?)
        });
        let _ = std::fs::remove_dir_all(&dir);
        opened?;
    }
    let made_backing = !in_memory && !remote && prepare(Path::new(&backing), args.size)?;
    let description = Description {
        file_system: (!args.raw).then_some(match args.fs {
            cli::FsArg::Ext4 => FileSystem::Ext4,
            cli::FsArg::Xfs => FileSystem::Xfs,
        }),
        kernel_scheduler: args.kernel_scheduler.clone(),
        kernel_requests: args.kernel_requests,
        kernel_throttle_us: args.kernel_throttle,
        made_backing,
        volume: config,
    };
    if let Err(error) = volume.write_new(&description) {
        if made_backing {
            let _ = std::fs::remove_file(&backing);
        }
        return Err(error);
    }
    println!(
        "volume `{}` is described in {}\n  start it: headworks volume mount {0}{}",
        volume.name,
        volume.path().display(),
        if args.raw { "" } else { " DIRECTORY" }
    );
    Ok(())
}

/// Whether the page cache is used. Memory is no file, and a server has its own cache.
fn page_cache(args: &cli::Create, no_file: bool) -> Result<bool> {
    if args.page_cache && no_file {
        bail!(
            "--page-cache is for a file or a device: leave it out with --backing {}",
            args.backing
        );
    }
    Ok(args.page_cache)
}

/// Two volumes on the same bytes would destroy each other.
fn refuse_taken(backing: &str) -> Result<()> {
    if backing == MEMORY {
        return Ok(());
    }
    let path = Path::new(backing);
    for other in state::all() {
        let used = other.read().is_ok_and(|description| {
            let theirs = &description.volume.backing;
            theirs == backing && (path.exists() || description.volume.is_nbd())
                || path.exists()
                    && std::fs::canonicalize(theirs).ok() == std::fs::canonicalize(path).ok()
        });
        if used {
            bail!(
                "{backing} backs volume `{0}` already\n  remove that one first: headworks volume rm {0}",
                other.name
            );
        }
    }
    Ok(())
}

/// Makes a sparse backing file, or checks the existing one. Returns whether it made one.
fn prepare(path: &Path, size: u64) -> Result<bool> {
    if path.exists() {
        // Opened as the volume will, then closed.
        store::File::open(path, size)?;
        return Ok(false);
    }
    let file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .with_context(|| format!("cannot make the backing file {}", path.display()))?;
    if let Err(error) = file.set_len(size) {
        let _ = std::fs::remove_file(path);
        return Err(error).with_context(|| {
            format!(
                "cannot make {} {size} bytes long: the file system there may not hold such files",
                path.display()
            )
        });
    }
    Ok(true)
}

/// Forgets a volume.
pub fn rm(args: &cli::Rm) -> Result<()> {
    let (volume, description) = Named::existing(&args.name)?;
    if volume.is_running() {
        bail!("volume `{0}` runs\n  end it first: headworks volume umount {0}", volume.name);
    }
    if volume.note().is_some() {
        bail!(
            "volume `{}` crashed and left something behind\n  clean it up first: headworks volume doctor",
            volume.name
        );
    }
    let backing = Path::new(&description.volume.backing);
    if args.with_backing && !description.volume.in_memory() {
        if !backing.is_file() {
            bail!("{} is no file, so it cannot be deleted", backing.display());
        }
        // Locked as a volume would: no other volume uses it.
        let _held = store::File::open(backing, description.volume.size_bytes)?;
        std::fs::remove_file(backing)
            .with_context(|| format!("cannot delete {}", backing.display()))?;
    }
    let path = volume.path();
    std::fs::remove_file(&path).with_context(|| format!("cannot remove {}", path.display()))?;
    volume.clear();
    println!("volume `{}` is forgotten", volume.name);
    if !args.with_backing && description.made_backing && backing.exists() {
        println!("  its bytes are still in {0}: rm {0}", backing.display());
    }
    Ok(())
}
