package headworks.cluster;

import java.io.IOException;
import java.io.InputStreamReader;
import java.net.URL;
import java.nio.charset.StandardCharsets;
import org.apache.hbase.thirdparty.com.google.gson.JsonElement;
import org.apache.hbase.thirdparty.com.google.gson.JsonObject;
import org.apache.hbase.thirdparty.com.google.gson.JsonParser;

/** What a server told of its scheduler by JMX, at one moment. */
final class Told {
    private final JsonObject bean;

    private Told(JsonObject bean) {
        this.bean = bean;
    }

    /** Asks the server that has this page. */
    static Told by(int page) throws IOException {
        URL url = new URL("http://127.0.0.1:" + page + "/jmx?qry=headworks:type=Scheduler");
        try (var answer = new InputStreamReader(url.openStream(), StandardCharsets.UTF_8)) {
            return new Told(JsonParser.parseReader(answer).getAsJsonObject().getAsJsonArray("beans").get(0).getAsJsonObject());
        }
    }

    /** A figure of a stage: served, waited, passed, queued. */
    long of(String stage, String figure) {
        return stage(stage).get(figure).getAsLong();
    }

    /** Why a stage is not enforced; the empty text: it is. */
    String why(String stage) {
        return stage(stage).get("why").getAsString();
    }

    /** What a tenant was served at a stage. */
    long served(String tenant, String stage) {
        JsonObject known = named("Tenants", "name", tenant);
        JsonElement count = known == null ? null : known.getAsJsonObject("served").get(stage);
        return count == null ? 0 : count.getAsLong();
    }

    /** A tenant's weight; 0: it is not known. */
    double weight(String tenant) {
        JsonObject known = named("Tenants", "name", tenant);
        return known == null ? 0 : known.get("weight").getAsDouble();
    }

    /** How it stands with the controller. */
    String controller() {
        return bean.get("Controller").getAsString();
    }

    /** For how long a tenant's requests would have kept all of a resource busy, in microseconds. */
    long used(String tenant, String resource) {
        JsonObject known = named("Tenants", "name", tenant);
        JsonElement time = known == null ? null : known.getAsJsonObject("used_us").get(resource);
        return time == null ? 0 : time.getAsLong();
    }

    /** Bytes of responses that a tenant's clients have not taken. */
    long unread(String tenant) {
        JsonObject known = named("Tenants", "name", tenant);
        return known == null ? 0 : known.get("unread").getAsLong();
    }

    /** A tenant's open connections. */
    long connections(String tenant) {
        JsonObject known = named("Tenants", "name", tenant);
        return known == null ? 0 : known.get("connections").getAsLong();
    }

    /** A tenant's calls that were answered by this exception. */
    long failed(String tenant, String exception) {
        JsonObject known = named("Tenants", "name", tenant);
        JsonElement count = known == null ? null : known.getAsJsonObject("failed").get(exception);
        return count == null ? 0 : count.getAsLong();
    }

    /** Attempts at gets without files: answered, ended. */
    long attempts(String figure) {
        return text("Attempts").getAsJsonObject().get(figure).getAsLong();
    }

    /** Whether a second tenant was seen. */
    boolean several() {
        return bean.get("Several").getAsBoolean();
    }

    private JsonObject stage(String name) {
        return named("Stages", "stage", name);
    }

    private JsonObject named(String list, String key, String name) {
        for (JsonElement each : text(list).getAsJsonArray()) {
            if (each.getAsJsonObject().get(key).getAsString().equals(name)) {
                return each.getAsJsonObject();
            }
        }
        return null;
    }

    private JsonElement text(String attribute) {
        return JsonParser.parseString(bean.get(attribute).getAsString());
    }

    @Override
    public String toString() {
        return bean.toString();
    }
}
