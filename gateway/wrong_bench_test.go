package gateway

import (
	"net/http"
	"testing"

	"github.com/corral-exec/corral/api"
)

// What a request by a right key costs before and after ten thousand wrong ones from the
// same address, and in turns with them.
func BenchmarkKeys(b *testing.B) {
	g, keys := keyRig(b)
	right := g.key(keys, api.NewKey{Name: "right", Role: "viewer"})
	wrong := right[:len(right)-12] + "x" + right[len(right)-11:]
	client := &http.Client{Transport: g.tcp.Transport.(validating).next}
	ask := func(key string, want ...int) {
		a := g.send(client, g.url+"/v1/sessions", "GET", "", "Authorization", "Bearer "+key)
		for _, w := range want {
			if a.status == w {
				return
			}
		}
		b.Fatalf("%d, want %v", a.status, want)
	}
	b.Run("before", func(b *testing.B) {
		for b.Loop() {
			ask(right, 200)
		}
	})
	for range 10_000 {
		ask(wrong, 401, 429)
	}
	b.Run("after", func(b *testing.B) {
		for b.Loop() {
			ask(right, 200)
		}
	})
	b.Run("wrong", func(b *testing.B) {
		for b.Loop() {
			ask(wrong, 401, 429)
		}
	})
}
