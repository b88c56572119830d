// Reads a topic to its end with Kafka's own consumer and Avro's own library, schemas from the registry by their ids.
// Read BROKERS REGISTRY TOPIC FILE: one JSON object a line into FILE, with the names of `forebay tail --json`.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.time.ZoneOffset;
import java.time.format.DateTimeFormatter;
import java.time.temporal.ChronoUnit;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericData;
import org.apache.avro.generic.GenericDatumReader;
import org.apache.avro.generic.IndexedRecord;
import org.apache.avro.io.BinaryDecoder;
import org.apache.avro.io.DecoderFactory;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.utils.Utils;

public class Read {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final DateTimeFormatter TIME =
            DateTimeFormatter.ofPattern("uuuu-MM-dd'T'HH:mm:ss.SSSSSS'Z'").withZone(ZoneOffset.UTC);
    private static final Duration PATIENCE = Duration.ofSeconds(30);

    private final HttpClient http = HttpClient.newHttpClient();
    private final Map<Integer, Schema> schemas = new HashMap<>();
    private final String registry;
    private final String subject;

    private Read(String registry, String topic) {
        this.registry = registry;
        this.subject = topic + "-value";
    }

    public static void main(String[] args) throws Exception {
        Files.write(Path.of(args[3]), new Read(args[1], args[2]).all(args[0], args[2]));
    }

    private List<String> all(String brokers, String topic) throws Exception {
        Map<String, Object> config = Map.of(
                "bootstrap.servers", brokers,
                "isolation.level", "read_committed",
                "enable.auto.commit", "false",
                "key.deserializer", ByteArrayDeserializer.class,
                "value.deserializer", ByteArrayDeserializer.class);
        List<String> lines = new ArrayList<>();
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(config)) {
            List<TopicPartition> partitions = new ArrayList<>();
            consumer.partitionsFor(topic).forEach(p -> partitions.add(new TopicPartition(topic, p.partition())));
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            Map<TopicPartition, Long> ends = consumer.endOffsets(partitions);
            Instant until = Instant.now().plus(PATIENCE);
            while (ends.entrySet().stream().anyMatch(end -> consumer.position(end.getKey()) < end.getValue())) {
                if (Instant.now().isAfter(until)) {
                    throw new IllegalStateException("the end of " + topic + " is not reached");
                }
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(100))) {
                    lines.add(JSON.writeValueAsString(shown(record, partitions.size())));
                }
            }
        }
        return lines;
    }

    private Map<String, Object> shown(ConsumerRecord<byte[], byte[]> record, int partitions) throws Exception {
        Map<String, Object> shown = new LinkedHashMap<>();
        if (record.value() == null) {
            byte[] through = record.headers().lastHeader("published_through").value();
            shown.put("_tick", true);
            shown.put("published_through", time(Long.parseLong(new String(through, StandardCharsets.UTF_8))));
        } else {
            ByteBuffer framed = ByteBuffer.wrap(record.value());
            if (framed.get() != 0) {
                throw new IllegalStateException("not in Confluent's framing");
            }
            Schema schema = schema(framed.getInt());
            BinaryDecoder datum = DecoderFactory.get().binaryDecoder(record.value(), 5, record.value().length - 5, null);
            Object value = new GenericDatumReader<>(schema).read(null, datum);
            if (!datum.isEnd()) {
                throw new IllegalStateException("bytes after the datum");
            }
            ((Map<?, ?>) plain(schema, value)).forEach((name, field) -> shown.put((String) name, field));
            // Where the Java client's own partitioner puts this key.
            shown.put("_partition_of_key", Utils.toPositive(Utils.murmur2(record.key())) % partitions);
        }
        shown.put("_partition", record.partition());
        shown.put("_offset", record.offset());
        shown.put("_key", new String(record.key(), StandardCharsets.UTF_8));
        shown.put("_timestamp", time(record.timestamp() * 1000));
        return shown;
    }

    private Schema schema(int id) throws Exception {
        Schema known = schemas.get(id);
        if (known == null) {
            // As Flink's avro-confluent asks.
            URI uri = URI.create(registry + "/schemas/ids/" + id + "?fetchMaxId=false&subject=" + subject);
            HttpResponse<String> answer = http.send(HttpRequest.newBuilder(uri).build(), HttpResponse.BodyHandlers.ofString());
            JsonNode body = JSON.readTree(answer.body());
            if (answer.statusCode() != 200) {
                throw new IllegalStateException(uri + ": " + answer.statusCode() + " " + body);
            }
            known = new Schema.Parser().parse(body.get("schema").asText());
            schemas.put(id, known);
        }
        return known;
    }

    private static Object plain(Schema schema, Object value) {
        switch (schema.getType()) {
            case RECORD:
                Map<String, Object> record = new LinkedHashMap<>();
                schema.getFields().forEach(f -> record.put(f.name(), plain(f.schema(), ((IndexedRecord) value).get(f.pos()))));
                return record;
            case UNION:
                return plain(schema.getTypes().get(GenericData.get().resolveUnion(schema, value)), value);
            case ARRAY:
                List<Object> items = new ArrayList<>();
                ((List<?>) value).forEach(item -> items.add(plain(schema.getElementType(), item)));
                return items;
            case MAP:
                Map<String, Object> map = new LinkedHashMap<>();
                ((Map<?, ?>) value).forEach((name, item) -> map.put(name.toString(), plain(schema.getValueType(), item)));
                return map;
            case BYTES:
                ByteBuffer bytes = ((ByteBuffer) value).duplicate();
                byte[] copied = new byte[bytes.remaining()];
                bytes.get(copied);
                return Base64.getEncoder().encodeToString(copied);
            case STRING:
            case ENUM:
                return value.toString();
            case LONG:
                return "timestamp-micros".equals(schema.getProp("logicalType")) ? time((Long) value) : value;
            default:
                return value;
        }
    }

    private static String time(long micros) {
        return TIME.format(Instant.EPOCH.plus(micros, ChronoUnit.MICROS));
    }
}
