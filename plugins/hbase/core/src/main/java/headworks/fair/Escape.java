package headworks.fair;

import java.io.ByteArrayOutputStream;
import java.nio.charset.StandardCharsets;

/**
 * Names of tenants on their way through lines, lists, shells' files and HDFS: a name is the same at each end. What clients
 * call themselves may hold anything.
 */
public final class Escape {
    /** Characters of a name that count. */
    private static final int LONGEST = 256;
    /** Signs that mean nothing to a shell, a list or a log. {@code escaped} of {@code crates/controller/src/hbase/settings.rs} has the same. */
    private static final String PLAIN = "._-@/+:()";

    private Escape() {}

    /**
     * What a client calls itself, as a tenant's name. Names in parentheses are those of work that has no client, and
     * no client may take one. A name must not end a line.
     */
    public static String client(String name) {
        boolean plain = name.length() <= LONGEST && !name.startsWith("(") && name.chars().noneMatch(Character::isISOControl);
        return plain ? name : made(name);
    }

    private static String made(String name) {
        int end = Math.min(LONGEST, name.length());
        // Half a character is none.
        end -= end < name.length() && Character.isHighSurrogate(name.charAt(end - 1)) ? 1 : 0;
        StringBuilder out = new StringBuilder();
        for (int at = 0; at < end; at++) {
            char each = name.charAt(at);
            if (Character.isISOControl(each) || at == 0 && each == '(') {
                out.append(String.format("%%%02X", (int) each));
            } else {
                out.append(each);
            }
        }
        return out.toString();
    }

    /** A name as one word: all but letters, digits and few signs as {@code %XX}. */
    public static String word(String name) {
        StringBuilder out = new StringBuilder();
        for (byte each : name.getBytes(StandardCharsets.UTF_8)) {
            char letter = (char) (each & 0xff);
            if (letter >= 'a' && letter <= 'z' || letter >= 'A' && letter <= 'Z' || letter >= '0' && letter <= '9' || PLAIN.indexOf(letter) >= 0) {
                out.append(letter);
            } else {
                out.append(String.format("%%%02X", (int) letter));
            }
        }
        return out.toString();
    }

    /** The name of such a word. What is no escape stays as it is. */
    public static String name(String word) {
        if (word.indexOf('%') < 0) {
            return word;
        }
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        byte[] bytes = word.getBytes(StandardCharsets.UTF_8);
        for (int at = 0; at < bytes.length; at++) {
            int high = at + 2 < bytes.length && bytes[at] == '%' ? Character.digit(bytes[at + 1], 16) : -1;
            int low = high >= 0 ? Character.digit(bytes[at + 2], 16) : -1;
            if (low >= 0) {
                out.write(high << 4 | low);
                at += 2;
            } else {
                out.write(bytes[at]);
            }
        }
        return out.toString(StandardCharsets.UTF_8);
    }
}
