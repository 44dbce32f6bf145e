package headworks.fair;

import java.io.IOException;
import java.io.RandomAccessFile;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;

/**
 * A thread that serves calls, as others see it: whether it waits. Linux tells that of each thread. The JVM does not: a thread that
 * reads from a socket is runnable to it.
 */
public final class Worker {
    private static final String STAT = "/proc/thread-self/stat";
    private static final ThreadLocal<Worker> HERE = ThreadLocal.withInitial(Worker::new);

    /** Of the thread that has opened it, whoever reads it; {@code null}: there is none. */
    private final FileChannel stat = open();
    private final long number = Thread.currentThread().getId();

    private Worker() {}

    static Worker here() {
        return HERE.get();
    }

    /** Whether threads can be looked at. */
    public static boolean isSeen() {
        return here().stat != null && new Looks().isThere(here());
    }

    private static FileChannel open() {
        try {
            return new RandomAccessFile(STAT, "r").getChannel();
        } catch (IOException none) {
            return null;
        }
    }

    /** Looks at threads. For one thread. */
    static final class Looks implements Running.Eyes {
        private static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();
        private static final int ENOUGH = 256;

        private final ByteBuffer text = ByteBuffer.allocateDirect(ENOUGH);

        /** The state follows the name, which may have parentheses itself. */
        private char state(Worker worker) {
            try {
                text.clear();
                int length = worker.stat == null ? 0 : worker.stat.read(text, 0);
                for (int at = length - 1; at >= 0; at--) {
                    if (text.get(at) == ')' && at + 2 < length) {
                        return (char) text.get(at + 2);
                    }
                }
            } catch (IOException gone) {
                // The thread has ended.
            }
            return 0;
        }

        private boolean isThere(Worker worker) {
            return state(worker) != 0;
        }

        @Override
        public boolean wait(Worker worker) {
            return state(worker) != 'R';
        }

        @Override
        public long cpuNs(Worker worker) {
            return THREADS.getThreadCpuTime(worker.number);
        }

        @Override
        public int processors() {
            return Runtime.getRuntime().availableProcessors();
        }
    }
}
