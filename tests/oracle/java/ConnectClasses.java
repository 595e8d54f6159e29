import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.*;
import java.nio.charset.StandardCharsets;
import java.util.*;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.connect.connector.ConnectRecord;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.header.ConnectHeaders;
import org.apache.kafka.connect.header.Header;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.sink.SinkRecord;
import org.apache.kafka.connect.storage.SimpleHeaderConverter;
import org.apache.kafka.connect.storage.StringConverter;
import org.apache.kafka.connect.transforms.Transformation;
import org.apache.kafka.connect.transforms.predicates.Predicate;

/** A JSON case on each line of standard input, and on each line of output what Kafka's own classes make of it. */
public class ConnectClasses {
    static final ObjectMapper JSON = new ObjectMapper();
    static final JsonConverter ENVELOPE = json("true"), PLAIN = json("false"), NUMERIC = json("true");
    static final StringConverter TEXT = new StringConverter();
    static final SimpleHeaderConverter HEADERS = new SimpleHeaderConverter();

    static JsonConverter json(String schemas) {
        JsonConverter made = new JsonConverter();
        made.configure(Map.of("schemas.enable", schemas, "converter.type", "value"), false);
        return made;
    }

    public static void main(String[] arguments) throws Exception {
        NUMERIC.configure(Map.of("schemas.enable", "true", "decimal.format", "NUMERIC", "converter.type", "value"), false);
        TEXT.configure(Map.of("converter.type", "value"));
        HEADERS.configure(Map.of());
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(new BufferedOutputStream(System.out), false, StandardCharsets.UTF_8);
        for (String line; (line = in.readLine()) != null; ) {
            JsonNode asked = JSON.readTree(line);
            ObjectNode answer;
            try {
                answer = switch (asked.get("what").asText()) {
                    case "transform" -> transform(asked);
                    case "convert" -> convert(asked);
                    case "header" -> header(asked);
                    default -> throw new IllegalArgumentException(line);
                };
            } catch (Exception e) {
                answer = JSON.createObjectNode().put("error", e.getClass().getSimpleName());
            }
            out.println(JSON.writeValueAsString(answer));
        }
        out.flush();
    }

    static ObjectNode transform(JsonNode asked) throws Exception {
        SinkRecord record = record(asked.get("record"));
        ConnectRecord<?> made = apply(asked, record);
        ObjectNode answer = JSON.createObjectNode();
        if (made == null) return answer.put("dropped", true);
        answer.put("topic", made.topic());
        answer.put("key", text(ENVELOPE.fromConnectData("t", made.keySchema(), made.key())));
        answer.put("value", text(ENVELOPE.fromConnectData("t", made.valueSchema(), made.value())));
        ArrayNode headers = answer.putArray("headers");
        for (Header each : made.headers())
            headers.addArray().add(each.key()).add(text(ENVELOPE.fromConnectData("t", each.schema(), each.value())));
        return answer;
    }

    @SuppressWarnings({"unchecked", "rawtypes"})
    static ConnectRecord<?> apply(JsonNode asked, SinkRecord record) throws Exception {
        if (asked.has("predicate")) {
            Predicate tested = (Predicate) Class.forName(asked.get("predicate").asText()).getConstructor().newInstance();
            tested.configure(config(asked.get("config")));
            return tested.test(record) ? null : record;
        }
        Transformation made = (Transformation) Class.forName(asked.get("class").asText()).getConstructor().newInstance();
        made.configure(config(asked.get("config")));
        return made.apply(record);
    }

    static Map<String, String> config(JsonNode told) {
        Map<String, String> config = new HashMap<>();
        told.fields().forEachRemaining(each -> config.put(each.getKey(), each.getValue().asText()));
        return config;
    }

    static SinkRecord record(JsonNode told) {
        SchemaAndValue key = value(told.get("key")), value = value(told.get("value"));
        ConnectHeaders headers = new ConnectHeaders();
        for (JsonNode each : told.get("headers")) headers.add(each.get(0).asText(), value(each.get(1)));
        return new SinkRecord(told.get("topic").asText(), told.get("partition").asInt(), key.schema(), key.value(),
                value.schema(), value.value(), told.get("offset").asLong(),
                told.get("timestamp").isNull() ? null : told.get("timestamp").asLong(), TimestampType.CREATE_TIME, headers);
    }

    static SchemaAndValue value(JsonNode envelope) {
        return envelope.isNull() ? SchemaAndValue.NULL
                : ENVELOPE.toConnectData("t", envelope.asText().getBytes(StandardCharsets.UTF_8));
    }

    static ObjectNode convert(JsonNode asked) {
        SchemaAndValue told = value(asked.get("value"));
        ObjectNode answer = JSON.createObjectNode();
        answer.put("envelope", text(ENVELOPE.fromConnectData("t", told.schema(), told.value())));
        answer.put("plain", text(PLAIN.fromConnectData("t", told.schema(), told.value())));
        answer.put("numeric", text(NUMERIC.fromConnectData("t", told.schema(), told.value())));
        answer.put("string", text(TEXT.fromConnectData("t", told.schema(), told.value())));
        answer.put("header", text(HEADERS.fromConnectHeader("t", "h", told.schema(), told.value())));
        return answer;
    }

    static ObjectNode header(JsonNode asked) {
        SchemaAndValue told = HEADERS.toConnectHeader("t", "h", asked.get("text").asText().getBytes(StandardCharsets.UTF_8));
        return JSON.createObjectNode().put("value", text(ENVELOPE.fromConnectData("t", told.schema(), told.value())));
    }

    static String text(byte[] data) {
        return data == null ? null : new String(data, StandardCharsets.UTF_8);
    }
}
