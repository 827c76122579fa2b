// Uses the generated client, and prints what it made of each answer as one JSON object.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"

	"posref"
)

func required[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func main() {
	configuration := posref.NewConfiguration()
	configuration.Servers = posref.ServerConfigurations{{URL: os.Args[1]}}
	client, ctx := posref.NewAPIClient(configuration), context.Background()

	document, _, err := client.EncodingAPI.GetEncoding(ctx).SeqLen(2).DModel(4).Execute()
	table := required(document, err).Table

	document, _, err = client.RopeAPI.GetRope(ctx).HeadDim(4).SeqLen(2).Pack(posref.PACK_HALF).Execute()
	tables := required(document, err).Tables

	file, _, err := client.RopeAPI.GetRopeAs(ctx, posref.EXTENSION_NPY).HeadDim(4).SeqLen(2).Execute()
	content := required(os.ReadFile(required(file, err).Name()))
	os.Remove(file.Name())

	var refusal *posref.GenericOpenAPIError
	if _, _, err = client.RopeAPI.GetRope(ctx).HeadDim(5).SeqLen(2).Execute(); !errors.As(err, &refusal) {
		panic("an odd width is not refused")
	}
	problem := refusal.Model().(posref.Problem)

	body := posref.NewRopeApplyRequest([]interface{}{[]float64{1, 2, 3, 4}, []float64{5, 6, 7, 8}})
	document, _, err = client.RopeAPI.PostRopeApply(ctx).RopeApplyRequest(*body).Layout(posref.ROPEAPPLYLAYOUT_HALF).Execute()
	rotated := required(document, err).Table

	var config map[string]interface{}
	if err := json.Unmarshal([]byte(os.Args[2]), &config); err != nil {
		panic(err)
	}
	report, _, err := client.RopeAPI.PostRopeConfig(ctx).RequestBody(config).Execute()
	settings := required(report, err).Rope["default"]

	required(os.Stdout.Write(required(json.Marshal(map[string]interface{}{
		"table":   map[string]interface{}{"shape": table.Shape, "dtype": table.Dtype, "data": table.Data},
		"tables":  map[string]interface{}{"layout": tables.GetLayout(), "shapes": tables.Shapes, "data": tables.Data},
		"file":    content,
		"problem": map[string]interface{}{"status": problem.Status, "parameter": problem.Errors[0].GetParameter()},
		"rotated": rotated.Data,
		"config":  map[string]interface{}{"rope_theta": settings.RopeTheta, "links": []string{settings.Table, settings.File}},
	}))))
}
