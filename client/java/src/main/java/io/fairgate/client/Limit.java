package io.fairgate.client;

/**
 * What keeps a call from going now.
 *
 * @param layer "target", "class" or "tenant"
 * @param dimension empty when no single dimension limits
 */
public record Limit(String layer, String dimension) {}
