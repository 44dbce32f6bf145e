package headworks.fair;

import java.util.HashMap;
import java.util.Map;
import java.util.function.Consumer;

/** Weights as a configuration has them: {@code alice=4, batch=0.5}. */
public final class Weights {
    public static final String SETTING = "headworks.weights";
    private static final double MOST = 1_000_000;

    private Weights() {}

    /** Reads them, in thousandths. What is wrong is left out, and said. */
    public static Map<String, Integer> parse(String text, Consumer<String> wrong) {
        Map<String, Integer> weights = new HashMap<>();
        for (String part : text.split(",")) {
            if (part.isBlank()) {
                continue;
            }
            // A name may contain the sign: users of Kerberos have many forms.
            int sign = part.lastIndexOf('=');
            String name = part.substring(0, Math.max(0, sign)).trim();
            double weight = number(part.substring(sign + 1).trim());
            if (name.isEmpty() || !(weight > 0 && weight <= MOST)) {
                wrong.accept("\"" + part.trim() + "\" is left out. Write NAME=WEIGHT, with a weight above 0 and up to " + (long) MOST);
                continue;
            }
            weights.put(name, (int) Math.max(1, Math.round(weight * 1_000)));
        }
        return weights;
    }

    private static double number(String text) {
        try {
            return Double.parseDouble(text);
        } catch (NumberFormatException wrong) {
            return Double.NaN;
        }
    }
}
