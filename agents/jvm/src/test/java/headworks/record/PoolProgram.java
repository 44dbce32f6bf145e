package headworks.record;

import java.lang.reflect.Method;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.atomic.LongAdder;
import java.util.concurrent.locks.LockSupport;

/**
 * Eight threads give tasks to a pool of four (or to virtual threads), 2,000 a second, and each task
 * knows who gave it. It prints {@code ready}; then, once an agent counts, how often the agent named
 * another request than the true one, and how often none.
 */
public final class PoolProgram {
    private PoolProgram() {}

    private static volatile Method begin;
    private static volatile Method request;

    /** The agent's class, once it is there. */
    private static boolean counted() {
        if (begin == null) {
            try {
                Class<?> found = Class.forName("headworks.record.Handovers", true, null);
                request = found.getMethod("request");
                if (!(boolean) found.getMethod("counts").invoke(null)) {
                    return false;
                }
                begin = found.getMethod("begin");
            } catch (ReflectiveOperationException none) {
                return false;
            }
        }
        return true;
    }

    public static void main(String[] words) throws Exception {
        boolean virtual = words.length > 0 && words[0].equals("virtual");
        double seconds = words.length > 1 ? Double.parseDouble(words[1]) : 4;
        ExecutorService pool = virtual ? virtualThreads() : Executors.newFixedThreadPool(4, named("worker-"));
        LongAdder all = new LongAdder();
        LongAdder wrong = new LongAdder();
        LongAdder missed = new LongAdder();
        System.out.println("ready " + ProcessHandle.current().pid());
        System.out.flush();
        while (!counted()) {
            Thread.sleep(10);
        }
        long until = System.nanoTime() + (long) (seconds * 1e9);
        Thread[] givers = new Thread[8];
        for (int at = 0; at < givers.length; at++) {
            givers[at] = named("giver-").newThread(() -> {
                while (System.nanoTime() < until) {
                    try {
                        long own = (long) begin.invoke(null);
                        CountDownLatch done = new CountDownLatch(1);
                        pool.execute(() -> {
                            try {
                                long known = (long) request.invoke(null);
                                all.increment();
                                if (known == 0) {
                                    missed.increment();
                                } else if (known != own) {
                                    wrong.increment();
                                }
                            } catch (ReflectiveOperationException gone) {
                                missed.increment();
                            }
                            done.countDown();
                        });
                        done.await();
                    } catch (ReflectiveOperationException | InterruptedException gone) {
                        throw new IllegalStateException(gone);
                    }
                    LockSupport.parkNanos(3_900_000);
                }
            });
            givers[at].start();
        }
        for (Thread giver : givers) {
            giver.join();
        }
        System.out.println("all " + all.sum() + " wrong " + wrong.sum() + " missed " + missed.sum());
        System.out.flush();
        // The agent leaves while the program runs.
        Thread.sleep(8_000);
        System.exit(0);
    }

    private static ExecutorService virtualThreads() throws ReflectiveOperationException {
        // From JDK 21 on.
        return (ExecutorService) Executors.class.getMethod("newVirtualThreadPerTaskExecutor").invoke(null);
    }

    private static int count;

    private static ThreadFactory named(String prefix) {
        return task -> new Thread(task, prefix + ++count);
    }
}
