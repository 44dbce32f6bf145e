import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.locks.ReentrantLock;

/** Threads that wait for one another, and for what: a monitor, a lock, a queue and a notification. */
public final class Shop {
    static final class Stock {}

    static final class Basket {
        int full;
    }

    private static final Stock stock = new Stock();
    private static final Basket basket = new Basket();
    private static final ReentrantLock ledger = new ReentrantLock();
    private static final LinkedBlockingQueue<Integer> letters = new LinkedBlockingQueue<>();

    private Shop() {}

    private static void order() throws InterruptedException {
        synchronized (stock) {
            Thread.sleep(3);
        }
    }

    private static void book() throws InterruptedException {
        ledger.lock();
        try {
            Thread.sleep(3);
        } finally {
            ledger.unlock();
        }
    }

    private static void sell() throws InterruptedException {
        while (true) {
            order();
            book();
            letters.put(1);
            synchronized (basket) {
                basket.full++;
                basket.notify();
            }
        }
    }

    private static void bill() throws InterruptedException {
        while (true) {
            synchronized (basket) {
                while (basket.full == 0) {
                    basket.wait();
                }
                basket.full = 0;
            }
        }
    }

    private static void mail() throws InterruptedException {
        while (true) {
            letters.take();
        }
    }

    interface Work {
        void run() throws InterruptedException;
    }

    private static void start(String name, Work work) {
        Thread thread = new Thread(() -> {
            try {
                work.run();
            } catch (InterruptedException over) {
                // It ends.
            }
        }, name);
        thread.setDaemon(true);
        thread.start();
    }

    public static void main(String[] none) throws Exception {
        for (int number = 1; number <= 4; number++) {
            start("a-seller-with-a-long-name-" + number, Shop::sell);
        }
        start("biller", Shop::bill);
        start("mailer", Shop::mail);
        System.out.println("ready");
        Thread.sleep(120_000);
    }
}
