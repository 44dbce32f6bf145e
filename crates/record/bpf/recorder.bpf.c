/* The kernel's side of the recorder: who sleeps on what, how long, and who ends it.
 *
 * Two events are enough, sched_switch and sched_waking. The registers that a sleeping thread left
 * its program with say what it waits for, and those of the waker say whether its system call can
 * end that wait. No system call is traced. All results are sums in tables by group of threads. */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>
#include "recorder.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";
/* Of the sources: a test compares it, so that the object is not older than they are. */
const char source_hash[] SEC("source") = SOURCE_HASH;

#define PF_IDLE 0x00000002
#define PF_EXITING 0x00000004
#define PF_IO_WORKER 0x00000010
#define PF_KTHREAD 0x00200000

/* System calls of x86-64. */
enum {
    NR_READ = 0, NR_WRITE = 1, NR_POLL = 7, NR_READV = 19, NR_WRITEV = 20, NR_SELECT = 23,
    NR_NANOSLEEP = 35, NR_SENDFILE = 40, NR_ACCEPT = 43, NR_SENDTO = 44, NR_RECVFROM = 45,
    NR_SENDMSG = 46, NR_RECVMSG = 47, NR_CLONE = 56, NR_EXIT = 60, NR_KILL = 62, NR_TKILL = 200,
    NR_FUTEX = 202, NR_CLOCK_NANOSLEEP = 230, NR_EXIT_GROUP = 231, NR_EPOLL_WAIT = 232,
    NR_TGKILL = 234, NR_PSELECT6 = 270, NR_PPOLL = 271, NR_SPLICE = 275, NR_EPOLL_PWAIT = 281,
    NR_ACCEPT4 = 288, NR_RECVMMSG = 299, NR_SENDMMSG = 307, NR_IO_URING_ENTER = 426,
    NR_CLONE3 = 435, NR_EPOLL_PWAIT2 = 441,
};
#define RUNS 2 /* copies of the stack of a thread that was never seen to sleep */
#define FUTEX_COMMAND 127
#define FUTEX_WAKE 1
#define FUTEX_REQUEUE 3
#define FUTEX_CMP_REQUEUE 4
#define FUTEX_WAKE_OP 5
#define FUTEX_WAKE_BITSET 10

struct state {
    u64 off, on, woken;   /* by the clock of what is counted */
    u64 object, address, last, last_object;
    u64 switches;         /* when it left its processor */
    u32 group, generation, epoch, waker, waker_tid;
    s16 sleep_nr, wake_nr;
    u16 sleep_op;
    u8 how, all, blocked, device, stacks, looks, runs;
    u8 fresh;             /* nothing was seen of it in this window yet, and it was in an earlier one */
};

#define MAP(name, kind, entries, k, v)                                                             \
    struct {                                                                                       \
        __uint(type, kind);                                                                        \
        __uint(max_entries, entries);                                                              \
        __type(key, k);                                                                            \
        __type(value, v);                                                                          \
    } name SEC(".maps")

MAP(settings, BPF_MAP_TYPE_ARRAY, 1, u32, struct control);
MAP(born_count, BPF_MAP_TYPE_ARRAY, 1, u32, u64);
MAP(losses, BPF_MAP_TYPE_ARRAY, LOST_KINDS, u32, u64);
MAP(groups, BPF_MAP_TYPE_ARRAY, GROUPS, u32, struct group);
MAP(processes, BPF_MAP_TYPE_HASH, 16384, u32, u32);
MAP(members, BPF_MAP_TYPE_HASH, 32768, u32, u32);
MAP(edges, BPF_MAP_TYPE_HASH, 32768, struct edge_key, struct edge);
MAP(sockets, BPF_MAP_TYPE_HASH, 32768, struct socket_key, struct traffic);
/* Connections for which that has no room, together: the port that the system chose is MANY_PORT. */
MAP(crowds, BPF_MAP_TYPE_HASH, 4096, struct socket_key, struct traffic);
/* Ports on which recorded processes listen. */
MAP(served, BPF_MAP_TYPE_HASH, 4096, u16, u8);
MAP(directions, BPF_MAP_TYPE_LRU_HASH, 16384, u64, struct direction);
MAP(calls, BPF_MAP_TYPE_HASH, 8192, struct call_key, u64);
MAP(peers, BPF_MAP_TYPE_HASH, 256, u32, u64);
MAP(named, BPF_MAP_TYPE_HASH, 4096, struct name_key, u32);
MAP(objects, BPF_MAP_TYPE_LRU_HASH, 32768, struct sample_key, u32);
MAP(samples, BPF_MAP_TYPE_LRU_HASH, 16384, struct sample_key, u32);
MAP(newborn, BPF_MAP_TYPE_HASH, 4096, struct born_key, u32);
MAP(arguments, BPF_MAP_TYPE_HASH, 2048, struct born_key, u32);
struct {
    __uint(type, BPF_MAP_TYPE_TASK_STORAGE);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __type(key, int);
    __type(value, struct state);
} states SEC(".maps");
struct {
    __uint(type, BPF_MAP_TYPE_RINGBUF);
    __uint(max_entries, 16 << 20);
} stacks SEC(".maps");
struct {
    __uint(type, BPF_MAP_TYPE_RINGBUF);
    __uint(max_entries, 8 << 20);
} events SEC(".maps");

static __always_inline struct control *settings_now(void)
{
    u32 zero = 0;
    return bpf_map_lookup_elem(&settings, &zero);
}

static __always_inline void lose(u32 kind)
{
    u64 *count = bpf_map_lookup_elem(&losses, &kind);
    if (count)
        __sync_fetch_and_add(count, 1);
}

static __always_inline u32 recorded(u32 tgid)
{
    /* A number, not a pointer: the verifier refuses arithmetic that a compiler makes of pointers. */
    u32 *known = bpf_map_lookup_elem(&processes, &tgid);
    return known ? *known : 0;
}

/* The group of a thread. */
static __always_inline u32 group_of(u32 tid)
{
    u32 *group = bpf_map_lookup_elem(&members, &tid);
    return group ? *group : 0;
}

/* A number for a group that the kernel's side makes; 0 if there is none left. */
static __always_inline u32 new_group(void)
{
    u32 zero = 0;
    u64 *count = bpf_map_lookup_elem(&born_count, &zero);
    u64 next = count ? __sync_fetch_and_add(count, 1) : GROUPS;
    if (next >= GROUPS - BORN_FIRST) {
        lose(LOST_BORN);
        return 0;
    }
    return BORN_FIRST + (u32)next;
}

/* A thread's name, with # for each digit: numbers do not tell stages apart. */
static __always_inline void name_of(struct task_struct *task, char *name)
{
    bpf_probe_read_kernel_str(name, 16, task->comm);
#pragma unroll
    for (int at = 0; at < 16; at++)
        if (name[at] >= '0' && name[at] <= '9')
            name[at] = '#';
}

/* Newborn threads of one group that get different names are different groups. They are told apart
 * here, before their sleeps are counted: at birth they have their creator's name. */
static __always_inline u32 by_name(u32 group, struct task_struct *task)
{
    if (group < BORN_FIRST)
        return group;
    struct group *g = bpf_map_lookup_elem(&groups, &group);
    if (!g || g->parent)
        return group;
    struct name_key key = {};
    key.group = group;
    name_of(task, key.name);
    u64 *name = (u64 *)key.name, *began = (u64 *)g->began;
    if (name[0] == began[0] && name[1] == began[1])
        return group;
    u32 number = 0;
    u32 *known = bpf_map_lookup_elem(&named, &key);
    if (known) {
        number = *known;
    } else {
        if (g->names >= NAMES)
            return group;
        __sync_fetch_and_add(&g->names, 1);
        number = new_group();
        if (!number)
            return group;
        bpf_map_update_elem(&named, &key, &number, BPF_ANY);
    }
    u32 tid = task->pid;
    u32 *own = bpf_map_lookup_elem(&members, &tid);
    if (own && *own == number)
        return number;
    struct group *to = bpf_map_lookup_elem(&groups, &number);
    if (!to)
        return group;
    to->creator = g->creator;
    to->pid = g->pid;
    to->start = g->start;
    to->vtable = g->vtable;
    to->parent = group;
    __builtin_memcpy(to->name, key.name, 16);
    __sync_fetch_and_add(&to->births, 1);
    __sync_fetch_and_add(&g->births, -1);
    bpf_map_update_elem(&members, &tid, &number, BPF_ANY);
    return number;
}

/* The group of a thread that is at work. */
static __always_inline u32 group_at_work(struct control *c, struct state *s, struct task_struct *task)
{
    u32 group = s && s->generation == c->generation ? s->group : 0;
    if (!group)
        group = group_of(task->pid);
    if ((s && s->looks >= LOOKS) || (task->flags & PF_EXITING))
        return group;
    group = by_name(group, task);
    if (s && s->generation == c->generation)
        s->group = group;
    return group;
}

/* Time by a clock that stands still between windows: what lasts beyond the end of one goes on in the
 * next. */
static __always_inline u64 counted(struct control *c, u64 now)
{
    return c->counted + (now > c->opened ? now - c->opened : 0);
}

static __always_inline u64 switches_of(struct task_struct *task)
{
    return task->nvcsw + task->nivcsw;
}

static __always_inline u32 log2_of(u64 number)
{
    u32 at = 0;
    if (number >> 16)
        return 15;
    if (number >> 8) { at += 8; number >>= 8; }
    if (number >> 4) { at += 4; number >>= 4; }
    if (number >> 2) { at += 2; number >>= 2; }
    if (number >> 1) at += 1;
    return at & 15;
}

/* Adds a sleep that has ended. */
static __always_inline void add_wait(struct state *s, struct group *g, u64 off, u64 queued)
{
    struct edge_key key = {};
    key.wakee = s->group;
    key.object = s->object;
    key.sleep_nr = s->sleep_nr;
    key.sleep_op = s->sleep_op;
    key.wake_nr = -1;
    if (s->woken && s->how != HOW_NONE) {
        key.how = s->how;
        key.waker = s->waker;
        key.wake_nr = s->wake_nr;
        key.all = s->all;
    } else if (s->device) {
        key.how = HOW_DEVICE;
    } else if (s->sleep_nr == NR_NANOSLEEP || s->sleep_nr == NR_CLOCK_NANOSLEEP) {
        key.how = HOW_TIMER;
    }
    u32 bucket = log2_of(off >> 10);
    struct edge *e = bpf_map_lookup_elem(&edges, &key);
    if (!e) {
        struct edge zero = {};
        bpf_map_update_elem(&edges, &key, &zero, BPF_NOEXIST);
        e = bpf_map_lookup_elem(&edges, &key);
        if (!e) {
            lose(LOST_EDGE);
            if (g)
                __sync_fetch_and_add(&g->lost, 1);
            return;
        }
    }
    __sync_fetch_and_add(&e->n, 1);
    __sync_fetch_and_add(&e->off_ns, off);
    __sync_fetch_and_add(&e->queued_ns, queued);
    __sync_fetch_and_add(&e->histogram[bucket], 1);
    if (off > e->max_ns)
        e->max_ns = off;
}

/* It left its processor or came to it between two windows: what it did is cut at the end of the
 * first. */
static __always_inline void cut(struct control *c, struct state *s)
{
    u64 end = c->counted;
    if (s->on && end > s->on) {
        struct group *runs = bpf_map_lookup_elem(&groups, &s->group);
        if (runs)
            __sync_fetch_and_add(&runs->run_ns, end - s->on);
    }
    if (!s->off || s->on || end <= s->off)
        return;
    u64 off = end - s->off;
    u64 queued = s->blocked ? (s->woken && s->woken < end ? end - s->woken : 0) : off;
    struct group *g = bpf_map_lookup_elem(&groups, &s->group);
    if (g) {
        __sync_fetch_and_add(&g->queued_ns, queued);
        __sync_fetch_and_add(&g->asleep_ns, off - queued);
    }
    if (s->blocked)
        add_wait(s, g, off, queued);
}

/* The state of a thread of a recorded process, valid in this window. */
static __always_inline struct state *state_of(struct control *c, struct task_struct *task)
{
    struct state *s = bpf_task_storage_get(&states, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
    if (!s) {
        lose(LOST_STATE);
        return 0;
    }
    if (s->epoch != c->epoch) {
        s->fresh = s->epoch != 0;
        s->epoch = c->epoch;
        /* A thread that has not switched since it left its processor is still in the same sleep. */
        if (!s->off || s->on || s->switches != switches_of(task)) {
            cut(c, s);
            s->off = s->on = s->woken = 0;
            s->blocked = 0;
        }
    }
    if (s->generation != c->generation || !s->group) {
        s->generation = c->generation;
        s->group = group_of(task->pid);
        s->stacks = 0;
        s->last = s->last_object = 0;
    }
    return s;
}

/* Descriptors that become ready end these sleeps. */
static __always_inline bool waits_for_readiness(s16 nr)
{
    switch (nr) {
    case NR_READ: case NR_READV: case NR_POLL: case NR_PPOLL: case NR_SELECT: case NR_PSELECT6:
    case NR_RECVFROM: case NR_RECVMSG: case NR_RECVMMSG: case NR_EPOLL_WAIT: case NR_EPOLL_PWAIT:
    case NR_EPOLL_PWAIT2: case NR_IO_URING_ENTER: case NR_ACCEPT: case NR_ACCEPT4: case NR_SPLICE:
        return true;
    }
    return false;
}

/* These make descriptors ready. */
static __always_inline bool makes_ready(s16 nr)
{
    switch (nr) {
    case NR_WRITE: case NR_WRITEV: case NR_SENDTO: case NR_SENDMSG: case NR_SENDMMSG:
    case NR_SENDFILE: case NR_SPLICE: case NR_IO_URING_ENTER:
        return true;
    }
    return false;
}

/* Whether the waker's system call can end the wait. Else the waker is whichever thread an interrupt
 * hit, and is forgotten. */
static __always_inline u8 how_woken(struct state *s, s16 nr, struct pt_regs *r)
{
    if (s->sleep_nr == NR_FUTEX && nr == NR_FUTEX) {
        u32 command = (u32)r->si & FUTEX_COMMAND;
        bool wakes = command == FUTEX_WAKE || command == FUTEX_WAKE_BITSET ||
                     command == FUTEX_WAKE_OP || command == FUTEX_REQUEUE ||
                     command == FUTEX_CMP_REQUEUE;
        bool same = ((u64)r->di & ~7ULL) == (s->address & ~7ULL);
        if (wakes && same) {
            s->all = (u32)r->dx != 1;
            return HOW_FUTEX;
        }
        return HOW_NONE;
    }
    if (s->sleep_nr == NR_FUTEX && nr == NR_EXIT)
        return HOW_EXIT;
    if (waits_for_readiness(s->sleep_nr) && makes_ready(nr))
        return HOW_READY;
    if (nr == NR_KILL || nr == NR_TKILL || nr == NR_TGKILL)
        return HOW_SIGNAL;
    return HOW_NONE;
}

/* A process of this machine that is not recorded and that sends to one that is. */
static __always_inline void count_peer(u32 tgid)
{
    u64 one = 1;
    u64 *count = bpf_map_lookup_elem(&peers, &tgid);
    if (count)
        __sync_fetch_and_add(count, 1);
    else
        bpf_map_update_elem(&peers, &tgid, &one, BPF_ANY);
}

/* Objects of a group beyond the first share one entry: they are made for each request. */
static __always_inline u64 bounded_object(struct group *g, u32 group, u64 object)
{
    struct sample_key key = {};
    u32 one = 1;
    if (!object || !g)
        return object;
    key.group = group;
    key.object = object;
    if (bpf_map_lookup_elem(&objects, &key))
        return object;
    if (g->objects >= OBJECTS) {
        lose(LOST_OBJECT);
        return MANY;
    }
    __sync_fetch_and_add(&g->objects, 1);
    bpf_map_update_elem(&objects, &key, &one, BPF_ANY);
    return object;
}

/* What a thread that has left its processor sleeps in, by the registers that it left its program
 * with. */
static __always_inline void sleeps_in(struct state *s, struct group *g, struct task_struct *task)
{
    struct pt_regs *r = (struct pt_regs *)bpf_task_pt_regs(task);
    s16 nr = (s16)r->orig_ax;
    s->device = BPF_CORE_READ_BITFIELD_PROBED(task, in_iowait);
    s->sleep_nr = nr;
    s->sleep_op = nr == NR_FUTEX ? (u16)r->si : 0;
    s->address = r->di;
    if (nr == NR_FUTEX)
        s->object = r->di & ~7ULL;
    else if (waits_for_readiness(nr) && nr != NR_POLL && nr != NR_PPOLL && nr != NR_SELECT &&
             nr != NR_PSELECT6)
        s->object = ((u32)r->di << 3) | 4;
    else
        s->object = 0;
    if (s->object != s->last) {
        s->last = s->object;
        s->last_object = bounded_object(g, s->group, s->object);
    }
    s->object = s->last_object;
}

SEC("tp_btf/sched_waking")
int BPF_PROG(waking, struct task_struct *p)
{
    struct control *c = settings_now();
    if (!c || !c->on || !recorded(p->tgid))
        return 0;
    struct state *s = bpf_task_storage_get(&states, p, 0, 0);
    if (!s)
        return 0;
    if (s->epoch != c->epoch && !(s = state_of(c, p)))
        return 0;
    if (s->fresh && !s->off && !p->on_rq) {
        /* It fell asleep between two windows, and slept since this one was opened. */
        s->off = c->counted;
        s->blocked = 1;
        sleeps_in(s, bpf_map_lookup_elem(&groups, &s->group), p);
    }
    if (!s->blocked || s->woken)
        return 0;
    s->woken = counted(c, bpf_ktime_get_ns());
    s->waker = s->waker_tid = 0;
    s->wake_nr = -1;
    s->how = HOW_NONE;
    s->all = 0;
    struct task_struct *waker = bpf_get_current_task_btf();
    if (waker->flags & (PF_KTHREAD | PF_IDLE | PF_IO_WORKER))
        return 0;
    struct pt_regs *r = (struct pt_regs *)bpf_task_pt_regs(waker);
    s16 nr = (s16)r->orig_ax;
    s->how = how_woken(s, nr, r);
    if (s->how == HOW_NONE)
        return 0;
    s->wake_nr = nr;
    s->waker_tid = waker->pid;
    if (!recorded(waker->tgid)) {
        s->waker = OUTSIDE;
        if (s->how == HOW_READY)
            count_peer(waker->tgid);
        return 0;
    }
    struct state *w = bpf_task_storage_get(&states, waker, 0, 0);
    s->waker = group_at_work(c, w, waker);
    return 0;
}

static __always_inline void copy_stack(struct state *s, struct task_struct *task, u32 born, bool runs)
{
    struct pt_regs *r = (struct pt_regs *)bpf_task_pt_regs(task);
    struct stack *k = bpf_ringbuf_reserve(&stacks, sizeof *k, 0);
    if (!k) {
        lose(LOST_STACK);
        return;
    }
    k->tid = task->pid;
    k->tgid = task->tgid;
    k->group = s->group;
    k->nr = born ? (s16)r->orig_ax : runs ? -1 : s->sleep_nr;
    k->op = runs ? 0 : s->sleep_op;
    k->object = runs ? 0 : s->object;
    k->ip = r->ip;
    k->sp = r->sp;
    k->bp = r->bp;
    k->born = born;
    u32 rest = (4096 - (u32)(r->sp & 4095)) & 4095;
    if (!bpf_probe_read_user(k->data, STACK_BYTES, (void *)r->sp)) {
        k->bytes = STACK_BYTES;
    } else if (rest && bpf_probe_read_user(k->data, rest, (void *)r->sp)) {
        k->bytes = 0;
    } else {
        /* Page by page near the stack's beginning, where the next one may be none. */
        u32 have = rest;
#pragma unroll
        for (int page = 0; page < 3; page++) {
            if (bpf_probe_read_user(k->data + rest + page * 4096, 4096,
                                    (void *)(r->sp + rest + page * 4096)))
                break;
            have += 4096;
        }
        k->bytes = have;
    }
    bpf_ringbuf_submit(k, BPF_RB_NO_WAKEUP);
}

/* A few stacks for each thread, and for each group and object that it sleeps on. */
static __always_inline void sample(struct control *c, struct state *s, struct task_struct *task)
{
    struct sample_key key = {};
    u32 one = 1;
    key.group = s->group;
    key.nr = s->sleep_nr;
    key.op = s->sleep_op;
    key.object = s->object;
    u32 *count = bpf_map_lookup_elem(&samples, &key);
    /* Of threads that may be made for one request, the group has enough stacks. */
    bool enough = s->group >= BORN_FIRST || s->stacks >= c->stacks;
    if ((count && *count >= c->stacks && enough) || s->stacks >= 48)
        return;
    if (count)
        __sync_fetch_and_add(count, 1);
    else
        bpf_map_update_elem(&samples, &key, &one, BPF_ANY);
    s->stacks++;
    copy_stack(s, task, 0, false);
}

static __always_inline void leaves(struct control *c, u64 now, bool preempt, struct task_struct *prev)
{
    struct state *s = state_of(c, prev);
    if (!s)
        return;
    if (s->group >= BORN_FIRST && s->looks < LOOKS && !(prev->flags & PF_EXITING)) {
        s->looks++;
        s->group = by_name(s->group, prev);
    }
    struct group *g = bpf_map_lookup_elem(&groups, &s->group);
    bool blocked = !preempt && prev->__state != 0;
    /* What is first seen to leave its processor in a window had it from the beginning. */
    if (s->fresh)
        s->on = c->counted;
    s->fresh = 0;
    s->switches = switches_of(prev);
    if (g) {
        if (s->on)
            __sync_fetch_and_add(&g->run_ns, now - s->on);
        __sync_fetch_and_add(blocked ? &g->voluntary : &g->involuntary, 1);
    }
    s->off = now;
    s->on = s->woken = 0;
    s->blocked = blocked;
    if (!blocked) {
        /* Where it never sleeps, its stack is known by this alone. */
        if (c->stacks && !s->stacks && s->runs < RUNS && !(prev->flags & PF_EXITING)) {
            s->runs++;
            copy_stack(s, prev, 0, true);
        }
        return;
    }
    sleeps_in(s, g, prev);
    if (c->stacks)
        sample(c, s, prev);
}

/* For the time line of each thread. */
/* A time of day, of this window. */
static __always_inline u64 real(struct control *c, u64 at)
{
    return c->opened + (at > c->counted ? at - c->counted : 0);
}

static __always_inline void emit(struct control *c, struct state *s, u64 now, struct task_struct *next)
{
    struct event *e = bpf_ringbuf_reserve(&events, sizeof *e, 0);
    if (!e) {
        lose(LOST_EVENT);
        return;
    }
    e->off = real(c, s->off);
    e->woken = s->blocked && s->woken ? real(c, s->woken) : 0;
    e->on = real(c, now);
    e->object = s->object;
    e->tid = next->pid;
    e->tgid = next->tgid;
    e->group = s->group;
    e->waker = s->blocked && s->woken ? s->waker : 0;
    e->waker_tid = s->blocked && s->woken ? s->waker_tid : 0;
    e->cpu = bpf_get_smp_processor_id();
    e->sleep_nr = s->sleep_nr;
    e->wake_nr = s->wake_nr;
    e->sleep_op = s->sleep_op;
    e->how = s->blocked && s->woken ? s->how : HOW_NONE;
    e->blocked = s->blocked;
    bpf_ringbuf_submit(e, BPF_RB_NO_WAKEUP);
}

static __always_inline void comes(struct control *c, u64 now, bool idle, struct task_struct *next)
{
    struct state *s = state_of(c, next);
    if (!s)
        return;
    if (s->fresh) {
        /* No wake-up was seen in this window: it was ready when that was opened. */
        if (!s->off)
            s->off = c->counted;
        if (s->blocked && !s->woken) {
            s->woken = c->counted;
            s->how = HOW_NONE;
        }
    }
    s->fresh = 0;
    s->on = now;
    if (!s->off)
        return;
    if (c->events)
        emit(c, s, now, next);
    u64 off = now - s->off;
    u64 queued = s->blocked ? (s->woken ? now - s->woken : 0) : off;
    bool within = s->woken > c->counted;
    struct group *g = bpf_map_lookup_elem(&groups, &s->group);
    if (g) {
        __sync_fetch_and_add(&g->queued_ns, queued);
        __sync_fetch_and_add(&g->asleep_ns, off - queued);
    }
    if (!s->blocked)
        return;
    s->blocked = 0;
    if (g && idle && within) {
        __sync_fetch_and_add(&g->idle_wakes, 1);
        __sync_fetch_and_add(&g->idle_ns, queued);
    }
    add_wait(s, g, off, queued);
}

SEC("tp_btf/sched_switch")
int BPF_PROG(switched, bool preempt, struct task_struct *prev, struct task_struct *next)
{
    struct control *c = settings_now();
    if (!c || !c->on)
        return 0;
    u32 from = recorded(prev->tgid), to = recorded(next->tgid);
    if (!from && !to)
        return 0;
    u64 now = counted(c, bpf_ktime_get_ns());
    if (from)
        leaves(c, now, preempt, prev);
    if (to)
        comes(c, now, prev->flags & PF_IDLE, next);
    return 0;
}

static __always_inline u32 current_group(struct control *c)
{
    struct task_struct *task = bpf_get_current_task_btf();
    return group_at_work(c, bpf_task_storage_get(&states, task, 0, 0), task);
}

static __always_inline struct traffic *room_in(void *table, struct socket_key *key)
{
    struct traffic zero = {};
    bpf_map_update_elem(table, key, &zero, BPF_NOEXIST);
    return bpf_map_lookup_elem(table, key);
}

/* A server's port is kept. Of two that recorded processes do not listen on, that is the smaller. */
static __always_inline void crowd_of(struct socket_key *key)
{
    u16 local = key->local_port, remote = key->remote_port;
    if (key->family == 1)
        key->own = key->peer = 0;
    else if (bpf_map_lookup_elem(&served, &local))
        key->remote_port = MANY_PORT;
    else if (local > remote || bpf_map_lookup_elem(&served, &remote))
        key->local_port = MANY_PORT;
    else
        key->remote_port = MANY_PORT;
}

static __always_inline struct traffic *traffic_of(struct socket_key *key)
{
    struct traffic *t = bpf_map_lookup_elem(&sockets, key);
    if (t)
        return t;
    struct socket_key crowd = *key;
    crowd_of(&crowd);
    /* Once there was no room, the table is not asked for it again. */
    t = bpf_map_lookup_elem(&crowds, &crowd);
    if (!t)
        t = room_in(&sockets, key);
    return t ? t : room_in(&crowds, &crowd);
}

static __always_inline int transferred(struct sock *sk, int bytes, u16 sends)
{
    struct control *c = settings_now();
    if (bytes <= 0 || !c || !c->on || !recorded(bpf_get_current_pid_tgid() >> 32))
        return 0;
    struct socket_key key = {};
    key.group = current_group(c);
    key.family = sk->__sk_common.skc_family;
    key.sends = sends;
    if (key.family == 2 || key.family == 10) {
        key.local = sk->__sk_common.skc_rcv_saddr;
        key.remote = sk->__sk_common.skc_daddr;
        key.local_port = sk->__sk_common.skc_num;
        key.remote_port = __builtin_bswap16(sk->__sk_common.skc_dport);
    } else if (key.family == 1) {
        key.own = (u64)sk;
        key.peer = (u64)BPF_CORE_READ((struct unix_sock *)sk, peer);
    } else {
        return 0;
    }
    u64 which = (u64)sk, now = bpf_ktime_get_ns(), after_ns = 0;
    u64 who = key.peer;
    if (key.family != 1)
        who = (u64)key.local_port << 48 | (u64)key.remote_port << 32 | key.remote;
    u32 tid = (u32)bpf_get_current_pid_tgid();
    struct direction *last = bpf_map_lookup_elem(&directions, &which);
    if (last && last->who != who)
        last = 0;
    /* A window that opens within a message goes on with it: the entry is that of the last one. */
    bool turn = !last || last->sends != sends || (sends && last->tid != tid);
    bool turned = last && last->epoch == c->epoch && last->sends != sends;
    if (last) {
        after_ns = now - last->at;
        last->at = now;
        last->sends = sends;
        last->epoch = c->epoch;
        last->tid = tid;
    } else {
        struct direction first = {};
        first.at = now;
        first.who = who;
        first.sends = sends;
        first.epoch = c->epoch;
        first.tid = tid;
        bpf_map_update_elem(&directions, &which, &first, BPF_ANY);
    }
    struct traffic *t = traffic_of(&key);
    if (!t) {
        lose(LOST_SOCKET);
        struct group *g = bpf_map_lookup_elem(&groups, &key.group);
        if (g)
            __sync_fetch_and_add(&g->lost, 1);
        return 0;
    }
    __sync_fetch_and_add(&t->n, 1);
    __sync_fetch_and_add(&t->bytes, bytes);
    u32 size = log2_of(bytes);
    __sync_fetch_and_add(&t->sizes[size], 1);
    if (turn) {
        __sync_fetch_and_add(&t->turns, 1);
        __sync_fetch_and_add(&t->starts[size], 1);
    }
    if (turned) {
        __sync_fetch_and_add(&t->after, 1);
        __sync_fetch_and_add(&t->after_ns, after_ns);
    }
    return 0;
}

SEC("tp_btf/sock_send_length")
int BPF_PROG(sent, struct sock *sk, int ret, int flags)
{
    return transferred(sk, ret, 1);
}

SEC("tp_btf/sock_recv_length")
int BPF_PROG(received, struct sock *sk, int ret, int flags)
{
    return transferred(sk, ret, 0);
}

SEC("tp_btf/block_bio_queue")
int BPF_PROG(queued, struct bio *bio)
{
    struct control *c = settings_now();
    if (!c || !c->on || !recorded(bpf_get_current_pid_tgid() >> 32))
        return 0;
    u32 group = current_group(c);
    struct group *g = bpf_map_lookup_elem(&groups, &group);
    if (!g)
        return 0;
    u32 bytes = bio->bi_iter.bi_size;
    if (bio->bi_opf & 1) {
        __sync_fetch_and_add(&g->write_bios, 1);
        __sync_fetch_and_add(&g->write_bio_bytes, bytes);
    } else {
        __sync_fetch_and_add(&g->read_bios, 1);
        __sync_fetch_and_add(&g->read_bio_bytes, bytes);
    }
    return 0;
}

SEC("tp_btf/mm_filemap_add_to_page_cache")
int BPF_PROG(missed, void *folio)
{
    struct control *c = settings_now();
    if (!c || !c->on || !recorded(bpf_get_current_pid_tgid() >> 32))
        return 0;
    u32 group = current_group(c);
    struct group *g = bpf_map_lookup_elem(&groups, &group);
    if (g)
        __sync_fetch_and_add(&g->cache_misses, 1);
    return 0;
}

/* A call that takes a lock, in a short window of probes. Its object is the first argument, which a
 * call of user space has in the same register as a system call. */
SEC("uprobe")
int locked(struct pt_regs *r)
{
    struct control *c = settings_now();
    u64 own = bpf_get_current_pid_tgid(), one = 1;
    if (!c || !c->on || !recorded(own >> 32))
        return 0;
    struct call_key key = {};
    key.group = group_of((u32)own);
    key.object = r->di;
    u64 *count = bpf_map_lookup_elem(&calls, &key);
    if (count)
        __sync_fetch_and_add(count, 1);
    else if (bpf_map_update_elem(&calls, &key, &one, BPF_ANY))
        lose(LOST_CALL);
    return 0;
}

/* What a new thread will run: glibc keeps it in the thread's descriptor, which is its TLS. */
static __always_inline void start_of(struct control *c, struct task_struct *creator,
                                     struct born_key *key)
{
    struct pt_regs *r = (struct pt_regs *)bpf_task_pt_regs(creator);
    u64 tls = 0, argument = 0;
    if (!c->start_offset)
        return;
    if (r->orig_ax == NR_CLONE3)
        bpf_probe_read_user(&tls, 8, (void *)(r->di + 56));
    else if (r->orig_ax == NR_CLONE)
        tls = r->r8;
    if (!tls)
        return;
    bpf_probe_read_user(&key->start, 8, (void *)(tls + c->start_offset));
    bpf_probe_read_user(&argument, 8, (void *)(tls + c->start_offset + 8));
    if (argument)
        bpf_probe_read_user(&key->vtable, 8, (void *)argument);
}

/* Whether the arguments' first words are no types: there are too many of them. */
static __always_inline bool too_many_arguments(struct born_key *key)
{
    struct born_key start = *key;
    u32 one = 1;
    start.vtable = 0;
    u32 *count = bpf_map_lookup_elem(&arguments, &start);
    if (count)
        return __sync_fetch_and_add(count, 1) >= ARGUMENTS;
    bpf_map_update_elem(&arguments, &start, &one, BPF_ANY);
    return false;
}

SEC("tp_btf/task_newtask")
int BPF_PROG(created, struct task_struct *task, u64 flags)
{
    struct control *c = settings_now();
    struct task_struct *creator = bpf_get_current_task_btf();
    if (!c || !recorded(creator->tgid))
        return 0;
    u32 tid = task->pid, tgid = task->tgid, one = 1;
    if (tgid != (u32)creator->tgid) {
        if (!c->follow)
            return 0;
        if (bpf_map_update_elem(&processes, &tgid, &one, BPF_ANY))
            lose(LOST_BORN);
    }
    struct born_key key = {};
    key.creator = by_name(group_of(creator->pid), creator);
    if (tgid == (u32)creator->tgid)
        start_of(c, creator, &key);
    u32 group = 0;
    u32 *known = bpf_map_lookup_elem(&newborn, &key);
    if (!known && key.vtable && too_many_arguments(&key)) {
        key.vtable = 0;
        known = bpf_map_lookup_elem(&newborn, &key);
    }
    if (known) {
        group = *known;
    } else {
        group = new_group();
        if (!group)
            return 0;
        bpf_map_update_elem(&newborn, &key, &group, BPF_ANY);
    }
    struct group *g = bpf_map_lookup_elem(&groups, &group);
    if (g) {
        g->creator = key.creator;
        g->pid = tgid;
        g->start = key.start;
        g->vtable = key.vtable;
        if (!known)
            name_of(creator, g->began);
        __sync_fetch_and_add(&g->births, 1);
    }
    if (bpf_map_update_elem(&members, &tid, &group, BPF_ANY))
        lose(LOST_BORN);
    return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(ended, struct task_struct *task)
{
    u32 tid = task->pid;
    if (!recorded(task->tgid))
        return 0;
    u32 group = by_name(group_of(tid), task);
    struct group *g = bpf_map_lookup_elem(&groups, &group);
    if (g) {
        __sync_fetch_and_add(&g->deaths, 1);
        __sync_fetch_and_add(&g->dead_cpu_ns, task->se.sum_exec_runtime);
        __sync_fetch_and_add(&g->dead_rchar, task->ioac.rchar);
        __sync_fetch_and_add(&g->dead_wchar, task->ioac.wchar);
        __sync_fetch_and_add(&g->dead_read, task->ioac.read_bytes);
        __sync_fetch_and_add(&g->dead_write, task->ioac.write_bytes);
        if (!g->parent)
            bpf_probe_read_kernel_str(g->name, sizeof g->name, task->comm);
    }
    bpf_map_delete_elem(&members, &tid);
    return 0;
}
