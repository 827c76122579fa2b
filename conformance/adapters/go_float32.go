// Rotary tables in Go: angles in float32. Build: go build go_float32.go.
package main

import (
	"encoding/json"
	"math"
	"os"
)

type object = map[string]any

func answer(resource any, given object, positions []any) object {
	numbers := map[string]float64{"head_dim": 0, "rope_theta": 0, "rotary_dim": 0, "partial_rotary_factor": 1, "factor": 1}
	for name, value := range given {
		if _, known := numbers[name]; resource != "/rope" || !known && name != "rope_type" {
			return object{"type": "unsupported", "reason": "no " + name + ", and tables of one axis alone"}
		}
		numbers[name], _ = value.(float64)
	}
	width := numbers["rotary_dim"]
	if width == 0 {
		width = math.Floor(numbers["head_dim"] * numbers["partial_rotary_factor"])
	}
	cos, sin := make([][]float32, len(positions)), make([][]float32, len(positions))
	for s, position := range positions {
		for k := 0.0; k < width/2; k++ {
			omega := float32(math.Pow(numbers["rope_theta"], -2*k/width) / numbers["factor"])
			y, x := math.Sincos(float64(float32(position.(float64)) * omega))
			cos[s], sin[s] = append(cos[s], float32(x)), append(sin[s], float32(y))
		}
	}
	return object{"type": "answer", "dtype": "float32", "pack": "compact", "arrays": object{"cos": cos, "sin": sin}}
}

func main() {
	reply := object{"type": "hello", "protocol": 1, "name": "Go float32", "version": "1", "language": "Go", "kinds": []string{"table"}, "rope_types": []string{"default", "linear"}}
	for in, m := json.NewDecoder(os.Stdin), (object{}); in.Decode(&m) == nil && m["type"] != "bye"; m = (object{}) {
		if m["type"] == "case" {
			positions, _ := m["positions"].([]any)
			reply = answer(m["resource"], m["parameters"].(object), positions)
		}
		json.NewEncoder(os.Stdout).Encode(reply)
	}
}
