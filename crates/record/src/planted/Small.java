import java.io.InputStream;
import java.io.OutputStream;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.concurrent.ThreadLocalRandom;

/** A server that keeps many small objects, and replaces some of them for each request. A byte is a request, and a byte its answer. */
public final class Small {
    private static final int KEPT = 400_000;
    private static final int REPLACED = 500;
    private static final byte[][] kept = new byte[KEPT][];

    private Small() {}

    public static void main(String[] none) throws Exception {
        for (int at = 0; at < KEPT; at++) {
            kept[at] = new byte[64];
        }
        ServerSocket server = new ServerSocket(0, 64, java.net.InetAddress.getLoopbackAddress());
        System.out.println("ready " + server.getLocalPort());
        while (true) {
            Socket client = server.accept();
            client.setTcpNoDelay(true);
            Thread thread = new Thread(() -> serve(client), "connection");
            thread.setDaemon(true);
            thread.start();
        }
    }

    private static void serve(Socket client) {
        try (InputStream in = client.getInputStream(); OutputStream out = client.getOutputStream()) {
            while (in.read() >= 0) {
                ThreadLocalRandom random = ThreadLocalRandom.current();
                for (int number = 0; number < REPLACED; number++) {
                    kept[random.nextInt(KEPT)] = new byte[64];
                }
                out.write('y');
            }
        } catch (java.io.IOException over) {
            // The client is gone.
        }
    }
}
