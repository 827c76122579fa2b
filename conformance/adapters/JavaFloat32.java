// Rotary tables in Java's float, without a JSON library. Run: java JavaFloat32.java.
import java.util.*;
import java.util.function.DoubleUnaryOperator;
import java.util.regex.*;

class JavaFloat32 {
  static final List<String> OTHERS = List.of("factor", "freq_factors", "rotary_dim", "partial_rotary_factor", "xpos", "mrope_section");

  static String value(String line, String name) {
    Matcher found = Pattern.compile("\"" + name + "\":\\s*\\[?([^\\],}]*(?:,[^\\],}\"]*)*)[\\],}]").matcher(line);
    return found.find() ? found.group(1) : null;
  }

  static String rows(String[] positions, float base, int width, DoubleUnaryOperator of) {
    StringJoiner table = new StringJoiner(",", "[", "]");
    for (String position : positions) {
      StringJoiner row = new StringJoiner(",", "[", "]");
      for (int channel = 0; channel < width; channel += 2) {
        float omega = 1 / (float) Math.pow(base, (float) channel / width);
        row.add(Float.toString((float) of.applyAsDouble(Float.parseFloat(position) * omega)));
      }
      table.add(row.toString());
    }
    return table.toString();
  }

  static String answer(String line) {
    String base = value(line, "rope_theta"), width = value(line, "head_dim"), positions = value(line, "positions");
    if (!line.contains("\"/rope\"") || base == null || width == null || positions == null || OTHERS.stream().anyMatch(each -> value(line, each) != null))
      return "{\"type\":\"unsupported\",\"reason\":\"only a base and a width\"}";
    float b = Float.parseFloat(base.split(",")[0]);
    int r = Integer.parseInt(width.split(",")[0]);
    String[] rows = positions.split(",");
    return "{\"type\":\"answer\",\"dtype\":\"float32\",\"arrays\":{\"cos\":" + rows(rows, b, r, Math::cos) + ",\"sin\":" + rows(rows, b, r, Math::sin) + "}}";
  }

  public static void main(String[] arguments) {
    String hello = "{\"type\":\"hello\",\"protocol\":1,\"name\":\"Java float32\",\"version\":\"1\",\"language\":\"Java\",\"kinds\":[\"table\"],\"rope_types\":[\"default\"]}";
    for (Scanner lines = new Scanner(System.in); lines.hasNextLine();) {
      String line = lines.nextLine();
      if (line.contains("\"bye\"")) break;
      System.out.println(line.contains("\"hello\"") ? hello : answer(line));
    }
  }
}
