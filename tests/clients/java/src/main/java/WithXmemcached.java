import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.TimeUnit;
import net.rubyeye.xmemcached.CommandFactory;
import net.rubyeye.xmemcached.GetsResponse;
import net.rubyeye.xmemcached.MemcachedClient;
import net.rubyeye.xmemcached.XMemcachedClientBuilder;
import net.rubyeye.xmemcached.command.BinaryCommandFactory;
import net.rubyeye.xmemcached.command.TextCommandFactory;
import net.rubyeye.xmemcached.exception.MemcachedException;
import net.rubyeye.xmemcached.utils.AddrUtil;

/** Calls every operation of xmemcached, a client, over the text and the binary protocol. Argument: HOST:PORT. */
public final class WithXmemcached {
    private final MemcachedClient client;

    private WithXmemcached(MemcachedClient client) {
        this.client = client;
    }

    public static void main(String[] arguments) throws Exception {
        for (var protocol : List.of(new TextCommandFactory(), new BinaryCommandFactory())) {
            run(arguments[0], protocol);
        }
    }

    private static void run(String server, CommandFactory protocol) throws Exception {
        var builder = new XMemcachedClientBuilder(AddrUtil.getAddresses(server));
        builder.setCommandFactory(protocol);
        MemcachedClient client = builder.build();
        client.setOpTimeout(10_000);
        var test = new WithXmemcached(client);
        client.flushAll();
        test.storing();
        test.values();
        test.cas();
        test.arithmetic();
        test.expiry();
        test.withoutReplies();
        test.administration();
        client.shutdown();
    }

    private void storing() throws Exception {
        check(client.set("a", 0, "1"), "set");
        same(client.get("a"), "1");
        same(client.get("absent"), null);
        check(!client.add("a", 0, "2"), "add of an existing key");
        check(client.add("b", 0, "2"), "add");
        check(!client.replace("absent", 0, "x"), "replace of a missing key");
        check(client.replace("b", 0, "3"), "replace");
        check(client.append("b", "4"), "append");
        check(client.prepend("b", "2"), "prepend");
        check(!client.append("absent", "x"), "append to a missing key");
        check(!client.prepend("absent", "x"), "prepend to a missing key");
        same(client.get("b"), "234");
        Map<String, String> found = client.get(List.of("a", "b", "absent"));
        same(found, Map.of("a", "1", "b", "234"));
        check(client.delete("b"), "delete");
        check(!client.delete("b"), "delete of a missing key");
        // The client stores the type of a value in the client flags of the item.
        for (Object value : List.of("text", List.of(1, 2))) {
            check(client.set("typed", 0, value), "set of " + value.getClass());
            same(client.get("typed"), value);
        }
    }

    private void values() throws Exception {
        byte[] large = new byte[900_000];
        for (int i = 0; i < large.length; i++) {
            // The bytes look random, because the client would compress other values.
            large[i] = (byte) (i * 2654435761L >>> 13);
        }
        byte[] binary = {'\r', '\n', 0, 'E', 'N', 'D', '\r', '\n', -1};
        for (byte[] value : List.of(new byte[0], binary, large)) {
            check(client.set("v", 0, value), "set of bytes");
            check(Arrays.equals(client.get("v"), value), "get of bytes");
        }
        for (int length : new int[] {1, 249, 250}) {
            String key = "k".repeat(length);
            check(client.set(key, 0, "x"), "set of a key of length " + length);
            same(client.get(key), "x");
        }
        Map<String, String> many = new HashMap<>();
        for (int i = 0; i < 1000; i++) {
            many.put("many" + i, ("" + i).repeat(20));
        }
        for (var entry : many.entrySet()) {
            check(client.set(entry.getKey(), 0, entry.getValue()), "set of many keys");
        }
        same(client.get(many.keySet()), many);
    }

    private void cas() throws Exception {
        client.set("c", 0, "1");
        GetsResponse<String> found = client.gets("c");
        same(found.getValue(), "1");
        check(client.cas("c", 0, "2", found.getCas()), "cas");
        check(!client.cas("c", 0, "3", found.getCas()), "cas with an old CAS value");
        same(client.get("c"), "2");
        same(client.gets("absent"), null);
        check(client.gets(List.of("a", "c")).size() == 2, "gets of two keys");
    }

    private void arithmetic() throws Exception {
        client.set("n", 0, "10");
        same(client.incr("n", 5), 15L);
        same(client.decr("n", 6), 9L);
        same(client.decr("n", 100), 0L);
        same(client.incr("fresh", 5, 100), 100L);
        same(client.incr("fresh", 5, 100), 105L);
        same(client.decr("other", 5, 100), 100L);
        client.set("word", 0, "text");
        try {
            client.incr("word", 1);
            throw new AssertionError("the server must refuse to increment a text");
        } catch (MemcachedException expected) {
            // The server has refused the increment.
        }
    }

    private void expiry() throws Exception {
        check(client.set("e", 1, "1"), "set with a TTL");
        waitForMiss("e");
        check(client.set("e", 0, "1"), "set");
        check(client.touch("e", 100), "touch");
        same(client.get("e"), "1");
        check(client.touch("e", 1), "touch");
        waitForMiss("e");
        check(!client.touch("e", 1), "touch of a missing key");
    }

    private void withoutReplies() throws Exception {
        client.setWithNoReply("q", 0, "1");
        client.addWithNoReply("q", 0, "2");
        client.incrWithNoReply("q", 4);
        client.appendWithNoReply("q", "0");
        waitForValue("q", "50");
        client.deleteWithNoReply("q");
        waitForMiss("q");
    }

    private void administration() throws Exception {
        check(!client.getVersions().isEmpty(), "versions");
        for (Map<String, String> stats : client.getStats().values()) {
            check(Integer.parseInt(stats.get("curr_items")) > 0, "curr_items");
        }
        for (Map<String, String> stats : client.getStatsByItem("settings").values()) {
            check(stats.containsKey("maxbytes"), "maxbytes");
        }
        client.flushAll();
        same(client.get("a"), null);
    }

    private void waitForMiss(String key) throws Exception {
        waitForValue(key, null);
    }

    private void waitForValue(String key, Object value) throws Exception {
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(10);
        while (!Objects.equals(client.get(key), value)) {
            check(System.nanoTime() < deadline, "the wait until " + key + " becomes " + value);
            Thread.sleep(50);
        }
    }

    /** Fails unless the value is the expected one. */
    private static void same(Object got, Object expected) {
        if (!Objects.equals(got, expected)) {
            throw new AssertionError("got " + got + ", expected " + expected);
        }
    }

    /** Fails unless the condition holds. The message names the operation whose result is checked. */
    private static void check(boolean condition, String operation) {
        if (!condition) {
            throw new AssertionError("unexpected result of " + operation);
        }
    }
}
