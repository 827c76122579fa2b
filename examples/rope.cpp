// A model's rotary table from posref: fetch it, check it, read a part of it, find a mistake.
// Run, beside config.json: c++ -std=c++17 -o rope rope.cpp -lcurl && ./rope http://127.0.0.1:8000
#include <cmath>
#include <fstream>
#include <iostream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

#include <curl/curl.h>

using std::string, std::to_string;
using Fields = std::vector<string>;

static string server = "http://127.0.0.1:8000", etag;

static size_t append(const char *piece, size_t, size_t size, string *answer) {
    answer->append(piece, size);
    return size;
}

// Returns the body of an answer, which must have this status.
static string ask(long expected, const string &path, Fields fields = {}, const string &body = "") {
    string answer, url = server + path;
    curl_slist *list = nullptr;
    for (const string &field : fields) list = curl_slist_append(list, field.c_str());
    CURL *curl = curl_easy_init();
    curl_easy_setopt(curl, CURLOPT_URL, url.c_str());
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, list);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, append);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, &answer);
    if (!body.empty()) {
        curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE, long(body.size()));
        curl_easy_setopt(curl, CURLOPT_POSTFIELDS, body.data());
    }
    CURLcode code = curl_easy_perform(curl);
    long status = 0;
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    curl_header *tag;
    if (curl_easy_header(curl, "ETag", 0, CURLH_HEADER, -1, &tag) == CURLHE_OK) etag = tag->value;
    curl_slist_free_all(list);
    curl_easy_cleanup(curl);
    if (code || status != expected)
        throw std::runtime_error(url + ": " + curl_easy_strerror(code) + ": " + answer);
    return answer;
}

// Returns the text between two others.
static string between(const string &text, const string &before, const string &after) {
    size_t start = text.find(before) + before.size();
    return text.substr(start, text.find(after, start) - start);
}

// Checks the number at the start of some bytes.
static void check(const string &name, const string &bytes, double expected) {
    float value;
    bytes.copy((char *)&value, sizeof value);
    std::cout << std::fixed << name << ": " << value << std::endl;
    if (!(std::abs(value - expected) < 1e-6))
        throw std::runtime_error("expected " + to_string(expected));
}

int main(int argc, char **argv) {
    if (argc > 1) server = argv[1];

    // From the config to the cosines in the layout of the model: a row of 64 for each position.
    string config(std::istreambuf_iterator<char>(std::ifstream("config.json").rdbuf()), {});
    string json = "Content-Type: application/json", text = "Accept: text/plain";
    string model = ask(200, "/rope/config", {json, text}, config);
    std::cout << "layout: " << between(model, "\nlayout: ", "\n") << "\n";
    string link = between(model, "\ndefault.cos: ", "\n");
    string table = ask(200, link);
    // A header of npy has 128 bytes. The config divides the lowest frequency by its factor, 32.
    string last = table.substr(128 + 4 * (131071 * 64 + 31), 4);
    check("cos[131071][31]", last, std::cos(131071 * std::pow(500000, -62. / 64) / 32));
    ask(304, link, {"If-None-Match: " + etag});
    std::cout << "unchanged: 304\n";

    // Row 1000000000 of a table of 512 GiB, at byte 128 + 4 * 64 * 1000000000; and a misspelling.
    string row = ask(206, link + "&seq_len=2147483648", {"Range: bytes=256000000128-256000000383"});
    check("cos[1000000000][0]", row, std::cos(1e9));
    string problem = between(ask(422, "/rope?head_dim=64&seqlen=8"), "\"detail\":\"", "\"");
    std::cout << "problem: " << problem << "\n";

    // The first 64 rows of an engine that interleaves the channels of a model with halves.
    string mine;
    for (int i = 0; i < 64 * 64; i++) mine.append(table, 128 + 4 * (i - i % 64 + i % 64 / 2), 4);
    string to = curl_easy_escape(nullptr, link.c_str(), 0);
    string report = ask(200, "/diagnose?shape=64,64&dtype=float32&to=" + to,
                        {"Content-Type: application/octet-stream", text}, mine);
    std::cout << "diagnosis: " << between(report, "", "\n") << "\n";
}
