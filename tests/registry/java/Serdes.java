// Apicurio's serializers in Confluent mode: prints what they write, then reads values from the standard input.
//
// They ask a registry through a SchemaResolver. Apicurio's own speaks only Apicurio's REST API; the one here speaks
// Confluent's. What is tried are the bytes: the id, its place, and the value behind it.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.apicurio.registry.resolver.ParsedSchemaImpl;
import io.apicurio.registry.resolver.SchemaLookupResult;
import io.apicurio.registry.resolver.SchemaParser;
import io.apicurio.registry.resolver.SchemaResolver;
import io.apicurio.registry.resolver.data.Record;
import io.apicurio.registry.resolver.strategy.ArtifactReference;
import io.apicurio.registry.resolver.strategy.ArtifactReferenceResolverStrategy;
import io.apicurio.registry.rest.client.RegistryClient;
import io.apicurio.registry.serde.avro.AvroKafkaDeserializer;
import io.apicurio.registry.serde.avro.AvroKafkaSerializer;
import io.apicurio.registry.serde.data.KafkaSerdeMetadata;
import io.apicurio.registry.serde.jsonschema.JsonSchemaKafkaDeserializer;
import io.apicurio.registry.serde.jsonschema.JsonSchemaKafkaSerializer;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.Map;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericRecord;
import org.apache.avro.generic.GenericRecordBuilder;

public class Serdes {
    static final ObjectMapper MAPPER = new ObjectMapper();
    static final Map<String, Object> SETTINGS = Map.of(
        "apicurio.registry.as-confluent", true,
        "apicurio.registry.headers.enabled", false,
        "apicurio.registry.url", "http://nowhere");

    public static void main(String[] arguments) throws Exception {
        String url = arguments[0];
        var avroSerializer = new AvroKafkaSerializer<GenericRecord>(new Resolver<Schema, GenericRecord>(url));
        avroSerializer.configure(SETTINGS, false);
        Schema schema = new Schema.Parser().parse(arguments[1]);
        GenericRecord order = new GenericRecordBuilder(schema).set("id", "from Java").set("amount", 2.5).build();
        show("avro", avroSerializer.serialize("java-avro", order));

        var jsonSerializer = new JsonSchemaKafkaSerializer<JsonNode>(new Resolver<>(url));
        jsonSerializer.configure(SETTINGS, false);
        show("json", jsonSerializer.serialize("java-json", MAPPER.readTree("{\"id\":\"from Java\",\"amount\":2.5}")));

        var avroDeserializer = new AvroKafkaDeserializer<GenericRecord>();
        avroDeserializer.setSchemaResolver(new Resolver<Schema, GenericRecord>(url));
        avroDeserializer.configure(SETTINGS, false);
        var jsonDeserializer = new JsonSchemaKafkaDeserializer<JsonNode>(new Resolver<>(url));
        jsonDeserializer.configure(SETTINGS, false);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] parts = line.split(" ");
            byte[] value = Base64.getDecoder().decode(parts[1]);
            Object read = parts[0].equals("avro")
                ? avroDeserializer.deserialize("python-avro", value)
                : jsonDeserializer.deserialize("python-json", value);
            System.out.println(parts[0] + " " + MAPPER.readTree(read.toString()));
        }
    }

    static void show(String format, byte[] value) {
        System.out.println(format + " " + Base64.getEncoder().encodeToString(value));
        System.out.flush();
    }

    static class Resolver<S, D> implements SchemaResolver<S, D> {
        private final HttpClient http = HttpClient.newHttpClient();
        private final String url;
        private SchemaParser<S, D> parser;

        Resolver(String url) {
            this.url = url;
        }

        @Override
        public void configure(Map<String, ?> settings, SchemaParser<S, D> parser) {
            this.parser = parser;
        }

        @Override
        public SchemaLookupResult<S> resolveSchema(Record<D> record) {
            String subject = ((KafkaSerdeMetadata) record.metadata()).getTopic() + "-value";
            if (!parser.supportsExtractSchemaFromData()) {
                return found(ask("GET", "/subjects/" + subject + "/versions/latest", null));
            }
            String text = new String(parser.getSchemaFromData(record).getRawSchema(), StandardCharsets.UTF_8);
            JsonNode body = MAPPER.createObjectNode().put("schema", text);
            int id = ask("POST", "/subjects/" + subject + "/versions", body).get("id").asInt();
            return resolveSchemaByArtifactReference(ArtifactReference.fromGlobalId((long) id));
        }

        @Override
        public SchemaLookupResult<S> resolveSchemaByArtifactReference(ArtifactReference reference) {
            Long id = reference.getContentId() == null ? reference.getGlobalId() : reference.getContentId();
            JsonNode schema = ask("GET", "/schemas/ids/" + id, null);
            return found(((com.fasterxml.jackson.databind.node.ObjectNode) schema).put("id", id));
        }

        private SchemaLookupResult<S> found(JsonNode schema) {
            byte[] text = schema.get("schema").asText().getBytes(StandardCharsets.UTF_8);
            long id = schema.get("id").asLong();
            ParsedSchemaImpl<S> parsed = new ParsedSchemaImpl<S>()
                .setParsedSchema(parser.parseSchema(text, Map.of())).setRawSchema(text);
            return SchemaLookupResult.<S>builder().parsedSchema(parsed).globalId(id).contentId(id).build();
        }

        private JsonNode ask(String method, String path, JsonNode body) {
            try {
                HttpRequest.BodyPublisher sent = body == null
                    ? HttpRequest.BodyPublishers.noBody()
                    : HttpRequest.BodyPublishers.ofString(body.toString());
                HttpRequest request = HttpRequest.newBuilder(URI.create(url + path))
                    .header("content-type", "application/vnd.schemaregistry.v1+json").method(method, sent).build();
                HttpResponse<String> answer = http.send(request, HttpResponse.BodyHandlers.ofString());
                if (answer.statusCode() != 200) {
                    throw new IllegalStateException(path + ": " + answer.body());
                }
                return MAPPER.readTree(answer.body());
            } catch (java.io.IOException | InterruptedException error) {
                throw new IllegalStateException(error);
            }
        }

        @Override
        public void setClient(RegistryClient client) {}

        @Override
        public void setArtifactResolverStrategy(ArtifactReferenceResolverStrategy<S, D> strategy) {}

        @Override
        public SchemaParser<S, D> getSchemaParser() {
            return parser;
        }

        @Override
        public void reset() {}

        @Override
        public void close() {}
    }
}
