import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import java.util.Map;
import java.util.function.Predicate;
import java.util.regex.Pattern;
import java.util.regex.PatternSyntaxException;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.connect.mirror.DefaultConfigPropertyFilter;
import org.apache.kafka.connect.mirror.DefaultGroupFilter;
import org.apache.kafka.connect.mirror.DefaultTopicFilter;

/**
 * Says what java.util.regex makes of patterns, and MirrorMaker 2's own filters of lists.
 *
 * Each line of standard input is one of
 *   pattern;PATTERN;NAMES
 *   topics;INCLUDE;EXCLUDE;NAMES
 *   groups;INCLUDE;EXCLUDE;NAMES
 *   properties;EXCLUDE;NAMES
 * with everything behind the first word as UTF-8 in hexadecimal, and commas between the names. Each line of
 * standard output is "refused", or one digit a name: 1 where the whole name matches or is selected, else 0.
 */
public class RegexProbe {
    public static void main(String[] arguments) throws Exception {
        var input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        var output = new StringBuilder();
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            output.append(answer(line.split(";", -1))).append('\n');
        }
        System.out.print(output);
    }

    private static String answer(String[] words) {
        try {
            Predicate<String> selects = reader(words);
            var digits = new StringBuilder();
            for (String name : words[words.length - 1].split(",", -1)) {
                digits.append(selects.test(text(name)) ? '1' : '0');
            }
            return digits.toString();
        } catch (PatternSyntaxException | ConfigException refusal) {
            return "refused";
        } catch (NullPointerException failure) {
            return "refused"; // some class intersections, as [a-z0&&], compile and then fail in use
        }
    }

    private static Predicate<String> reader(String[] words) {
        switch (words[0]) {
            case "topics":
                var topics = new DefaultTopicFilter();
                topics.configure(Map.of("topics", text(words[1]), "topics.exclude", text(words[2])));
                return topics::shouldReplicateTopic;
            case "groups":
                var groups = new DefaultGroupFilter();
                groups.configure(Map.of("groups", text(words[1]), "groups.exclude", text(words[2])));
                return groups::shouldReplicateGroup;
            case "properties":
                var properties = new DefaultConfigPropertyFilter();
                properties.configure(Map.of("config.properties.exclude", text(words[1])));
                return properties::shouldReplicateConfigProperty;
            default:
                var pattern = Pattern.compile(text(words[1]));
                return name -> pattern.matcher(name).matches();
        }
    }

    private static String text(String hexadecimal) {
        return new String(HexFormat.of().parseHex(hexadecimal), StandardCharsets.UTF_8);
    }
}
