package headworks.fair;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.BrokenBarrierException;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(60)
class GateTest {
    private final Scheduler scheduler = new Scheduler(3);
    private final Tenants tenants = scheduler.tenants();

    private Gate gate(int permits, long longestWaitNs) {
        return new Gate(scheduler, Stage.LOG, permits, longestWaitNs);
    }

    private static void leave(Gate gate, Gate.Waiter waiter) {
        gate.leave(waiter, Resource.LOG, 1_000);
    }

    @Test
    void oneTenantNeedsNoPermit() {
        Gate gate = gate(1, Gate.LONGEST_WAIT_NS);
        assertNull(gate.enter(Tier.USERS, tenants.of("a")));
        assertNull(gate.enter(Tier.USERS, tenants.of("a")));
        Gate.Waiter waiter = gate.enter(Tier.USERS, tenants.of("b"));
        assertNotNull(waiter);
        leave(gate, waiter);
    }

    @Test
    void nobodyWaitsForEver() {
        Gate gate = gate(1, 1_000_000);
        gate.enter(Tier.USERS, tenants.of("a"));
        Gate.Waiter held = gate.enter(Tier.USERS, tenants.of("b"));
        Here.waited();
        assertNull(gate.enter(Tier.USERS, tenants.of("a")), "the only permit is held: it goes on without one");
        assertEquals(1, scheduler.figures().passed(Stage.LOG));
        assertTrue(Here.waited() >= 1_000_000, "what the thread has waited is told");
        assertEquals(0, Here.waited(), "once");
        Thread.currentThread().interrupt();
        assertNull(gate.enter(Tier.USERS, tenants.of("a")));
        assertTrue(Thread.interrupted(), "the mark of an interrupted thread is kept");
        leave(gate, held);
        Gate.Waiter next = gate.enter(Tier.USERS, tenants.of("a"));
        assertNotNull(next, "who went on without a permit did not take one with it");
        leave(gate, next);
    }

    @Test
    void neverMoreThanThePermitsAndNoneIsLost() throws Exception {
        Gate gate = gate(3, Long.MAX_VALUE / 4);
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
                    leave(gate, waiter);
                }
            }));
        }
        threads.forEach(Thread::start);
        for (Thread thread : threads) {
            thread.join();
        }
        assertEquals(32_000, served.get());
        assertTrue(most.get() <= 3, "inside: " + most);
        assertEquals(0, scheduler.figures().passed(Stage.LOG));
    }

    /** Two meet again and again, and nobody else is there who would find a forgotten one. */
    @Test
    void aPermitThatIsGivenBackReachesWhoComesAtThatMoment() throws Exception {
        Gate gate = gate(1, Gate.LONGEST_WAIT_NS);
        gate.enter(Tier.USERS, tenants.of("t0"));
        CyclicBarrier both = new CyclicBarrier(2);
        Thread[] threads = new Thread[2];
        for (int number = 0; number < threads.length; number++) {
            Tenants.Tenant tenant = tenants.of("t" + number);
            threads[number] = new Thread(() -> {
                for (int turn = 0; turn < 20_000 && scheduler.figures().passed(Stage.LOG) == 0; turn++) {
                    try {
                        both.await(10, TimeUnit.SECONDS);
                    } catch (InterruptedException | BrokenBarrierException | TimeoutException other) {
                        return;
                    }
                    leave(gate, gate.enter(Tier.USERS, tenant));
                }
            });
        }
        for (Thread thread : threads) {
            thread.start();
        }
        for (Thread thread : threads) {
            thread.join();
        }
        assertEquals(0, scheduler.figures().passed(Stage.LOG), "it waited for five seconds beside a free permit");
    }

    @Test
    void theServersOwnWorkIsNoSecondTenant() {
        Gate gate = gate(1, Gate.LONGEST_WAIT_NS);
        gate.enter(Tier.USERS, tenants.of("a"));
        assertNull(gate.enter(Tier.USERS, tenants.of(Tier.LOG)));
        assertNull(gate.enter(Tier.USERS, tenants.others()));
        assertTrue(!scheduler.several());
        Gate.Waiter waiter = gate.enter(Tier.BACKGROUND, tenants.of(Tier.COMPACTION));
        assertNotNull(waiter, "compaction is ordered behind the one client");
        leave(gate, waiter);
    }

    @Test
    void aGateWithoutPermitsIsOpenAndOneThatGetsSomeWakes() throws Exception {
        Gate gate = gate(0, Long.MAX_VALUE / 4);
        gate.enter(Tier.USERS, tenants.of("a"));
        assertNull(gate.enter(Tier.USERS, tenants.of("b")));
        gate.setPermits(1);
        Gate.Waiter held = gate.enter(Tier.USERS, tenants.of("a"));
        assertNotNull(held);
        Thread second = new Thread(() -> leave(gate, gate.enter(Tier.USERS, tenants.of("b"))));
        second.start();
        while (scheduler.queued(Stage.LOG) == 0) {
            Thread.onSpinWait();
        }
        gate.setPermits(2);
        second.join();
        gate.setPermits(1);
        Thread third = new Thread(() -> assertNull(gate.enter(Tier.USERS, tenants.of("b"))));
        third.start();
        while (scheduler.queued(Stage.LOG) == 0) {
            Thread.onSpinWait();
        }
        gate.setPermits(0);
        third.join();
        gate.setPermits(1);
        assertEquals(0, scheduler.queued(Stage.LOG));
        leave(gate, held);
        assertNotNull(gate.enter(Tier.USERS, tenants.of("a")));
    }
}
