package headworks.agent;

import headworks.fair.Gate;
import headworks.fair.Here;
import headworks.fair.Parts;
import headworks.fair.Resource;
import headworks.fair.Scheduler;
import headworks.fair.Tier;

/**
 * Log append: the log takes writes in the order of their arrival, so they are ordered above it. Few may be
 * below at a time (dissertation, section 4.3.5). The threads that append and sync take no place: they
 * cannot wait for one that waits for them.
 */
public final class Log {
    /** A write inside a write, of a coprocessor, needs no place: its thread has one. */
    private static final ThreadLocal<Boolean> INSIDE = new ThreadLocal<>();

    private Log() {}

    private record Place(Gate.Waiter waiter, long since) {}

    /** Of a write that goes on without: what is inside it must not wait either, since it may hold a row's lock. */
    private static final Place NONE = new Place(null, 0);

    /** A tenant's write begins. */
    public static Object enter() {
        String name = Here.name();
        if (name == null || Parts.LOG.permits() == 0 || INSIDE.get() != null) {
            return null;
        }
        try {
            Gate.Waiter waiter = Parts.LOG.enter(Tier.of(name), Scheduler.here().tenants().of(name));
            INSIDE.set(true);
            return waiter == null ? NONE : new Place(waiter, System.nanoTime());
        } catch (RuntimeException | LinkageError failed) {
            return null;
        }
    }

    /** It is durable, or has failed. */
    public static void leave(Object entered) {
        if (entered instanceof Place place) {
            INSIDE.remove();
            if (place.waiter != null) {
                Parts.LOG.leave(place.waiter, Resource.LOG, System.nanoTime() - place.since);
            }
        }
    }
}
