package headworks.fair;

import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentSkipListMap;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicIntegerArray;
import java.util.concurrent.atomic.AtomicReferenceArray;
import java.util.concurrent.atomic.LongAdder;
import java.util.function.Consumer;
import java.util.function.Supplier;
import java.util.stream.Stream;

/** What a process tells about its stages and tenants. */
public final class Figures {
    private final Scheduler scheduler;
    /** Why a stage is switched off; the empty text: it is not. */
    private final AtomicReferenceArray<String> off = new AtomicReferenceArray<>(Stage.COUNT);
    /** Stages whose code calls the scheduler, by bit. */
    private final AtomicInteger installed = new AtomicInteger();
    /** Why a stage that is not installed is not. */
    private final AtomicReferenceArray<String> lacks = new AtomicReferenceArray<>(Stage.COUNT);
    /** A stage's permits; 0: its threads take the next request themselves. */
    private final AtomicIntegerArray permits = new AtomicIntegerArray(Stage.COUNT);
    /** Threads beside those of the stage that try requests. */
    private final AtomicIntegerArray tries = new AtomicIntegerArray(Stage.COUNT);
    /** Names of threads that work at the stage, one of those that differ in numbers alone. */
    private final List<Map<String, String>> threads = Stream.<Map<String, String>>generate(ConcurrentSkipListMap::new).limit(Stage.COUNT).toList();
    /** Hears what {@link #scheduled} says when that changes. */
    private volatile Consumer<String> hears = text -> { };
    private final LongAdder[] served = adders();
    private final LongAdder[] waited = adders();
    private final LongAdder[] passed = adders();
    /** Gets that were tried without a handler: answered, and needed a file. */
    private final LongAdder answered = new LongAdder();
    private final LongAdder ended = new LongAdder();
    /** Calls that failed, by tenant and exception. */
    private final Map<Integer, Map<String, LongAdder>> failed = new ConcurrentHashMap<>();
    /** Open connections by tenant. */
    private volatile Supplier<Map<String, Integer>> connections = Map::of;

    Figures(Scheduler scheduler) {
        this.scheduler = scheduler;
        for (int stage = 0; stage < Stage.COUNT; stage++) {
            off.set(stage, "");
            lacks.set(stage, "no agent, or this server has no such stage");
        }
    }

    private static LongAdder[] adders() {
        LongAdder[] all = new LongAdder[Stage.COUNT];
        for (int stage = 0; stage < all.length; stage++) {
            all[stage] = new LongAdder();
        }
        return all;
    }

    /** The stage's code calls the scheduler. */
    public void install(Stage stage) {
        installed.getAndUpdate(bits -> bits | 1 << stage.ordinal());
        tell();
    }

    /** The stage cannot be installed in this server, and why. Where another part of its code can be, it is. */
    public void lacks(Stage stage, String reason) {
        lacks.set(stage.ordinal(), reason);
    }

    /** The stage orders its requests, where it is installed. */
    public void enforce(Stage stage) {
        enforce(stage, 0);
    }

    /** The same, for a stage whose threads wait for one of so many permits. */
    void enforce(Stage stage, int count) {
        permits.set(stage.ordinal(), count);
        off.set(stage.ordinal(), "");
        tell();
    }

    /** The stage does not, and why. */
    public void release(Stage stage, String reason) {
        off.set(stage.ordinal(), reason);
        tell();
    }

    /** So many threads beside those of the stage try requests that may turn out to need more. */
    public void tries(Stage stage, int count) {
        tries.set(stage.ordinal(), count);
        tell();
    }

    /** The calling thread works at this stage. A queue or gate says so of its first thread: it costs a little. */
    public void works(Stage stage) {
        String name = Thread.currentThread().getName();
        if (threads.get(stage.ordinal()).putIfAbsent(name.replaceAll("[0-9]+", "#"), name) == null) {
            tell();
        }
    }

    /** Has this told what is scheduled, now and after each change. */
    void hears(Consumer<String> listener) {
        hears = listener;
        tell();
    }

    /** One at a time: the last that is told is the latest. */
    private synchronized void tell() {
        hears.accept(scheduled());
    }

    /**
     * The stages that are enforced, each with the name of a thread that works there, as JSON. A stage with threads
     * of several names comes several times. A recorder cannot see by itself in which order threads take their work.
     */
    String scheduled() {
        StringBuilder out = new StringBuilder("[");
        for (Stage stage : Stage.values()) {
            for (String name : why(stage).isEmpty() ? threads.get(stage.ordinal()).values() : List.<String>of()) {
                out.append(out.length() > 1 ? "," : "").append("{\"stage\":").append(quoted(stage.words))
                    .append(",\"thread\":").append(quoted(name)).append(",\"permits\":").append(permits.get(stage.ordinal()))
                    .append(",\"held\":").append(stage == Stage.HANDLE).append(",\"tries\":").append(tries.get(stage.ordinal())).append('}');
            }
        }
        return out.append(']').toString();
    }

    /** Why a stage orders nothing; the empty text: it does. */
    public String why(Stage stage) {
        boolean there = (installed.get() >> stage.ordinal() & 1) != 0;
        return (there ? off : lacks).get(stage.ordinal());
    }

    public void served(Stage stage, Tenants.Tenant tenant) {
        served[stage.ordinal()].increment();
        tenant.served.incrementAndGet(stage.ordinal());
    }

    /** A tenant's work cost this much, by resource. */
    public void used(Tenants.Tenant tenant, long[] costNs) {
        for (int resource = 0; resource < Resource.COUNT; resource++) {
            if (costNs[resource] > 0) {
                tenant.used.addAndGet(resource, costNs[resource]);
            }
        }
    }

    public void waits(Stage stage) {
        waited[stage.ordinal()].increment();
    }

    public void passes(Stage stage) {
        passed[stage.ordinal()].increment();
    }

    /** A tenant's call was answered by an exception: its simple name. */
    public void fails(Tenants.Tenant tenant, String exception) {
        failed.computeIfAbsent(tenant.number, number -> new ConcurrentSkipListMap<>()).computeIfAbsent(exception, name -> new LongAdder()).increment();
    }

    /** The tenant's number becomes another's. */
    void forget(Tenants.Tenant tenant) {
        failed.remove(tenant.number);
    }

    /** How many connections each tenant has is asked there. */
    public void connections(Supplier<Map<String, Integer>> open) {
        connections = open;
    }

    /** A get was tried without a handler. */
    public void attempts(boolean wasAnswered) {
        (wasAnswered ? answered : ended).increment();
    }

    /** Gets that were tried without a handler, as JSON. */
    public String attempts() {
        return "{\"answered\":" + answered.sum() + ",\"ended\":" + ended.sum() + "}";
    }

    /** Requests that went on without a permit, since they had waited for too long. */
    public long passed(Stage stage) {
        return passed[stage.ordinal()].sum();
    }

    /** The stages of this process, as JSON. */
    public String stages() {
        StringBuilder out = new StringBuilder("[");
        for (Stage stage : Stage.values()) {
            int at = stage.ordinal();
            String reason = why(stage);
            out.append(at == 0 ? "" : ",").append("{\"stage\":").append(quoted(stage.words))
                .append(",\"enforced\":").append(reason.isEmpty()).append(",\"why\":").append(quoted(reason))
                .append(",\"queued\":").append(scheduler.queued(stage)).append(",\"served\":").append(served[at].sum())
                .append(",\"waited\":").append(waited[at].sum()).append(",\"passed\":").append(passed[at].sum()).append('}');
        }
        return out.append(']').toString();
    }

    /** The tenants with the most served requests, as JSON: so many at most. */
    public String tenants(int most) {
        StringBuilder out = new StringBuilder("[");
        Map<String, Integer> open = connections.get();
        scheduler.tenants().all().stream().sorted((a, b) -> Long.compare(total(b), total(a))).limit(most).forEach(tenant -> {
            out.append(out.length() > 1 ? "," : "").append("{\"name\":").append(quoted(tenant.name))
                .append(",\"weight\":").append(tenant.weight() / 1e3).append(",\"unread\":").append(tenant.unread.get())
                .append(",\"connections\":").append(open.getOrDefault(tenant.name, 0)).append(",\"failed\":{");
            String comma = "";
            for (Map.Entry<String, LongAdder> each : failed.getOrDefault(tenant.number, Map.of()).entrySet()) {
                comma = figure(out, comma, each.getKey(), each.getValue().sum());
            }
            out.append("},\"served\":{");
            comma = "";
            for (Stage stage : Stage.values()) {
                comma = figure(out, comma, stage.words, tenant.served.get(stage.ordinal()));
            }
            out.append("},\"used_us\":{");
            comma = "";
            for (Resource resource : Resource.values()) {
                comma = figure(out, comma, resource.words, tenant.used.get(resource.ordinal()) / 1_000);
            }
            out.append("}}");
        });
        return out.append(']').toString();
    }

    /** Adds what is not zero: the comma for what follows. */
    private static String figure(StringBuilder out, String comma, String name, long value) {
        if (value == 0) {
            return comma;
        }
        out.append(comma).append(quoted(name)).append(':').append(value);
        return ",";
    }

    private static long total(Tenants.Tenant tenant) {
        long sum = 0;
        for (int stage = 0; stage < Stage.COUNT; stage++) {
            sum += tenant.served.get(stage);
        }
        return sum;
    }

    static String quoted(String text) {
        StringBuilder out = new StringBuilder("\"");
        text.chars().forEach(each -> {
            if (each == '"' || each == '\\') {
                out.append('\\').append((char) each);
            } else if (each < ' ') {
                out.append(String.format("\\u%04x", each));
            } else {
                out.append((char) each);
            }
        });
        return out.append('"').toString();
    }
}
