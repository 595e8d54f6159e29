// Transactions of random size and outcome, with a history for ottla.testing.histories; made to be killed.
//   java Transactor HISTORY BOOTSTRAP TOPIC PARTITIONS TRANSACTIONAL_ID PROCESS SEED    ends with its input

import java.io.FileOutputStream;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.Future;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.serialization.StringSerializer;

public final class Transactor {
    static OutputStream history;
    static String process;
    static long number;
    static volatile boolean ending;

    public static void main(String[] args) throws Exception {
        Thread end = new Thread(() -> {
            try {
                while (System.in.read() >= 0) {
                    // nothing is ever said
                }
            } catch (java.io.IOException error) {
                // as good as an end
            }
            ending = true;
        });
        end.setDaemon(true);
        end.start();
        history = new FileOutputStream(args[0], true);
        process = args[5];
        number = System.nanoTime();
        Random chance = new Random(Long.parseLong(args[6]));
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(
                Map.of("bootstrap.servers", args[1], "transactional.id", args[4], "transaction.timeout.ms", 10_000,
                        "reconnect.backoff.max.ms", 200),
                new StringSerializer(), new StringSerializer())) {
            producer.initTransactions();
            for (int i = 0; !ending; i++) {
                transact(producer, args[2], Integer.parseInt(args[3]), i, chance);
            }
        } catch (Throwable error) {
            error.printStackTrace();
            Runtime.getRuntime().halt(1); // what was under way has an unknown outcome
        }
    }

    static void transact(KafkaProducer<String, String> producer, String topic, int partitions, int i, Random chance)
            throws Exception {
        String name = process + "-" + i;
        producer.beginTransaction();
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        List<Long> numbers = new ArrayList<>();
        List<String> values = new ArrayList<>();
        for (int k = 1 + chance.nextInt(5); k > 0; k--) {
            int partition = chance.nextInt(partitions);
            String value = name + "-" + k;
            numbers.add(begin("send", name, record(topic, partition, "null", value)));
            values.add(value);
            sent.add(producer.send(new ProducerRecord<>(topic, partition, null, value)));
        }
        producer.flush();
        for (int k = 0; k < sent.size(); k++) {
            RecordMetadata at = sent.get(k).get();
            String record = record(topic, at.partition(), String.valueOf(at.offset()), values.get(k));
            end(numbers.get(k), ",\"records\":[" + record + "]");
        }
        boolean commits = chance.nextDouble() >= 0.25;
        long ending = begin(commits ? "commit" : "abort", name, "");
        if (commits) {
            producer.commitTransaction();
        } else {
            producer.abortTransaction();
        }
        end(ending, "");
    }

    static String record(String topic, int partition, String offset, String value) {
        return "[\"" + topic + "\"," + partition + "," + offset + ",\"" + value + "\",null]";
    }

    static long begin(String what, String transaction, String record) throws Exception {
        number++;
        write("{\"begin\":" + number + ",\"what\":\"" + what + "\",\"process\":\"" + process + "\",\"at\":"
                + System.nanoTime() + ",\"records\":[" + record + "],\"transaction\":\"" + transaction + "\"}\n");
        return number;
    }

    static void end(long begun, String more) throws Exception {
        write("{\"end\":" + begun + ",\"outcome\":\"ok\",\"at\":" + System.nanoTime() + more + "}\n");
    }

    static synchronized void write(String line) throws Exception {
        history.write(line.getBytes(StandardCharsets.UTF_8));
    }
}
