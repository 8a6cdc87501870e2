package io.fairgate.client;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;

/** Of this package, as its pom says. */
public final class Version {
    private Version() {}

    /** For example "1.2.3". */
    public static String get() {
        try (InputStream text = Version.class.getResourceAsStream("version.txt")) {
            return new String(text.readAllBytes(), StandardCharsets.UTF_8).strip();
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }
}
