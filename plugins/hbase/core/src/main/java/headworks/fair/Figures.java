package headworks.fair;

import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReferenceArray;
import java.util.concurrent.atomic.LongAdder;

/** What a process tells about its stages and tenants. */
public final class Figures {
    private final Scheduler scheduler;
    /** Why a stage is switched off; the empty text: it is not. */
    private final AtomicReferenceArray<String> off = new AtomicReferenceArray<>(Stage.COUNT);
    /** Stages whose code calls the scheduler, by bit. */
    private final AtomicInteger installed = new AtomicInteger();
    private final LongAdder[] served = adders();
    private final LongAdder[] waited = adders();
    private final LongAdder[] passed = adders();
    /** Gets that were tried without a handler: answered, and needed a file. */
    private final LongAdder answered = new LongAdder();
    private final LongAdder ended = new LongAdder();

    Figures(Scheduler scheduler) {
        this.scheduler = scheduler;
        for (int stage = 0; stage < Stage.COUNT; stage++) {
            off.set(stage, "");
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
    }

    /** The stage orders its requests, where it is installed. */
    public void enforce(Stage stage) {
        off.set(stage.ordinal(), "");
    }

    /** The stage does not, and why. */
    public void release(Stage stage, String reason) {
        off.set(stage.ordinal(), reason);
    }

    /** Why a stage orders nothing; the empty text: it does. */
    public String why(Stage stage) {
        boolean there = (installed.get() >> stage.ordinal() & 1) != 0;
        return there ? off.get(stage.ordinal()) : "no agent, or this server has no such stage";
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
        scheduler.tenants().all().stream().sorted((a, b) -> Long.compare(total(b), total(a))).limit(most).forEach(tenant -> {
            out.append(out.length() > 1 ? "," : "").append("{\"name\":").append(quoted(tenant.name))
                .append(",\"weight\":").append(tenant.weight() / 1e3).append(",\"unread\":").append(tenant.unread.get())
                .append(",\"served\":{");
            String comma = "";
            for (Stage stage : Stage.values()) {
                long count = tenant.served.get(stage.ordinal());
                if (count > 0) {
                    out.append(comma).append(quoted(stage.words)).append(':').append(count);
                    comma = ",";
                }
            }
            out.append("}}");
        });
        return out.append(']').toString();
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
