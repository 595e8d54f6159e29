import java.util.Collections;
import java.util.Date;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import java.time.Duration;

/** A device and a listener in the style of a course's snippets: properties as texts, string serializers, a poll loop. */
public class CourseDevice {
    public static void main(String[] args) throws Exception {
        if (args[0].equals("date")) {
            System.out.println(new Date(Long.parseLong(args[1])));
        } else if (args[0].equals("send")) {
            send(args[1], args[2]);
        } else {
            listen(args[1], args[2], Integer.parseInt(args[3]));
        }
    }

    static void send(String servers, String device) throws Exception {
        Properties props = new Properties();
        props.put("bootstrap.servers", servers);
        props.put("acks", "all");
        props.put("key.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        props.put("value.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        KafkaProducer<String, String> producer = new KafkaProducer<>(props);
        ProducerRecord<String, String> record =
            new ProducerRecord<>("device-heartbeat", device, device + " sends its heartbeat, " + new Date());
        producer.send(record).get();
        producer.close();
    }

    static void listen(String servers, String group, int count) {
        Properties props = new Properties();
        props.put("bootstrap.servers", servers);
        props.put("group.id", group);
        props.put("enable.auto.commit", "true");
        props.put("auto.commit.interval.ms", "1000");
        props.put("auto.offset.reset", "earliest");
        props.put("key.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
        props.put("value.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
        props.put("key.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        KafkaConsumer<String, String> consumer = new KafkaConsumer<>(props);
        consumer.subscribe(Collections.singletonList("device-heartbeat"));
        int seen = 0;
        while (seen < count) {
            ConsumerRecords<String, String> records = consumer.poll(Duration.ofMillis(100));
            for (ConsumerRecord<String, String> record : records) {
                System.out.println(record.key() + "\t" + record.value());
                seen++;
            }
        }
        consumer.close();
    }
}
