package headworks.fair;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.Test;

/** How many calls run at once, on processors and with calls that are simulated in steps of a tenth of a millisecond. */
class RoomTest {
    private static final double STEP_MS = 0.1;
    private static final long MS = 1_000_000;

    /** What calls of a tenant do, in turns: so long at a processor, and so long they wait. */
    private record Load(int clients, double cpuMs, double waitMs, boolean mayBeStopped) {}

    private static final class Tenant extends Room.Part {
        final Load load;
        final double weight;
        final ArrayDeque<Call> queued = new ArrayDeque<>();
        double used;
        double ended;
        int longestRunnable;

        Tenant(Load load, double weight) {
            this.load = load;
            this.weight = weight;
        }

        double time() {
            return used / weight;
        }
    }

    private static final class Call {
        final Tenant tenant;
        double cpuLeft;
        double waitLeft;
        /** It is at a processor until another call has ended. */
        Call spinsFor;
        boolean isOver;
        double queuedAt;
        Room.Run<Tenant> run;

        Call(Tenant tenant, double now) {
            this.tenant = tenant;
            cpuLeft = tenant.load.cpuMs;
            waitLeft = tenant.load.waitMs;
            queuedAt = now;
        }

        boolean isRunnable() {
            return waitLeft <= 0;
        }
    }

    private static final class Server {
        final int processors;
        final int handlers;
        final Room<Tenant> room;
        final List<Tenant> tenants = new ArrayList<>();
        final List<Call> running = new ArrayList<>();
        double now;
        double longestWaitMs;
        double lostMs;
        double runnableMs;

        Server(int processors, int handlers) {
            this.processors = processors;
            this.handlers = handlers;
            room = new Room<>(processors, (one, other) -> one.time() < other.time());
        }

        Tenant tenant(Load load, double weight) {
            Tenant tenant = new Tenant(load, weight);
            tenants.add(tenant);
            for (int client = 0; client < load.clients; client++) {
                tenant.queued.add(new Call(tenant, now));
            }
            return tenant;
        }

        private long ns() {
            return (long) (now * MS);
        }

        private Tenant next() {
            return tenants.stream().filter(each -> !each.queued.isEmpty()).min((a, b) -> Double.compare(a.time(), b.time())).orElse(null);
        }

        private boolean take() {
            Tenant tenant = next();
            if (tenant == null || running.size() >= handlers || !room.admits(tenant, ns())) {
                return false;
            }
            Call call = tenant.queued.poll();
            longestWaitMs = Math.max(longestWaitMs, now - call.queuedAt);
            call.run = room.begin(tenant, call, ns());
            running.add(call);
            return true;
        }

        void run(double ms) {
            for (double end = now + ms; now < end; now += STEP_MS) {
                while (take()) {
                    // One more.
                }
                if (Math.round(now / STEP_MS) % 10 == 0) {
                    room.all().forEach(run -> room.seen(run, !((Call) run.call).isRunnable()));
                    if (next() != null && running.size() < handlers) {
                        room.looked();
                    }
                }
                step();
            }
        }

        private void step() {
            long runnable = running.stream().filter(Call::isRunnable).count();
            for (Tenant tenant : tenants) {
                tenant.longestRunnable = Math.max(tenant.longestRunnable,
                    (int) running.stream().filter(each -> each.tenant == tenant && each.isRunnable()).count());
            }
            runnableMs += runnable * STEP_MS;
            boolean waits = next() != null && running.size() < handlers;
            lostMs += waits ? Math.max(0, processors - runnable) * STEP_MS : 0;
            double each = STEP_MS * Math.min(1, processors / (double) Math.max(1, runnable));
            for (Call call : List.copyOf(running)) {
                if (!call.isRunnable()) {
                    call.waitLeft -= STEP_MS;
                    continue;
                }
                call.tenant.used += each;
                call.cpuLeft -= call.spinsFor == null || call.spinsFor.isOver ? each : 0;
                boolean isOver = call.cpuLeft <= 0;
                boolean stops = call.tenant.load.mayBeStopped && call.run.isOver(ns()) && next() != null && next() != call.tenant
                    && next().time() < call.tenant.time();
                if (isOver || stops) {
                    room.end(call.run);
                    running.remove(call);
                    call.isOver = isOver;
                    call.tenant.ended += isOver ? 1 : 0;
                    Call more = isOver ? new Call(call.tenant, now) : call;
                    more.queuedAt = now;
                    call.tenant.queued.add(more);
                }
            }
        }
    }

    @Test
    void noMoreRunThanProcessors() {
        Server server = new Server(2, 30);
        Tenant scans = server.tenant(new Load(40, 50, 0, true), 1);
        Tenant gets = server.tenant(new Load(20, 0.1, 0, true), 1);
        server.run(2_000);
        assertTrue(server.runnableMs / server.now <= 2.5, "calls at the processors on average: " + server.runnableMs / server.now);
        assertEquals(1, gets.used / scans.used, 0.1);
    }

    @Test
    void weightsHoldWhileNoHandlerIsShort() {
        Server server = new Server(2, 100);
        Tenant heavy = server.tenant(new Load(20, 7, 0, true), 3);
        Tenant light = server.tenant(new Load(20, 7, 0, true), 1);
        server.run(5_000);
        assertEquals(3, heavy.ended / light.ended, 0.3);
    }

    /** Calls that cannot be stopped have others run beside them, and no more of their tenant's. */
    @Test
    void callsThatCannotBeStoppedKeepOthersOutForATimeOnly() {
        Server server = new Server(2, 30);
        Tenant counts = server.tenant(new Load(40, 1_000, 0, false), 1);
        Tenant gets = server.tenant(new Load(20, 0.1, 0, false), 1);
        server.run(10_000);
        assertTrue(gets.used / counts.used > 0.8, "gets have " + gets.used + " ms, counts " + counts.used);
        assertTrue(server.longestWaitMs < Room.LONGEST_NS / MS * 20, "" + server.longestWaitMs);
        assertTrue(counts.longestRunnable <= 4, counts.longestRunnable + " at the processors");
    }

    @Test
    void whatWaitsForADiskTakesNoRoom() {
        Server server = new Server(2, 30);
        Tenant disk = server.tenant(new Load(30, 0.1, 5, false), 1);
        Tenant other = server.tenant(new Load(1, 0.1, 5, false), 1);
        server.run(2_000);
        double most = 30 / 5.2 * server.now;
        assertTrue(disk.ended + other.ended > 0.85 * most, disk.ended + other.ended + " of " + most);
    }

    @Test
    void callsThatWaitForOthersInAWayThatIsNotSeenGoOn() {
        Server server = new Server(2, 30);
        Tenant tenant = server.tenant(new Load(3, 1, 0, false), 1);
        Call[] all = tenant.queued.toArray(Call[]::new);
        all[0].spinsFor = all[2];
        all[1].spinsFor = all[2];
        server.run(20_000);
        assertTrue(all[0].isOver && all[1].isOver && all[2].isOver);
    }

    @Test
    void randomLoadsKeepTheProcessorsBusyAndLeaveNoneBehind() {
        Random random = new Random(1);
        double lost = 0;
        int rounds = 300;
        for (int round = 0; round < rounds; round++) {
            Server server = new Server(1 + random.nextInt(8), 10 + random.nextInt(50));
            StringBuilder what = new StringBuilder(server.processors + " processors, " + server.handlers + " handlers");
            for (int count = 2 + random.nextInt(4); count > 0; count--) {
                double cpu = Math.exp(random.nextDouble() * Math.log(500)) / 10;
                double wait = random.nextBoolean() ? 0 : Math.exp(random.nextDouble() * Math.log(200)) / 10;
                Load load = new Load(1 + random.nextInt(40), cpu, wait, random.nextBoolean());
                double weight = 1 + random.nextInt(4);
                what.append(", ").append(load).append(" weight ").append(weight);
                server.tenant(load, weight);
            }
            server.run(1_500);
            double part = server.lostMs / (server.now * server.processors);
            lost += part;
            assertTrue(part < 0.6, "a processor was idle while calls waited: " + part + ": " + what);
            server.tenants.forEach(each -> assertTrue(each.ended > 0 || each.used > 0, "none of a tenant's calls has run: " + what));
        }
    
        // Waits of less than a millisecond end between two looks.
        assertTrue(lost / rounds < 0.07, "processors were idle while calls waited: " + lost / rounds);
    }
}
