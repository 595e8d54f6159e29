// One consumer of a group that says what happens to it, in lines as tests/soak/member.py describes them.
//   java Member NAME BOOTSTRAP GROUP TOPIC [property=value ...]     leaves when its standard input ends

import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RebalanceInProgressException;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

public final class Member implements ConsumerRebalanceListener {
    static volatile boolean leaving;
    final KafkaConsumer<byte[], byte[]> consumer;
    final Map<TopicPartition, OffsetAndMetadata> due = new HashMap<>();  // read, not committed yet

    public static void main(String[] args) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", args[1]);
        settings.put("group.id", args[2]);
        settings.put("enable.auto.commit", "false");
        settings.put("auto.offset.reset", "earliest");
        settings.put("metadata.max.age.ms", "1000");
        settings.put("reconnect.backoff.max.ms", "200");
        for (int i = 4; i < args.length; i++) {
            String[] pair = args[i].split("=", 2);
            settings.put(pair[0], pair[1]);
        }
        Thread end = new Thread(() -> {
            try {
                while (System.in.read() >= 0) {
                    // nothing is ever said
                }
            } catch (java.io.IOException error) {
                // as good as an end
            }
            leaving = true;
        });
        end.setDaemon(true);
        end.start();
        Thread time = new Thread(Member::watchTime);
        time.setDaemon(true);
        time.start();
        try {
            new Member(settings).work(args[3]);
        } catch (Throwable error) {
            say("failed", error.toString().replace('\n', ' '));
            Runtime.getRuntime().halt(1);
        }
    }

    Member(Properties settings) {
        consumer = new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    void work(String topic) {
        consumer.subscribe(List.of(topic), this);
        while (!leaving) {
            ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofMillis(50));
            for (TopicPartition each : records.partitions()) {
                List<ConsumerRecord<byte[], byte[]>> of = records.records(each);
                long last = of.get(of.size() - 1).offset();
                say("read", each.partition() + " " + of.get(0).offset() + " " + last);
                due.put(each, new OffsetAndMetadata(last + 1));
            }
            if (!due.isEmpty()) {
                commit(new HashMap<>(due));
            }
        }
        say("leaving", "");
        consumer.close();
        say("left", "");
    }

    void commit(Map<TopicPartition, OffsetAndMetadata> next) {
        long begun = System.nanoTime();
        try {
            consumer.commitSync(next, Duration.ofSeconds(20));
        } catch (CommitFailedException | RebalanceInProgressException | RetriableException error) {
            say("refused", error.getClass().getSimpleName());
            return;
        }
        next.forEach((at, offset) -> say("committed", at.partition() + " " + offset.offset() + " " + begun));
        due.clear();
    }

    /** Says when the process did not run for a second or more. */
    static void watchTime() {
        long last = System.nanoTime();
        while (true) {
            try {
                Thread.sleep(100);
            } catch (InterruptedException error) {
                return;
            }
            long now = System.nanoTime();
            if (now - last > 1_000_000_000L) {
                say("stalled", String.valueOf((now - last) / 1_000_000));
            }
            last = now;
        }
    }

    static synchronized void say(String what, String rest) {
        System.out.println(System.nanoTime() + " " + what + " " + rest);
        System.out.flush();
    }

    static String numbers(Collection<TopicPartition> partitions) {
        return partitions.stream().map(each -> String.valueOf(each.partition())).collect(Collectors.joining(" "));
    }

    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
        say("assigned", numbers(partitions));
    }

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
        say("revoked", numbers(partitions));
        due.keySet().removeAll(partitions);
    }

    @Override
    public void onPartitionsLost(Collection<TopicPartition> partitions) {
        say("lost", numbers(partitions));
        due.keySet().removeAll(partitions);
    }
}
