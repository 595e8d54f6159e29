// What Kafka Streams makes of random records, in its TopologyTestDriver: a line of JSON for each topology.
//   java StreamsOracle SEED RECORDS [TOPOLOGY ...]
// tests/streams/topologies.py builds the same topologies; tests/streams/fixtures holds these lines.

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Random;
import java.util.TreeSet;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.TestInputTopic;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.kstream.*;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.SessionStore;
import org.apache.kafka.streams.state.WindowStore;
import org.apache.kafka.streams.test.TestRecord;

public final class StreamsOracle {
    interface Build {
        void on(StreamsBuilder builder);
    }

    static final Map<String, Build> BUILDS = new LinkedHashMap<>();
    static final Map<String, String[]> INPUTS = new LinkedHashMap<>();
    static final Serde<String> S = Serdes.String();
    static final Serde<Long> L = Serdes.Long();

    static void topology(String name, String inputs, Build build) {
        BUILDS.put(name, build);
        INPUTS.put(name, inputs.split(" "));
    }

    // -- the functions of all topologies; a value that is missing reads "-" ------------------------------

    static String s(Object value) {
        return value == null ? "-" : value.toString();
    }

    static String pair(Object left, Object right) {
        return "(" + s(left) + "," + s(right) + ")";
    }

    static boolean low(String value) {
        return value != null && Integer.parseInt(value) < 50;
    }

    static Duration ms(long millis) {
        return Duration.ofMillis(millis);
    }

    static <V> Materialized<String, V, KeyValueStore<Bytes, byte[]>> kept(String name, Serde<V> serde) {
        return Materialized.<String, V, KeyValueStore<Bytes, byte[]>>as(name).withKeySerde(S).withValueSerde(serde);
    }

    static <V> Materialized<String, V, WindowStore<Bytes, byte[]>> windows(String name, Serde<V> serde) {
        return Materialized.<String, V, WindowStore<Bytes, byte[]>>as(name).withKeySerde(S).withValueSerde(serde);
    }

    static <V> Materialized<String, V, SessionStore<Bytes, byte[]>> sessions(String name, Serde<V> serde) {
        return Materialized.<String, V, SessionStore<Bytes, byte[]>>as(name).withKeySerde(S).withValueSerde(serde);
    }

    static KStream<String, String> stream(StreamsBuilder b, String topic) {
        return b.stream(topic, Consumed.with(S, S));
    }

    static KTable<String, String> table(StreamsBuilder b, String topic, String store) {
        return b.table(topic, Consumed.with(S, S), kept(store, S));
    }

    /** Whether nodes have Kafka's own names: so they are described. Internal topics are found by names of ours. */
    static boolean isPlain = false;

    static Grouped<String, String> by(String name) {
        return isPlain ? Grouped.with(S, S) : Grouped.with(name, S, S);
    }

    static StreamJoined<String, String, String> joined() {
        StreamJoined<String, String, String> plain = StreamJoined.with(S, S, S);
        return isPlain ? plain : plain.withStoreName("j").withName("j");
    }

    static <K> Suppressed<K> named(Suppressed<K> suppressed) {
        return isPlain ? suppressed : suppressed.withName("sup");
    }

    static <V> Joined<String, String, V> with(Serde<V> serde) {
        Joined<String, String, V> plain = Joined.with(S, S, serde);
        return isPlain ? plain : plain.withName("r");
    }

    static void foreign(KTable<String, String> left, KTable<String, String> right, boolean isLeft) {
        java.util.function.Function<String, String> key = v -> "abcd".substring(v.length(), v.length() + 1);
        ValueJoiner<String, String, String> both = StreamsOracle::pair;
        TableJoined<String, String> named = isPlain ? TableJoined.as(null) : TableJoined.as("fk");
        out((isLeft ? left.leftJoin(right, key, both, named, kept("js", S)) : left.join(right, key, both, named, kept("js", S)))
                .toStream());
    }

    static void out(KStream<String, String> stream) {
        stream.to("out", Produced.with(S, S));
    }

    static void counts(KTable<String, Long> table) {
        table.toStream().to("out", Produced.with(S, L));
    }

    static <V> void windowed(KTable<Windowed<String>, V> table, Serde<V> serde, long size) {
        table.toStream().to("out", Produced.with(WindowedSerdes.timeWindowedSerdeFrom(String.class, size), serde));
    }

    static <V> void session(KTable<Windowed<String>, V> table, Serde<V> serde) {
        table.toStream().to("out", Produced.with(WindowedSerdes.sessionWindowedSerdeFrom(String.class), serde));
    }

    static void stateless() {
        topology("filter", "a", b -> out(stream(b, "a").filter((k, v) -> low(v))));
        topology("filter-not", "a", b -> out(stream(b, "a").filterNot((k, v) -> low(v))));
        topology("map", "a", b -> out(stream(b, "a").map((k, v) -> KeyValue.pair(s(v), s(k)))));
        topology("map-values", "a", b -> out(stream(b, "a").mapValues(v -> pair(v, "m"))));
        topology("flat-map", "a", b -> out(stream(b, "a").flatMap(
                (k, v) -> v == null ? List.of() : List.of(KeyValue.pair(v, k), KeyValue.pair(s(k), v)))));
        topology("flat-map-values", "a", b -> out(stream(b, "a").flatMapValues(
                v -> v == null ? List.<String>of() : Arrays.asList(v.split("")))));
        topology("select-key", "a", b -> out(stream(b, "a").selectKey((k, v) -> v)));
        topology("merge", "a b", b -> out(stream(b, "a").merge(stream(b, "b"))));
        topology("split", "a", b -> {
            Map<String, KStream<String, String>> parts = stream(b, "a").split()
                    .branch((k, v) -> v == null)
                    .branch((k, v) -> low(v))
                    .defaultBranch();
            List<String> names = new ArrayList<>(new java.util.TreeSet<>(parts.keySet()));
            parts.get(names.get(1)).to("nulls", Produced.with(S, S)); // -0 is the default branch
            parts.get(names.get(2)).to("lows", Produced.with(S, S));
            parts.get(names.get(0)).to("rest", Produced.with(S, S));
        });
        topology("repartition", "a", b -> out(stream(b, "a").selectKey((k, v) -> v)
                .repartition(Repartitioned.with(S, S).withName("r"))));
    }

    static void aggregates() {
        topology("count", "a", b -> counts(stream(b, "a").groupByKey(by("g")).count(kept("st", L))));
        topology("group-by-count", "a", b -> counts(
                stream(b, "a").groupBy((k, v) -> v == null ? null : v.substring(0, 1), by("g")).count(kept("st", L))));
        topology("reduce", "a", b -> out(stream(b, "a").groupByKey(by("g"))
                .reduce((x, y) -> y.equals("7") ? null : tail(x + "+" + y), kept("st", S)).toStream()));
        topology("aggregate", "a", b -> out(stream(b, "a").groupByKey(by("g"))
                .aggregate(() -> "0", (k, v, x) -> v.endsWith("3") ? null : tail(x + "+" + v), kept("st", S)).toStream()));
        topology("cogroup", "a b", b -> out(stream(b, "a").groupByKey(by("g"))
                .cogroup((String k, String v, String x) -> tail(x + "+" + v))
                .cogroup(stream(b, "b").groupByKey(by("h")), (k, v, x) -> tail(x + "*" + v))
                .aggregate(() -> "0", kept("st", S)).toStream()));
    }

    static String tail(String value) {
        return value.length() > 12 ? value.substring(value.length() - 12) : value;
    }

    static void tables() {
        topology("table", "t", b -> out(table(b, "t", "st").toStream()));
        topology("table-filter", "t", b -> out(table(b, "t", "st").filter((k, v) -> low(v)).toStream()));
        topology("table-filter-kept", "t", b -> out(
                table(b, "t", "st").filter((k, v) -> low(v), kept("low", S)).toStream()));
        topology("table-map-values", "t", b -> out(table(b, "t", "st").mapValues(v -> pair(v, "m")).toStream()));
        topology("table-map-values-kept", "t", b -> out(
                table(b, "t", "st").mapValues(v -> pair(v, "m"), kept("mapped", S)).toStream()));
        topology("table-filter-chain", "t", b -> out(table(b, "t", "st").filter((k, v) -> low(v))
                .mapValues(v -> pair(v, "m")).filter((k, v) -> !v.contains("1")).toStream()));
        topology("table-group-count", "t", b -> counts(table(b, "t", "st")
                .groupBy((k, v) -> KeyValue.pair(v.substring(0, 1), v), by("g")).count(kept("n", L))));
        topology("table-group-reduce", "t", b -> out(table(b, "t", "st")
                .groupBy((k, v) -> KeyValue.pair(v.substring(0, 1), v), by("g"))
                .reduce((x, y) -> tail(x + "+" + y), (x, y) -> tail(x + "-" + y), kept("n", S)).toStream()));
        topology("table-group-aggregate", "t", b -> out(table(b, "t", "st")
                .groupBy((k, v) -> KeyValue.pair(v.substring(0, 1), v), by("g"))
                .aggregate(() -> "0", (k, v, x) -> tail(x + "+" + v), (k, v, x) -> tail(x + "-" + v), kept("n", S))
                .toStream()));
        topology("table-of-counts", "a", b -> counts(stream(b, "a").groupByKey(by("g")).count(kept("st", L))
                .filter((k, n) -> n % 2 == 0)));
        topology("stream-to-table", "a", b -> out(stream(b, "a").toTable(kept("st", S)).toStream()));
    }

    static void windows() {
        TimeWindows tumbling = TimeWindows.ofSizeAndGrace(ms(100), ms(50));
        TimeWindows hopping = TimeWindows.ofSizeAndGrace(ms(100), ms(20)).advanceBy(ms(40));
        SlidingWindows sliding = SlidingWindows.ofTimeDifferenceAndGrace(ms(60), ms(30));
        SessionWindows gap = SessionWindows.ofInactivityGapAndGrace(ms(40), ms(30));
        topology("tumbling-count", "a", b -> windowed(
                stream(b, "a").groupByKey(by("g")).windowedBy(tumbling).count(windows("st", L)), L, 100));
        topology("tumbling-no-grace", "a", b -> windowed(stream(b, "a").groupByKey(by("g"))
                .windowedBy(TimeWindows.ofSizeWithNoGrace(ms(100))).count(windows("st", L)), L, 100));
        topology("tumbling-reduce", "a", b -> windowed(stream(b, "a").groupByKey(by("g")).windowedBy(tumbling)
                .reduce((x, y) -> tail(x + "+" + y), windows("st", S)), S, 100));
        topology("tumbling-after-filter", "a", b -> windowed(stream(b, "a").filter((k, v) -> low(v))
                .groupByKey(by("g")).windowedBy(tumbling).count(windows("st", L)), L, 100));
        topology("hopping-count", "a", b -> windowed(
                stream(b, "a").groupByKey(by("g")).windowedBy(hopping).count(windows("st", L)), L, 100));
        topology("hopping-aggregate", "a", b -> windowed(stream(b, "a").groupByKey(by("g")).windowedBy(hopping)
                .aggregate(() -> "0", (k, v, x) -> tail(x + "+" + v), windows("st", S)), S, 100));
        topology("sliding-count", "a", b -> windowed(
                stream(b, "a").groupByKey(by("g")).windowedBy(sliding).count(windows("st", L)), L, 60));
        topology("sliding-aggregate", "a", b -> windowed(stream(b, "a").groupByKey(by("g")).windowedBy(sliding)
                .aggregate(() -> "0", (k, v, x) -> tail(x + "+" + v), windows("st", S)), S, 60));
        topology("session-count", "a", b -> session(
                stream(b, "a").groupByKey(by("g")).windowedBy(gap).count(sessions("st", L)), L));
        topology("session-reduce", "a", b -> session(stream(b, "a").groupByKey(by("g")).windowedBy(gap)
                .reduce((x, y) -> tail(x + "+" + y), sessions("st", S)), S));
        topology("session-aggregate", "a", b -> session(stream(b, "a").groupByKey(by("g")).windowedBy(gap)
                .aggregate(() -> "0", (k, v, x) -> tail(x + "+" + v), (k, x, y) -> tail(x + "|" + y),
                        sessions("st", S)), S));
        topology("cogroup-tumbling", "a b", b -> windowed(stream(b, "a").groupByKey(by("g"))
                .cogroup((String k, String v, String x) -> tail(x + "+" + v))
                .cogroup(stream(b, "b").groupByKey(by("h")), (k, v, x) -> tail(x + "*" + v))
                .windowedBy(tumbling).aggregate(() -> "0", windows("st", S)), S, 100));
        topology("final-tumbling", "a", b -> windowed(stream(b, "a").groupByKey(by("g")).windowedBy(tumbling)
                .count(windows("st", L)).suppress(
                        named(Suppressed.untilWindowCloses(Suppressed.BufferConfig.unbounded()))), L, 100));
        topology("final-hopping", "a", b -> windowed(stream(b, "a").groupByKey(by("g")).windowedBy(hopping)
                .count(windows("st", L)).suppress(
                        named(Suppressed.untilWindowCloses(Suppressed.BufferConfig.unbounded()))), L, 100));
        topology("final-session", "a", b -> session(stream(b, "a").groupByKey(by("g")).windowedBy(gap)
                .count(sessions("st", L)).suppress(
                        named(Suppressed.untilWindowCloses(Suppressed.BufferConfig.unbounded()))), L));
        topology("suppress", "a", b -> counts(stream(b, "a").groupByKey(by("g")).count(kept("st", L))
                .suppress(named(Suppressed.untilTimeLimit(ms(80), Suppressed.BufferConfig.unbounded())))));
    }

    static void joins() {
        JoinWindows near = JoinWindows.ofTimeDifferenceAndGrace(ms(50), ms(30));
        JoinWindows before = JoinWindows.ofTimeDifferenceAndGrace(ms(0), ms(20)).before(ms(60));
        ValueJoiner<String, String, String> both = StreamsOracle::pair;
        topology("stream-stream", "a b", b -> out(stream(b, "a").join(stream(b, "b"), both, near, joined())));
        topology("stream-stream-before", "a b", b -> out(stream(b, "a").join(stream(b, "b"), both, before, joined())));
        topology("stream-stream-left", "a b", b -> out(stream(b, "a").leftJoin(stream(b, "b"), both, near, joined())));
        topology("stream-stream-outer", "a b", b -> out(stream(b, "a").outerJoin(stream(b, "b"), both, near, joined())));
        topology("stream-stream-rekeyed", "a b", b -> out(stream(b, "a").selectKey((k, v) -> k)
                .join(stream(b, "b"), both, near, joined())));
        topology("stream-table", "a t", b -> out(stream(b, "a").join(table(b, "t", "st"), both,
                with(S))));
        topology("stream-table-left", "a t", b -> out(stream(b, "a").leftJoin(table(b, "t", "st"), both,
                with(S))));
        topology("stream-table-rekeyed", "a t", b -> out(stream(b, "a").selectKey((k, v) -> k == null ? "d" : k)
                .join(table(b, "t", "st"), both, with(S))));
        topology("stream-filtered-table", "a t", b -> out(stream(b, "a").join(
                table(b, "t", "st").filter((k, v) -> low(v)), both, with(S))));
        topology("stream-counts", "a b", b -> out(stream(b, "a").join(
                stream(b, "b").groupByKey(by("g")).count(kept("n", L)), StreamsOracle::pair, with(L))));
        topology("stream-global", "a t", b -> out(stream(b, "a").join(
                b.globalTable("t", Consumed.with(S, S), kept("st", S)),
                (k, v) -> v == null ? null : "abcd".substring(v.length(), v.length() + 1), both)));
        topology("stream-global-left", "a t", b -> out(stream(b, "a").leftJoin(
                b.globalTable("t", Consumed.with(S, S), kept("st", S)),
                (k, v) -> v == null ? null : "abcd".substring(v.length(), v.length() + 1), both)));
        topology("table-table", "t u", b -> out(table(b, "t", "ts").join(table(b, "u", "us"), both).toStream()));
        topology("table-table-left", "t u", b -> out(table(b, "t", "ts").leftJoin(table(b, "u", "us"), both).toStream()));
        topology("table-table-outer", "t u", b -> out(
                table(b, "t", "ts").outerJoin(table(b, "u", "us"), both).toStream()));
        topology("table-table-kept", "t u", b -> out(
                table(b, "t", "ts").join(table(b, "u", "us"), both, kept("js", S)).toStream()));
        topology("foreign-key", "t u", b -> foreign(table(b, "t", "ts"), table(b, "u", "us"), false));
        topology("foreign-key-left", "t u", b -> foreign(table(b, "t", "ts"), table(b, "u", "us"), true));
    }

    // -- random records, and what comes out -----------------------------------------------------------------

    static List<Object[]> records(String[] topics, int count, Random chance) {
        List<Object[]> records = new ArrayList<>();
        long now = 1000;
        for (int i = 0; i < count; i++) {
            if (i > 0 && chance.nextInt(12) == 0) {
                records.add(records.get(chance.nextInt(records.size()))); // repeated
                continue;
            }
            now += chance.nextInt(20) == 0 ? chance.nextInt(300) : chance.nextInt(25);
            long at = now;
            int kind = chance.nextInt(12);
            if (kind < 3) at -= chance.nextInt(80); // out of order
            if (kind == 3) at -= chance.nextInt(400); // late
            String key = chance.nextInt(25) == 0 ? null : "abcd".substring(chance.nextInt(4)).substring(0, 1);
            String value = chance.nextInt(9) == 0 ? null : String.valueOf(chance.nextInt(100));
            records.add(new Object[] {topics[chance.nextInt(topics.length)], key, value, Math.max(0, at)});
        }
        return records;
    }

    static Topology built(String name, Properties settings) {
        StreamsBuilder builder = new StreamsBuilder();
        BUILDS.get(name).on(builder);
        return builder.build(settings);
    }

    static String run(String name, long seed, int count) {
        Properties settings = new Properties();
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, "app");
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, "none:1");
        settings.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, System.getProperty("java.io.tmpdir") + "/oracle-" + ProcessHandle.current().pid());
        settings.put("__emit.interval.ms.kstreams.outer.join.spurious.results.fix__", 0L);
        isPlain = true;
        String description = built(name, settings).describe().toString();
        isPlain = false;
        Topology topology = built(name, settings);
        List<Object[]> records = records(INPUTS.get(name), count, new Random(seed * 1_000_003 + name.hashCode()));
        try (TopologyTestDriver driver = new TopologyTestDriver(topology, settings, Instant.ofEpochMilli(0))) {
            Map<String, TestInputTopic<String, String>> inputs = new LinkedHashMap<>();
            for (String topic : INPUTS.get(name)) {
                inputs.put(topic, driver.createInputTopic(topic, new StringSerializer(), new StringSerializer()));
            }
            for (Object[] each : records) {
                inputs.get(each[0]).pipeInput(
                        new TestRecord<>((String) each[1], (String) each[2], null, (Long) each[3]));
            }
            StringBuilder line = new StringBuilder("{\"name\":" + text(name) + ",\"describe\":" + text(description));
            line.append(",\"inputs\":[");
            for (int i = 0; i < records.size(); i++) {
                Object[] each = records.get(i);
                line.append(i == 0 ? "" : ",").append("[" + text(each[0]) + "," + text(each[1]) + "," + text(each[2])
                        + "," + each[3] + "]");
            }
            line.append("],\"written\":{");
            boolean first = true;
            for (String topic : new TreeSet<>(driver.producedTopicNames())) {
                line.append(first ? "" : ",").append(text(topic)).append(":[");
                first = false;
                boolean begun = false;
                for (TestRecord<byte[], byte[]> each : driver.createOutputTopic(
                        topic, new ByteArrayDeserializer(), new ByteArrayDeserializer()).readRecordsToList()) {
                    line.append(begun ? "," : "").append("[" + bytes(each.getKey()) + "," + bytes(each.getValue()) + ","
                            + each.timestamp() + "]");
                    begun = true;
                }
                line.append("]");
            }
            return line.append("}}").toString();
        }
    }

    /** Printable bytes as they are; others behind a tilde, in base 64. */
    static String bytes(byte[] bytes) {
        if (bytes == null) return "null";
        for (byte each : bytes) {
            if (each < 0x20 || each > 0x7d) return text("~" + Base64.getEncoder().encodeToString(bytes));
        }
        return text(new String(bytes, StandardCharsets.US_ASCII));
    }

    static String text(Object value) {
        if (value == null) return "null";
        String escaped = value.toString().replace("\\", "\\\\").replace("\"", "\\\"").replace("\n", "\\n");
        return "\"" + escaped + "\"";
    }

    public static void main(String[] args) {
        stateless();
        aggregates();
        tables();
        windows();
        joins();
        List<String> names = args.length > 2 ? Arrays.asList(args).subList(2, args.length) : new ArrayList<>(BUILDS.keySet());
        for (String name : names) System.out.println(run(name, Long.parseLong(args[0]), Integer.parseInt(args[1])));
    }
}
