//go:build e2e

package e2b_test

import (
	"fmt"
	"testing"
)

// BenchmarkSDK has the published SDK do the same in turns in a sandbox of a gateway and in a
// container of the same image with E2B's own daemon, and prints what each took.
func BenchmarkSDK(b *testing.B) {
	dir, ok := suite(b)
	if !ok {
		b.Fatal("there is nothing to compare with: CORRAL_E2B_SUITE names the directory that has envd-linux-amd64.gz, E2B's daemon")
	}
	g := newRigWith(b, func(_, gateway map[string]any) {
		withoutTLS(nil, gateway)
		gateway["e2b"].(map[string]any)["pool"] = 4
	})
	g.install(&clients, "bench.mjs")
	origin := fmt.Sprintf("http://127.0.0.1:%d", g.port)
	b.Log("\n" + g.run([]string{
		"E2B_API_KEY=" + g.key, "E2B_API_URL=" + origin, "CORRAL=" + origin,
		"ENVD=" + g.daemon(dir),
	}, "node", "bench.mjs"))
}
