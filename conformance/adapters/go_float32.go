// Rotary tables in Go: angles in float32. Build: go build go_float32.go.
package main

import (
	"encoding/json"
	"math"
	"os"
)

type message struct {
	Type, Kind, Resource string
	Parameters           map[string]any
	Positions            []float64
}

func answer(m message) any {
	base, _ := m.Parameters["rope_theta"].(float64)
	width, _ := m.Parameters["head_dim"].(float64)
	if m.Resource != "/rope" || base*width == 0 || len(m.Parameters) != 2 || m.Positions == nil {
		return map[string]any{"type": "unsupported", "reason": "only a base and a width"}
	}
	cos, sin := make([][]float32, len(m.Positions)), make([][]float32, len(m.Positions))
	for s, position := range m.Positions {
		for k := 0.0; k < width/2; k++ {
			y, x := math.Sincos(float64(float32(position) * float32(math.Pow(base, -2*k/width))))
			cos[s], sin[s] = append(cos[s], float32(x)), append(sin[s], float32(y))
		}
	}
	arrays := map[string]any{"cos": cos, "sin": sin}
	return map[string]any{"type": "answer", "dtype": "float32", "arrays": arrays}
}

func main() {
	in, out := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	about := map[string]any{"name": "Go float32", "version": "1", "language": "Go", "protocol": 1}
	about["type"], about["kinds"], about["rope_types"] = "hello", []string{"table"}, []string{"default"}
	for m := (message{}); in.Decode(&m) == nil && m.Type != "bye"; m = (message{}) {
		if m.Type == "hello" {
			out.Encode(about)
		} else {
			out.Encode(answer(m))
		}
	}
}
