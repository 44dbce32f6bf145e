//! `/dev/ublk-control`: devices are added, started, stopped and removed by commands through a ring.

use super::Unavailable;
use super::abi::{Control as Command, ControlCommand, DeviceInfo, Encoding, Parameters};
use io_uring::{IoUring, cqueue, opcode, squeue, types};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::time::{Duration, Instant};

/// The driver's node.
pub(super) const NODE: &str = "/dev/ublk-control";

/// How long a command may take. Starting reads the partition table, of whatever the volume is made.
const PATIENCE: Duration = Duration::from_secs(30);

/// A grip on the driver.
pub(super) struct Control {
    // Before the node: a command in flight ends with its ring.
    ring: IoUring<squeue::Entry128, cqueue::Entry>,
    node: File,
    /// How commands are written, once one was understood.
    encoding: Option<Encoding>,
    /// Commands so far: the last one's name.
    sent: u64,
    /// Whether the last command is over is not known.
    lost: bool,
}

impl Control {
    /// Opens the driver.
    ///
    /// # Errors
    /// If it is not there, not for this user, or io_uring is not.
    pub(super) fn open() -> Result<Control, Unavailable> {
        Control::open_at(Path::new(NODE))
    }

    /// The same at another place, for tests.
    pub(super) fn open_at(path: &Path) -> Result<Control, Unavailable> {
        let node = match OpenOptions::new().read(true).write(true).open(path) {
            Ok(node) => node,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(Unavailable::Missing);
            }
            Err(error) => return Err(Unavailable::Refused(error)),
        };
        let ring = IoUring::builder().dontfork().build(4).map_err(Unavailable::Ring)?;
        Ok(Control { ring, node, encoding: None, sent: 0, lost: false })
    }

    /// How commands are written; the driver said so by understanding one.
    pub(super) fn encoding(&self) -> Encoding {
        self.encoding.unwrap_or(Encoding::Ioctl)
    }

    /// Adds a device; its number and what was granted is in `info` afterwards.
    pub(super) fn add(&mut self, info: &mut DeviceInfo) -> io::Result<()> {
        self.with(Command::AddDevice, info.dev_id, info)
    }

    /// What the driver knows of a device.
    pub(super) fn info(&mut self, id: u32) -> io::Result<DeviceInfo> {
        let mut info = DeviceInfo::default();
        self.with(Command::GetDeviceInfo, id, &mut info)?;
        Ok(info)
    }

    /// Says what the block device is to look like.
    pub(super) fn set_parameters(&mut self, id: u32, parameters: &Parameters) -> io::Result<()> {
        self.with(Command::SetParameters, id, &mut { *parameters })
    }

    /// Shows the block device. Its queue must have fetched for all tags, and be served.
    pub(super) fn start(&mut self, id: u32) -> io::Result<()> {
        let data = u64::from(std::process::id());
        self.call(Command::StartDevice, ControlCommand { data, ..ControlCommand::new(id) })
    }

    /// Takes the block device away. Its queue must be served until it has ended.
    pub(super) fn stop(&mut self, id: u32) -> io::Result<()> {
        self.call(Command::StopDevice, ControlCommand::new(id))
    }

    /// Removes a device that nobody has open; waits for who has, within bounds (ETIMEDOUT), and it goes
    /// by itself later.
    pub(super) fn delete(&mut self, id: u32) -> io::Result<()> {
        self.call(Command::DeleteDevice, ControlCommand::new(id))
    }

    /// A command whose argument lies in memory.
    fn with<T: Copy>(&mut self, command: Command, id: u32, argument: &mut T) -> io::Result<()> {
        // On the heap, and left there if the kernel may still write into it.
        let at = Box::into_raw(Box::new(*argument));
        // The structures of this interface are at most 64 bytes long.
        let len = size_of::<T>() as u16;
        let done =
            self.call(command, ControlCommand { len, addr: at as u64, ..ControlCommand::new(id) });
        if !self.lost {
            // SAFETY: made by `into_raw` above; the command is over, so the kernel has let go of it.
            *argument = *unsafe { Box::from_raw(at) };
        }
        done
    }

    fn call(&mut self, command: Command, argument: ControlCommand) -> io::Result<()> {
        if let Some(encoding) = self.encoding {
            return self.send(command, encoding, argument);
        }
        let first = self.send(command, Encoding::Ioctl, argument);
        if self.lost {
            return first;
        }
        // How drivers older than an encoding, or built without one, say so.
        let foreign = [libc::EINVAL, libc::EOPNOTSUPP, libc::ENODEV];
        let errno = first.as_ref().err().and_then(io::Error::raw_os_error);
        if errno.is_none_or(|errno| !foreign.contains(&errno)) {
            self.encoding = Some(Encoding::Ioctl);
            return first;
        }
        match self.send(command, Encoding::Plain, argument) {
            Ok(()) => {
                self.encoding = Some(Encoding::Plain);
                Ok(())
            }
            Err(_) => first,
        }
    }

    fn send(
        &mut self,
        command: Command,
        encoding: Encoding,
        argument: ControlCommand,
    ) -> io::Result<()> {
        let node = types::Fd(self.node.as_raw_fd());
        self.sent += 1;
        let entry = opcode::UringCmd80::new(node, command.code(encoding))
            .cmd(argument.encode())
            .build()
            .user_data(self.sent);
        self.lost = true;
        // SAFETY: the command stands in the entry itself; what its address names is kept by `with`
        // until the command is over, and for ever if that is not known.
        unsafe { self.ring.submission().push(&entry) }
            .map_err(|_| io::Error::from_raw_os_error(libc::EBUSY))?;
        let deadline = Instant::now() + PATIENCE;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let left = types::Timespec::from(left);
            let args = types::SubmitArgs::new().timespec(&left);
            match self.ring.submitter().submit_with_args(1, &args) {
                Ok(_) => {}
                Err(error) if error.raw_os_error() == Some(libc::EINTR) => {}
                Err(error) if error.raw_os_error() == Some(libc::ETIME) => {
                    return Err(io::Error::from_raw_os_error(libc::ETIMEDOUT));
                }
                Err(error) => return Err(error),
            }
            let sent = self.sent;
            // Others are those of commands that were not waited for any longer.
            let over = self.ring.completion().find(|entry| entry.user_data() == sent);
            if let Some(entry) = over {
                self.lost = false;
                return match entry.result() {
                    result if result < 0 => Err(io::Error::from_raw_os_error(-result)),
                    _ => Ok(()),
                };
            }
        }
    }
}
