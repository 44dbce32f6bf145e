package headworks.fair;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.net.SocketException;
import java.net.SocketTimeoutException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.atomic.AtomicReference;
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
    /** Longest time between beats that is heeded. */
    private static final int BEAT_S_MAX = 3_600;
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
    private final Map<Tenants.Tenant, long[]> before = new HashMap<>();
    private final Map<Tenants.Tenant, Told> told = new HashMap<>();
    /** The largest that was heard, of all controllers. */
    private long fence;
    /** Seconds within which this connection's controller says something. 0: an older one, which gives no beats. */
    private int beat;
    private volatile String state = "none";

    private record Told(double used, boolean wants) {}

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
                // One that waits for its turn must not hide why another one is not heard.
                List<String> reasons = new ArrayList<>();
                for (String controller : controllers) {
                    try (Socket socket = connect(controller)) {
                        talk(controller, socket);
                    } catch (IOException | RuntimeException gone) {
                        reasons.add(controller + ": " + (gone.getMessage() == null ? gone.toString() : gone.getMessage()));
                    }
                }
                say(controllers.isEmpty() ? "none" : String.join("; ", reasons) + "; the last weights stay");
                Thread.sleep(PERIOD_MS);
            }
        } catch (InterruptedException stop) {
            // The server stops.
        }
    }

    /** How it stands is in the log, too: once. */
    private void say(String words) {
        if (!words.equals(state)) {
            state = words;
            System.err.println("headworks: controller: " + words);
        }
    }

    private Socket connect(String controller) throws IOException {
        int colon = controller.lastIndexOf(':');
        if (colon < 0) {
            throw new IOException("write HOST:PORT");
        }
        Socket plain = new Socket();
        try {
            plain.connect(new InetSocketAddress(controller.substring(0, colon), Integer.parseInt(controller.substring(colon + 1))), CONNECT_MS);
            plain.setSoTimeout(CONNECT_MS);
            return tls ? secured(plain, controller.substring(0, colon)) : plain;
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
        // What was heard goes along: the one in office goes beyond it, where its fences have begun again.
        String heard = fence > 0 ? "fence " + fence + "\n" : "";
        out.write(("hello " + LINES + " " + role + " " + token + " " + node + "\n" + heard).getBytes(StandardCharsets.UTF_8));
        beat = 0;
        BufferedReader in = new BufferedReader(new InputStreamReader(socket.getInputStream(), StandardCharsets.UTF_8));
        String first = in.readLine();
        boolean other = first != null && !first.startsWith("fence ") && !first.startsWith("error ");
        String refused = other ? "it speaks otherwise: is it a controller, and does it want TLS?" : hear(first);
        if (refused != null) {
            throw new IOException(refused);
        }
        say("talks to " + controller + ", fence " + fence);
        AtomicReference<String> why = new AtomicReference<>("the controller is gone");
        Thread hearing = new Thread(() -> why.set(listen(socket, in)), "headworks-controller-hears");
        hearing.setDaemon(true);
        hearing.start();
        told.clear();
        while (hearing.isAlive()) {
            try {
                out.write(report(PERIOD_MS / 1e3).getBytes(StandardCharsets.UTF_8));
                out.flush();
            } catch (IOException gone) {
                // What the other thread has heard says more.
                socket.close();
            }
            hearing.join(PERIOD_MS);
        }
        throw new SocketException(why.get());
    }

    /** Hears until the connection ends, or the controller stands still: says why. */
    private String listen(Socket socket, BufferedReader in) {
        try (socket) {
            while (true) {
                socket.setSoTimeout(1_000 * beat);
                String line = in.readLine();
                String refused = hear(line);
                if (refused != null) {
                    return line == null ? "the controller is gone" : refused;
                }
            }
        } catch (SocketTimeoutException silent) {
            return "it has said nothing for " + beat + " s";
        } catch (IOException gone) {
            return "the controller is gone: " + gone.getMessage();
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
                        return "its fence " + its + " is smaller than " + fence
                            + ", which this node has heard: another controller is in office, or etcd was restored";
                    }
                    fence = its;
                }
                case "beat" -> beat = Math.max(1, Math.min(BEAT_S_MAX, Integer.parseInt(words[1])));
                case "weight" -> {
                    double weight = Double.parseDouble(words[1]);
                    if (weight > 0 && Double.isFinite(weight)) {
                        scheduler.tenants().setWeight(words[2], (int) Math.max(1, Math.min(1e9, Math.round(weight * 1e3))));
                    }
                }
                case "limit" -> {
                    double limit = words[1].equals("-") ? 0 : Double.parseDouble(words[1]);
                    if (limit >= 0 && Double.isFinite(limit)) {
                        scheduler.limits().set(words[2], limit);
                    }
                }
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
        List<Tenants.Tenant> all = scheduler.tenants().all();
        for (Tenants.Tenant tenant : all) {
            if (tenant.nameless) {
                continue;
            }
            double used = used(tenant, seconds);
            boolean wants = scheduler.wants(tenant.number);
            Told last = told.get(tenant);
            boolean nothing = used < LEAST && !wants;
            boolean same = last == null ? nothing : Math.abs(last.used - used) <= WORTH_A_LINE * last.used && wants == last.wants;
            if (same) {
                continue;
            }
            say(out, tenant, nothing ? 0 : used, wants);
            if (nothing) {
                told.remove(tenant);
            } else {
                told.put(tenant, new Told(used, wants));
            }
        }
        // Who was forgotten here has nothing.
        Set<Tenants.Tenant> known = new HashSet<>(all);
        before.keySet().retainAll(known);
        told.keySet().removeIf(tenant -> {
            boolean gone = !known.contains(tenant);
            if (gone) {
                say(out, tenant, 0, false);
            }
            return gone;
        });
        return out.append("report\n").toString();
    }

    private static void say(StringBuilder out, Tenants.Tenant tenant, double used, boolean wants) {
        out.append(String.format(Locale.ROOT, "use %.3f %s %s\n", used, wants ? "w" : "-", tenant.name));
    }

    /** Part of this node that the tenant had: of the resource that it used most. */
    private double used(Tenants.Tenant tenant, double seconds) {
        long[] last = before.computeIfAbsent(tenant, number -> new long[Resource.COUNT]);
        double most = 0;
        for (int resource = 0; resource < Resource.COUNT; resource++) {
            long now = tenant.used.get(resource);
            most = Math.max(most, (now - last[resource]) / 1e9 / seconds);
            last[resource] = now;
        }
        return most;
    }
}
