// Kafka's messages between the bytes of one version and JSON, by Kafka's own generated classes.
//
//   in   write  message  version  x<json>
//   out  x<bytes>
//   in   read   message  version  x<bytes>
//   out  x<json>, or "left" and how many bytes the message did not need
//
// A message is named as in org.apache.kafka.common.message, without "Data": CreateTopicsRequest.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;

public class MessagesProbe {
    static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        StringBuilder out = new StringBuilder();
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ");
            byte[] given = HexFormat.of().parseHex(words[3].substring(1));
            Class<?> data = Class.forName("org.apache.kafka.common.message." + words[1] + "Data");
            Class<?> converter = Class.forName("org.apache.kafka.common.message." + words[1] + "DataJsonConverter");
            short version = Short.parseShort(words[2]);
            out.append(words[0].equals("write") ? written(converter, version, given) : read(data, converter, version, given));
            out.append('\n');
        }
        System.out.print(out);
    }

    static String written(Class<?> converter, short version, byte[] json) throws Exception {
        Message message = (Message) converter.getMethod("read", JsonNode.class, short.class)
            .invoke(null, JSON.readTree(json), version);
        return word(bytes(message, version));
    }

    static String read(Class<?> data, Class<?> converter, short version, byte[] given) throws Exception {
        Message message = (Message) data.getConstructor().newInstance();
        ByteBuffer buffer = ByteBuffer.wrap(given);
        message.read(new ByteBufferAccessor(buffer), version);
        if (buffer.hasRemaining()) {
            return "left " + buffer.remaining();
        }
        Object json = converter.getMethod("write", data, short.class).invoke(null, message, version);
        return word(json.toString().getBytes(StandardCharsets.UTF_8));
    }

    static byte[] bytes(Message message, short version) {
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer buffer = ByteBuffer.allocate(message.size(cache, version));
        message.write(new ByteBufferAccessor(buffer), cache, version);
        return buffer.array();
    }

    static String word(byte[] bytes) {
        return "x" + HexFormat.of().formatHex(bytes);
    }
}
