/* What the recorder's two sides share. src/capture/layout.rs has the same in Rust. */
#ifndef RECORDER_H
#define RECORDER_H

#define GROUPS 8192       /* numbers of groups: below BORN_FIRST user space gives them */
#define BORN_FIRST 6144   /* from here the kernel's side, to threads that are born */
#define OUTSIDE 1         /* a process that is not recorded */
#define MANY 1            /* an object that is one of many, made for each request */
#define ARGUMENTS 16      /* different first words of arguments that may be types */
#define OBJECTS 64        /* objects of a group that have entries of their own */
#define NAMES 24          /* names by which the threads of a group of newborn ones are told apart */
#define LOOKS 8           /* sleeps after which a newborn thread's name is taken to be its last */
#define SIZES 16          /* classes of a transfer's size; the last one has all that is larger */
#define STACK_BYTES 16384

/* How a sleep ended. */
enum how {
    HOW_NONE = 0,    /* a timeout, or an event that is not known */
    HOW_FUTEX = 1,   /* a wake-up of the same futex */
    HOW_READY = 2,   /* a write that made a descriptor ready */
    HOW_SIGNAL = 3,  /* a signal */
    HOW_EXIT = 4,    /* the end of a thread */
    HOW_DEVICE = 5,  /* a device */
    HOW_TIMER = 6,   /* a sleep that the thread asked for */
};

struct control {
    u32 on;               /* events count */
    u32 epoch;            /* number of the window: state of an earlier one is void */
    u32 generation;       /* changes when groups change */
    u32 stacks;           /* stacks to copy for each group and object; 0: none */
    u32 follow;           /* children of recorded processes are recorded, too */
    u32 start_offset;     /* of the start routine in glibc's struct pthread; 0: not known */
    u32 events;           /* each sleep goes into the ring of events, too */
    u32 pad;
    u64 opened, counted;  /* when the window was opened, and the counted time until then */
};

/* Losses, by kind. */
enum lost {
    LOST_EDGE, LOST_STACK, LOST_STATE, LOST_SOCKET, LOST_OBJECT, LOST_BORN, LOST_EVENT, LOST_CALL,
    LOST_KINDS
};

struct edge_key {
    u32 waker, wakee;     /* groups; 0: unknown or none */
    u64 object;           /* futex address without its low bits, or a descriptor */
    s16 sleep_nr, wake_nr;/* system calls; -1: none */
    u16 sleep_op;         /* operation of the futex */
    u8 how;
    u8 all;               /* the waker woke all that wait */
};
struct edge {
    u64 n, off_ns, queued_ns, max_ns;
    u32 histogram[16];    /* log2 of microseconds asleep */
};
struct group {
    u64 run_ns, queued_ns, asleep_ns;
    u64 voluntary, involuntary, births, deaths;
    u64 dead_cpu_ns, dead_rchar, dead_wchar, dead_read, dead_write;
    u64 read_bios, read_bio_bytes, write_bios, write_bio_bytes, cache_misses;
    u64 objects;
    u32 creator, pid;     /* of a group of newborn threads */
    u64 start, vtable;    /* start routine of the thread, first word of its argument */
    char name[16];        /* of a thread of it that ended; of all its threads, if it has a parent */
    char began[16];       /* the name that its newborn threads inherit */
    u32 parent, names;    /* group that it was split from by name; groups split from it */
    u64 lost;             /* sleeps and transfers of it that no table had room for */
    u64 idle_wakes, idle_ns; /* wake-ups onto an idle processor, and the time until threads ran */
};
#define MANY_PORT 65535 /* stands for the ports of several connections */
struct socket_key {
    u32 group;
    u32 local, remote;    /* addresses (IPv4); of a Unix socket zero */
    u16 local_port, remote_port;
    u64 own, peer;        /* Unix sockets: which */
    u16 family;
    u16 sends;            /* direction */
    u32 pad;
};
struct traffic {
    /* turns: messages that begin. A receive that follows a send does; so does a send that follows a
     * receive, or a send of another thread: several threads may answer on one connection. */
    u64 n, bytes, turns;
    /* Of sends: from the receive before them, the time that an answer took. Of receives: from the
     * send before them, the time that the other end took. */
    u64 after, after_ns;
    /* By log2 of their bytes: all transfers, and those that begin a turn. */
    u32 sizes[SIZES], starts[SIZES];
};
struct direction {
    u64 at;               /* of the last transfer */
    u64 who;              /* its connection: the kernel uses a closed one's address again */
    u32 sends, epoch;
    u32 tid, pad;         /* its thread */
};
struct call_key {
    u32 group, pad;
    u64 object;           /* address of the lock */
};
struct born_key {
    u32 creator, pad;
    u64 start, vtable;
};
struct name_key {
    u32 group, pad;
    char name[16];        /* with # for each digit */
};
struct sample_key {
    u32 group;
    s16 nr;
    u16 op;
    u64 object;
};
struct stack {
    u32 tid, tgid, group;
    s16 nr;
    u16 op;
    u64 object, ip, sp, bp;
    u32 born;             /* the stack of a thread that creates: of this one */
    u32 bytes;
    u8 data[STACK_BYTES];
};
/* A thread that runs again, and what it did before: from here its time line follows. */
struct event {
    u64 off, woken, on;   /* when it left the processor, was woken (0: never slept), came back */
    u64 object;
    u32 tid, tgid, group, waker, waker_tid, cpu;
    s16 sleep_nr, wake_nr;
    u16 sleep_op;
    u8 how, blocked;
};
#endif
