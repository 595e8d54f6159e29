// Consume, transform, produce, exactly once, with random aborts; made to be killed.
//   java Copier BOOTSTRAP INPUT OUTPUT GROUP TRANSACTIONAL_ID SEED

import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.AuthorizationException;
import org.apache.kafka.common.errors.OutOfOrderSequenceException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

public final class Copier {
    static final double ABORTS = 0.2;

    public static void main(String[] args) {
        try {
            copy(args[0], args[1], args[2], args[3], args[4], new Random(Long.parseLong(args[5])));
        } catch (Throwable error) {
            error.printStackTrace();
            Runtime.getRuntime().halt(1); // at once: closing in good order would wait for what just failed
        }
    }

    static void copy(String bootstrap, String input, String output, String group, String name, Random chance) {
        KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(
                Map.of("bootstrap.servers", bootstrap, "transactional.id", name, "transaction.timeout.ms", 10_000,
                        "reconnect.backoff.max.ms", 200),
                new ByteArraySerializer(), new ByteArraySerializer());
        Map<String, Object> reading = new HashMap<>(Map.of(
                "bootstrap.servers", bootstrap, "group.id", group, "enable.auto.commit", false,
                "auto.offset.reset", "earliest", "isolation.level", "read_committed", "max.poll.records", 100,
                "reconnect.backoff.max.ms", 200, "session.timeout.ms", 6000, "heartbeat.interval.ms", 500));
        KafkaConsumer<byte[], byte[]> consumer =
                new KafkaConsumer<>(reading, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        producer.initTransactions();
        consumer.subscribe(List.of(input));
        while (true) {
            ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofMillis(200));
            if (records.isEmpty()) {
                continue;
            }
            try {
                producer.beginTransaction();
                Map<TopicPartition, OffsetAndMetadata> next = new HashMap<>();
                for (ConsumerRecord<byte[], byte[]> each : records) {
                    producer.send(new ProducerRecord<>(output, each.partition(), null, each.value()));
                    next.put(new TopicPartition(each.topic(), each.partition()),
                            new OffsetAndMetadata(each.offset() + 1));
                }
                producer.sendOffsetsToTransaction(next, consumer.groupMetadata());
                if (chance.nextDouble() < ABORTS) {
                    producer.abortTransaction();
                    rewind(consumer);
                } else {
                    producer.commitTransaction();
                }
            } catch (ProducerFencedException | OutOfOrderSequenceException | AuthorizationException error) {
                throw error; // the supervisor starts another one
            } catch (KafkaException error) {
                producer.abortTransaction();
                rewind(consumer);
            }
        }
    }

    static void rewind(KafkaConsumer<byte[], byte[]> consumer) {
        Map<TopicPartition, OffsetAndMetadata> committed = consumer.committed(consumer.assignment());
        for (TopicPartition each : consumer.assignment()) {
            OffsetAndMetadata at = committed.get(each);
            consumer.seek(each, at == null ? 0 : at.offset());
        }
    }
}
