import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import java.util.regex.Pattern;
import java.util.regex.PatternSyntaxException;

/**
 * Says what java.util.regex makes of patterns. Each line of standard input is a pattern, a semicolon, and names
 * with commas between them, all as UTF-8 in hexadecimal; each line of standard output is "refused", or one digit
 * a name: 1 where the whole name matches, else 0.
 */
public class RegexProbe {
    public static void main(String[] arguments) throws Exception {
        var input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        var output = new StringBuilder();
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] halves = line.split(";", -1);
            try {
                Pattern pattern = Pattern.compile(text(halves[0]));
                var matches = new StringBuilder();
                for (String name : halves[1].split(",", -1)) {
                    matches.append(pattern.matcher(text(name)).matches() ? '1' : '0');
                }
                output.append(matches);
            } catch (PatternSyntaxException | NullPointerException refusal) {
                // Some class intersections, as [a-z0&&], compile and then fail in use.
                output.append("refused");
            }
            output.append('\n');
        }
        System.out.print(output);
    }

    private static String text(String hexadecimal) {
        return new String(HexFormat.of().parseHex(hexadecimal), StandardCharsets.UTF_8);
    }
}
