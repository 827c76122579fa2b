/* Rotary tables as ggml computes them: theta is multiplied on and on, in float. Build: cc -O2 -ffp-contract=off -lm. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char line[1 << 20];
static const char *at(const char *name) {
  char key[64];
  snprintf(key, sizeof key, "\"%s\":", name);
  const char *found = strstr(line, key);
  return found ? found + strlen(key) : NULL;
}

static float number(const char *name, float otherwise) { return at(name) ? strtof(at(name), NULL) : otherwise; }

static void rows(const char *name, float (*of)(float), int width, float base) {
  float scale = powf(base, -2.0f / width);
  char *next = (char *)at("positions") + strspn(at("positions"), " [");
  for (printf("\"%s\":[", name); *next && *next != ']'; next += strspn(next, ", ")) {
    float theta = strtof(next, &next) / number("factor", 1);
    for (int k = 0; k < width / 2; k++, theta *= scale) printf("%s%.9g", k ? "," : "[", of(theta));
    printf(*(next + strspn(next, " ")) == ']' ? "]]" : "],");
  }
}

int main(void) {
  while (fgets(line, sizeof line, stdin) && !strstr(line, "\"bye\"")) {
    if (strstr(line, "\"hello\"")) {
      printf("{\"type\":\"hello\",\"protocol\":1,\"name\":\"C iterated\",\"version\":\"1\",\"language\":\"C\","
             "\"kinds\":[\"table\"],\"rope_types\":[\"default\",\"linear\"]}\n");
    } else if (!at("head_dim") || !at("rope_theta") || !at("positions") || at("freq_factors") || at("xpos")
               || at("mrope_section") || strstr(line, "/rope/axial")) {
      printf("{\"type\":\"unsupported\",\"reason\":\"only a base and widths\"}\n");
    } else {
      int width = number("rotary_dim", floorf(number("head_dim", 0) * number("partial_rotary_factor", 1)));
      printf("{\"type\":\"answer\",\"dtype\":\"float32\",\"pack\":\"compact\",\"arrays\":{");
      rows("cos", cosf, width, number("rope_theta", 0)), printf(",");
      rows("sin", sinf, width, number("rope_theta", 0)), printf("}}\n");
    }
    fflush(stdout);
  }
}
