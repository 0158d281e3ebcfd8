package org.apache.kafka.connect.mirror;

import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;

/**
 * Reads properties files from stdin, one a line in base64, and prints what Java and the real MirrorMakerConfig make of each:
 * number, section, key and value, the last two in base64.
 */
public class MirrorMakerConfigProbe {
    private static final List<Class<?>> CONNECTORS =
            Arrays.asList(MirrorSourceConnector.class, MirrorCheckpointConnector.class, MirrorHeartbeatConnector.class);

    public static void main(String[] args) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        int number = 0;
        for (String line = input.readLine(); line != null; line = input.readLine(), number++) {
            Properties properties = new Properties();
            try {
                properties.load(new ByteArrayInputStream(Base64.getDecoder().decode(line)));
            } catch (IllegalArgumentException e) {
                System.out.println(number + "\tmalformed");
                continue;
            }
            Map<String, String> raw = new TreeMap<>();
            properties.forEach((key, value) -> raw.put((String) key, (String) value));
            print(number, "properties", raw);
            if (!raw.containsKey("clusters")) {
                continue;
            }
            MirrorMakerConfig config = new MirrorMakerConfig(raw);
            for (SourceAndTarget pair : config.clusterPairs()) {
                System.out.println(number + "\t" + pair + " kept");
                print(number, pair + " worker", config.workerConfig(pair));
                for (Class<?> connector : CONNECTORS) {
                    print(number, pair + " " + connector.getSimpleName(), config.connectorBaseConfig(pair, connector));
                }
            }
        }
    }

    private static void print(int number, String section, Map<String, String> entries) {
        entries.forEach((key, value) -> System.out.println(number + "\t" + section + "\t" + encode(key) + "\t" + encode(value)));
    }

    private static String encode(String text) {
        return Base64.getEncoder().encodeToString(text.getBytes(StandardCharsets.UTF_8));
    }
}
