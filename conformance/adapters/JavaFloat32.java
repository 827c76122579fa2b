// Rotary tables in Java's float, without a JSON library. Run: java JavaFloat32.java.
import java.util.*;
import java.util.function.DoubleUnaryOperator;
import java.util.regex.*;

class JavaFloat32 {
  static String value(String line, String name) {
    Matcher found = Pattern.compile("\"" + name + "\":\\s*\\[?([^\\],}]*(?:,[^\\],}\"]*)*)[\\],}]").matcher(line);
    return found.find() ? found.group(1) : null;
  }

  static float number(String line, String name, float otherwise) {
    return Optional.ofNullable(value(line, name)).map(it -> Float.parseFloat(it.split(",")[0])).orElse(otherwise);
  }

  static String rows(String positions, float base, int width, float factor, DoubleUnaryOperator of) {
    StringJoiner table = new StringJoiner(",", "[", "]");
    for (String position : positions.split(",")) {
      StringJoiner row = new StringJoiner(",", "[", "]");
      for (int channel = 0; channel < width; channel += 2) {
        float omega = 1 / (float) Math.pow(base, (float) channel / width) / factor;
        row.add(Float.toString((float) of.applyAsDouble(Float.parseFloat(position) * omega)));
      }
      table.add(row.toString());
    }
    return table.toString();
  }

  static String answer(String line) {
    float base = number(line, "rope_theta", 0), head = number(line, "head_dim", 0), factor = number(line, "factor", 1);
    if (!line.contains("\"/rope\"") || base * head == 0 || value(line, "positions") == null || line.matches(".*(freq_factors|xpos|mrope_section).*"))
      return "{\"type\":\"unsupported\",\"reason\":\"only a base and widths\"}";
    int width = (int) number(line, "rotary_dim", (float) Math.floor(head * number(line, "partial_rotary_factor", 1)));
    return "{\"type\":\"answer\",\"dtype\":\"float32\",\"pack\":\"compact\",\"arrays\":{\"cos\":" + rows(value(line, "positions"), base, width, factor, Math::cos) + ",\"sin\":" + rows(value(line, "positions"), base, width, factor, Math::sin) + "}}";
  }

  public static void main(String[] arguments) {
    String hello = "{\"type\":\"hello\",\"protocol\":1,\"name\":\"Java float32\",\"version\":\"1\",\"language\":\"Java\",\"kinds\":[\"table\"],\"rope_types\":[\"default\",\"linear\"]}";
    for (Scanner lines = new Scanner(System.in); lines.hasNextLine();) {
      String line = lines.nextLine();
      if (line.contains("\"bye\"")) break;
      System.out.println(line.contains("\"hello\"") ? hello : answer(line));
    }
  }
}
