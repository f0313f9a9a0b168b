package keys

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/corral-exec/corral"
)

// A vector is a known answer; see testdata/README.md.
type vector struct {
	ID    string
	Fn    string
	Input struct {
		Keys, Hex           []string
		Literal, CursorMode string
		Text, Chunk         string
		Bracketed           *bool
	}
	Expect  map[string]any
	Differs string
	Want    map[string]any
}

var answers = map[string]func(v vector) (map[string]any, error){
	"encode_keys":    encodeAnswer,
	"encode_request": encodeAnswer,
	"send_keys": func(v vector) (map[string]any, error) {
		_, err := encodeAnswer(v)
		if errors.Is(err, corral.ErrUnavailable) {
			return map[string]any{"status": "failed"}, nil
		}
		return map[string]any{"status": "running"}, err
	},
	"paste": func(v vector) (map[string]any, error) {
		data, err := Paste(v.Input.Text, PasteOptions{Plain: v.Input.Bracketed != nil && !*v.Input.Bracketed})
		return map[string]any{"data": string(data)}, err
	},
	"strip_dsr": func(v vector) (map[string]any, error) {
		var q CursorQueries
		rest, n := q.Strip([]byte(v.Input.Chunk))
		return map[string]any{"cleaned": string(rest) + string(q.Flush()), "requests": float64(n), "reply_each": CursorReport}, nil
	},
	"detect_cursor_mode": func(v vector) (map[string]any, error) {
		var d Detector
		_, err := d.Write([]byte(v.Input.Chunk))
		if d.Cursor() == CursorUnknown {
			return map[string]any{"mode": nil}, err
		}
		return map[string]any{"mode": d.Cursor().String()}, err
	},
}

func encodeAnswer(v vector) (map[string]any, error) {
	mode := map[string]CursorMode{"application": CursorApplication, "unknown": CursorUnknown}[v.Input.CursorMode]
	got, err := Encode(Request{Literal: v.Input.Literal, Hex: v.Input.Hex, Keys: v.Input.Keys}, Options{Cursor: mode})
	answer := map[string]any{"data": string(got.Data)}
	if v.Expect["warnings"] != nil {
		answer["warnings"] = float64(len(got.Warnings))
	}
	return answer, err
}

func TestVectors(t *testing.T) {
	data, err := os.ReadFile("testdata/keys.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	seen := 0
	for ; dec.More(); seen++ {
		var v vector
		if err := dec.Decode(&v); err != nil {
			t.Fatalf("row %d: %v", seen+1, err)
		}
		t.Run(v.ID, func(t *testing.T) {
			want := v.Expect
			if v.Differs != "" {
				if cmp.Equal(v.Expect, v.Want) {
					t.Fatal("the two answers do not differ")
				}
				want = v.Want
			}
			answer := answers[v.Fn]
			if answer == nil {
				t.Fatalf("no function %q", v.Fn)
			}
			got, err := answer(v)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", v.Fn, diff)
			}
		})
	}
	if seen == 0 {
		t.Fatal("there are no vectors")
	}
}
