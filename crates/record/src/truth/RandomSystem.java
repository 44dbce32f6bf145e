import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.Semaphore;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;

/**
 * A random system, as the file that is its only word says. It prints what {@code truth.rs} reads:
 * the truth, threads' stages as they come, and {@code ready} with its port. A byte is a request, and
 * a byte its answer.
 *
 * <p>The file's lines: {@code truth JSON}; {@code dress WORD}; {@code stage QUEUE THREADS} of each
 * stage; {@code request STEPS FIRST}; and of each of its steps {@code step STAGE NANOSECONDS WRITES}, then
 * the numbers of steps that it {@code submits}, {@code waits} for and submits {@code then}.
 */
public final class RandomSystem {
    private RandomSystem() {}

    private static final class Step {
        int stage;
        long cpu;
        int writes;
        int[] submits;
        int[] waits;
        int[] then;
    }

    private static final class Kind {
        Step[] steps;
        int first;
    }

    private static final class Request {
        final Step[] steps;
        final OutputStream client;
        final AtomicInteger left;
        final Done[] done;

        Request(Step[] steps, OutputStream client) {
            this.steps = steps;
            this.client = client;
            left = new AtomicInteger(steps.length);
            done = new Done[steps.length];
            for (int at = 0; at < steps.length; at++) {
                done[at] = at % 3 == 0 ? new Latch() : at % 3 == 1 ? new Future() : new Flag();
            }
        }
    }

    private static final class Item {
        final Request request;
        final int step;

        Item(Request request, int step) {
            this.request = request;
            this.step = step;
        }
    }

    /** That a step is done, in the ways that programs tell it. */
    private interface Done {
        void tell();

        void await() throws Exception;
    }

    private static final class Latch implements Done {
        private final CountDownLatch latch = new CountDownLatch(1);

        public void tell() {
            latch.countDown();
        }

        public void await() throws InterruptedException {
            latch.await();
        }
    }

    private static final class Future implements Done {
        private final CompletableFuture<Boolean> future = new CompletableFuture<>();

        public void tell() {
            future.complete(true);
        }

        public void await() throws Exception {
            future.get();
        }
    }

    private static final class Flag implements Done {
        private boolean told;

        public synchronized void tell() {
            told = true;
            notifyAll();
        }

        public synchronized void await() throws InterruptedException {
            while (!told) {
                wait();
            }
        }
    }

    /** What passes items to a stage's threads. */
    private interface Queue {
        void put(Item item) throws InterruptedException;

        Item take() throws InterruptedException;
    }

    private static final class Blocking implements Queue {
        private final BlockingQueue<Item> queue;

        Blocking(BlockingQueue<Item> queue) {
            this.queue = queue;
        }

        public void put(Item item) throws InterruptedException {
            queue.put(item);
        }

        public Item take() throws InterruptedException {
            return queue.take();
        }
    }

    private static final class Permits implements Queue {
        private final ConcurrentLinkedQueue<Item> items = new ConcurrentLinkedQueue<>();
        private final Semaphore permits = new Semaphore(0);

        public void put(Item item) {
            items.add(item);
            permits.release();
        }

        public Item take() throws InterruptedException {
            permits.acquire();
            return items.remove();
        }
    }

    private static final class Conditional implements Queue {
        private final ArrayDeque<Item> items = new ArrayDeque<>();
        private final ReentrantLock lock = new ReentrantLock();
        private final Condition more = lock.newCondition();

        public void put(Item item) {
            lock.lock();
            try {
                items.add(item);
                more.signal();
            } finally {
                lock.unlock();
            }
        }

        public Item take() throws InterruptedException {
            lock.lock();
            try {
                while (items.isEmpty()) {
                    more.await();
                }
                return items.remove();
            } finally {
                lock.unlock();
            }
        }
    }

    private static final class Monitor implements Queue {
        private final ArrayDeque<Item> items = new ArrayDeque<>();

        public synchronized void put(Item item) {
            items.add(item);
            notify();
        }

        public synchronized Item take() throws InterruptedException {
            while (items.isEmpty()) {
                wait();
            }
            return items.remove();
        }
    }

    /** A stage, and how it gets its items. */
    private static final class Stage {
        final int number;
        /** Its threads are the virtual machine's. */
        final boolean virtual;
        final ThreadFactory threads;
        Queue queue;
        ExecutorService pool;

        Stage(int number, String kind, int count) {
            this.number = number;
            virtual = kind.startsWith("virtual-");
            threads = virtual ? virtualThreads() : dress.equals("executor") ? NUMBERED : named(number);
            switch (kind.replace("virtual-", "")) {
                case "linked" -> queue = new Blocking(new LinkedBlockingQueue<>());
                case "array" -> queue = new Blocking(new ArrayBlockingQueue<>(1024));
                case "semaphore" -> queue = new Permits();
                case "condition" -> queue = new Conditional();
                case "monitor" -> queue = new Monitor();
                case "pool" -> pool = Executors.newFixedThreadPool(count, telling());
                case "cached" -> pool = Executors.newCachedThreadPool(telling());
                default -> {}
            }
            for (int at = 0; queue != null && at < count; at++) {
                begin(this::loop);
            }
        }

        private ThreadFactory telling() {
            return work -> threads.newThread(() -> {
                tell(this);
                work.run();
            });
        }

        void begin(Runnable work) {
            Runnable tells = () -> {
                tell(this);
                work.run();
            };
            // All that lasts is a task of one executor, if there is one.
            if (threads == NUMBERED) {
                EXECUTOR.execute(tells);
            } else {
                threads.newThread(tells).start();
            }
        }

        void pass(Item item) throws InterruptedException {
            if (queue != null) {
                queue.put(item);
            } else if (pool != null) {
                pool.execute(() -> work(item));
            } else {
                threads.newThread(() -> {
                    tell(this);
                    work(item);
                }).start();
            }
        }

        private void loop() {
            try {
                while (true) {
                    work(queue.take());
                }
            } catch (InterruptedException over) {
                // Nothing interrupts it.
            }
        }
    }

    private static final ThreadFactory NUMBERED = Executors.defaultThreadFactory();
    private static final ExecutorService EXECUTOR = Executors.newCachedThreadPool(NUMBERED);

    private static String dress;
    private static String truth;
    private static final List<Stage> stages = new ArrayList<>();
    private static final List<Kind> requests = new ArrayList<>();
    private static FileChannel disk;
    private static long roundsPerMillisecond;
    private static volatile long sink;

    private static ThreadFactory named(int stage) {
        AtomicInteger number = new AtomicInteger();
        return work -> new Thread(work, "stage-" + (char) ('a' + stage) + "-" + number.incrementAndGet());
    }

    /** Compiled with a JDK that has none, it is run with one that has. */
    private static ThreadFactory virtualThreads() {
        try {
            Object builder = Thread.class.getMethod("ofVirtual").invoke(null);
            return (ThreadFactory) Class.forName("java.lang.Thread$Builder").getMethod("factory").invoke(builder);
        } catch (ReflectiveOperationException none) {
            throw new IllegalStateException("this JDK has no virtual threads", none);
        }
    }

    private static final OutputStream out = new FileOutputStream(FileDescriptor.out);
    private static final Set<String> told = ConcurrentHashMap.newKeySet();

    /** One call, and no lock: that would be an arrow of the test's making. */
    private static void print(String line) {
        try {
            out.write((line + "\n").getBytes(StandardCharsets.US_ASCII));
        } catch (IOException over) {
            System.exit(1);
        }
    }

    /** Tells which stage the kernel's thread is of. Stages of virtual threads share theirs: stage 0. */
    private static void tell(Stage stage) {
        try {
            String own = Files.readSymbolicLink(Path.of("/proc/thread-self")).getFileName().toString();
            int number = stage.virtual ? 0 : stage.number;
            if (!stage.virtual || told.add(own)) {
                print(own + " " + number);
            }
        } catch (IOException none) {
            throw new IllegalStateException(none);
        }
    }

    private static void spin(long rounds) {
        long value = rounds;
        for (long at = 0; at < rounds; at++) {
            value = value * 6364136223846793005L + 1442695040888963407L;
        }
        sink = value;
    }

    private static void measure() {
        final long rounds = 1_000_000;
        long least = Long.MAX_VALUE;
        for (int at = 0; at < 40; at++) {
            long begun = System.nanoTime();
            spin(rounds);
            least = Math.min(least, System.nanoTime() - begun);
        }
        roundsPerMillisecond = rounds * 1_000_000 / Math.max(least, 1);
    }

    private static void use(Step step) throws IOException {
        spin(step.cpu * roundsPerMillisecond / 1_000_000);
        for (int write = 0; write < step.writes; write++) {
            disk.write(ByteBuffer.allocate(4096), step.stage * 4096L);
            disk.force(false);
        }
    }

    private static void submit(Request request, int step) throws InterruptedException {
        stages.get(request.steps[step].stage).pass(new Item(request, step));
    }

    private static void work(Item item) {
        Request request = item.request;
        Step step = request.steps[item.step];
        try {
            if (stages.get(step.stage).virtual) {
                tell(stages.get(step.stage));
            }
            use(step);
            for (int next : step.submits) {
                submit(request, next);
            }
            for (int other : step.waits) {
                request.done[other].await();
            }
            request.done[item.step].tell();
            for (int next : step.then) {
                submit(request, next);
            }
            if (request.left.decrementAndGet() == 0) {
                request.client.write('y');
            }
        } catch (Exception over) {
            // The client is gone.
        }
    }

    private static void serve(Socket client) {
        try (client) {
            client.setTcpNoDelay(true);
            InputStream in = client.getInputStream();
            OutputStream answers = client.getOutputStream();
            for (int read = in.read(); read >= 0; read = in.read()) {
                Kind kind = requests.get(read % requests.size());
                work(new Item(new Request(kind.steps, answers), kind.first));
            }
        } catch (IOException over) {
            // The client is gone.
        }
    }

    private static int[] numbers(String word) {
        return java.util.Arrays.stream(word.split(",")).filter(part -> !part.equals("-")).mapToInt(Integer::parseInt).toArray();
    }

    /** Reads the file; returns the lines of its stages. */
    private static List<String[]> read(Path file) throws IOException {
        List<String[]> found = new ArrayList<>();
        Kind kind = null;
        int filled = 0;
        for (String line : Files.readAllLines(file)) {
            String[] words = line.split(" ");
            switch (words[0]) {
                case "truth" -> truth = line;
                case "dress" -> dress = words[1];
                case "stage" -> found.add(words);
                case "request" -> {
                    kind = new Kind();
                    kind.steps = new Step[Integer.parseInt(words[1])];
                    kind.first = Integer.parseInt(words[2]);
                    requests.add(kind);
                    filled = 0;
                }
                case "step" -> {
                    Step step = new Step();
                    step.stage = Integer.parseInt(words[1]);
                    step.cpu = Long.parseLong(words[2]);
                    step.writes = Integer.parseInt(words[3]);
                    step.submits = numbers(words[4]);
                    step.waits = numbers(words[5]);
                    step.then = numbers(words[6]);
                    kind.steps[filled++] = step;
                }
                default -> throw new IllegalArgumentException(line);
            }
        }
        return found;
    }

    public static void main(String[] words) throws Exception {
        List<String[]> wanted = read(Path.of(words[0]));
        Path file = Files.createTempFile("random-system", ".data");
        disk = FileChannel.open(file, StandardOpenOption.WRITE);
        Files.delete(file);
        measure();
        print(truth);
        for (String[] line : wanted) {
            stages.add(new Stage(stages.size(), line[1], Integer.parseInt(line[2])));
        }
        ServerSocket server = new ServerSocket(0, 64, InetAddress.getLoopbackAddress());
        print("ready " + server.getLocalPort());
        while (true) {
            Socket client = server.accept();
            stages.get(0).begin(() -> serve(client));
        }
    }
}
