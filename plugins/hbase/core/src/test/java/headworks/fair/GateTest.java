package headworks.fair;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;

class GateTest {
    private static final long[] COST = new long[Resource.COUNT];
    private final Tenants tenants = new Tenants();

    @Test
    void oneTenantNeedsNoPermit() {
        Gate gate = new Gate(1);
        assertNull(gate.enter(Tier.USERS, tenants.of("a")));
        assertNull(gate.enter(Tier.USERS, tenants.of("a")));
        Gate.Waiter waiter = gate.enter(Tier.USERS, tenants.of("b"));
        assertNotNull(waiter);
        gate.leave(waiter, COST);
    }

    @Test
    void nobodyWaitsForEver() {
        Gate gate = new Gate(1, 1_000_000);
        gate.enter(Tier.USERS, tenants.of("a"));
        Gate.Waiter held = gate.enter(Tier.USERS, tenants.of("b"));
        assertNull(gate.enter(Tier.USERS, tenants.of("a")), "the only permit is held: it goes on without one");
        assertEquals(1, gate.passed());
        Thread.currentThread().interrupt();
        assertNull(gate.enter(Tier.USERS, tenants.of("a")));
        assertTrue(Thread.interrupted(), "the mark of an interrupted thread is kept");
        gate.leave(held, COST);
        Gate.Waiter next = gate.enter(Tier.USERS, tenants.of("a"));
        assertNotNull(next, "who went on without a permit did not take one with it");
        gate.leave(next, COST);
    }

    @Test
    void neverMoreThanThePermitsAndNoneIsLost() throws Exception {
        Gate gate = new Gate(3, Long.MAX_VALUE / 4);
        gate.enter(Tier.USERS, tenants.of("t0"));
        gate.enter(Tier.USERS, tenants.of("t1"));
        AtomicInteger inside = new AtomicInteger();
        AtomicInteger most = new AtomicInteger();
        AtomicInteger served = new AtomicInteger();
        List<Thread> threads = new ArrayList<>();
        for (int number = 0; number < 16; number++) {
            Tenants.Tenant tenant = tenants.of("t" + number % 4);
            threads.add(new Thread(() -> {
                for (int turn = 0; turn < 2_000; turn++) {
                    Gate.Waiter waiter = gate.enter(Tier.USERS, tenant);
                    most.accumulateAndGet(inside.incrementAndGet(), Math::max);
                    inside.decrementAndGet();
                    served.incrementAndGet();
                    gate.leave(waiter, COST);
                }
            }));
        }
        threads.forEach(Thread::start);
        for (Thread thread : threads) {
            thread.join();
        }
        assertEquals(32_000, served.get());
        assertTrue(most.get() <= 3, "inside: " + most);
        assertEquals(0, gate.passed());
    }
}
