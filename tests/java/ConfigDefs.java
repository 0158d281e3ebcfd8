import com.fasterxml.jackson.core.json.JsonWriteFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.json.JsonMapper;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.clients.admin.AdminClientConfig;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.common.config.types.Password;
import org.apache.kafka.connect.runtime.SourceConnectorConfig;
import org.apache.kafka.connect.runtime.distributed.DistributedConfig;

/**
 * Says what Kafka's own configuration classes know. Standard input is a JSON object: "texts" to parse as each type,
 * and "samples" to try on each key. Standard output is one too: "parsed" has for each type what each text means, and
 * "definitions" has for each class its keys with type, default (missing where the key is required), and "accepted",
 * the samples that its parser and validator let pass.
 */
public class ConfigDefs {
    private static final String MIRROR = "org.apache.kafka.connect.mirror.";

    public static void main(String[] arguments) throws Exception {
        var mapper = JsonMapper.builder().enable(JsonWriteFeature.ESCAPE_NON_ASCII).build();
        JsonNode question = mapper.readTree(System.in);
        var definitions = new LinkedHashMap<String, Object>();
        for (var definition : definitions().entrySet()) {
            definitions.put(definition.getKey(), keys(definition.getValue(), texts(question, "samples")));
        }
        var parsed = new LinkedHashMap<String, Object>();
        for (ConfigDef.Type type : ConfigDef.Type.values()) {
            parsed.put(type.name(), parsed(type, texts(question, "texts")));
        }
        System.out.println(mapper.writeValueAsString(Map.of("definitions", definitions, "parsed", parsed)));
    }

    private static Map<String, ConfigDef> definitions() throws Exception {
        var found = new LinkedHashMap<String, ConfigDef>();
        found.put("MirrorMakerConfig", processDefinition());
        found.put("MirrorClientConfig", field(MIRROR + "MirrorClientConfig", "CLIENT_CONFIG_DEF"));
        for (String name : List.of("MirrorSourceConfig", "MirrorCheckpointConfig", "MirrorHeartbeatConfig")) {
            found.put(name, field(MIRROR + name, "CONNECTOR_CONFIG_DEF"));
        }
        for (String name : List.of("MirrorSourceTaskConfig", "MirrorCheckpointTaskConfig")) {
            found.put(name, field(MIRROR + name, "TASK_CONFIG_DEF"));
        }
        found.put("TopicFilterConfig", field(MIRROR + "DefaultTopicFilter$TopicFilterConfig", "DEF"));
        found.put("GroupFilterConfig", field(MIRROR + "DefaultGroupFilter$GroupFilterConfig", "DEF"));
        found.put("ConfigPropertyFilterConfig",
            field(MIRROR + "DefaultConfigPropertyFilter$ConfigPropertyFilterConfig", "DEF"));
        found.put("SourceConnectorConfig", SourceConnectorConfig.configDef());
        found.put("DistributedConfig", workerDefinition());
        found.put("ConsumerConfig", ConsumerConfig.configDef());
        found.put("ProducerConfig", ProducerConfig.configDef());
        found.put("AdminClientConfig", AdminClientConfig.configDef());
        return found;
    }

    private static ConfigDef field(String type, String name) throws Exception {
        var field = Class.forName(type).getDeclaredField(name);
        field.setAccessible(true);
        return (ConfigDef) field.get(null);
    }

    private static ConfigDef processDefinition() throws Exception {
        Method method = Class.forName(MIRROR + "MirrorMakerConfig").getDeclaredMethod("config");
        method.setAccessible(true);
        return (ConfigDef) method.invoke(null);
    }

    private static ConfigDef workerDefinition() throws Exception {
        Class<?> crypto = Class.forName("org.apache.kafka.connect.runtime.distributed.Crypto");
        Method method = DistributedConfig.class.getDeclaredMethod("config", crypto);
        method.setAccessible(true);
        return (ConfigDef) method.invoke(null, crypto.getField("SYSTEM").get(null));
    }

    private static Map<String, Object> keys(ConfigDef definition, List<String> samples) {
        var keys = new TreeMap<String, Object>();
        for (ConfigDef.ConfigKey key : definition.configKeys().values()) {
            var described = new LinkedHashMap<String, Object>();
            described.put("type", key.type.name());
            if (key.hasDefault()) {
                described.put("default", plain(key.defaultValue));
            }
            described.put("accepted", samples.stream().filter(sample -> accepts(key, sample)).toList());
            keys.put(key.name, described);
        }
        return keys;
    }

    private static boolean accepts(ConfigDef.ConfigKey key, String text) {
        try {
            Object value = ConfigDef.parseType(key.name, text, key.type);
            if (key.validator != null) {
                key.validator.ensureValid(key.name, value);
            }
            return true;
        } catch (ConfigException refusal) {
            return false;
        }
    }

    private static Map<String, Object> parsed(ConfigDef.Type type, List<String> texts) {
        var meanings = new LinkedHashMap<String, Object>();
        for (String text : texts) {
            try {
                meanings.put(text, plain(ConfigDef.parseType("key", text, type)));
            } catch (ConfigException refusal) {
                continue;
            }
        }
        return meanings;
    }

    private static Object plain(Object value) {
        if (value instanceof Class<?> type) {
            return type.getName();
        }
        if (value instanceof Password password) {
            return password.value();
        }
        if (value instanceof List<?> elements) {
            return elements.stream().map(ConfigDefs::plain).toList();
        }
        return value;
    }

    private static List<String> texts(JsonNode question, String name) {
        var texts = new ArrayList<String>();
        question.get(name).forEach(text -> texts.add(text.textValue()));
        return texts;
    }
}
