package headworks.record;

import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.LongAdder;

/**
 * Who gave what to whom. Advised methods of the class library call it, so it is loaded by the
 * bootstrap loader and uses nothing but the class library. It never throws into the program.
 */
public final class Handovers {
    /** Things that were given and not yet taken; more are not followed, and counted. */
    private static final int PENDING_MAX = 100_000;

    private static final ConcurrentHashMap<Key, Given> PENDING = new ConcurrentHashMap<>();
    private static final ConcurrentHashMap<Way, LongAdder> COUNTS = new ConcurrentHashMap<>();
    private static final AtomicLong REQUESTS = new AtomicLong();
    private static final AtomicLong PENDING_COUNT = new AtomicLong();
    private static final LongAdder LOST = new LongAdder();
    private static final ThreadLocal<Own> OWN = ThreadLocal.withInitial(Own::new);
    private static volatile boolean on;

    private Handovers() {}

    /** A thing by its identity: two equal tasks are two. */
    private static final class Key {
        final Object thing;

        Key(Object thing) {
            this.thing = thing;
        }

        @Override
        public int hashCode() {
            return System.identityHashCode(thing);
        }

        @Override
        public boolean equals(Object other) {
            return other instanceof Key key && key.thing == thing;
        }
    }

    private record Given(String from, long request, String over) {}

    private record Way(String from, String to, String over) {}

    /** What is known of a thread. */
    private static final class Own {
        /** The request for which it works; 0 for none. */
        long request;
        String name = "";
        String normal = "";

        String name() {
            String now = Thread.currentThread().getName();
            if (now != name) {
                name = now;
                normal = normalised(now);
            }
            return normal;
        }
    }

    /** Threads of one pool have names that differ by a number. */
    static String normalised(String name) {
        StringBuilder out = new StringBuilder(name.length());
        for (int at = 0; at < name.length(); at++) {
            char c = name.charAt(at);
            if (c < '0' || c > '9') {
                out.append(c);
            } else if (out.length() == 0 || out.charAt(out.length() - 1) != '#') {
                out.append('#');
            }
        }
        return out.toString();
    }

    /** This thread gives a thing to another. */
    public static void give(Object thing, String over) {
        if (!on || thing == null) {
            return;
        }
        if (PENDING_COUNT.get() >= PENDING_MAX) {
            LOST.increment();
            return;
        }
        Own own = OWN.get();
        // What does not belong to a request begins one.
        long request = own.request != 0 ? own.request : REQUESTS.incrementAndGet();
        if (PENDING.put(new Key(thing), new Given(own.name(), request, over)) == null) {
            PENDING_COUNT.incrementAndGet();
        }
    }

    /** This thread takes a thing that another gave. */
    public static void take(Object thing) {
        if (thing == null || PENDING_COUNT.get() == 0) {
            return;
        }
        Given given = PENDING.remove(new Key(thing));
        if (given == null) {
            return;
        }
        PENDING_COUNT.decrementAndGet();
        if (!on) {
            return;
        }
        Own own = OWN.get();
        own.request = given.request;
        COUNTS.computeIfAbsent(new Way(given.from, own.name(), given.over), way -> new LongAdder())
                .increment();
    }

    /** This thread has done what it took. */
    public static void done() {
        if (on) {
            OWN.get().request = 0;
        }
    }

    /** The thing was not handed over after all: the queue was full. */
    public static void back(Object thing) {
        if (thing != null && PENDING.remove(new Key(thing)) != null) {
            PENDING_COUNT.decrementAndGet();
        }
    }

    /** The request for which this thread works; 0 for none. */
    public static long request() {
        return OWN.get().request;
    }

    /** This thread begins a request: what it gives from here belongs to that. */
    public static long begin() {
        long request = REQUESTS.incrementAndGet();
        OWN.get().request = request;
        return request;
    }

    /** Whether it counts. */
    public static boolean counts() {
        return on;
    }

    /** Begins to count. */
    public static void start() {
        on = true;
    }

    /** Ends, and tells what was counted: a line each, from, to, over and number, by tabs. */
    public static String stop() {
        on = false;
        Map<String, Long> sorted = new TreeMap<>();
        COUNTS.forEach((way, count) ->
                sorted.put(clean(way.from) + "\t" + clean(way.to) + "\t" + way.over, count.sum()));
        StringBuilder out = new StringBuilder();
        sorted.forEach((way, count) -> out.append(way).append('\t').append(count).append('\n'));
        out.append("lost\t\t\t").append(LOST.sumThenReset()).append('\n');
        COUNTS.clear();
        PENDING.clear();
        PENDING_COUNT.set(0);
        return out.toString();
    }

    private static String clean(String name) {
        return name.replace('\t', ' ').replace('\n', ' ');
    }
}
