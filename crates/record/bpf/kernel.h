/* The kernel's types that the recorder reads, and no others. The loader finds the offsets in the
 * running kernel (CO-RE), so neither vmlinux.h nor bpftool is needed. */
#ifndef KERNEL_H
#define KERNEL_H

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef short s16;
typedef int s32;
typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;
typedef int __s32;
typedef long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;
typedef _Bool bool;
#define true 1
#define false 0

enum {
    BPF_ANY = 0,
    BPF_NOEXIST = 1,
    BPF_F_NO_PREALLOC = 1,
    BPF_LOCAL_STORAGE_GET_F_CREATE = 1,
    BPF_RB_NO_WAKEUP = 1,
    BPF_MAP_TYPE_HASH = 1,
    BPF_MAP_TYPE_ARRAY = 2,
    BPF_MAP_TYPE_LRU_HASH = 9,
    BPF_MAP_TYPE_RINGBUF = 27,
    BPF_MAP_TYPE_TASK_STORAGE = 29,
};

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct task_io_accounting {
    u64 rchar, wchar, read_bytes, write_bytes;
};
struct sched_entity {
    u64 sum_exec_runtime;
};
struct task_struct {
    int pid, tgid;
    unsigned int flags;
    unsigned int __state;
    unsigned in_iowait : 1;
    int on_rq;
    unsigned long nvcsw, nivcsw;
    char comm[16];
    struct sched_entity se;
    struct task_io_accounting ioac;
};
struct pt_regs {
    unsigned long r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di, orig_ax, ip, cs,
        flags, sp, ss;
};
struct sock_common {
    u16 skc_family, skc_num, skc_dport;
    u32 skc_daddr, skc_rcv_saddr;
};
struct sock {
    struct sock_common __sk_common;
};
struct unix_sock {
    struct sock *peer;
};
struct bvec_iter {
    unsigned int bi_size;
};
struct bio {
    unsigned int bi_opf;
    struct bvec_iter bi_iter;
};

#pragma clang attribute pop
#endif
