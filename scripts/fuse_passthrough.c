/* The least that libfuse needs to pass one file through: the yardstick of scripts/bench-fuse.
 * fuse_passthrough FILE DIRECTORY: DIRECTORY/disk is FILE. */
#define FUSE_USE_VERSION 312
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <fuse_lowlevel.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

static int backing;
static off_t size;

static void attributes(fuse_ino_t node, struct stat *stat)
{
    memset(stat, 0, sizeof *stat);
    stat->st_ino = node;
    stat->st_nlink = 1;
    stat->st_mode = node == 1 ? S_IFDIR | 0500 : S_IFREG | 0600;
    stat->st_size = node == 1 ? 0 : size;
}

static void init(void *data, struct fuse_conn_info *connection)
{
    (void)data;
    connection->max_background = 256;
    connection->congestion_threshold = 256;
    connection->want |= FUSE_CAP_ASYNC_DIO;
}

static void lookup(fuse_req_t request, fuse_ino_t parent, const char *name)
{
    struct fuse_entry_param entry = {.ino = 2, .attr_timeout = 1e6, .entry_timeout = 1e6};
    if (parent != 1 || strcmp(name, "disk") != 0) {
        fuse_reply_err(request, ENOENT);
        return;
    }
    attributes(2, &entry.attr);
    fuse_reply_entry(request, &entry);
}

static void getattr(fuse_req_t request, fuse_ino_t node, struct fuse_file_info *file)
{
    struct stat stat;
    (void)file;
    attributes(node, &stat);
    fuse_reply_attr(request, &stat, 1e6);
}

static void open_disk(fuse_req_t request, fuse_ino_t node, struct fuse_file_info *file)
{
    (void)node;
    file->direct_io = 1;
#if FUSE_VERSION >= FUSE_MAKE_VERSION(3, 15)
    file->parallel_direct_writes = 1;
#endif
    file->noflush = 1;
    fuse_reply_open(request, file);
}

static void read_disk(fuse_req_t request, fuse_ino_t node, size_t len, off_t offset,
                      struct fuse_file_info *file)
{
    static _Thread_local char buffer[1 << 20];
    (void)node;
    (void)file;
    ssize_t done = pread(backing, buffer, len, offset);
    if (done < 0)
        fuse_reply_err(request, errno);
    else
        fuse_reply_buf(request, buffer, done);
}

static void write_disk(fuse_req_t request, fuse_ino_t node, const char *bytes, size_t len,
                       off_t offset, struct fuse_file_info *file)
{
    (void)node;
    (void)file;
    ssize_t done = pwrite(backing, bytes, len, offset);
    if (done < 0)
        fuse_reply_err(request, errno);
    else
        fuse_reply_write(request, done);
}

static void fsync_disk(fuse_req_t request, fuse_ino_t node, int data, struct fuse_file_info *file)
{
    (void)node;
    (void)data;
    (void)file;
    fuse_reply_err(request, fdatasync(backing) ? errno : 0);
}

static const struct fuse_lowlevel_ops operations = {
    .init = init, .lookup = lookup, .getattr = getattr, .open = open_disk,
    .read = read_disk, .write = write_disk, .fsync = fsync_disk,
};

int main(int count, char **arguments)
{
    char *own[] = {arguments[0], NULL};
    struct fuse_args args = FUSE_ARGS_INIT(1, own);
    if (count != 3 || (backing = open(arguments[1], O_RDWR)) < 0) {
        fprintf(stderr, "usage: fuse_passthrough FILE DIRECTORY\n");
        return 1;
    }
    size = lseek(backing, 0, SEEK_END);
    prctl(57 /* PR_SET_IO_FLUSHER */, 1, 0, 0, 0);
    struct fuse_session *session = fuse_session_new(&args, &operations, sizeof operations, NULL);
    struct fuse_loop_config *config = fuse_loop_cfg_create();
    if (!session || fuse_set_signal_handlers(session) || fuse_session_mount(session, arguments[2]))
        return 1;
    fuse_loop_cfg_set_clone_fd(config, 1);
    fuse_loop_cfg_set_max_threads(config, 8);
    int result = fuse_session_loop_mt(session, config);
    fuse_session_unmount(session);
    return result != 0;
}
