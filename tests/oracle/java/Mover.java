// Produces records, moves them to another topic in transactions, of which some are aborted, and reads them there.
//   java Mover CLIENT.PROPERTIES classic|consumer COUNT    prints how many were moved, read, and committed in the group

import java.io.FileReader;
import java.time.Duration;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

public final class Mover {
    static final Map<String, Object> client = new HashMap<>();
    static String protocol;
    static int count;

    public static void main(String[] args) throws Exception {
        Properties properties = new Properties();
        try (FileReader file = new FileReader(args[0])) {
            properties.load(file);
        }
        properties.forEach((name, value) -> client.put((String) name, value));
        protocol = args[1];
        count = Integer.parseInt(args[2]);
        String input = "input-" + protocol;
        String output = "output-" + protocol;
        try (Admin admin = Admin.create(client)) {
            short replicas = 1;
            admin.createTopics(List.of(new NewTopic(input, 2, replicas), new NewTopic(output, 2, replicas))).all().get();
            fill(input);
            int moved = move(input, output);
            System.out.println(moved + " " + read(output) + " " + committed(admin));
        }
    }

    static KafkaProducer<String, String> producer(Map<String, Object> more) {
        Map<String, Object> settings = new HashMap<>(client);
        settings.putAll(more);
        return new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer());
    }

    static KafkaConsumer<String, String> consumer(String group) {
        Map<String, Object> settings = new HashMap<>(client);
        settings.putAll(Map.of("group.id", group, "group.protocol", protocol, "auto.offset.reset", "earliest",
                "isolation.level", "read_committed", "enable.auto.commit", "false", "max.poll.records", 100));
        return new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
    }

    static void fill(String topic) {
        try (KafkaProducer<String, String> producer = producer(Map.of())) {
            for (int i = 0; i < count; i++) {
                producer.send(new ProducerRecord<>(topic, "k" + i, "v" + i));
            }
        }
    }

    static int move(String input, String output) {
        int moved = 0;
        try (KafkaConsumer<String, String> consumer = consumer("movers-" + protocol);
                KafkaProducer<String, String> producer = producer(Map.of("transactional.id", "mover-" + protocol))) {
            producer.initTransactions();
            consumer.subscribe(List.of(input));
            for (int transactions = 0; moved < count; ) {
                ConsumerRecords<String, String> records = consumer.poll(Duration.ofSeconds(1));
                if (records.isEmpty()) {
                    continue;
                }
                Map<TopicPartition, Long> first = new HashMap<>();
                Map<TopicPartition, OffsetAndMetadata> next = new HashMap<>();
                producer.beginTransaction();
                for (ConsumerRecord<String, String> record : records) {
                    TopicPartition partition = new TopicPartition(record.topic(), record.partition());
                    first.putIfAbsent(partition, record.offset());
                    next.put(partition, new OffsetAndMetadata(record.offset() + 1));
                    producer.send(new ProducerRecord<>(output, record.key(), record.value()));
                }
                producer.sendOffsetsToTransaction(next, consumer.groupMetadata());
                if (transactions++ % 4 == 1) {
                    producer.abortTransaction();
                    first.forEach(consumer::seek);
                } else {
                    producer.commitTransaction();
                    moved += records.count();
                }
            }
        }
        return moved;
    }

    /** How many different keys there are among the first `count` records. */
    static int read(String topic) {
        Set<String> keys = new HashSet<>();
        int records = 0;
        try (KafkaConsumer<String, String> consumer = consumer("readers-" + protocol)) {
            consumer.subscribe(List.of(topic));
            while (records < count) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofSeconds(1))) {
                    keys.add(record.key());
                    records++;
                }
            }
        }
        return keys.size();
    }

    static long committed(Admin admin) throws Exception {
        return admin.listConsumerGroupOffsets("movers-" + protocol).partitionsToOffsetAndMetadata().get().values()
                .stream().mapToLong(OffsetAndMetadata::offset).sum();
    }
}
