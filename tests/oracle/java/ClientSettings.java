import java.util.TreeMap;
import org.apache.kafka.clients.admin.AdminClientConfig;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.config.ConfigDef;

/** Prints each setting of Kafka's clients: client, name and default, with tabs between ("?" for none). */
public class ClientSettings {
    public static void main(String[] args) {
        print("producer", ProducerConfig.configDef());
        print("consumer", ConsumerConfig.configDef());
        print("admin", AdminClientConfig.configDef());
    }

    private static void print(String client, ConfigDef settings) {
        for (var setting : new TreeMap<>(settings.configKeys()).values()) {
            Object value = setting.hasDefault() ? setting.defaultValue : "?";
            String text = value instanceof Class<?> named ? named.getName() : value == null ? "" : value.toString();
            text = value instanceof java.util.List<?> ? text.substring(1, text.length() - 1).replace(", ", ",") : text;
            System.out.println(client + "\t" + setting.name + "\t" + text);
        }
    }
}
