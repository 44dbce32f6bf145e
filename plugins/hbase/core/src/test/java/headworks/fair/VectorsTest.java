package headworks.fair;

import static org.junit.jupiter.api.Assertions.assertEquals;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import org.junit.jupiter.api.Test;

/** Replays what the Rust code chose: {@code crates/policy/tests/vectors.rs} writes the file. */
class VectorsTest {
    @Test
    void thePortChoosesAsTheRustCode() throws Exception {
        try (var file = new InputStreamReader(getClass().getResourceAsStream("/nested.json"), StandardCharsets.UTF_8)) {
            JsonObject all = JsonParser.parseReader(file).getAsJsonObject();
            int number = 0;
            for (JsonElement steps : all.getAsJsonArray("cases")) {
                replay(all, steps.getAsJsonArray(), "case " + number++);
            }
            assertEquals(4, number);
        }
    }

    private static void replay(JsonObject all, JsonArray steps, String name) {
        int stages = all.get("stages").getAsInt();
        int flows = all.get("flows").getAsInt();
        int tiers = Tier.values().length;
        Nested nested = new Nested(stages, all.get("resources").getAsInt());
        for (int tier = 0; tier < tiers; tier++) {
            nested.grow(tier, flows - 1);
        }
        int[][][] queued = new int[tiers][flows][stages];
        for (int at = 0; at < steps.size(); at++) {
            JsonArray step = steps.get(at).getAsJsonArray();
            String where = name + ", step " + at + ": " + step;
            int first = step.get(1).getAsInt();
            switch (step.get(0).getAsString()) {
                case "weight" -> nested.setWeight(first, step.get(2).getAsInt(), step.get(3).getAsInt());
                case "add" -> {
                    int flow = step.get(2).getAsInt();
                    int stage = step.get(3).getAsInt();
                    if (queued[first][flow][stage]++ == 0) {
                        nested.arrive(first, flow, stage);
                    }
                }
                case "nothing" -> assertEquals(-1, nested.choose(first), where);
                default -> {
                    int tier = nested.choose(first);
                    int flow = nested.chosenFlow();
                    assertEquals(step.get(2).getAsInt(), tier, where);
                    assertEquals(step.get(3).getAsInt(), flow, where);
                    nested.served(tier, flow);
                    if (--queued[tier][flow][first] == 0) {
                        nested.leave(tier, flow, first);
                    }
                    nested.charge(tier, flow, step.get(4).getAsInt(), step.get(5).getAsLong());
                    assertEquals(step.get(6).getAsLong(), nested.dominant(tier, flow), where);
                    assertEquals(step.get(7).getAsLong(), nested.dominant(tier), where);
                }
            }
        }
    }
}
