// A model's rotary table from posref: fetch it, check it, read a part of it, find a mistake.
// Run, beside config.json: go run rope.go http://127.0.0.1:8000
package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"math"
	"net/http"
	"net/url"
	"os"
)

var server = append(os.Args, "http://127.0.0.1:8000")[1]

// ask returns the body and the ETag of an answer, which must have this status.
func ask(status int, method, path string, header http.Header, body []byte) ([]byte, string) {
	request := must(http.NewRequest(method, server+path, bytes.NewReader(body)))
	request.Header = header
	answer := must(http.DefaultClient.Do(request))
	defer answer.Body.Close()
	content := must(io.ReadAll(answer.Body))
	if answer.StatusCode != status {
		log.Fatalf("%s: %s %s", path, answer.Status, content)
	}
	return content, answer.Header.Get("ETag")
}

func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}

func check(name string, float []byte, expected float64) {
	value := float64(math.Float32frombits(binary.LittleEndian.Uint32(float)))
	fmt.Printf("%s: %.6f\n", name, value)
	if !(math.Abs(value-expected) < 1e-6) {
		log.Fatal("expected ", expected)
	}
}

func main() {
	// From the config to the cosines in the layout of the model: a row of 64 for each position.
	config := must(os.ReadFile("config.json"))
	kind := http.Header{"Content-Type": {"application/json"}}
	answer, _ := ask(200, "POST", "/rope/config", kind, config)
	var model struct {
		Layout, Detail string
		Rope           map[string]struct{ Cos string }
	}
	must(0, json.Unmarshal(answer, &model))
	fmt.Println("layout:", model.Layout)
	link := model.Rope["default"].Cos
	table, etag := ask(200, "GET", link, nil, nil)
	// A header of npy has 128 bytes. The config divides the lowest frequency by its factor, 32.
	cos, lowest := table[128:], math.Pow(500000, -62./64)/32
	check("cos[131071][31]", cos[4*(131071*64+31):], math.Cos(131071*lowest))
	ask(304, "GET", link, http.Header{"If-None-Match": {etag}}, nil)
	fmt.Println("unchanged: 304")

	// Row 1000000000 of a table of 512 GiB, at byte 128 + 4 * 64 * 1000000000; and a misspelling.
	part := http.Header{"Range": {"bytes=256000000128-256000000383"}}
	row, _ := ask(206, "GET", link+"&seq_len=2147483648", part, nil)
	check("cos[1000000000][0]", row, math.Cos(1e9))
	answer, _ = ask(422, "GET", "/rope?head_dim=64&seqlen=8", nil, nil)
	must(0, json.Unmarshal(answer, &model))
	fmt.Println("problem:", model.Detail)

	// The first 64 rows of an engine that interleaves the channels of a model with halves.
	var mine []byte
	for i := 0; i < 64*64; i++ {
		from := 4 * (i - i%64 + i%64/2)
		mine = append(mine, cos[from:from+4]...)
	}
	types := http.Header{"Content-Type": {"application/octet-stream"}, "Accept": {"text/plain"}}
	to := "/diagnose?shape=64,64&dtype=float32&to=" + url.QueryEscape(link)
	answer, _ = ask(200, "POST", to, types, mine)
	fmt.Printf("diagnosis: %s\n", bytes.SplitN(answer, []byte("\n"), 2)[0])
}
