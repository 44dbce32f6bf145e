package headworks.fair;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.net.SocketException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import javax.net.ssl.SSLParameters;
import javax.net.ssl.SSLSocket;
import javax.net.ssl.SSLSocketFactory;

/**
 * This process as a node of a controller: it says what each tenant has, and takes weights and limits.
 * {@code crates/controller/src/wire.rs} has the lines. Without a controller the last ones stay.
 */
public final class Controller {
    private static final int PERIOD_MS = 2_000;
    private static final int CONNECT_MS = 2_000;
    private static final int LINES = 1;
    /** Changes of use that are not worth a line. */
    private static final double WORTH_A_LINE = 0.1;
    private static final double LEAST = 0.001;

    private static Controller here;

    private final Scheduler scheduler;
    private final String role;
    private final String node;
    private volatile List<String> controllers;
    private volatile String tokenFile;
    private volatile boolean tls;
    /** Used so far by tenant and resource, at the last report; and what was told. */
    private final Map<Integer, long[]> before = new HashMap<>();
    private final Map<Integer, Double> told = new HashMap<>();
    private final Map<Integer, Boolean> toldWants = new HashMap<>();
    private long fence;
    private volatile String state = "none";

    Controller(Scheduler scheduler, String role, String node) {
        this.scheduler = scheduler;
        this.role = role;
        this.node = node;
    }

    /** Sets where controllers are. Starts to talk to them, once; with none it goes on alone. */
    public static synchronized void talk(String role, String controllers, String tokenFile, boolean tls) {
        List<String> all = controllers == null || controllers.isBlank() ? List.of() : List.of(controllers.trim().split("[, ]+"));
        if (here == null && all.isEmpty()) {
            return;
        }
        boolean first = here == null;
        if (first) {
            here = new Controller(Scheduler.here(), role, host() + "/" + role + "/" + ProcessHandle.current().pid());
        }
        here.controllers = all;
        here.tokenFile = tokenFile;
        here.tls = tls;
        Parts.measure(!all.isEmpty());
        if (first) {
            Thread thread = new Thread(here::run, "headworks-controller");
            thread.setDaemon(true);
            thread.start();
        }
    }

    /** How it stands with the controller, for status. */
    public static synchronized String state() {
        return here == null ? "none" : here.state;
    }

    /** The same of this node. */
    String stands() {
        return state;
    }

    /** Talks to these controllers until the thread is interrupted. */
    void run(String all, String token) {
        controllers = List.of(all);
        tokenFile = token;
        run();
    }

    private static String host() {
        try {
            return java.net.InetAddress.getLocalHost().getHostName();
        } catch (IOException unknown) {
            return "localhost";
        }
    }

    private void run() {
        try {
            while (true) {
                for (String controller : controllers) {
                    try (Socket socket = connect(controller)) {
                        talk(controller, socket);
                    } catch (IOException | RuntimeException gone) {
                        state = controller + ": " + gone.getMessage() + "; the last weights stay";
                    }
                }
                Thread.sleep(PERIOD_MS);
            }
        } catch (InterruptedException stop) {
            // The server stops.
        }
    }

    private Socket connect(String controller) throws IOException {
        int colon = controller.lastIndexOf(':');
        if (colon < 0) {
            throw new IOException("write HOST:PORT");
        }
        Socket plain = new Socket();
        plain.connect(new InetSocketAddress(controller.substring(0, colon), Integer.parseInt(controller.substring(colon + 1))), CONNECT_MS);
        plain.setSoTimeout(CONNECT_MS);
        if (!tls) {
            return plain;
        }
        try {
            return secured(plain, controller.substring(0, colon));
        } catch (IOException | RuntimeException failed) {
            plain.close();
            throw failed;
        }
    }

    /** Keys and who signs are those of the JVM: {@code javax.net.ssl.keyStore} and {@code trustStore}. */
    private static Socket secured(Socket plain, String host) throws IOException {
        var factory = (SSLSocketFactory) SSLSocketFactory.getDefault();
        var secure = (SSLSocket) factory.createSocket(plain, host, plain.getPort(), true);
        SSLParameters parameters = secure.getSSLParameters();
        // The certificate must be for this host: the same authority has signed those of nodes, too.
        parameters.setEndpointIdentificationAlgorithm("HTTPS");
        secure.setSSLParameters(parameters);
        return secure;
    }

    private void talk(String controller, Socket socket) throws IOException, InterruptedException {
        OutputStream out = socket.getOutputStream();
        String token = tokenFile == null || tokenFile.isEmpty() ? "-" : Files.readString(Path.of(tokenFile)).trim();
        out.write(("hello " + LINES + " " + role + " " + token + " " + node + "\n").getBytes(StandardCharsets.UTF_8));
        BufferedReader in = new BufferedReader(new InputStreamReader(socket.getInputStream(), StandardCharsets.UTF_8));
        String first = in.readLine();
        boolean other = first != null && !first.startsWith("fence ") && !first.startsWith("error ");
        String refused = other ? "it speaks otherwise: is it a controller, and does it want TLS?" : hear(first);
        if (refused != null) {
            throw new IOException(refused);
        }
        state = "talks to " + controller;
        socket.setSoTimeout(0);
        Thread hearing = new Thread(() -> listen(socket, in), "headworks-controller-hears");
        hearing.setDaemon(true);
        hearing.start();
        told.clear();
        while (hearing.isAlive()) {
            out.write(report(PERIOD_MS / 1e3).getBytes(StandardCharsets.UTF_8));
            out.flush();
            hearing.join(PERIOD_MS);
        }
        throw new SocketException("the controller is gone");
    }

    private void listen(Socket socket, BufferedReader in) {
        try (socket) {
            for (String line = in.readLine(); line != null; line = in.readLine()) {
                if (hear(line) != null) {
                    return;
                }
            }
        } catch (IOException gone) {
            // The next attempt is made by the other thread.
        }
    }

    /** Takes a line. Says why the controller is not to be heard, {@code null} if it is. */
    String hear(String line) {
        if (line == null) {
            return "it ends the connection";
        }
        String[] words = line.split(" ", 3);
        try {
            switch (words[0]) {
                case "fence" -> {
                    long its = Long.parseLong(words[1]);
                    if (its < fence) {
                        return "another controller is in office: " + fence;
                    }
                    fence = its;
                }
                case "weight" -> {
                    double weight = Double.parseDouble(words[1]);
                    if (weight > 0) {
                        scheduler.tenants().setWeight(words[2], (int) Math.max(1, Math.min(1e9, Math.round(weight * 1e3))));
                    }
                }
                case "limit" -> scheduler.limits().set(words[2], words[1].equals("-") ? 0 : Double.parseDouble(words[1]));
                case "error" -> {
                    return line.substring("error".length()).trim();
                }
                default -> { }
            }
        } catch (RuntimeException unreadable) {
            return "it speaks otherwise: " + line;
        }
        return null;
    }

    /** What has changed since the last report. */
    String report(double seconds) {
        StringBuilder out = new StringBuilder();
        for (Tenants.Tenant tenant : scheduler.tenants().all()) {
            if (tenant.nameless) {
                continue;
            }
            double used = used(tenant, seconds);
            boolean wants = scheduler.wants(tenant.number);
            Double last = told.get(tenant.number);
            boolean nothing = used < LEAST && !wants;
            boolean same = last == null ? nothing
                : Math.abs(last - used) <= WORTH_A_LINE * last && wants == toldWants.get(tenant.number);
            if (same) {
                continue;
            }
            out.append(String.format(Locale.ROOT, "use %.3f %s %s\n", nothing ? 0 : used, wants ? "w" : "-", tenant.name.replaceAll("[\\r\\n]", "_")));
            if (nothing) {
                told.remove(tenant.number);
            } else {
                told.put(tenant.number, used);
                toldWants.put(tenant.number, wants);
            }
        }
        return out.append("report\n").toString();
    }

    /** Part of this node that the tenant had: of the resource that it used most. */
    private double used(Tenants.Tenant tenant, double seconds) {
        long[] last = before.computeIfAbsent(tenant.number, number -> new long[Resource.COUNT]);
        double most = 0;
        for (int resource = 0; resource < Resource.COUNT; resource++) {
            long now = tenant.used.get(resource);
            most = Math.max(most, (now - last[resource]) / 1e9 / seconds);
            last[resource] = now;
        }
        return most;
    }
}
