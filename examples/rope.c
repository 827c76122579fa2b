// A model's rotary table from posref: fetch it, check it, read a part of it, find a mistake.
// Run, beside config.json: cc -o rope rope.c -lcurl -lm && ./rope http://127.0.0.1:8000
#include <curl/curl.h>
#include <err.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *server;
static char etag[64];

// Returns the body of an answer, which must have this status.
static char *ask(long expected, const char *path, const char *field, const char *type,
                 const void *body, long size)
{
    char url[4096], *answer;
    long status;
    size_t length;
    struct curl_header *tag;
    struct curl_slist *fields = curl_slist_append(curl_slist_append(NULL, field), type);
    FILE *stream = open_memstream(&answer, &length);
    CURL *curl = curl_easy_init();
    snprintf(url, sizeof url, "%s%s", server, path);
    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, fields);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, stream);
    curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE, size);
    curl_easy_setopt(curl, CURLOPT_POSTFIELDS, body);
    curl_easy_setopt(curl, body ? CURLOPT_POST : CURLOPT_HTTPGET, 1L);
    CURLcode code = curl_easy_perform(curl);
    fclose(stream); // The answer ends with a zero byte.
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    if (code || status != expected)
        errx(1, "%s: %s: %ld %s", url, curl_easy_strerror(code), status, answer);
    if (curl_easy_header(curl, "ETag", 0, CURLH_HEADER, -1, &tag) == CURLHE_OK)
        snprintf(etag, sizeof etag, "If-None-Match: %s", tag->value);
    curl_slist_free_all(fields);
    curl_easy_cleanup(curl);
    return answer;
}

// Returns the text that stands between two others.
static char *between(const char *text, const char *before, const char *after)
{
    const char *found = strstr(text, before);
    if (!found) errx(1, "no %s in %s", before, text);
    found += strlen(before);
    return strndup(found, strcspn(found, after));
}

static void check(const char *name, double value, double expected)
{
    printf("%s: %.6f\n", name, value);
    if (!(fabs(value - expected) < 1e-6)) errx(1, "expected %.6f", expected);
}

int main(int argc, char **argv)
{
    char config[4096], path[4096];
    server = argc > 1 ? argv[1] : "http://127.0.0.1:8000";

    // From the config to the cosines in the layout of the model: a row of 64 for each position.
    FILE *file = fopen("config.json", "r");
    long size = file ? fread(config, 1, sizeof config, file) : 0;
    char *json = "Content-Type: application/json", *text = "Accept: text/plain";
    char *model = ask(200, "/rope/config", json, text, config, size);
    printf("layout: %s\n", between(model, "\nlayout: ", "\n"));
    char *link = between(model, "\ndefault.cos: ", "\n");
    // A header of npy has 128 bytes. The config divides the lowest frequency by its factor, 32.
    float mine[64 * 64], *table = (float *)(ask(200, link, "", "", NULL, 0) + 128);
    check("cos[131071][31]", table[131071 * 64 + 31], cos(131071 * pow(500000, -62. / 64) / 32));
    ask(304, link, etag, "", NULL, 0);
    printf("unchanged: 304\n");

    // Row 1000000000 of a table of 512 GiB, at byte 128 + 4 * 64 * 1000000000; and a misspelling.
    char *range = "Range: bytes=256000000128-256000000383";
    snprintf(path, sizeof path, "%s&seq_len=2147483648", link);
    check("cos[1000000000][0]", *(float *)ask(206, path, range, "", NULL, 0), cos(1e9));
    char *problem = ask(422, "/rope?head_dim=64&seqlen=8", "", "", NULL, 0);
    printf("problem: %s\n", between(problem, "\"detail\":\"", "\""));

    // The first 64 rows of an engine that interleaves the channels of a model with halves.
    for (int i = 0; i < 64 * 64; i++)
        mine[i] = table[i - i % 64 + i % 64 / 2];
    char *raw = "Content-Type: application/octet-stream", *to = curl_easy_escape(NULL, link, 0);
    snprintf(path, sizeof path, "/diagnose?shape=64,64&dtype=float32&to=%s", to);
    printf("diagnosis: %s\n", between(ask(200, path, raw, text, mine, sizeof mine), "", "\n"));
}
