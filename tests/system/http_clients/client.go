// client URL: send the requests of standard input with Go's net/http.
package main

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
)

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		fields := strings.Split(lines.Text(), "\t")
		request, err := http.NewRequest(fields[0], os.Args[1]+fields[1], strings.NewReader(fields[3]))
		check(err)
		for _, header := range strings.Split(fields[2], "|") {
			if name, value, found := strings.Cut(header, ": "); found {
				request.Header.Set(name, value)
			}
		}
		answer, err := http.DefaultClient.Do(request)
		check(err)
		body, err := io.ReadAll(answer.Body)
		check(err)
		check(answer.Body.Close())
		fmt.Printf("{\"status\": %d, \"body\": \"%x\"}\n", answer.StatusCode, body)
	}
}
