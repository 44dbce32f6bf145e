package headworks.agent;

import headworks.fair.Controller;
import headworks.fair.Escape;
import headworks.fair.Scheduler;
import headworks.fair.Weights;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;

/**
 * What a DataNode is told: behind the agent's path, and by properties. {@code headworks hbase enable} writes both into
 * {@code hadoop-env.sh} ({@code crates/controller/src/hbase/edit.rs}). A region server reads {@code hbase-site.xml}.
 */
record Options(int permits, List<String> controllers, String tokenFile, boolean tls, Map<String, Integer> weights, List<String> wrong) {
    private static final String PERMITS = "permits=";
    private static final String CONTROLLER = "controller=";

    static Options read(String arguments, Properties properties) {
        int permits = 0;
        List<String> controllers = new ArrayList<>();
        List<String> wrong = new ArrayList<>();
        for (String argument : arguments.split(",")) {
            if (argument.startsWith(PERMITS)) {
                String count = argument.substring(PERMITS.length());
                if (count.matches("[1-9][0-9]{0,3}")) {
                    permits = Integer.parseInt(count);
                } else {
                    wrong.add("\"" + argument + "\": write permits=N, from 1 to 9999");
                }
            } else if (argument.startsWith(CONTROLLER)) {
                controllers.addAll(List.of(argument.substring(CONTROLLER.length()).trim().split("[; ]+")));
            } else if (!controllers.isEmpty() && argument.matches("[^=]+:[0-9]+")) {
                // Earlier versions of `enable` have put commas between them.
                controllers.add(argument.trim());
            } else if (!argument.isBlank()) {
                wrong.add("\"" + argument + "\" is not known. The agent knows permits=N and controller=HOST:PORT;HOST:PORT");
            }
        }
        controllers.removeIf(String::isBlank);
        Map<String, Integer> weights = new HashMap<>();
        Weights.parse(properties.getProperty(Weights.SETTING, ""), words -> wrong.add(Weights.SETTING + ": " + words))
            .forEach((name, weight) -> weights.put(Escape.name(name), weight));
        return new Options(permits, List.copyOf(controllers), properties.getProperty("headworks.controller.token.file"),
            Boolean.parseBoolean(properties.getProperty("headworks.controller.tls")), Map.copyOf(weights), List.copyOf(wrong));
    }

    /** Does as it says. */
    void apply() {
        wrong.forEach(words -> System.err.println("headworks: " + words));
        if (permits > 0) {
            Xceiver.setPermits(permits);
        }
        if (!weights.isEmpty()) {
            Scheduler.here().tenants().setWeights(weights, controllers.isEmpty());
        }
        if (!controllers.isEmpty()) {
            Controller.talk("datanode", String.join(",", controllers), tokenFile, tls);
        }
    }
}
