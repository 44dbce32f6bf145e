//! The kernel's interface: what `linux/ublk_cmd.h` declares, as far as it is used here.
//!
//! Commands have two encodings. That of ioctls is understood since Linux 6.4, where kernels may be
//! built without the plain numbers; Linux 6.0 to 6.3 have only the plain numbers.

use std::mem::{offset_of, size_of};

/// Device numbers of the kernel's own choice.
pub(super) const ANY_DEVICE: u32 = u32::MAX;

/// The queue of a control command that concerns none.
const NO_QUEUE: u16 = u16::MAX;

/// What a fetch ends with when its device is stopped: nothing is to be fetched again.
pub(super) const RES_ABORT: i32 = -libc::ENODEV;

/// Most tags of a queue, by which the descriptors of queues lie apart in the mapping.
pub(super) const QUEUE_DEPTH_MAX: u16 = 4096;

/// `UBLK_ATTR_*`.
pub(super) const ATTR_ROTATIONAL: u32 = 1 << 1;
pub(super) const ATTR_VOLATILE_CACHE: u32 = 1 << 2;
pub(super) const ATTR_FUA: u32 = 1 << 3;

/// `UBLK_PARAM_TYPE_*`.
pub(super) const PARAM_TYPE_BASIC: u32 = 1 << 0;
pub(super) const PARAM_TYPE_DISCARD: u32 = 1 << 1;

/// `UBLK_IO_OP_*`.
pub(super) const OP_READ: u8 = 0;
pub(super) const OP_WRITE: u8 = 1;
pub(super) const OP_FLUSH: u8 = 2;
pub(super) const OP_DISCARD: u8 = 3;
pub(super) const OP_WRITE_ZEROES: u8 = 5;

/// `UBLK_IO_F_*`, as they stand in [`IoDescriptor::op_flags`].
pub(super) const IO_META: u32 = 1 << 11;
pub(super) const IO_FUA: u32 = 1 << 13;
pub(super) const IO_NO_UNMAP: u32 = 1 << 15;

/// What is asked of the driver as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Control {
    /// Fill a [`DeviceInfo`].
    GetDeviceInfo,
    /// Make a device of a [`DeviceInfo`], and fill in its number.
    AddDevice,
    /// Remove a device.
    DeleteDevice,
    /// Show the block device.
    StartDevice,
    /// Take the block device away.
    StopDevice,
    /// Take [`Parameters`].
    SetParameters,
}

/// What is asked of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Io {
    /// Give me a request.
    Fetch,
    /// Here is an answer; give me a request.
    CommitAndFetch,
}

/// How the number of a command is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Encoding {
    /// As an ioctl: direction, size of the argument, `u`, number.
    Ioctl,
    /// The number alone.
    Plain,
}

const fn ioctl_read<T>(number: u32) -> u32 {
    // Numbers of ioctls have 32 bits; the C library's type differs.
    libc::_IOR::<T>(b'u' as u32, number) as u32
}

const fn ioctl_read_write<T>(number: u32) -> u32 {
    // As above.
    libc::_IOWR::<T>(b'u' as u32, number) as u32
}

impl Control {
    /// The command's number.
    pub(super) const fn code(self, encoding: Encoding) -> u32 {
        let number = match self {
            Control::GetDeviceInfo => 0x02,
            Control::AddDevice => 0x04,
            Control::DeleteDevice => 0x05,
            Control::StartDevice => 0x06,
            Control::StopDevice => 0x07,
            Control::SetParameters => 0x08,
        };
        match (encoding, self) {
            (Encoding::Plain, _) => number,
            (Encoding::Ioctl, Control::GetDeviceInfo) => ioctl_read::<ControlCommand>(number),
            (Encoding::Ioctl, _) => ioctl_read_write::<ControlCommand>(number),
        }
    }
}

impl Io {
    /// The command's number.
    pub(super) const fn code(self, encoding: Encoding) -> u32 {
        let number = match self {
            Io::Fetch => 0x20,
            Io::CommitAndFetch => 0x21,
        };
        match encoding {
            Encoding::Plain => number,
            Encoding::Ioctl => ioctl_read_write::<IoCommand>(number),
        }
    }
}

/// `struct ublksrv_ctrl_cmd`: the argument of a control command, within its submission.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(super) struct ControlCommand {
    pub(super) dev_id: u32,
    pub(super) queue_id: u16,
    /// Bytes at `addr`.
    pub(super) len: u16,
    /// What is read or filled.
    pub(super) addr: u64,
    pub(super) data: u64,
    /// Only for devices of users without privileges.
    pub(super) device_path: [u8; 8],
}

impl ControlCommand {
    /// A command for a device, without an argument.
    pub(super) fn new(dev_id: u32) -> ControlCommand {
        ControlCommand { dev_id, queue_id: NO_QUEUE, ..ControlCommand::default() }
    }

    /// As it stands in a submission of 128 bytes.
    pub(super) fn encode(&self) -> [u8; 80] {
        let mut bytes = [0; 80];
        bytes[0..4].copy_from_slice(&self.dev_id.to_ne_bytes());
        bytes[4..6].copy_from_slice(&self.queue_id.to_ne_bytes());
        bytes[6..8].copy_from_slice(&self.len.to_ne_bytes());
        bytes[8..16].copy_from_slice(&self.addr.to_ne_bytes());
        bytes[16..24].copy_from_slice(&self.data.to_ne_bytes());
        bytes[24..32].copy_from_slice(&self.device_path);
        bytes
    }
}

/// `struct ublksrv_io_cmd`: the argument of a queue's command, within its submission.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(super) struct IoCommand {
    pub(super) q_id: u16,
    pub(super) tag: u16,
    /// Bytes done, or the negative error. Of answers only.
    pub(super) result: i32,
    /// Where the data of this answer lies, and where that of the next request goes.
    pub(super) addr: u64,
}

impl IoCommand {
    /// As it stands in a submission of 64 bytes.
    pub(super) fn encode(&self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[0..2].copy_from_slice(&self.q_id.to_ne_bytes());
        bytes[2..4].copy_from_slice(&self.tag.to_ne_bytes());
        bytes[4..8].copy_from_slice(&self.result.to_ne_bytes());
        bytes[8..16].copy_from_slice(&self.addr.to_ne_bytes());
        bytes
    }
}

/// `struct ublksrv_ctrl_dev_info`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(super) struct DeviceInfo {
    pub(super) nr_hw_queues: u16,
    pub(super) queue_depth: u16,
    pub(super) state: u16,
    pub(super) pad0: u16,
    pub(super) max_io_buf_bytes: u32,
    pub(super) dev_id: u32,
    pub(super) ublksrv_pid: i32,
    pub(super) pad1: u32,
    /// Features, asked for and then granted.
    pub(super) flags: u64,
    /// For the server alone: the driver keeps it and looks at it never.
    pub(super) ublksrv_flags: u64,
    pub(super) owner_uid: u32,
    pub(super) owner_gid: u32,
    pub(super) reserved1: u64,
    pub(super) reserved2: u64,
}

/// `struct ublk_param_basic`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(super) struct BasicParameters {
    pub(super) attrs: u32,
    /// Sizes of blocks as powers of two.
    pub(super) logical_bs_shift: u8,
    pub(super) physical_bs_shift: u8,
    pub(super) io_opt_shift: u8,
    pub(super) io_min_shift: u8,
    pub(super) max_sectors: u32,
    pub(super) chunk_sectors: u32,
    pub(super) dev_sectors: u64,
    pub(super) virt_boundary_mask: u64,
}

/// `struct ublk_param_discard`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(super) struct DiscardParameters {
    pub(super) discard_alignment: u32,
    /// In bytes.
    pub(super) discard_granularity: u32,
    pub(super) max_discard_sectors: u32,
    pub(super) max_write_zeroes_sectors: u32,
    pub(super) max_discard_segments: u16,
    pub(super) reserved0: u16,
}

/// `struct ublk_params` as Linux 6.0 has it; others have more at its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(super) struct Parameters {
    /// Bytes of all this: the kernel reads no more.
    pub(super) len: u32,
    /// Which parts are there.
    pub(super) types: u32,
    pub(super) basic: BasicParameters,
    pub(super) discard: DiscardParameters,
    /// What C adds for the alignment.
    pub(super) padding: u32,
}

/// `struct ublksrv_io_desc`: a request, in memory that the kernel writes and we read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(super) struct IoDescriptor {
    /// The operation in the lowest byte, flags above.
    pub(super) op_flags: u32,
    pub(super) nr_sectors: u32,
    pub(super) start_sector: u64,
    /// Where the data is, as we said when we fetched.
    pub(super) addr: u64,
}

// The header's layouts, on every architecture that Linux has: none of them has implicit padding.
const _: () = {
    assert!(size_of::<ControlCommand>() == 32);
    assert!(offset_of!(ControlCommand, queue_id) == 4);
    assert!(offset_of!(ControlCommand, len) == 6);
    assert!(offset_of!(ControlCommand, addr) == 8);
    assert!(offset_of!(ControlCommand, data) == 16);
    assert!(size_of::<IoCommand>() == 16);
    assert!(offset_of!(IoCommand, tag) == 2);
    assert!(offset_of!(IoCommand, result) == 4);
    assert!(offset_of!(IoCommand, addr) == 8);
    assert!(size_of::<DeviceInfo>() == 64);
    assert!(offset_of!(DeviceInfo, max_io_buf_bytes) == 8);
    assert!(offset_of!(DeviceInfo, dev_id) == 12);
    assert!(offset_of!(DeviceInfo, flags) == 24);
    assert!(offset_of!(DeviceInfo, ublksrv_flags) == 32);
    assert!(size_of::<BasicParameters>() == 32);
    assert!(offset_of!(BasicParameters, max_sectors) == 8);
    assert!(offset_of!(BasicParameters, dev_sectors) == 16);
    assert!(size_of::<DiscardParameters>() == 20);
    assert!(offset_of!(DiscardParameters, max_discard_segments) == 16);
    assert!(size_of::<Parameters>() == 64);
    assert!(offset_of!(Parameters, basic) == 8);
    assert!(offset_of!(Parameters, discard) == 40);
    assert!(size_of::<IoDescriptor>() == 24);
    assert!(offset_of!(IoDescriptor, nr_sectors) == 4);
    assert!(offset_of!(IoDescriptor, start_sector) == 8);
    assert!(offset_of!(IoDescriptor, addr) == 16);
};

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn commands_have_the_numbers_of_the_header() {
        // _IOWR('u', 0x04, 32 bytes) = 3 << 30 | 32 << 16 | 0x75 << 8 | 4, and so on.
        if cfg!(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")) {
            assert_eq!(Control::AddDevice.code(Encoding::Ioctl), 0xc020_7504);
            assert_eq!(Control::GetDeviceInfo.code(Encoding::Ioctl), 0x8020_7502);
            assert_eq!(Control::SetParameters.code(Encoding::Ioctl), 0xc020_7508);
            assert_eq!(Io::Fetch.code(Encoding::Ioctl), 0xc010_7520);
            assert_eq!(Io::CommitAndFetch.code(Encoding::Ioctl), 0xc010_7521);
        }
        assert_eq!(Control::DeleteDevice.code(Encoding::Plain), 0x05);
        assert_eq!(Control::StartDevice.code(Encoding::Plain), 0x06);
        assert_eq!(Control::StopDevice.code(Encoding::Plain), 0x07);
        assert_eq!(Io::CommitAndFetch.code(Encoding::Plain), 0x21);
    }

    #[test]
    fn a_control_command_stands_in_its_submission_as_in_memory() {
        let command = ControlCommand {
            len: 0x0a0b,
            addr: 0x1122_3344_5566_7788,
            data: 0x99,
            ..ControlCommand::new(0x0102_0304)
        };
        let bytes = command.encode();
        assert_eq!(bytes[0..4], 0x0102_0304_u32.to_ne_bytes());
        assert_eq!(bytes[4..6], [0xff, 0xff], "no queue");
        assert_eq!(bytes[6..8], 0x0a0b_u16.to_ne_bytes());
        assert_eq!(bytes[8..16], 0x1122_3344_5566_7788_u64.to_ne_bytes());
        assert_eq!(bytes[16..24], 0x99_u64.to_ne_bytes());
        assert!(bytes[24..].iter().all(|byte| *byte == 0));
    }

    #[test]
    fn a_queues_command_stands_in_its_submission_as_in_memory() {
        let bytes = IoCommand { q_id: 1, tag: 0x0203, result: -5, addr: 0x77 }.encode();
        assert_eq!(bytes[0..2], 1_u16.to_ne_bytes());
        assert_eq!(bytes[2..4], 0x0203_u16.to_ne_bytes());
        assert_eq!(bytes[4..8], (-5_i32).to_ne_bytes());
        assert_eq!(bytes[8..16], 0x77_u64.to_ne_bytes());
    }

    /// Sizes and places as a C compiler sees them in the header that is installed. Members that
    /// Linux 6.0 did not have are left out, and the size of `ublk_params`, which grows.
    #[test]
    fn the_layouts_are_those_of_the_installed_header() {
        let places: &[(&str, usize)] = &[
            ("sizeof(struct ublksrv_ctrl_cmd)", size_of::<ControlCommand>()),
            ("offsetof(struct ublksrv_ctrl_cmd, queue_id)", offset_of!(ControlCommand, queue_id)),
            ("offsetof(struct ublksrv_ctrl_cmd, len)", offset_of!(ControlCommand, len)),
            ("offsetof(struct ublksrv_ctrl_cmd, addr)", offset_of!(ControlCommand, addr)),
            ("offsetof(struct ublksrv_ctrl_cmd, data)", offset_of!(ControlCommand, data)),
            ("sizeof(struct ublksrv_io_cmd)", size_of::<IoCommand>()),
            ("offsetof(struct ublksrv_io_cmd, tag)", offset_of!(IoCommand, tag)),
            ("offsetof(struct ublksrv_io_cmd, result)", offset_of!(IoCommand, result)),
            ("offsetof(struct ublksrv_io_cmd, addr)", offset_of!(IoCommand, addr)),
            ("sizeof(struct ublksrv_ctrl_dev_info)", size_of::<DeviceInfo>()),
            (
                "offsetof(struct ublksrv_ctrl_dev_info, max_io_buf_bytes)",
                offset_of!(DeviceInfo, max_io_buf_bytes),
            ),
            ("offsetof(struct ublksrv_ctrl_dev_info, dev_id)", offset_of!(DeviceInfo, dev_id)),
            ("offsetof(struct ublksrv_ctrl_dev_info, flags)", offset_of!(DeviceInfo, flags)),
            (
                "offsetof(struct ublksrv_ctrl_dev_info, ublksrv_flags)",
                offset_of!(DeviceInfo, ublksrv_flags),
            ),
            ("sizeof(struct ublk_param_basic)", size_of::<BasicParameters>()),
            (
                "offsetof(struct ublk_param_basic, max_sectors)",
                offset_of!(BasicParameters, max_sectors),
            ),
            (
                "offsetof(struct ublk_param_basic, dev_sectors)",
                offset_of!(BasicParameters, dev_sectors),
            ),
            ("sizeof(struct ublk_param_discard)", size_of::<DiscardParameters>()),
            (
                "offsetof(struct ublk_param_discard, max_write_zeroes_sectors)",
                offset_of!(DiscardParameters, max_write_zeroes_sectors),
            ),
            (
                "offsetof(struct ublk_param_discard, max_discard_segments)",
                offset_of!(DiscardParameters, max_discard_segments),
            ),
            ("offsetof(struct ublk_params, basic)", offset_of!(Parameters, basic)),
            ("offsetof(struct ublk_params, discard)", offset_of!(Parameters, discard)),
            ("sizeof(struct ublksrv_io_desc)", size_of::<IoDescriptor>()),
            ("offsetof(struct ublksrv_io_desc, nr_sectors)", offset_of!(IoDescriptor, nr_sectors)),
            (
                "offsetof(struct ublksrv_io_desc, start_sector)",
                offset_of!(IoDescriptor, start_sector),
            ),
            ("offsetof(struct ublksrv_io_desc, addr)", offset_of!(IoDescriptor, addr)),
            ("UBLK_ATTR_ROTATIONAL", ATTR_ROTATIONAL as usize),
            ("UBLK_ATTR_VOLATILE_CACHE", ATTR_VOLATILE_CACHE as usize),
            ("UBLK_ATTR_FUA", ATTR_FUA as usize),
            ("UBLK_PARAM_TYPE_DISCARD", PARAM_TYPE_DISCARD as usize),
            ("UBLK_IO_OP_WRITE_ZEROES", usize::from(OP_WRITE_ZEROES)),
            ("UBLK_IO_F_META", IO_META as usize),
            ("UBLK_IO_F_FUA", IO_FUA as usize),
            ("UBLK_IO_F_NOUNMAP", IO_NO_UNMAP as usize),
            ("UBLK_MAX_QUEUE_DEPTH", usize::from(QUEUE_DEPTH_MAX)),
            ("UBLK_CMD_GET_DEV_INFO", Control::GetDeviceInfo.code(Encoding::Plain) as usize),
            ("UBLK_CMD_ADD_DEV", Control::AddDevice.code(Encoding::Plain) as usize),
            ("UBLK_CMD_DEL_DEV", Control::DeleteDevice.code(Encoding::Plain) as usize),
            ("UBLK_CMD_START_DEV", Control::StartDevice.code(Encoding::Plain) as usize),
            ("UBLK_CMD_STOP_DEV", Control::StopDevice.code(Encoding::Plain) as usize),
            ("UBLK_CMD_SET_PARAMS", Control::SetParameters.code(Encoding::Plain) as usize),
            ("UBLK_IO_FETCH_REQ", Io::Fetch.code(Encoding::Plain) as usize),
            ("UBLK_IO_COMMIT_AND_FETCH_REQ", Io::CommitAndFetch.code(Encoding::Plain) as usize),
        ];
        let mut source =
            "#include <errno.h>\n#include <stddef.h>\n#include <linux/ublk_cmd.h>\n".to_owned();
        source += "_Static_assert(UBLK_IO_RES_ABORT == -19, \"abort\");\n";
        for (expression, value) in places {
            source += &format!("_Static_assert({expression} == {value}, \"{expression}\");\n");
        }
        assert_eq!(RES_ABORT, -19);
        let dir = std::env::temp_dir().join(format!("headworks-ublk-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let file = dir.join("layout.c");
        std::fs::write(&file, source).unwrap();
        let output = Command::new("cc").arg("-fsyntax-only").arg(&file).output();
        std::fs::remove_dir_all(&dir).unwrap();
        let Ok(output) = output else { return println!("skipped: cc is missing") };
        let said = String::from_utf8_lossy(&output.stderr);
        if said.contains("ublk_cmd.h: No such file") {
            return println!(
                "skipped: linux/ublk_cmd.h is missing (apt-get install linux-libc-dev)"
            );
        }
        assert!(output.status.success(), "{said}");
    }
}
