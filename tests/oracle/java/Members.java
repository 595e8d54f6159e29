// Consumers of one group, each in a thread of its own, told what to do by lines of the standard input:
//   join NAME [property=value ...] | leave NAME | pause NAME MILLISECONDS | resume NAME
// Prints what happens, one line each: owned, read, committed, left, failed. Killing the JVM crashes them all.
//   java Members BOOTSTRAP GROUP TOPIC-OR-PATTERN [property=value ...]      (a pattern starts with ^)

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.RetriableCommitFailedException;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RebalanceInProgressException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

public final class Members {
    static final Map<String, Member> members = new ConcurrentHashMap<>();

    public static void main(String[] args) throws Exception {
        Properties common = new Properties();
        common.put("bootstrap.servers", args[0]);
        common.put("group.id", args[1]);
        common.put("enable.auto.commit", "false");
        common.put("auto.offset.reset", "earliest");
        common.put("metadata.max.age.ms", "1000");
        read(common, args, 3);
        BufferedReader orders = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = orders.readLine()) != null; ) {
            String[] words = line.split(" ");
            switch (words[0]) {
                case "join" -> {
                    Properties own = new Properties();
                    own.putAll(common);
                    read(own, words, 2);
                    Member member = new Member(words[1], own, args[2]);
                    members.put(words[1], member);
                    member.start();
                }
                case "leave" -> members.get(words[1]).leaving = true;
                case "pause" -> members.get(words[1]).pauseMs = Long.parseLong(words[2]);
                default -> throw new IllegalArgumentException(line);
            }
        }
        members.values().forEach(each -> each.leaving = true);
        for (Member each : members.values()) {
            each.join();
        }
    }

    static void read(Properties into, String[] words, int from) {
        for (int i = from; i < words.length; i++) {
            String[] pair = words[i].split("=", 2);
            into.put(pair[0], pair[1]);
        }
    }

    static synchronized void say(String what, String name, String rest) {
        System.out.println(what + " " + name + " " + rest);
        System.out.flush();
    }

    static final class Member extends Thread implements ConsumerRebalanceListener {
        final String name;
        final Properties properties;
        final String topic;
        volatile boolean leaving;
        volatile long pauseMs;
        KafkaConsumer<byte[], byte[]> consumer;

        Member(String name, Properties properties, String topic) {
            this.name = name;
            this.properties = properties;
            this.topic = topic;
        }

        @Override
        public void run() {
            try (KafkaConsumer<byte[], byte[]> made =
                    new KafkaConsumer<>(properties, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
                consumer = made;
                if (topic.startsWith("^")) {
                    consumer.subscribe(Pattern.compile(topic.substring(1)), this);
                } else {
                    consumer.subscribe(List.of(topic.split(",")), this);
                }
                while (!leaving) {
                    step();
                }
            } catch (Throwable error) {
                say("failed", name, error.toString().replace('\n', ' '));
                return;
            }
            say("left", name, "");
        }

        void step() throws InterruptedException {
            if (pauseMs > 0) {
                Thread.sleep(pauseMs);
                pauseMs = 0;
            }
            ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofMillis(50));
            for (ConsumerRecord<byte[], byte[]> each : records) {
                say("read", name, each.topic() + " " + each.partition() + " " + each.offset());
            }
            if (!records.isEmpty()) {
                commit(records);
            }
        }

        void commit(ConsumerRecords<byte[], byte[]> records) {
            Map<TopicPartition, OffsetAndMetadata> next = new HashMap<>();
            for (TopicPartition each : records.partitions()) {
                List<ConsumerRecord<byte[], byte[]>> of = records.records(each);
                next.put(each, new OffsetAndMetadata(of.get(of.size() - 1).offset() + 1));
            }
            try {
                consumer.commitSync(next, Duration.ofSeconds(20));
                next.forEach((at, offset) ->
                        say("committed", name, at.topic() + " " + at.partition() + " " + offset.offset()));
            } catch (CommitFailedException | RebalanceInProgressException | RetriableCommitFailedException
                    | TimeoutException error) {
                say("uncommitted", name, error.getClass().getSimpleName());
            }
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            tell(consumer.assignment(), Set.of());
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            tell(consumer.assignment(), partitions);
        }

        @Override
        public void onPartitionsLost(Collection<TopicPartition> partitions) {
            tell(consumer.assignment(), partitions);
        }

        void tell(Set<TopicPartition> owned, Collection<TopicPartition> gone) {
            say("owned", name, owned.stream().filter(each -> !gone.contains(each))
                    .map(each -> each.topic() + ":" + each.partition())
                    .collect(Collectors.toCollection(TreeSet::new))
                    .stream().collect(Collectors.joining(" ")));
        }
    }
}
