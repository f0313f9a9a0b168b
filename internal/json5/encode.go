package json5

import (
	"bytes"
	"encoding/json"
	"math"
)

// JSON returns the value as JSON on one line, with its keys in their order. Infinity
// and NaN, which JSON cannot write, become null.
func (v *Value) JSON() []byte {
	var b bytes.Buffer
	v.write(&b)
	return b.Bytes()
}

func (v *Value) write(b *bytes.Buffer) {
	switch v.Kind {
	case Bool:
		writeJSON(b, v.Bool)
	case Number:
		if math.IsNaN(v.Number) || math.IsInf(v.Number, 0) {
			b.WriteString("null")
		} else {
			writeJSON(b, v.Number)
		}
	case String:
		writeJSON(b, v.String)
	case Array:
		b.WriteByte('[')
		for i, item := range v.Items {
			if i > 0 {
				b.WriteByte(',')
			}
			item.write(b)
		}
		b.WriteByte(']')
	case Object:
		b.WriteByte('{')
		for i, m := range v.Members {
			if i > 0 {
				b.WriteByte(',')
			}
			writeJSON(b, m.Name)
			b.WriteByte(':')
			m.Value.write(b)
		}
		b.WriteByte('}')
	default:
		b.WriteString("null")
	}
}

// writeJSON writes a boolean, a finite number or a string.
func writeJSON(b *bytes.Buffer, v any) {
	enc := json.NewEncoder(b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil { // never for these types
		panic(err)
	}
	b.Truncate(b.Len() - 1) // the line end
}
