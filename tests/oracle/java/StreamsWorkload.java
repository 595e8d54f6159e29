// Kafka Streams at the work that a benchmark compares, exactly once (exactly_once_v2).
//   java StreamsWorkload count|words|join|aggregate BOOTSTRAP APPLICATION_ID STATE_FOLDER THREADS
// It reads APPLICATION_ID-in (a join also APPLICATION_ID-table) and writes APPLICATION_ID-out.

import java.util.Arrays;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Joined;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;

public final class StreamsWorkload {
    private static final Serde<String> TEXT = Serdes.String();
    private static final Serde<byte[]> BYTES = Serdes.ByteArray();
    private static final Serde<Long> LONG = Serdes.Long();

    public static void main(String[] args) throws Exception {
        Properties settings = new Properties();
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, args[1]);
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, args[2]);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, args[3]);
        settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        settings.put(StreamsConfig.REPLICATION_FACTOR_CONFIG, 1);
        settings.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, Integer.parseInt(args[4]));
        settings.put(StreamsConfig.consumerPrefix("auto.offset.reset"), "earliest");

        StreamsBuilder builder = new StreamsBuilder();
        build(builder, args[0], args[2] + "-in", args[2] + "-table", args[2] + "-out");
        KafkaStreams streams = new KafkaStreams(builder.build(), settings);
        Runtime.getRuntime().addShutdownHook(new Thread(streams::close));
        streams.start();
        new CountDownLatch(1).await();
    }

    private static void build(StreamsBuilder builder, String workload, String in, String table, String out) {
        switch (workload) {
            case "count" -> builder.stream(in, Consumed.with(TEXT, BYTES))
                    .groupByKey(Grouped.with(TEXT, BYTES))
                    .count()
                    .toStream()
                    .to(out, Produced.with(TEXT, LONG));
            case "words" -> builder.stream(in, Consumed.with(TEXT, TEXT))
                    .flatMapValues(line -> Arrays.asList(line.toLowerCase().split(" ")))
                    .groupBy((key, word) -> word, Grouped.with(TEXT, TEXT))
                    .count()
                    .toStream()
                    .to(out, Produced.with(TEXT, LONG));
            case "join" -> {
                KStream<String, String> stream = builder.stream(in, Consumed.with(TEXT, TEXT));
                stream.join(
                                builder.table(table, Consumed.with(TEXT, TEXT)),
                                (value, row) -> value + row,
                                Joined.with(TEXT, TEXT, TEXT))
                        .to(out, Produced.with(TEXT, TEXT));
            }
            case "aggregate" -> builder.stream(in, Consumed.with(TEXT, BYTES))
                    .groupByKey(Grouped.with(TEXT, BYTES))
                    .aggregate(() -> 0L, (key, value, seen) -> seen + value.length, Materialized.with(TEXT, LONG))
                    .toStream()
                    .to(out, Produced.with(TEXT, LONG));
            default -> throw new IllegalArgumentException("there is no workload " + workload);
        }
    }
}
